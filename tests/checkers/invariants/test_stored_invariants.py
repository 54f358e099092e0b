"""The invariants on stored runs: FAIL by stored events, a doubt where a trace may lack the cause."""

from dataclasses import replace

import pytest

from checkers.invariants.commits import OwnCommit
from checkers.invariants.merge import by_causes
from checkers.invariants.watcher import Watcher
from checkers.registry import CheckSpec, run_check
from checkers.verdict import Status
from tests.checkers.evidence.run_evidence import (
    NODES,
    append,
    good_log,
    good_run,
    good_trace,
    high_watermark,
    judged,
    leader_change,
    record,
    state,
    trace,
    with_evidence,
    with_log,
    with_trace,
)

pytestmark = pytest.mark.usefixtures("of_the_quorum_alone")

FETCH = {"epoch": 1, "leader_id": 1, "offset": 6, "durable_end_offset": 6}
VOTE = {"epoch": 1, "candidate_id": 1, "pre_vote": False, "granted": True}


def stamped(run, order):
    """The same run with one clock for all nodes, which showed the events in this order."""
    times = {id(event): time_ns for time_ns, event in enumerate(order)}
    traces = {
        node: [
            replace(
                e,
                time_ns=times[id(e)],
                fields={**e.fields, "clock": "boot"} if e.event == "start" else e.fields,
            )
            for e in trace
        ]
        for node, trace in run.evidence.traces.items()
    }
    return with_evidence(run, traces=traces)


def timed(run):
    """By one clock, causes first."""
    order = []
    watcher = Watcher()

    def take(event):
        order.append(event)
        watcher.take(event.node, event.event, event.fields)

    by_causes(run.evidence.traces, NODES, watcher, take, ())
    return stamped(run, order)


def without_events(run, node, *names):
    kept = [event for event in run.evidence.traces[node] if event.event not in names]
    traces = {**run.evidence.traces, node: kept}
    return with_evidence(run, traces=traces)


def test_a_run_in_order_passes_and_names_what_was_left_out():
    result = run_check(CheckSpec("invariants"), good_run())
    assert result.status is Status.PASS
    left_out = ["durable-vote", "led-alone", "snapshot-agreement", "snapshot-durable"]
    assert sorted(result.statistics["left_out"]) == left_out
    assert result.summary.endswith(f"not judged in this run: {', '.join(left_out)}")


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("election-safety", [state(1, leader=3, voted=1)]),
        ("election-safety", [("epoch-start", {"epoch": 1, "offset": 0})]),
        ("election-safety", [("claim", {"epoch": 1, "offset": 0})]),
        ("one-vote", [("vote", VOTE | {"candidate_id": 3})]),
        ("one-vote", [state(1, voted=2)]),
        ("stable-leadership", [("vote", VOTE | {"candidate_id": 3, "pre_vote": True})]),
        ("monotonic-epoch", [state(0)]),
        ("durable-fetch", [("fetch", FETCH | {"durable_end_offset": 5})]),
        ("ack-committed", [("ack", {"epoch": 1, "offset": 6, "high_watermark": 6})]),
        (
            "read-confirmed",
            [("read", {"epoch": 1, "offset": 5, "confirmed": False, "query": True})],
        ),
        ("majority-counted", [high_watermark(6, replicas={"1": 6, "2": 5, "3": 5})]),
        ("majority-counted", [high_watermark(6, replicas={"1": 6, "2": 6, "3": 5, "4": 5})]),
        ("committed-truncated", [("truncate", {"end_offset": 5, "epoch": 1})]),
        ("committed-truncated", [("truncate-fully", {"start_offset": 5, "epoch": 1})]),
        ("log-matching", [append(5, 5)]),
        ("committed-prefix", [high_watermark(5)]),
        ("committed-prefix", [high_watermark(7)]),
        (
            "monotonic-high-watermark",
            [high_watermark(5, epoch=2, replicas={"1": 5, "2": 5, "3": 5})],
        ),
        ("snapshot-committed", [("snapshot", {"offset": 7, "epoch": 1})]),
    ],
)
def test_what_breaks_an_invariant_fails_by_the_clock_and_by_causes(kind, events):
    for run in (with_trace("n2", *events), timed(with_trace("n2", *events))):
        status, kinds = judged(run)
        assert kind in kinds
        assert status is Status.FAIL or kind == "snapshot-committed"


@pytest.mark.parametrize(
    "event",
    [
        ("vote", VOTE | {"candidate_id": 3, "granted": False}),
        ("vote", VOTE | {"candidate_id": 3, "pre_vote": True, "granted": False}),
        ("vote", VOTE | {"candidate_id": 3, "epoch": 2}),
        high_watermark(6, replicas={"1": 6, "2": 6, "3": 0}),
        ("fetch", FETCH | {"offset": 5}),
        ("fetch", FETCH | {"leader_id": 3, "asked_id": 3}),
        ("ack", {"epoch": 1, "offset": 5, "high_watermark": 6}),
        ("truncate", {"end_offset": 6, "epoch": 1}),
    ],
)
def test_what_is_allowed_passes(event):
    assert judged(with_trace("n2", event)) == (Status.PASS, set())


@pytest.mark.parametrize(
    ("offset", "kinds"), [(5, {"own-commit"}), (6, {"own-commit"}), (7, set())]
)
def test_a_leader_commits_nothing_before_a_record_of_its_own_epoch(offset, kinds):
    watcher = Watcher(among=(OwnCommit,))
    watcher.take("n2", "epoch-start", {"epoch": 2, "offset": 6})
    watcher.take("n2", *high_watermark(offset, epoch=2, replicas={}))
    watcher.take("n1", *high_watermark(6, epoch=2))
    assert {violation.property for violation in watcher.violations} == kinds


def voters(offset):
    return "voters", {"offset": offset, "kraft_version": 1, "voters": {"1": "d1"}}


RESTART = ("start", {"node_id": 2, "mutant": None, "directory_id": "d2"}, 1)
MORE = append(6, 9)


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([voters(3), voters(5), high_watermark(6), voters(-1)], {"committed-voters"}),
        ([voters(3), voters(5), high_watermark(6), voters(3)], {"committed-voters"}),
        ([voters(3), voters(6), voters(3)], set()),
        ([voters(3), voters(6), voters(-1)], {"committed-voters"}),
        ([voters(3), voters(8), voters(5)], set()),
        ([voters(3), RESTART, voters(-1)], set()),
        ([voters(-1), voters(8), voters(-1)], set()),
        # 8 was cut off; what is committed there later is another record.
        ([voters(3), voters(8), voters(3), MORE, high_watermark(9), voters(10), voters(3)], set()),
        (
            [voters(3), voters(8), voters(3), voters(8), MORE, high_watermark(9), voters(3)],
            {"committed-voters"},
        ),
    ],
)
def test_committed_voters_are_not_forgotten(events, found):
    """What is not committed is truncated, and a restarted node reads its log anew."""
    run = with_trace("n2", *events)
    led = [*good_trace("n1"), *with_trace("n1", append(6, 9, role="leader")).evidence.traces["n1"]]
    del led[len(good_trace("n1")) : -1]
    run = with_evidence(run, traces={**run.evidence.traces, "n1": led})
    assert judged(run)[1] == found


@pytest.mark.parametrize(
    ("directory", "found"),
    [("another", set()), ("one", {"monotonic-epoch"}), (None, {"monotonic-epoch"})],
)
def test_only_with_another_directory_does_a_node_begin_in_an_earlier_epoch(directory, found):
    events = [
        ("start", {"node_id": 2, "mutant": None, "directory_id": "one"}, 1),
        (*state(1), 1),
        ("start", {"node_id": 2, "mutant": None, "directory_id": directory}, 2),
        (*state(0), 2),
        (*state(1), 2),
    ]
    assert judged(with_trace("n2", *events))[1] == found


# -- what was left when the run was over ---------------------------------------------------------


QUORUM_STATES = {
    "election-safety": {"leaderId": 2},
    "one-vote": {"votedId": 3},
    "monotonic-epoch": {"leaderEpoch": 0, "leaderId": -1, "votedId": -1},
}


def with_quorum_state(**changed):
    states = good_run().evidence.quorum_states
    return good_run(quorum_states={**states, "n2": {**states["n2"], **changed}})


@pytest.mark.parametrize("kind", QUORUM_STATES)
def test_the_quorum_state_file_counts(kind):
    assert judged(with_quorum_state(**QUORUM_STATES[kind])) == (Status.FAIL, {kind})


@pytest.mark.parametrize("directory", ["another", "", None])
@pytest.mark.parametrize("kind", ["one-vote", "monotonic-epoch"])
def test_the_quorum_state_file_of_another_directory_is_in_doubt(kind, directory):
    """A trace that was cut lacks the start of the replica that wrote it."""
    run = with_quorum_state(**QUORUM_STATES[kind], directoryId=directory)
    assert judged(run) == (Status.UNKNOWN, {kind})


LOG_FAULTS = {
    "log-matching": [*good_log("n2")[:5], record("n2", 5, crc=7)],
    "committed-prefix": [*good_log("n2")[:5], record("n2", 5, epoch=2)],
    "election-safety": [*good_log("n2"), leader_change("n2", 6, 1, 2)],
}


@pytest.mark.parametrize("kind", LOG_FAULTS)
def test_a_wrong_log_fails(kind):
    status, kinds = judged(with_log("n2", LOG_FAULTS[kind]))
    assert (status, kind in kinds) == (Status.FAIL, True)


def test_two_leader_changes_of_one_leader_in_one_epoch_are_reported():
    run = with_log("n2", [*good_log("n2"), leader_change("n2", 6, 1, 1)])
    assert judged(run) == (Status.FAIL, {"election-safety"})


def test_an_uncommitted_tail_may_differ():
    logs = {
        "n1": good_log("n1"),
        "n2": [*good_log("n2"), record("n2", 6, epoch=3, crc=2)],
        "n3": [*good_log("n3"), record("n3", 6, epoch=2, crc=1)],
    }
    assert judged(good_run(logs=logs)) == (Status.PASS, set())


def test_a_log_that_goes_on_behind_its_trace_makes_a_doubt_of_a_difference():
    """What the trace lacks may be the power loss that brought an old tail back."""
    run = with_log("n2", [*LOG_FAULTS["committed-prefix"], record("n2", 6, epoch=2)])
    states = {**run.evidence.quorum_states}
    states["n2"] = {**states["n2"], "logEndOffset": 7}
    assert judged(with_evidence(run, quorum_states=states)) == (
        Status.UNKNOWN,
        {"committed-prefix"},
    )


# -- traces that lack something -------------------------------------------------------------------


def cut(run, node, event):
    """Cut a trace before the first event of a name."""
    trace = run.evidence.traces[node]
    at = next(i for i, e in enumerate(trace) if e.event == event)
    return with_evidence(run, traces={**run.evidence.traces, node: trace[:at]})


@pytest.mark.parametrize(
    ("event", "kind"), [("vote", "elected-by-majority"), ("flush", "majority-durable")]
)
@pytest.mark.parametrize("clock", [timed, lambda run: run], ids=["clock", "causes"])
def test_what_a_cut_trace_may_have_held_is_in_doubt(clock, event, kind):
    run = cut(cut(clock(good_run()), "n2", event), "n3", event)
    result = run_check(CheckSpec("invariants"), run)
    assert result.status is Status.UNKNOWN
    assert kind in {anomaly["kind"] for anomaly in result.anomalies}
    assert "traces of n2, n3" in result.summary


@pytest.mark.parametrize(
    ("names", "kind"), [(["vote"], "elected-by-majority"), (["flush", "fetch"], "majority-durable")]
)
def test_what_whole_traces_do_not_hold_is_found_without_a_clock(names, kind):
    """They follow the leader and learn its high watermark, but never voted or fsynced."""
    run = good_run()
    for node in ("n2", "n3"):
        run = without_events(run, node, *names)
        fields = {"state": "Follower", "epoch": 1, "leader_id": 1, "voted_id": -1}
        trace = [
            replace(e, fields=fields) if e.event == "state" else e
            for e in run.evidence.traces[node]
        ]
        run = with_evidence(run, traces={**run.evidence.traces, node: trace})
    assert judged(run) == (Status.FAIL, {kind})


def test_what_came_too_early_is_found_by_the_clock_alone():
    """Without a clock the others may have voted and fsynced in time."""
    run = good_run()
    first_n1 = stamped(run, [e for node in NODES for e in run.evidence.traces[node]])
    assert judged(first_n1) == (Status.FAIL, {"elected-by-majority", "majority-durable"})
    assert judged(run) == (Status.PASS, set())
    # A simulated world's clock counts, whatever the nodes' own show.
    own = {
        node: [replace(e, world_ns=e.time_ns, time_ns=at) for at, e in enumerate(trace)]
        for node, trace in first_n1.evidence.traces.items()
    }
    assert judged(with_evidence(run, traces=own)) == judged(first_n1)


def test_too_few_that_were_not_seen_explain_nothing():
    """Of five voters one is unseen, and two more would have to have voted."""
    five = {str(number): f"d{number}" for number in range(1, 6)}
    run = timed(good_run())
    traces = {
        node: [
            replace(e, fields={**e.fields, "voters": five}) if e.event == "voters" else e
            for e in trace
            if e.event != "vote"
        ]
        for node, trace in run.evidence.traces.items()
    }
    found = judged(with_evidence(run, traces=traces, nodes=(*NODES, "n4")))
    assert found == (Status.FAIL, {"elected-by-majority"})


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("clock", [timed, lambda run: run], ids=["clock", "causes"])
def test_a_good_run_never_fails_wherever_a_trace_ends(clock, node):
    run = clock(good_run())
    trace = run.evidence.traces[node]
    for end in range(len(trace)):
        traces = {**run.evidence.traces, node: trace[:end]}
        status, kinds = judged(with_evidence(run, traces=traces))
        assert status is not Status.FAIL, (end, kinds)


def test_a_malformed_line_makes_doubts_of_what_depends_on_the_rest_only():
    hole = ("truncate", {"end_offset": "6", "epoch": 1})
    assert judged(with_trace("n2", hole, append(4, 4))) == (Status.UNKNOWN, {"log-matching"})
    bad = ("fetch", FETCH | {"durable_end_offset": 1})
    assert judged(with_trace("n2", hole, bad)) == (Status.FAIL, {"durable-fetch"})
    logs = with_log("n2", LOG_FAULTS["committed-prefix"]).evidence.logs
    run = with_evidence(with_trace("n2", hole), logs=logs)
    assert judged(run) == (Status.UNKNOWN, {"committed-prefix"})


def test_many_findings_of_one_kind_on_a_node_are_counted_and_few_shown():
    bad = ("fetch", FETCH | {"durable_end_offset": 1})
    result = run_check(CheckSpec("invariants"), with_trace("n2", *[bad] * 100))
    assert len(result.anomalies) == 3
    assert result.statistics["repeated"] == {"durable-fetch on n2": 100}


def test_doubts_hide_no_finding():
    hole = ("truncate", {"end_offset": "6", "epoch": 1})
    doubts = [append(n, n) for n in (1, 1, 1, 1, 1, 1, 1)] * 4
    bad = ("fetch", FETCH | {"durable_end_offset": 1})
    assert judged(with_trace("n2", hole, *doubts, bad)) == (Status.FAIL, {"durable-fetch"})


def test_a_snapshot_too_far_is_not_blamed_on_the_commit_that_waits_behind_it():
    """n2 and n3 snapshot one offset too many before they traced the fsync that n1 commits by."""
    run = good_run()
    traces = dict(run.evidence.traces)
    for node in ("n2", "n3"):
        at = next(i for i, e in enumerate(traces[node]) if e.event == "flush")
        too_far = trace(node, ("snapshot", {"offset": 7, "epoch": 1}), begin_ns=at)
        traces[node] = [*traces[node][:at], *too_far, *traces[node][at:]]
    found = judged(with_evidence(run, traces=traces))
    assert found == (Status.FAIL, {"snapshot-committed"})


CONTRADICTION = {"epoch": 1, "claimed_epoch": 1, "claimed_id": 1, "message": "m", "reason": "r"}
KAFKAS = ["epoch-start", "hw", "start", "state", "truncate"]


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("no-contradiction", ("contradiction", CONTRADICTION)),
        ("durable-fetch", ("fetch", FETCH | {"durable_end_offset": 5})),
        ("ack-committed", ("ack", {"epoch": 1, "offset": 6, "high_watermark": 6})),
        ("read-confirmed", ("read", {"epoch": 1, "offset": 5, "confirmed": False, "query": True})),
        ("majority-counted", high_watermark(6, replicas={"1": 6, "2": 5, "3": 5})),
        ("committed-truncated", ("truncate", {"end_offset": 5, "epoch": 1})),
    ],
)
@pytest.mark.parametrize("whole", [["n2"], ["n1", "n2"]])
def test_nodes_that_trace_everything_are_judged_by_their_own_events(kind, event, whole):
    options = {"traced": KAFKAS, "whole": whole}
    result = run_check(CheckSpec("invariants", options), with_trace("n2", event))
    assert result.status is Status.FAIL
    assert [anomaly["kind"] for anomaly in result.anomalies] == [kind]


def test_nodes_that_trace_less_are_not_judged_by_what_they_lack():
    """Kafka logs high watermarks without the offsets that they were counted from."""
    run = with_trace("n2", high_watermark(6, replicas={}))
    for whole in (["n1", "n3"], []):
        result = run_check(CheckSpec("invariants", {"traced": KAFKAS, "whole": whole}), run)
        assert result.status is Status.PASS, result


def test_the_result_says_which_invariants_judge_some_nodes_only():
    options = {"traced": KAFKAS, "whole": ["n1", "n3"]}
    result = run_check(CheckSpec("invariants", options), good_run())
    assert result.status is Status.PASS
    assert "21 invariants hold" in result.summary
    assert "of n1, n3 only" in result.summary
    judged_of = result.statistics["judged_of"]
    assert judged_of["no-contradiction"] == ["n1", "n3"]
    assert "elected-by-majority" in result.statistics["left_out"]
    assert "elected-by-majority" not in judged_of


def test_nodes_that_leave_traces_alone_are_judged_by_these():
    run = without_files(good_run())
    result = run_check(CheckSpec("invariants", {"files": False}), run)
    assert result.status is Status.PASS, result
    left_out = result.statistics["left_out"]
    assert {"log-matching", "committed-prefix"} <= left_out.keys()
    assert run_check(CheckSpec("invariants", {}), run).status is Status.UNKNOWN

    event = ("truncate", {"end_offset": 5, "epoch": 1})
    bad = without_files(with_trace("n2", event))
    result = run_check(CheckSpec("invariants", {"files": False}), bad)
    assert result.status is Status.FAIL
    assert [anomaly["kind"] for anomaly in result.anomalies] == ["committed-truncated"]


def without_files(run):
    return with_evidence(run, logs={}, snapshots={}, quorum_states={})


def test_what_is_cancelled_finds_nothing_in_what_it_left_out(monkeypatch):
    run = good_run()
    for taken in range(1, sum(map(len, run.evidence.traces.values())) + 1):
        monkeypatch.setattr("checkers.invariants.stored._CANCELLED_EVERY", taken)
        result = run_check(CheckSpec("invariants"), run, lambda: True)
        assert (result.status, result.summary) == (Status.UNKNOWN, "cancelled"), taken
