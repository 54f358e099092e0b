"""The scripted schedules of the seeded bugs: the true node passes, each mutant is found."""

from dataclasses import replace
from pathlib import Path

import pytest

import harness.sim
from harness.sim.runner import run_plan
from tests.harness.sim.plans import read_plan

FOLDER = Path(harness.sim.__file__).parent / "scripts"
SCRIPTS = {path.stem: read_plan(path) for path in sorted(FOLDER.iterdir())}
WANTED = {
    "M01", "M02", "M03", "M04", "M06", "M09", "M10", "M11", "M13", "M15", "M16", "M17", "M19", "M21",
    "M22", "M23", "M25", "M29", "M30", "M31", "M32",
}  # fmt: skip


def test_every_seeded_bug_has_a_script():
    assert {mutant for script in SCRIPTS.values() for mutant in script.exposes} >= WANTED


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_true_node_comes_through(name):
    result = run_plan(SCRIPTS[name])

    assert result.violations == ()
    assert result.verdict in ("PASS", "UNDER-EXERCISED")  # most scripts do without many clients


@pytest.mark.parametrize(
    ("name", "mutant"),
    [(name, mutant) for name, script in SCRIPTS.items() for mutant in script.exposes],
)
def test_the_mutant_is_found(name, mutant):
    result = run_plan(replace(SCRIPTS[name], mutant=mutant))

    assert result.verdict == "FAIL"
    assert result.property != "harness-error"
