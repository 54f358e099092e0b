"""The scripted schedules of the seeded bugs: the true node passes, each mutant is found."""

from dataclasses import replace

import pytest

from harness.sim.runner import run_plan
from tests.harness.sim import plans

SCRIPTS = {name: plans.read_script(name) for name in plans.SCRIPTS}
FOUND = {
    "M01": "vote-given", "M02": "vote-given", "M03": "durable-vote",
    "M04": "damage-accepted", "M06": "one-vote", "M09": "one-vote", "M10": "stable-leadership",
    "M11": "leader-progress", "M13": "majority-durable", "M15": "majority-durable",
    "M16": "majority-counted", "M17": "own-commit", "M19": "durable-fetch",
    "M21": "no-contradiction", "M22": "asks-in-turn", "M23": "asks-in-turn",
    "M25": "committed-prefix", "M29": "change-after-commit", "M30": "peers-refused",
    "M31": "read-confirmed", "M32": "ack-committed",
}  # fmt: skip
"""Mutant -> the invariant that it breaks."""
EXPOSED = [(name, mutant) for name, script in SCRIPTS.items() for mutant in script.exposes]


def test_every_seeded_bug_has_a_script():
    assert {mutant for _, mutant in EXPOSED} == FOUND.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_true_node_comes_through(name):
    result = run_plan(SCRIPTS[name])

    assert result.violations == ()
    assert result.verdict in ("PASS", "UNDER-EXERCISED")  # most scripts do without many clients


@pytest.mark.parametrize(("name", "mutant"), EXPOSED)
def test_the_mutant_is_found(name, mutant):
    assert plans.found(replace(SCRIPTS[name], mutant=mutant), FOUND[mutant]) == FOUND[mutant]
