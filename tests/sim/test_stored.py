"""A stored run is judged as the same run in memory is, with its nodes' logs and traces besides."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import harness.sim
from checkers.verdict import EXIT_CODES, Status
from harness.sim.draw import draw
from harness.sim.parse import read_scenario
from harness.sim.runner import run_scenario
from harness.sim.scenario import Load, Scenario, Step, Strand
from harness.sim.stored import run_stored

SCRIPTS = Path(harness.sim.__file__).parent / "scenarios"
DAMAGE = {
    "quorum-state": Step("bit_rot", targets="follower", options={"file": "quorum-state"}),
    "log": Step("bit_rot", targets="leader", options={"file": "log"}),
    "fsync": Step("disk_error", targets="leader"),
}


def struck(step: Step) -> Scenario:
    """A fault in the middle of a run with writes and reads."""
    strands = (Strand(3_000.0, (step,)), Strand(6_500.0, (Step("kill", targets="leader"),)))
    load = Load("register", {"keys": 4}, concurrency=4, rate_per_s=20.0)
    return Scenario(seed=5, nodes=5, duration_ms=8_000.0, workload=load, strands=strands)


def results_of(folder: Path) -> dict[str, str]:
    told = json.loads((folder / "results.json").read_text())
    return {check["checker"]: check["status"] for check in told["checks"]}


@pytest.mark.parametrize("where", DAMAGE)
def test_a_node_that_ends_rightly_is_no_finding(where: str, tmp_path: Path):
    scenario = struck(DAMAGE[where])
    assert run_stored(scenario, tmp_path / "run") == 0
    assert set(results_of(tmp_path / "run").values()) == {"PASS"}
    ended = [
        line
        for path in (tmp_path / "run" / "nodes").glob("*/trace.jsonl")
        for line in path.read_text().splitlines()
        if json.loads(line)["e"] == "fatal"
    ]
    assert ended, "the fault ended no node, so this shows nothing"
    told = (tmp_path / "run" / "results.json").read_text()
    assert ("were damaged for good" in told) == (scenario.strands[0].steps[0].kind == "bit_rot")
    assert run_scenario(scenario).verdict is Status.PASS


def test_a_node_that_ends_for_another_reason_is_one(tmp_path: Path):
    scenario = replace(read_scenario(SCRIPTS / "rejoining_leader.toml"), mutant="M21")
    assert run_stored(scenario, tmp_path / "run") == 1
    assert results_of(tmp_path / "run")["log-agreement"] == "FAIL"


PASS, QUIET = Status.PASS, Status.UNDER_EXERCISED


@pytest.mark.parametrize(
    ("seed", "verdict"), [(10, QUIET), (11, QUIET), (15, PASS), (17, QUIET), (58, QUIET)]
)
def test_seeds_with_damaged_disks_are_judged_alike_both_ways(
    seed: int, verdict: Status, tmp_path: Path
):
    scenario = draw(seed)
    kinds = {step.kind for strand in scenario.strands for step in strand.steps}
    assert kinds & {"bit_rot", "disk_error"}
    assert run_scenario(scenario).verdict is verdict
    assert run_stored(scenario, tmp_path / "run") == EXIT_CODES[verdict]
    results = results_of(tmp_path / "run")
    assert results.pop("exercised") == verdict.value
    assert set(results.values()) == {"PASS"}


def quiet_scenario() -> Scenario:
    """A world in which nothing is tried: it used to PASS."""
    return Scenario(seed=1, duration_ms=1_000.0, workload=Load(rate_per_s=0.0))


def test_a_world_in_which_nothing_was_tried_is_no_pass(tmp_path: Path):
    scenario = quiet_scenario()
    result = run_scenario(scenario)
    assert (result.verdict, result.violations) == (QUIET, ())
    assert run_stored(scenario, tmp_path / "run") == 4
    assert results_of(tmp_path / "run")["exercised"] == "UNDER-EXERCISED"


def test_a_stored_plan_expects_what_its_world_would_give(tmp_path: Path):
    strands = (Strand(900.0, (Step("kill", targets="leader", for_ms=200.0), Step("heal"))),)
    load = Load("register", {"keys": 4}, concurrency=4, rate_per_s=200.0)
    scenario = Scenario(seed=5, duration_ms=8_000.0, workload=load, strands=strands)
    run_stored(scenario, tmp_path / "run")
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert plan["expectations"] == {
        "min_operations": 160,
        "faults": ["kill"],
        "leader_changes": 1,
    }
    assert {"name": "exercised", "options": {"expectations": plan["expectations"]}} in plan[
        "checks"
    ]


def test_a_fault_on_dead_nodes_alone_did_not_bite():
    steps = (
        Step("kill", targets="node:n1"),
        Step("pause", targets="node:n1", after_ms=50.0),
    )
    scenario = Scenario(seed=1, duration_ms=2_000.0, strands=(Strand(500.0, steps),))
    exercise = run_scenario(scenario).exercise
    assert exercise["faults_tried"] == {"kill": 1, "pause": 1}
    assert exercise["faults_verified"] == {"kill": 1}
