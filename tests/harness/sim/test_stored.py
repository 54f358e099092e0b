"""A stored run is judged as the same run in memory, and also by its nodes' logs and traces."""

import json
from pathlib import Path

import pytest

from checkers.verdict import EXIT_CODES, Status
from cluster.node.kraft.quorum.control_state import ControlState
from harness.plan.plan import Plan
from harness.plan.strands import Step, Strand
from harness.sim.runner import run_plan, run_stored
from harness.sim.swarm.draw import draw
from tests.harness.sim.plans import read_script, sim_plan

pytestmark = pytest.mark.slow

DAMAGE = {
    "quorum-state": Step("bit-flip", targets="follower", options={"file": "quorum-state"}),
    "log": Step("bit-flip", targets="leader", options={"file": "log"}),
    "fsync": Step("disk-error", targets="leader"),
}


def broken(*_: object) -> None:
    raise RuntimeError("broken")


def struck(step: Step) -> Plan:
    """A fault in the middle of a run with writes and reads."""
    strands = (Strand(3_000.0, (step,)), Strand(6_500.0, (Step("kill", targets="leader"),)))
    return sim_plan(
        seed=5,
        nodes=5,
        duration_s=8.0,
        workload_options={"keys": 4},
        concurrency=4,
        rate_per_s=20.0,
        strands=strands,
    )


def results_of(folder: Path) -> dict[str, str]:
    results = json.loads((folder / "results.json").read_text())
    return {check["checker"]: check["status"] for check in results["checks"]}


@pytest.mark.parametrize("where", DAMAGE)
def test_a_node_that_ends_rightly_is_no_finding(where: str, tmp_path: Path):
    plan = struck(DAMAGE[where])
    assert run_stored(plan, tmp_path / "run") == 0
    assert set(results_of(tmp_path / "run").values()) == {"PASS"}
    ended = [
        line
        for path in (tmp_path / "run" / "nodes").glob("*/trace.jsonl")
        for line in path.read_text().splitlines()
        if json.loads(line)["e"] == "fatal"
    ]
    assert ended, "the fault ended no node, so this shows nothing"
    assert run_plan(plan).verdict is Status.PASS


def test_a_node_that_ends_for_another_reason_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ControlState, "truncate", broken)
    plan = read_script("rejoining_leader")
    assert run_stored(plan, tmp_path / "run") == 1
    assert results_of(tmp_path / "run")["log-agreement"] == "FAIL"


PASS, QUIET = Status.PASS, Status.UNDER_EXERCISED


@pytest.mark.parametrize(
    "seed", [7, 22, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (10, 16, 21))]
)
def test_seeds_with_damaged_disks_are_judged_alike_both_ways(seed: int, tmp_path: Path):
    plan = draw(seed)
    kinds = {step.kind for strand in plan.strands for step in strand.steps}
    assert kinds & {"bit-flip", "disk-error"}
    verdict = run_plan(plan).verdict
    assert verdict in (PASS, QUIET)
    assert run_stored(plan, tmp_path / "run") == EXIT_CODES[verdict]
    results = results_of(tmp_path / "run")
    assert results.pop("exercised") == results.pop("earned") == verdict.value
    assert set(results.values()) == {"PASS"}


def quiet_plan() -> Plan:
    """A world in which nothing is tried: it used to PASS."""
    return sim_plan(seed=1, duration_s=1.0, rate_per_s=0.0)


def test_a_world_in_which_nothing_was_tried_is_no_pass(tmp_path: Path):
    plan = quiet_plan()
    result = run_plan(plan)
    assert (result.verdict, result.violations) == (QUIET, ())
    assert run_stored(plan, tmp_path / "run") == 4
    assert results_of(tmp_path / "run")["exercised"] == "UNDER-EXERCISED"


def test_a_stored_plan_expects_what_its_world_would_give(tmp_path: Path):
    strands = (Strand(900.0, (Step("kill", targets="leader", for_ms=200.0), Step("heal"))),)
    plan = sim_plan(
        seed=5,
        duration_s=8.0,
        workload_options={"keys": 4},
        concurrency=4,
        rate_per_s=200.0,
        strands=strands,
    )
    run_stored(plan, tmp_path / "run")
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert plan["expectations"] == {"min_operations": 160, "faults": ["kill"], "leader_changes": 1}
    assert {"name": "exercised", "options": {"expectations": plan["expectations"]}} in plan[
        "checks"
    ]


def test_a_fault_on_dead_nodes_alone_did_not_bite():
    steps = (Step("kill", targets="node:n1"), Step("pause", targets="node:n1", after_ms=50.0))
    plan = sim_plan(seed=1, duration_s=2.0, strands=(Strand(500.0, steps),))
    exercise = run_plan(plan).exercise
    assert exercise["faults_tried"] == {"kill": 1, "pause": 1}
    assert exercise["faults_verified"] == {"kill": 1}
