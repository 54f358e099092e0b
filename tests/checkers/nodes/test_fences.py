"""Fences of brokers, and what explains them."""

import pytest

from checkers.evidence import Evidence, LogRecord, TraceEvent
from checkers.history import NEMESIS, Event, EventType
from checkers.nodes.fences import fence_doubts
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
