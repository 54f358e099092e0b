"""Which fault hit which role in which phase, counted from a journal and traces."""

from checkers.evidence import Evidence, RunClock, TraceEvent
from checkers.history import NEMESIS, Event, EventType
from checkers.run_input import RunInput
from checkers.runs.coverage import coverage

CLOCK = "boot 1"
INVOKE, OK, INFO = EventType.INVOKE, EventType.OK, EventType.INFO


def traced(node, *rows):
    """Trace events of a node: (s, event, fields)."""
    start = {"node_id": int(node[1:]), "clock": CLOCK}
    return [
        TraceEvent(node, 0, int(at_s * 1e9), event, fields)
        for at_s, event, fields in ((0.0, "start", start), *rows)
    ]


def state(at_s, name, epoch):
    return (at_s, "state", {"state": name, "epoch": epoch, "leader_id": 1, "voted_id": -1})


def commit(at_s, epoch):
    fields = {"epoch": epoch, "offset": 1, "role": "leader", "replicas": {"1": 1}}
    return (at_s, "hw", fields)


def run_of(traces, *rows):
    """A run with these acts of the nemesis: (s, type, fault, phase, targets, verified)."""
    events = []
    for at_s, kind, fault, phase, targets, verified in rows:
        value = {"phase": phase, "entry": 0, "targets": targets, "verified": verified}
        events.append(Event(len(events), int(at_s * 1e9), NEMESIS, kind, fault, None, value))
    evidence = Evidence(tuple(traces), {}, {}, traces, {}, run_clock=RunClock(CLOCK, 0))
    return RunInput(events, (), evidence)


def quorum():
    return {
        "n1": traced("n1", state(1.0, "Leader", 1), commit(2.0, 1)),
        "n2": traced("n2", state(1.1, "Follower", 1)),
        "n3": traced("n3", state(1.1, "Follower", 1)),
    }


def test_a_fault_is_counted_for_the_role_of_its_target_and_the_phase():
    run = run_of(
        quorum(),
        (0.5, OK, "pause", "inject", ["n2"], True),
        (1.5, OK, "partition", "inject", ["n1"], True),
        (3.0, OK, "pause", "inject", ["n1", "n2", "n3"], True),
        (4.0, OK, "hold", "inject", [], True),
    )
    assert coverage(run) == {
        "hold/-/steady": 1,
        "partition/leader/establishing": 1,
        "pause/follower/steady": 1,
        "pause/leader/steady": 1,
        "pause/voter/electing": 1,
    }


def test_what_did_not_bite_and_heals_are_not_counted():
    run = run_of(
        quorum(),
        (3.0, INFO, "pause", "inject", ["n1"], False),
        (4.0, OK, "pause", "heal", ["n1"], True),
    )
    assert coverage(run) == {}


def test_the_moment_is_when_the_fault_began_not_when_it_was_measured():
    run = run_of(
        quorum(),
        (0.5, INVOKE, "partition", "inject", [], None),
        (3.0, OK, "partition", "inject", ["n1"], True),
    )
    assert coverage(run) == {"partition/voter/electing": 1}


def test_a_killed_leader_is_dead_although_it_traces_nothing_more():
    run = run_of(
        quorum(),
        (3.0, OK, "kill", "inject", ["n1"], True),
        (3.5, OK, "partition", "inject", ["n1"], True),
    )
    assert coverage(run) == {"kill/leader/steady": 1, "partition/dead/electing": 1}


def test_traces_that_cannot_be_placed_count_for_nothing():
    run = run_of(quorum(), (3.0, OK, "kill", "inject", ["n1"], True))
    foreign = {
        node: [e for e in trace if e.event != "start"]
        for node, trace in run.evidence.traces.items()
    }
    evidence = Evidence(tuple(foreign), {}, {}, foreign, {}, run_clock=RunClock("boot 2", 0))
    assert coverage(RunInput(run.events, (), evidence)) == {}
    assert coverage(RunInput(run.events, (), None)) == {}
