"""`start` lines against the plan and the processes that the journal names."""

import pytest

from checkers.evidence import Evidence, TraceEvent
from checkers.history import NEMESIS, Event, EventType
from checkers.nodes.trace_order import unlike_starts
from checkers.run_input import RunInput

PLANNED = {"mutant": None, "check_quorum_timeout_ms": 1500.0}


def start(pid, incarnation=0, **fields):
    fields = {"node_id": 1, "directory_id": "d", "pid": pid, **PLANNED, **fields}
    return TraceEvent("n1", incarnation, 10 * (incarnation + 1), "start", fields)


def fault(f, phase, before, after=None, *, verified=True, state="dead", asked=True, at_ns=100):
    named = {"processes_before": {"n1": before}, "processes_after": {"n1": after}}
    value = {
        "phase": phase,
        "entry": 0,
        "targets": ["n1"],
        "verified": verified,
        "detail": {**named, "states": {"n1": state}},
    }
    invoked = Event(0, at_ns, NEMESIS, EventType.INVOKE, f, value={"phase": phase, "entry": 0})
    done = Event(1, at_ns + 50, NEMESIS, EventType.OK, f, value=value)
    return [invoked, done] if asked else [done]


def contradictions(starts, notes=(), *, pids=True):
    evidence = Evidence(("n1",), {}, {}, {"n1": starts}, {})
    run = RunInput(list(notes), [], evidence)
    return list(unlike_starts(run, evidence, PLANNED, pids=pids))


@pytest.mark.parametrize(
    "other", [{"node_id": 2}, {"mutant": "M31"}, {"check_quorum_timeout_ms": 3000.0}]
)
def test_a_start_says_what_the_plan_has(other):
    assert contradictions([start(7)]) == []
    assert contradictions([start(7, **other)]) == ["n1"]


@pytest.mark.parametrize(
    ("notes", "nodes"),
    [
        (fault("kill", "inject", "7:a"), []),
        (fault("kill", "inject", "8:a"), ["n1"]),
        (fault("restart", "inject", "7:a", "9:b", state="running"), ["n1"]),
        # A process that is killed while it starts traces nothing.
        (fault("kill", "inject", "8:a", asked=False), []),
        (
            fault("kill", "heal", "7:a", verified=False)
            + fault("kill", "inject", "8:a", at_ns=200),
            [],
        ),
        (fault("kill", "heal", "7:a") + fault("kill", "inject", "8:a", at_ns=120), []),
    ],
)
def test_a_process_of_the_journal_that_answered_has_traced_its_start(notes, nodes):
    assert contradictions([start(7)], notes) == nodes
    assert contradictions([start(7)], notes, pids=False) == []
