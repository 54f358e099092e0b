"""Traces, logs and files of a run contradict each other where one of them is not true."""

from dataclasses import replace

import pytest

from checkers.evidence import RunClock, TraceEvent
from checkers.history import NEMESIS, Event, EventType
from checkers.invariants.traces import TRACES
from checkers.registry import CheckSpec, run_check
from checkers.verdict import Status
from tests.checkers.run_evidence import (
    append,
    final_reads,
    good_run,
    good_trace,
    high_watermark,
    state,
    trace,
    with_trace,
)

RESTART = ("start", {"node_id": 2, "mutant": None, "directory_id": "d2"}, 1)
PENDING = append(6, 6)


def recovered(end_offset, truncated_bytes=0):
    fields = {"start_offset": 0, "end_offset": end_offset, "last_epoch": 1}
    return ("recovered", {**fields, "truncated_bytes": truncated_bytes}, 1)


def judged(run):
    result = run_check(CheckSpec("invariants"), run)
    return result.status, {anomaly["kind"] for anomaly in result.anomalies}


def fetch(offset, durable):
    place = {"epoch": 1, "leader_id": 1, "asked_id": 1}
    return "fetch", {**place, "offset": offset, "durable_end_offset": durable}


def voters(*ids):
    named = {str(number): f"d{number}" for number in ids}
    return "voters", {"offset": -1, "kraft_version": 1, "voters": named}


FALSE = {
    "a flush above the log": ([("flush", {"end_offset": 9})], "traced-flush"),
    "a fetch above the flushes": ([PENDING, fetch(7, 7)], "traced-flush"),
    "bytes cut off that nobody wrote": ([RESTART, recovered(6, 9)], "appended"),
    "a mark that no leader has": ([PENDING, high_watermark(7)], "heard-of"),
    "voters that lack one": ([voters(1, 2)], "voters-agree"),
    "an answer without a claim": (
        [("ack", {"epoch": 1, "offset": 5, "high_watermark": 6})],
        "answered-in-claim",
    ),
    "a snapshot that is not there": ([("snapshot", {"offset": 6, "epoch": 1})], "snapshots-kept"),
}
TRUE = [
    [PENDING, RESTART, recovered(6, 9)],
    [PENDING, RESTART, recovered(7)],
    [RESTART, recovered(6), (*fetch(6, 6), 1)],
    [voters(1, 2, 3)],
]


@pytest.mark.parametrize("named", [{"leader": 3}, {"voted": 3}])
def test_a_node_hears_of_leaders_and_candidates_from_themselves(named):
    run = with_trace("n2", state(2, **named))
    written = {"leaderEpoch": 2, "leaderId": -1, "votedId": -1}
    written |= {f"{name}Id": number for name, number in named.items()}
    states = run.evidence.quorum_states
    states = {**states, "n2": {**states["n2"], **written}}
    run = replace(run, evidence=replace(run.evidence, quorum_states=states))
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
    run = replace(run, evidence=replace(run.evidence, quorum_states=states))
    assert judged(run) == (Status.PASS, set())


def with_snapshots(run):
    return replace(run, evidence=replace(run.evidence, snapshots={"n2": []}))


@pytest.mark.parametrize("name", FALSE)
def test_what_cannot_have_happened_fails(name):
    events, kind = FALSE[name]
    status, kinds = judged(with_snapshots(with_trace("n2", *events)))
    assert kind in kinds
    assert status is Status.FAIL or kind in ("heard-of", "appended")


@pytest.mark.parametrize("events", TRUE, ids=str)
def test_what_a_kill_explains_passes(events):
    assert judged(with_trace("n2", *events)) == (Status.PASS, set())


def test_every_rule_has_a_case_or_an_alteration():
    tried = {kind for _, kind in FALSE.values()} | {"counted-fetched", "kept-state"}
    assert tried == {rule.name for rule in TRACES}


def test_a_leader_that_counts_what_a_follower_never_fetched_fails():
    traces = {node: good_trace(node) for node in ("n1", "n2", "n3")}
    traces["n1"] = [
        replace(event, fields={**event.fields, "replicas": {"1": 6, "2": 6, "3": 60}})
        if event.event == "hw"
        else event
        for event in traces["n1"]
    ]
    status, kinds = judged(good_run(traces=traces))
    assert (status, kinds) == (Status.FAIL, {"counted-fetched"})


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"votedId": -1}, {"kept-state"}),
        ({"leaderId": -1}, {"kept-state"}),
        ({"leaderEpoch": 2, "leaderId": -1, "votedId": -1}, {"heard-of"}),
        ({}, set()),
    ],
)
def test_a_quorum_state_file_forgets_nothing_and_makes_nothing_up(changed, found):
    states = good_run().evidence.quorum_states
    run = good_run(quorum_states={**states, "n2": {**states["n2"], **changed}})
    assert judged(run)[1] == found


def test_a_log_that_holds_more_than_was_appended_is_in_doubt():
    states = good_run().evidence.quorum_states
    run = good_run(quorum_states={**states, "n2": {**states["n2"], "logEndOffset": 9}})
    assert judged(run) == (Status.UNKNOWN, {"appended"})


def test_a_log_that_is_left_with_less_than_was_flushed_fails():
    states = good_run().evidence.quorum_states
    run = good_run(quorum_states={**states, "n2": {**states["n2"], "logEndOffset": 5}})
    assert judged(run) == (Status.FAIL, {"recovery"})


def altered(change):
    trace = change(list(good_trace("n2")))
    return good_run(traces={**{n: good_trace(n) for n in ("n1", "n3")}, "n2": trace})


def doubled(trace):
    return [*trace[:6], trace[5], *trace[6:]]


def backwards(trace):
    return [*trace[:6], replace(trace[6], time_ns=0), *trace[7:]]


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
        (doubled, "event 7 is there twice"),
        (backwards, "event 7 is earlier than the one before"),
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
        run = replace(run, evidence=replace(run.evidence, run_clock=clock))
        return str(run_check(CheckSpec("invariants"), run).statistics["missing"])

    assert "no start behind the kill" in found()
    assert "no start" not in found(TraceEvent("n2", 1, 55, "start", start))
