"""Fences of brokers, and what explains them."""

import pytest

from checkers.evidence import Evidence, LogRecord, TraceEvent
from checkers.history import NEMESIS, Event, EventType
from checkers.nodes.fences import fence_doubts, unfenced_dead
from checkers.nodes.snapshots import Image
from checkers.run_input import RunInput

S = 10**9
CHANGE = "BrokerRegistrationChangeRecord"


def note(f, at_s, phase="inject", targets=(), **more):
    value = {"phase": phase, "fault": f, "targets": list(targets), "verified": True, **more}
    return Event(0, int(at_s * S), NEMESIS, EventType.OK, f, value=value)


def found(notes=(), events=(), fenced=1):
    log = [
        LogRecord("n1", 0, 1, 1, "TopicRecord", {}),
        LogRecord("n1", 1, 1, 2, CHANGE, {"brokerId": 2, "fenced": fenced}),
    ]
    marks = [(10, 1), (50, 2), (70, 9)]
    trace = [TraceEvent("n1", 0, at * S, "hw", {"offset": end}) for at, end in marks]
    traces = {"n1": trace, "n2": []}
    for node, event, at in events:
        traces[node].append(TraceEvent(node, 0, at * S, event, {}))
    evidence = Evidence(["n1", "n2"], {"n1": log}, {}, traces, {})
    return list(fence_doubts(RunInput(list(notes), [], evidence), evidence, log, 9_000))


@pytest.fixture(autouse=True)
def one_clock(monkeypatch):
    monkeypatch.setattr(Evidence, "run_ns", lambda _, event: event.time_ns)


def test_a_broker_that_nothing_kept_from_its_controller_is_a_doubt():
    [doubt] = found()
    assert (doubt["kind"], doubt["node"], doubt["offset"]) == ("fenced-without-reason", "n2", 1)
    assert "50.0 s" in doubt["explanation"]
    assert found(fenced=-1) == [], "it was unfenced"


@pytest.mark.parametrize(
    "notes",
    [
        [note("kill", 35, targets=["n2"]), note("kill", 40, "heal", ["n2"])],
        [note("upgrade", 45, targets=["n2"], detail={"took_ms": 9_000})],
        [note("partition", 20, targets=["n1"])],
        [note("delay", 20, targets=["n1"]), note("delay", 38, "heal", ["n1"])],
        [note("phase", 45, name="heal")],
        [note("harness", 48, late_ms=900)],
    ],
)
def test_what_explains_it(notes):
    assert found(notes) == []


@pytest.mark.parametrize(
    "notes",
    [
        [note("kill", 10, targets=["n2"]), note("kill", 20, "heal", ["n2"])],
        [note("upgrade", 45, targets=["n1"], detail={"took_ms": 9_000})],
        [note("pause", 10, targets=["n1"]), note("pause", 20, "heal", ["n1"])],
    ],
)
def test_what_does_not(notes):
    assert len(found(notes)) == 1


@pytest.mark.parametrize(
    ("event", "count"),
    [
        (("n2", "start", 40), 0),
        (("n1", "start", 40), 1),
        (("n1", "epoch-start", 45), 0),
        (("n1", "epoch-start", 10), 1),
    ],
)
def test_starts_and_elections(event, count):
    assert len(found(events=[event])) == count


def unfenced(notes, records, events=(), session_ms=3_000):
    log = [LogRecord("n1", at, 1, 1, kind, value) for at, (kind, value) in enumerate(records)]
    marks = [TraceEvent("n1", 0, at * S, "hw", {"offset": at}) for at in range(len(log) + 1)]
    begins = [TraceEvent("n1", 0, 0, "epoch-start", {})]
    others = [TraceEvent(node, 0, at * S, event, {}) for node, event, at in events]
    evidence = Evidence(["n1", "n2"], {"n1": log}, {}, {"n1": [*begins, *marks], "n2": others}, {})
    run = RunInput(list(notes), [], evidence)
    return [one["kind"] for one in unfenced_dead(run, evidence, Image(), log, session_ms)]


ALIVE = ("RegisterBrokerRecord", {"brokerId": 2, "fenced": False})
REGISTERS = ("RegisterBrokerRecord", {"brokerId": 2, "fenced": True})
FENCE = (CHANGE, {"brokerId": 2, "fenced": 1})
QUIET = ("NoOpRecord", {})
KILL = [note("kill", 10, targets=["n2"]), note("kill", 25, "heal", ["n2"])]


def records(**at):
    """A record a second, the broker being there from the first one on."""
    return [ALIVE, *(at.get(f"s{second}", QUIET) for second in range(1, 40))]


def test_a_dead_broker_that_its_leader_does_not_fence():
    assert unfenced(KILL, records()) == ["dead-unfenced"]
    assert unfenced(KILL[:1], records()) == ["dead-unfenced"], "it stays dead"


@pytest.mark.parametrize("second", [12, 18, 24])
def test_a_fence_in_time_or_late_is_one(second):
    assert unfenced(KILL, records(**{f"s{second}": FENCE})) == []


@pytest.mark.parametrize(
    ("notes", "events"),
    [
        ([KILL[0], note("kill", 18, "heal", ["n2"])], ()),  # not for two sessions and a look
        ([*KILL, note("pause", 12, targets=["n1"]), note("pause", 13, "heal", ["n1"])], ()),
        ([*KILL, note("clock-drift", 5, targets=["n1"])], ()),
        ([*KILL, note("harness", 15, late_ms=900)], ()),
        (KILL, [("n2", "epoch-start", 17)]),  # who counts anew, and for 8 s
        ([note("kill", 10, targets=["n2"], verified=False), KILL[1]], ()),
    ],
)
def test_what_keeps_a_leader_from_fencing_or_from_knowing(notes, events):
    assert unfenced(notes, records(), events) == []


def test_a_broker_that_registers_again_is_another():
    assert unfenced(KILL, records(s17=REGISTERS, s18=(CHANGE, {"brokerId": 2, "fenced": -1}))) == []


def test_another_kill_explains_nothing():
    notes = [*KILL, note("kill", 12, targets=["n3"]), note("kill", 20, "heal", ["n3"])]
    assert unfenced(notes, records()) == ["dead-unfenced"]


def test_a_longer_session():
    assert unfenced(KILL, records(), session_ms=9_000) == []
