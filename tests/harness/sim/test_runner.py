"""A simulated run is a function of its plan, and reports its violations."""

import contextlib
import gc
import hashlib
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.history import EventType, pair
from checkers.verdict import Status
from cluster.backends.sim import loop
from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.world import SimWorld
from cluster.node.kraft.quorum.control_state import ControlState
from harness.plan.plan import Bounds
from harness.plan.schedule import Entry
from harness.plan.strands import Condition, ScriptedOp, Step, Strand
from harness.sim.play import play
from harness.sim.requests import quorum_polls, what_ifs
from harness.sim.runner import run, run_plan
from harness.sim.sights import starts
from harness.sim.swarm.draw import draw
from nemeses import drive
from tests.harness.sim.plans import read_script, sim_plan
from tests.night import drawn

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
ELSEWHERE = (
    "from tests.harness.sim.test_runner import fingerprint; print(*map(fingerprint, (6, 7)))"
)


def fingerprint(seed):
    """Digest a run's journal and acts, and every node's trace and disk."""
    played = play(draw(seed))
    nodes = played.backend.world.nodes.values()
    seen = (played.events, played.acts, [(node.trace, node.disk.files()) for node in nodes])
    return hashlib.sha256(repr(seen).encode()).hexdigest()


def test_a_drawn_seed_runs_the_same_twice_in_one_process_and_in_another_with_other_hashes():
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "2", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        text=True,
    )
    with_logs, with_losses = done.stdout.split()
    assert with_logs == fingerprint(6) == fingerprint(6) != with_losses
    assert with_losses == fingerprint(7)


@drawn(few=2, many=60)
def test_clean_seeds_are_silent(cases):
    for seed in cases:
        assert run_plan(draw(seed)).violations == ()


def test_a_quorum_that_may_not_come_back_is_not_alive():
    """A majority stays paused past the bound: the last heal resumes it, so the bound is made 0."""
    strand = Strand(1_000.0, (Step("pause", targets="majority"),))
    plan = sim_plan(seed=1, duration_s=4.0, rate_per_s=5.0, strands=(strand,))

    assert run_plan(plan).violations == ()
    hurried = replace(plan, bounds=replace(plan.bounds, liveness_ms=1_300.0))
    assert run_plan(hurried).property in (None, "liveness")
    never = replace(plan, bounds=replace(plan.bounds, liveness_ms=10.0))
    assert run_plan(never).property == "liveness"


def test_a_node_that_dies_behind_the_last_heal_is_a_finding(monkeypatch):
    """The fault that lasted until then excuses no process that its heal has started."""
    heal_all = drive.heal_all

    async def heal_and_break(view):
        healed = await heal_all(view)
        world = view.backend.world
        process = world.nodes["n1"].process
        assert process.incarnation == 1
        world.scheduler.call_later(1.0, lambda: process.die(RuntimeError("broken")))
        return healed

    monkeypatch.setattr(drive, "heal_all", heal_and_break)
    strand = Strand(1_000.0, (Step("disk-error", targets="all"),))

    assert run_plan(sim_plan(seed=1, duration_s=4.0, strands=(strand,))).property == "node-died"


def test_no_fault_of_a_disk_excuses_a_broken_invariant(monkeypatch):
    fail = MemoryDisk.fail
    broken = AssertionError("broken")
    monkeypatch.setattr(MemoryDisk, "fail", lambda disk, error: fail(disk, error and broken))
    strand = Strand(1_000.0, (Step("disk-error", targets="follower", for_ms=500.0),))
    result = run_plan(sim_plan(seed=1, duration_s=4.0, strands=(strand,)))
    assert result.property == "node-died"
    assert "AssertionError: broken" in result.violations[0].explanation


@pytest.mark.parametrize("wanted", [None, frozenset({"liveness"})])
def test_a_world_with_too_many_callbacks_ends_whatever_is_wanted(wanted):
    bounds = Bounds(liveness_ms=20_000, events_max=2_000)
    played, result = run(sim_plan(seed=1, bounds=bounds), wanted)
    assert played.backend.world.scheduler.events < 4_000
    assert result.property == (None if wanted else "progress")
    assert result.verdict is not Status.PASS


RUN = {"append": ControlState, "answer": what_ifs, "question": quorum_polls, "ControlState": starts}


@pytest.mark.parametrize(("name", "of"), RUN.items())
def test_a_node_that_does_not_return_is_a_finding_also_as_it_is_asked(monkeypatch, name, of):
    def spin(*_, **__):
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    monkeypatch.setattr(loop, "LOOK_S", 0.01)
    monkeypatch.setattr(of, name, spin)
    result = run_plan(sim_plan(seed=1, duration_s=2.0))
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    found = result.violations[0]
    assert (found.property, found.causes[1]) == (
        "node-died",
        "fatal: StuckError: it did not return from one event",
    )


def test_a_timed_schedule_is_played_beside_the_strands():
    strand = Strand(1_000.0, (Step("kill", targets="follower", for_ms=1_000.0),))
    timed = Entry(5.0, "pause", {"targets": "leader"}, 2.0)
    plan = sim_plan(seed=1, duration_s=9.0, rate_per_s=5.0, strands=(strand,), schedule=(timed,))

    played = play(plan)
    faults = [e for e in played.events if e.type is EventType.OK and e.f in ("kill", "pause")]
    did = [(e.f, e.value["phase"], e.value["verified"]) for e in faults]
    assert did == [(f, phase, True) for f in ("kill", "pause") for phase in ("inject", "heal")]
    assert played.violations == []
    assert sorted(played.reads.reads) == ["n1", "n2", "n3"]


def test_an_operation_of_a_list_is_performed_at_its_node_beside_a_stream():
    asked = [ScriptedOp("read", 1_000.0, worker, "k0", node="n3") for worker in range(5)]
    plan = sim_plan(seed=1, duration_s=3.0, operations=tuple(asked))

    played = play(plan)
    aimed = {e.index for e in played.events if e.type is EventType.INVOKE and e.node == "n3"}
    done = [op for op in pair(played.events) if op.index in aimed]
    assert [(op.process, op.node) for op in done] == [(worker, "n3") for worker in range(5)]


def test_the_first_violation_ends_a_run_before_its_heal():
    never = {"that": {"state": "Resigned"}}
    strand = Strand(2_000.0, (Step("expect", options=never, within_ms=1_000.0),))
    plan = sim_plan(seed=1, duration_s=9.0, rate_per_s=5.0, strands=(strand,))

    played = play(plan)
    assert [found.property for found in played.violations] == ["expectation"]
    names = [e.value["name"] for e in played.events if e.f == "phase"]
    assert names == ["start", "faults", "stop"]
    assert played.reads.reads == {}


NEVER = {"that": {"state": "Resigned"}}
NOT_COME = Step("wait", until=Condition(state="Resigned"), within_ms=100.0, strict=True)


@pytest.mark.parametrize(
    ("at_ms", "steps", "verdict"),
    [
        (500.0, [Step("expect", options=NEVER)], Status.UNKNOWN),
        (500.0, [Step("wait", after_ms=9_000.0), Step("expect", options=NEVER)], Status.UNKNOWN),
        (9_000.0, [Step("expect", options=NEVER)], Status.UNKNOWN),
        (500.0, [NOT_COME, Step("expect", options=NEVER)], Status.PASS),
        (0.0, [Step("expect", options={"that": {"event": "commit"}})], Status.PASS),
        (0.0, [Step("expect", options={"that": {"event": "commit"}}, for_ms=9e4)], Status.UNKNOWN),
    ],
)
def test_an_expectation_is_decided_before_the_faults_end_or_not_known(at_ms, steps, verdict):
    kill = Strand(1_000.0, (Step("kill", targets="follower", for_ms=1_000.0),))
    strands = (kill, Strand(at_ms, tuple(steps)))
    result = run_plan(sim_plan(seed=1, duration_s=5.0, strands=strands, faults=("kill",)))
    assert (result.verdict, result.violations) == (verdict, ())
    assert all("was not decided when the faults ended" in reason for reason in result.reasons)


def test_an_operation_that_ended_after_the_last_event_did_end():
    write = Step("op", options={"id": "x", "f": "write", "key": "k0", "value": "v"})
    steps = write, Step("expect", options={"that": {"ok": "x"}}, within_ms=50.0)
    plan = sim_plan(seed=1, nodes=1, duration_s=2.0, rate_per_s=0.0)
    assert run_plan(replace(plan, strands=(Strand(1_000.0, steps),))).violations == ()


OF_NOBODY = ({"at": "@A", "state": "Follower"}, {"event": "state", "where": {"leader_id": "@A"}})


@pytest.mark.parametrize("that", OF_NOBODY)
def test_nothing_is_known_of_what_is_expected_of_a_name_without_a_node(that):
    steps = (
        Step("cast", options={"names": {"A": "follower"}}),
        Step("expect", options={"that": that}, within_ms=100.0),
    )
    result = run_plan(sim_plan(seed=1, nodes=1, duration_s=2.0, strands=(Strand(500.0, steps),)))
    assert result.violations == ()
    assert f"strand 1, step 2: whether {that} came" in result.reasons[0]


def test_what_must_last_is_looked_at_in_the_end_though_nothing_happens():
    last = Step("expect", options={"that": {"state": "Leader"}}, for_ms=1_000.0)
    kill = Step("kill", targets="node:n1", for_ms=2_000.0)
    strands = (Strand(500.0, (last,)), Strand(800.0, (kill,)))
    result = run_plan(sim_plan(seed=1, nodes=1, duration_s=4.0, strands=strands))
    assert result.property == "expectation"
    assert result.violations[0].at_ms == pytest.approx(1_500.0, abs=500.0)


def test_a_node_that_dies_by_itself_is_a_finding(monkeypatch):
    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(ControlState, "truncate", broken)
    result = run_plan(read_script("rejoining_leader"))

    assert result.property == "node-died"
    assert result.violations[0].causes[0] == "node-died"


def test_coverage_counts_fault_role_and_phase():
    strand = Strand(1_500.0, (Step("kill", targets="leader", for_ms=500.0),))
    result = run_plan(sim_plan(seed=1, duration_s=4.0, strands=(strand,)))

    assert dict(result.coverage) == {"kill/leader/steady": 1}


def test_no_world_outlives_its_run():
    """The tasks that bring back nodes with lost disks once kept their worlds."""
    others = [world for world in gc.get_objects() if isinstance(world, SimWorld)]  # of other tests
    known = set(map(id, others))
    for seed in (2, 5):
        assert run_plan(draw(seed)).violations == ()
    gc.collect()
    worlds = [world for world in gc.get_objects() if isinstance(world, SimWorld)]
    assert [world for world in worlds if id(world) not in known] == []
