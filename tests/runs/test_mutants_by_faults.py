"""Real faults on real backends find seeded bugs; the true node comes through the same plans.

The plans are those of `harness/campaigns/mutants`; benchmarks/RESULTS.md says how often each of
them finds its mutant. Runs on real nodes mostly wait, so some go at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from one_run import outcome_of, run_once

import harness.campaigns
from checkers.verdict import Status
from cluster.backends.base import BackendError
from cluster.backends.cleanup import find_leftovers
from cluster.backends.docker import engine
from cluster.backends.machine.clocks import library
from harness.campaigns import read_document
from harness.plan.document import from_document

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("one_run.py")
FOLDER = Path(harness.campaigns.__file__).parent / "mutants"
PLANS = {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}
AT_ONCE = 3
TIMEOUT_S = 900
FIRST_SEED = int(os.environ.get("NIGHTLY_SEED", "7"))
SEEDS = range(FIRST_SEED, FIRST_SEED + 3)
"""Some bugs are races: a plan makes one likely, and another seed is tried where it did not come."""

REAL = {
    ("M36B-links", "local"): {"log", "replica-logs"},
    ("M37-links", "local"): {"log"},
    ("M34-pause", "local"): {"log"},
    ("M36A-pause", "local"): {"log"},
    ("M36C-pause", "local"): {"log"},
    ("M39A-pause", "local"): {"log", "isr"},
    ("M25P-partition", "local"): {"replica-logs"},
    ("M39B-delay", "local"): {"log"},
    ("M40-partition", "local"): {"log-agreement"},
    ("M40I-bit-flip", "local"): {"log"},
    ("M40T-truncate", "local"): {"log-agreement"},
    ("M13-power-loss", "docker"): {"linearizable", "invariants"},
    ("M31-partition", "local"): {"linearizable"},
    ("W01-clock-jump", "local"): {"linearizable"},
    ("M11-partition", "local"): {"invariants"},
    ("M14-power-loss", "docker"): {"linearizable", "invariants"},
    ("M14-power-loss", "local"): {"linearizable", "invariants"},
    ("M40-bit-flip", "local"): {"log-agreement"},
    ("M40-torn-write", "local"): {"invariants"},
}
"""The checks that must accuse the mutant; the longest runs first."""
AT_EVERY_COMMIT = {
    ("M11-partition", "local"),
    ("M13-power-loss", "docker"),
    ("M40-torn-write", "local"),
    ("W01-clock-jump", "local"),
}
"""Runs of each engine of real faults: links, a container's disks, disks here, clocks.

The other mutants every commit finds in the simulated world, by the same plans and checks; that
their faults bite on real nodes is for tests/nemeses, and the two together for the night.
"""
NIGHTLY = REAL.keys() - AT_EVERY_COMMIT
SIMULATED = {plan: checks for (plan, _), checks in REAL.items() if plan != "M11-partition"}
"""Check quorum is judged by clocks that can be compared; those of simulated hosts cannot."""
REAL_AT_ONCE = {plan for plan, _ in AT_EVERY_COMMIT}
"""Plans that every commit plays on real nodes: it need not find their mutants simulated, too."""


def plans(chosen: Iterable[str], nightly: Iterable[str]) -> list[ParameterSet]:
    return [
        pytest.param(plan, marks=[pytest.mark.nightly] if plan in nightly else [])
        for plan in chosen
    ]


def lacking(plan: str, backend: str) -> str:
    """Say why a run cannot be made here; empty when it can."""
    if plan.startswith(("M13", "M14", "M40")) and not (
        os.geteuid() == 0 and Path("/dev/fuse").exists()
    ):
        return "needs root and /dev/fuse"
    if plan.startswith("W01") and library() is None:
        return "the library of faked clocks was not compiled"
    if backend == "docker":
        try:
            engine.connect().close()
        except BackendError as error:
            return str(error)
    return ""


def mutant_of(plan: str) -> str:
    return plan.partition("-")[0]


def perform(plan: str, backend: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a plan; once or twice more with other seeds where it does not show the mutant.

    These bugs show within a second or two of a fault, and on a busy machine faults come late.
    """
    for seed in map(str, SEEDS):
        words = (str(PLANS[plan]), backend, mutant_of(plan), str(folder / seed), seed)
        done = subprocess.run(
            [sys.executable, str(PROGRAM), *words],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0 or accusers(done) >= REAL[plan, backend]:
            break
    return done


def accusers(done: subprocess.CompletedProcess[str]) -> set[str]:
    checks = json.loads(done.stdout)["checks"]
    return {name for name, (status, _) in checks.items() if status == "FAIL"}


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[tuple[str, str], Future]]:
    """Real runs of the chosen tests, begun in the order of REAL when the first is asked for."""
    own = [item for item in request.session.items if item.path == request.path]
    params = [item.callspec.params for item in own if hasattr(item, "callspec")]
    chosen = {(each.get("plan"), each.get("backend")) for each in params}
    cases = [case for case in REAL if case in chosen and not lacking(*case)]
    folder = tmp_path_factory.mktemp("runs")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {case: pool.submit(perform, *case, folder) for case in cases}
    assert find_leftovers(folder) == []


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("plan", "backend"),
    [pytest.param(*case, marks=[pytest.mark.nightly] if case in NIGHTLY else []) for case in REAL],
)
def test_a_real_fault_finds_the_mutant(plan: str, backend: str, runs):
    if reason := lacking(plan, backend):
        pytest.skip(reason)
    done = runs[plan, backend].result()
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["status"] == "FAIL", done.stdout
    assert accusers(done) >= REAL[plan, backend], done.stdout


def fault_of(plan: str) -> str:
    return plan.partition("-")[2]


TRUE_AT_ONCE = {fault_of(plan): plan for plan in sorted(PLANS, reverse=True)}.values()
"""One plan of each fault: every commit plays the true node through these."""


def test_every_plan_is_tried_on_real_nodes():
    assert {plan for plan, _ in REAL} == set(PLANS)


def test_every_commit_tries_each_mutant_and_each_backend():
    assert {backend for _, backend in AT_EVERY_COMMIT} == {"local", "docker"}
    assert {plan for plan, _ in NIGHTLY} <= SIMULATED.keys()


@pytest.mark.parametrize("plan", PLANS)
def test_too_little_load_does_not_pass_for_a_verdict(plan: str):
    """M13's own plan passed with 207 of 1,200 operations on a busy machine, mutant and all."""
    made = from_document({**read_document(PLANS[plan]), "seed": 7})
    possible = made.rate_per_s * made.duration_s
    assert made.expectations["min_operations"] >= possible / 4
    assert made.expectations["leader_changes"] >= (made.nodes > 1)


@pytest.mark.parametrize("plan", plans(SIMULATED, REAL_AT_ONCE))
def test_a_simulated_fault_finds_the_mutant(plan: str, tmp_path: Path):
    for seed in SEEDS:
        results = run_once(PLANS[plan], "sim", mutant_of(plan), tmp_path, seed)
        failed = {check.checker for check in results.checks if check.status is Status.FAIL}
        if failed >= SIMULATED[plan]:
            return
    pytest.fail(str(outcome_of(results)))


@pytest.mark.parametrize("plan", plans(PLANS, PLANS.keys() - TRUE_AT_ONCE))
def test_the_true_node_comes_through_the_same_plan(plan: str, tmp_path: Path):
    results = run_once(PLANS[plan], "sim", None, tmp_path, 7)
    assert results.status is Status.PASS, outcome_of(results)


def test_without_its_fault_the_mutant_of_clocks_is_a_correct_node(tmp_path: Path):
    text = PLANS["W01-clock-jump"].read_text()
    jump = text[text.index("[[schedule]]\nat_s = 2.1") : text.index("[expectations]")]
    assert "clock-jump" in jump
    plan = tmp_path / "no-jump.toml"
    plan.write_text(text.replace(jump, ""))
    results = run_once(plan, "sim", "W01", tmp_path / "runs", 7)
    linearizable = next(c for c in results.checks if c.checker == "linearizable")
    assert linearizable.status is Status.PASS, outcome_of(results)
