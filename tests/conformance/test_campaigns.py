"""One plan file on every arm: same nodes, workloads, faults, interpreter, evidence and checkers."""

import asyncio
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.evidence import WORLD_CLOCK, run_clock
from checkers.history import NEMESIS, EventType
from checkers.verdict import Status
from cluster.backends.base import BackendError
from cluster.backends.docker import engine
from cluster.node.runtime.trace import clock_name
from harness.campaigns import read_document
from harness.evidence import node_disks
from harness.plan.document import from_document
from harness.plan.stored_document import plan_document
from harness.run.phases import Run, conduct
from harness.run.plan_backend import Watch
from harness.run.recorder import Recorder
from results.judge.pipeline import judge
from results.store.evidence_files import STATE_FILE
from results.store.run_store import RunStore
from tests.conformance.arms import STEADY, DockerArm

pytestmark = pytest.mark.slow

PLAN = Path(__file__).parent / "plan.toml"
STRANDS = Path(__file__).parent / "strands.toml"
UNDECIDED = Status.UNDER_EXERCISED, Status.UNKNOWN


@pytest.mark.parametrize(
    "workload",
    ["topics", *(pytest.param(w, marks=pytest.mark.nightly) for w in ("register", "set"))],
)
def test_a_campaign_passes_on_every_arm(arm, workload, tmp_path):
    passes(arm, read_document(PLAN) | {"workload": workload}, tmp_path)


def test_strands_are_played_on_every_arm(arm, tmp_path):
    strands_are_played(arm, tmp_path)


@pytest.mark.cluster
@pytest.mark.parametrize(
    "path",
    [pytest.param(PLAN, id="plan", marks=pytest.mark.nightly), pytest.param(STRANDS, id="strands")],
)
def test_the_same_plan_passes_in_containers(path, tmp_path):
    try:
        engine.connect().close()
    except BackendError as error:
        pytest.skip(str(error))
    if path is STRANDS:
        strands_are_played(DockerArm(), tmp_path)
    else:
        passes(DockerArm(), read_document(path), tmp_path)


def strands_are_played(arm, tmp_path):
    """The leader was cut off, its successor killed; each write went where it was aimed.

    On a busy machine a leader can lose its office and win it again before it is cut off: it is its
    own successor. Or the time is over before the script is. Then it is played again, for longer,
    with a leader that keeps its office.
    """
    for seed, duration_s, settings in ((5, 12, {}), (6, 40, STEADY), (7, 80, STEADY)):
        document = read_document(STRANDS) | {"seed": seed, "duration_s": duration_s}
        document["node_settings"] = settings
        status, found, events = play(arm, document, tmp_path / str(seed))
        if status in UNDECIDED:
            continue
        assert status is Status.PASS, found
        acts = [
            (event.f, event.value["phase"], tuple(event.value["targets"]))
            for event in events
            if event.f in ("partition", "kill") and event.value["verified"]
        ]
        (first,), (second,) = acts[0][2], acts[2][2]
        if first != second:
            break
    assert status is Status.PASS, found
    assert first != second
    assert acts == [
        ("partition", "inject", (first,)),
        ("partition", "heal", (first,)),
        ("kill", "inject", (second,)),
        ("kill", "heal", (second,)),
    ]
    ended = {
        event.value: (event.type, event.node)
        for event in events
        if event.f == "write" and event.type is not EventType.INVOKE
    }
    assert ended["cut-off"][0] is not EventType.OK
    assert ended["kept"] == (EventType.OK, second)


def passes(arm, document, tmp_path):
    """Play the plan there: every check must be without fault.

    A busy machine may serve too few operations, or no last read: then it is played again, for longer.
    """
    for duration_s in (document["duration_s"], 30, 60):
        place = tmp_path / str(duration_s)
        status, found, _ = play(arm, document | {"duration_s": duration_s}, place)
        if status not in UNDECIDED:
            break
    assert status is Status.PASS, found


def play(arm, document, tmp_path):
    """Play the plan there; evidence must be whole. Returns the verdict, each check's, the events."""
    plan = from_document(document)
    store = RunStore.create(
        tmp_path, plan_document(plan, f"run-{secrets.token_hex(4)}", "kraftprobe run")
    )

    with store.journal_writer() as journal:

        async def work(backend, clock):
            clock_read = WORLD_CLOCK if arm.name == "sim" else clock_name()
            recorder = Recorder(journal, asyncio.get_running_loop().time, clock_read)
            standings = (lambda: Watch(backend.world)) if arm.name == "sim" else None
            reads = await conduct(Run(plan, backend, recorder, clock, standings))
            for read in reads.reads.values():
                store.write_evidence(read.node, STATE_FILE, [read])

        arm.play(work, store.folder, plan.nodes, plan.node_settings)
        assert node_disks.collect(store, plan.node_names) == []

    results = judge(store)
    found = {check.checker: (check.status, check.summary) for check in results.checks}
    assert {"log-agreement", "invariants", "exercised"} <= set(found)
    traces_are_placed_in_the_run(store, plan)
    return results.status, found, store.events()


def traces_are_placed_in_the_run(store, plan):
    """A leader begins its epoch after the run did, and before the observer saw it lead."""
    events = store.events()
    placed = replace(store.evidence(store.plan()).evidence, run_clock=run_clock(events))
    began_ns = {
        (node, int(event.fields["epoch"])): placed.run_ns(event)
        for node, trace in placed.traces.items()
        for event in trace
        if event.event == "epoch-start"
    }
    seen = [event for event in events if event.process == NEMESIS and event.f == "leader"]
    assert seen, plan
    for event in seen:
        began = began_ns[event.value["leader"], event.value["epoch"]]
        assert began is not None
        assert 0 < began <= event.time_ns
