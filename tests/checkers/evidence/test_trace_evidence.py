"""Traces, logs and files of a run contradict each other where one of them is not true."""

from dataclasses import replace

import pytest

from checkers.evidence import Evidence, RunClock, TraceEvent
from checkers.history import NEMESIS, Event, EventType
from checkers.invariants.traces import TRACES
from checkers.nodes.trace_order import not_started, unlike_faults
from checkers.registry import CheckSpec, run_check
from checkers.verdict import Status
from tests.checkers.evidence.run_evidence import (
    NODES,
    append,
    final_reads,
    good_log,
    good_run,
    good_trace,
    high_watermark,
    judged,
    leader_change,
    state,
    trace,
    with_evidence,
    with_trace,
)

RESTART = ("start", {"node_id": 2, "mutant": None, "directory_id": "d2"}, 1)
PENDING = append(6, 6)


def recovered(end_offset, truncated_bytes=0, epoch=1):
    fields = {"start_offset": 0, "end_offset": end_offset, "last_epoch": epoch}
    return ("recovered", {**fields, "truncated_bytes": truncated_bytes}, 1)


def fetch(offset, durable):
    place = {"epoch": 1, "leader_id": 1, "asked_id": 1}
    return "fetch", {**place, "offset": offset, "durable_end_offset": durable}


def voters(*ids, offset=-1):
    named = {str(number): f"d{number}" for number in ids}
    return "voters", {"offset": offset, "kraft_version": 1, "voters": named}


def log_end(end_offset):
    return "log-end", {"end_offset": end_offset}, 1


def vote(last_epoch, last_offset, **more):
    answer = {"epoch": 2, "candidate_id": 3, "pre_vote": False, "granted": True}
    return "vote", {**answer, "last_epoch": last_epoch, "last_offset": last_offset, **more}


CHANGE = ("voter-change", {**voters(1, 2, 3, 4, offset=5)[1], "epoch": 1})
OTHER = voters(1, 2, offset=5)


def cut(end_offset):
    return "truncate", {"end_offset": end_offset, "epoch": 1}


FALSE = {
    "a truncation that has none": ([append(6, 8), cut(7), cut(7)], "truncation-ends"),
    "a flush above the log": ([("flush", {"end_offset": 9})], "traced-flush"),
    "a fetch above the flushes": ([PENDING, fetch(7, 7)], "traced-flush"),
    "bytes cut off that nobody wrote": ([RESTART, recovered(6, 9)], "appended"),
    "a mark that no leader has": ([PENDING, high_watermark(7)], "mark-heard"),
    "voters that lack one": ([voters(1, 2)], "voters-agree"),
    "voters of another record": ([CHANGE, OTHER], "voters-agree"),
    "an answer without a claim": (
        [("ack", {"epoch": 1, "offset": 5, "high_watermark": 6})],
        "answered-in-claim",
    ),
    "a commit above the mark": ([("commit", {"last_offset": 6})], "commit-below-mark"),
    "an epoch that nobody appended in": ([RESTART, recovered(6, epoch=2)], "appended"),
    "a log that ends below its mark": ([RESTART, log_end(5)], "committed-kept"),
    "one that does so after another start": (
        [RESTART, log_end(6), (*RESTART[:2], 2), (*log_end(5)[:2], 2)],
        "committed-kept",
    ),
    "a vote for who has less": ([vote(1, 5)], "up-to-date-vote"),
    "a PreVote for who has less": ([vote(1, 5, pre_vote=True)], "up-to-date-vote"),
    "a vote for who has less than it had before its start": (
        [RESTART, log_end(6), (*vote(1, 5), 1)],
        "up-to-date-vote",
    ),
    "a snapshot that is not there": ([("snapshot", {"offset": 6, "epoch": 1})], "snapshots-kept"),
}
TRUE = [
    [append(6, 8), cut(7), cut(6)],
    [append(6, 8), cut(7), append(7, 8), cut(7)],
    [append(6, 8), cut(7), state(1), cut(7)],
    [PENDING, RESTART, recovered(6, 9)],
    [PENDING, RESTART, recovered(7)],
    [RESTART, recovered(6), (*fetch(6, 6), 1)],
    [voters(1, 2, 3)],
    # Of a snapshot that ends there: the record is another epoch's, and was truncated.
    [CHANGE, RESTART, recovered(6), (*OTHER, 1), (*OTHER, 1)],
    # The same, after it gave up what came behind the snapshot.
    [CHANGE, ("load-snapshot", {"offset": 6, "epoch": 1}), OTHER],
    [("commit", {"last_offset": 5})],
    [RESTART, recovered(6), log_end(6)],
    # An empty log behind a snapshot, whose file was not synced.
    [("truncate-fully", {"start_offset": 6, "epoch": 1}), RESTART, log_end(0)],
    [("truncate-fully", {"start_offset": 6, "epoch": 1}), high_watermark(6), RESTART, log_end(0)],
    [vote(1, 6)],
    [vote(2, 3)],  # newer, by its epoch
    [vote(1, 5, granted=False)],
    [RESTART, recovered(6), (*vote(1, 5), 1)],  # where its log ends is not known
    [RESTART, recovered(6), log_end(6), (*vote(1, 6), 1)],
    [append(6, 6), ("truncate", {"end_offset": 6, "epoch": 1}), RESTART, recovered(7, epoch=2)],
]


@pytest.mark.parametrize("named", [{"leader": 3}, {"voted": 3}])
def test_a_node_hears_of_leaders_and_candidates_from_themselves(named):
    run = with_trace("n2", state(2, **named))
    written = {"leaderEpoch": 2, "leaderId": -1, "votedId": -1}
    written |= {f"{name}Id": number for name, number in named.items()}
    states = run.evidence.quorum_states
    states = {**states, "n2": {**states["n2"], **written}}
    run = with_evidence(run, quorum_states=states)
    assert judged(run) == (Status.UNKNOWN, {"heard-of"})


def test_a_leader_killed_between_its_file_and_its_trace_may_be_heard_of():
    start = {"node_id": 1, "mutant": None, "directory_id": "d1"}
    stood = [state(2, voted=1, name="Candidate"), ("start", start, 1), recovered(6)]
    resigned = state(2, leader=1, name="Resigned")
    n1 = trace("n1", *stood, (*resigned, 1), begin_ns=len(good_trace("n1")))
    n2 = trace("n2", state(2, leader=1), begin_ns=len(good_trace("n1")) + len(n1))
    traces = {node: good_trace(node) for node in ("n1", "n2", "n3")}
    traces["n1"], traces["n2"] = traces["n1"] + n1, traces["n2"] + n2
    states = good_run().evidence.quorum_states
    later = {"leaderEpoch": 2, "leaderId": 1, "votedId": -1}
    states = {**states, "n1": {**states["n1"], **later}, "n2": {**states["n2"], **later}}
    assert judged(good_run(traces=traces, quorum_states=states)) == (Status.PASS, set())


def test_what_was_appended_may_be_flushed_and_fetched():
    run = with_trace("n2", PENDING, ("flush", {"end_offset": 7}), fetch(7, 7))
    states = run.evidence.quorum_states
    states = {**states, "n2": {**states["n2"], "logEndOffset": 7}}
    run = with_evidence(run, quorum_states=states)
    assert judged(run) == (Status.PASS, set())


@pytest.mark.parametrize(
    ("granting", "kinds"),
    [([1, 2], set()), ([1, 4], {"granted-votes"}), ([1, 3], {"granted-votes"})],
)
def test_a_leader_names_votes_that_were_granted(granting, kinds):
    """n3 granted a PreVote, and no vote."""
    run = good_run()
    traces = dict(run.evidence.traces)
    traces["n3"] = [
        replace(event, fields={**event.fields, "pre_vote": True, "voted_id": -1})
        for event in traces["n3"]
    ]
    logs = {
        node: [replace(log[0], value={**log[0].value, "grantingVoters": granting}), *log[1:]]
        for node, log in run.evidence.logs.items()
    }
    assert judged(good_run(logs=logs, traces=traces))[1] == kinds


def fault(time_ns, kind, phase, state=None):
    value = {"phase": phase, "entry": 0, "targets": ["n2"], "verified": True}
    if kind is EventType.INVOKE:
        value = {"phase": phase, "entry": 0}
    elif state is not None:
        value["detail"] = {"states": {"n2": state}}
    return Event(time_ns, time_ns, NEMESIS, kind, "kill", None, value)


@pytest.mark.parametrize(
    ("restart", "late", "status"),
    [
        (None, 45, Status.PASS),
        (None, 25, Status.UNKNOWN),  # a line of a node that was seen dead
        (32, 45, Status.PASS),
        (42, 45, Status.UNKNOWN),  # a start that no fault explains
    ],
)
def test_traces_and_the_faults_of_the_journal_agree(restart, late, status):
    asked, done = EventType.INVOKE, EventType.OK
    faults = [
        fault(10, asked, "inject"),
        fault(20, done, "inject", "dead"),
        fault(30, asked, "heal"),
        fault(40, done, "heal"),
    ]
    traces = {node: good_trace(node) for node in ("n1", "n2", "n3")}
    for name, events in traces.items():
        start = replace(events[0], fields={**events[0].fields, "clock": "c"})
        traces[name] = [start, *events[1:]]
    number = 0
    if restart is not None:
        fields = {**traces["n2"][0].fields}
        begun = [TraceEvent("n2", 1, restart, "start", fields)]
        again = {"start_offset": 0, "end_offset": 6, "last_epoch": 1}
        begun.append(TraceEvent("n2", 1, restart, "recovered", again))
        traces["n2"], number = traces["n2"] + begun, 1
    traces["n2"] = [*traces["n2"], TraceEvent("n2", number, late, "flush", {"end_offset": 6})]
    run = good_run(traces=traces, events=faults, run_clock=RunClock("c", 0))
    assert judged(run)[0] is status


def with_snapshots(run):
    return with_evidence(run, snapshots={"n2": []})


@pytest.mark.parametrize("name", FALSE)
def test_what_cannot_have_happened_fails(name):
    events, kind = FALSE[name]
    status, kinds = judged(with_snapshots(with_trace("n2", *events)))
    assert kind in kinds
    assert status is Status.FAIL or kind in ("mark-heard", "appended")


@pytest.mark.parametrize("events", TRUE, ids=str)
def test_what_a_kill_explains_passes(events):
    assert judged(with_trace("n2", *events)) == (Status.PASS, set())


def test_another_disk_has_none_of_the_snapshots_before():
    taken, again = ("snapshot", {"offset": 6, "epoch": 1}), {**RESTART[1], "directory_id": "new"}
    run = with_snapshots(with_trace("n2", taken, (RESTART[0], again, *RESTART[2:])))
    assert "snapshots-kept" not in judged(run)[1]
    same = with_snapshots(with_trace("n2", taken, RESTART))
    assert "snapshots-kept" in judged(same)[1]


def test_every_rule_has_a_case_or_an_alteration():
    tried = {kind for _, kind in FALSE.values()} | {
        *("counted-fetched", "heard-of", "kept-state", "granted-votes", "leader-holds")
    }
    assert tried == {rule.name for rule in TRACES}


def test_a_log_that_holds_more_than_was_appended_is_in_doubt():
    states = good_run().evidence.quorum_states
    run = good_run(quorum_states={**states, "n2": {**states["n2"], "logEndOffset": 9}})
    assert judged(run) == (Status.UNKNOWN, {"appended"})


def altered(change):
    trace = change(list(good_trace("n2")))
    return good_run(traces={**{n: good_trace(n) for n in ("n1", "n3")}, "n2": trace})


def from_one(trace):
    return [replace(event, incarnation=1) for event in trace]


def skipping(trace):
    return [*trace, TraceEvent("n2", 2, 99, RESTART[0], RESTART[1])]


def without_start(trace):
    return [*trace, TraceEvent("n2", 1, 99, "hw", high_watermark(6)[1])]


def started_twice(trace):
    return [*trace, TraceEvent("n2", 0, 99, RESTART[0], RESTART[1])]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (from_one, "it begins with process 1"),
        (skipping, "is of process 2, behind 0"),
        (without_start, "is no start of a process"),
        (started_twice, "is a second start of a process"),
        (lambda trace: trace[1:], "it does not begin with a start"),
    ],
)
def test_a_trace_that_no_node_writes_so_is_malformed(change, sentence):
    result = run_check(CheckSpec("invariants"), altered(change))
    assert result.status is Status.UNKNOWN
    assert sentence in str(result.statistics["missing"])


def test_a_node_that_served_after_a_fault_ended_it_started_behind_it():
    kill = {"phase": "inject", "targets": ["n2"], "verified": True}
    events = [
        Event(0, 50, NEMESIS, EventType.INVOKE, "kill", None, {"phase": "inject"}),
        Event(1, 60, NEMESIS, EventType.OK, "kill", None, kill),
    ]
    clock = RunClock("a clock", 0)
    start = {"node_id": 2, "mutant": None, "directory_id": "d2", "clock": "a clock"}

    def found(*more):
        traces = {node: good_trace(node) for node in ("n1", "n2", "n3")}
        first = traces["n2"][0]
        traces["n2"] = [replace(first, fields=start), *traces["n2"][1:], *more]
        run = good_run(traces=traces, events=events, final_reads=final_reads(n2={}))
        run = with_evidence(run, run_clock=clock)
        return str(run_check(CheckSpec("invariants"), run).statistics["missing"])

    assert "no start behind" in found()
    assert "no start" not in found(TraceEvent("n2", 1, 55, "start", start))


@pytest.mark.parametrize(
    ("asked", "nodes"), [(True, ({"n2", "n3"}, {"n2"})), (False, (set(), set()))]
)
def test_a_step_of_a_script_is_journaled_when_it_is_done(asked, nodes):
    """Its heal, or its restart, has touched the node before; entries of the plan are asked for."""
    paused = {"detail": {"states": {"n3": "paused"}}}
    steps = [
        (20, "pause", "inject", 1, "n3", paused),
        (50, "pause", "heal", 1, "n3", {}),
        (80, "restart", "inject", 2, "n2", {}),
        (90, "restart", "heal", 2, "n2", {}),
    ]
    events = []
    for time_ns, fault, phase, entry, node, more in steps:
        value = {"phase": phase, "entry": entry}
        done = {**value, "targets": [node], "verified": True, **more}
        if asked:
            invoked = Event(len(events), time_ns - 2, NEMESIS, EventType.INVOKE, fault, None, value)
            events.append(invoked)
        events.append(Event(len(events), time_ns, NEMESIS, EventType.OK, fault, None, done))
    start = {"node_id": 2, "mutant": None, "directory_id": "d2", "clock": "a clock"}
    traces = {node: good_trace(node) for node in ("n1", "n2", "n3")}
    for node in ("n2", "n3"):
        traces[node] = [replace(traces[node][0], fields=start), *traces[node][1:]]
    traces["n3"].append(TraceEvent("n3", 0, 45, *high_watermark(5)))
    traces["n2"].append(TraceEvent("n2", 1, 75, "start", start))
    evidence = Evidence(NODES, {}, {}, traces, final_reads(n2={}), run_clock=RunClock("a clock", 0))
    run = good_run(traces=traces, events=events)
    unlike, unstarted = (f(run, evidence, NODES) for f in (unlike_faults, not_started))
    assert (unlike.keys(), unstarted.keys()) == nodes


def test_what_another_node_acknowledges_at_an_offset_hides_no_lost_answer():
    later = (
        state(2, leader=2, voted=2, name="Leader"),
        ("claim", {"epoch": 2, "offset": 5}),
        ("ack", {"epoch": 2, "offset": 5, "high_watermark": 6}),
    )
    logs = {node: [*good_log(node)[:5], leader_change(node, 5, 2, 2)] for node in NODES}
    assert "answered-in-claim" in judged(with_evidence(with_trace("n2", *later), logs=logs))[1]
