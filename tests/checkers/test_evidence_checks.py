"""Log agreement and election safety: silent on a run in order, loud on each way to break it."""

from dataclasses import replace

import pytest

from checkers.evidence import lost_nodes
from checkers.history import NEMESIS, Event, EventType
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.verdict import Status
from tests.checkers.run_evidence import (
    NODES,
    good_log,
    good_run,
    good_trace,
    high_watermark,
    leader_change,
    record,
    state,
    trace,
    with_log,
    with_trace,
)


def kinds(name, run):
    result = run_check(CheckSpec(name), run)
    return result.status, {anomaly["kind"] for anomaly in result.anomalies}


@pytest.mark.parametrize("name", ["log-agreement", "election-safety"])
def test_a_run_in_order_passes(name):
    assert kinds(name, good_run()) == (Status.PASS, set())


LOG_FAULTS = {
    "offset-gap": [*good_log("n2")[:3], record("n2", 4), record("n2", 5)],
    "epoch-decrease": [*good_log("n2"), record("n2", 6, 3), record("n2", 7, 2)],
    "log-mismatch": [*good_log("n2")[:5], record("n2", 5, crc=7)],
    "committed-divergence": [*good_log("n2")[:5], record("n2", 5, epoch=2)],
    "two-leaders": [*good_log("n2"), leader_change("n2", 6, 1, 2)],
}


@pytest.mark.parametrize("kind", LOG_FAULTS)
def test_a_wrong_log_fails(kind):
    status, found = kinds("log-agreement", with_log("n2", LOG_FAULTS[kind]))
    assert status is Status.FAIL
    assert kind in found


def test_an_uncommitted_tail_may_differ():
    tail = [*good_log("n3"), record("n3", 6, epoch=2, crc=1)]
    run = with_log("n3", tail)
    logs = dict(run.evidence.logs) | {"n2": [*good_log("n2"), record("n2", 6, epoch=3, crc=2)]}
    assert kinds("log-agreement", good_run(logs=logs)) == (Status.PASS, set())


def test_what_was_committed_must_be_in_a_majority_of_logs():
    short = {node: good_log(node)[:4] for node in ("n2", "n3")}
    states = {node: {"leaderId": 1, "leaderEpoch": 1, "votedId": 1} for node in NODES}
    run = good_run(logs={"n1": good_log("n1"), **short}, quorum_states=states)
    assert kinds("log-agreement", run) == (Status.FAIL, {"committed-lost"})
    one = good_run(logs={"n1": good_log("n1"), "n2": good_log("n2"), "n3": short["n3"]})
    assert kinds("log-agreement", one) == (Status.PASS, set())


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("committed-truncated", ("truncate", {"end_offset": 5, "epoch": 1}, 1)),
        ("committed-overwritten", ("append", {"base_offset": 5, "epoch": 1})),
        ("high-watermark-decrease", high_watermark(5)),
        ("high-watermark-decrease", high_watermark(5, epoch=2, replicas={"2": 6, "3": 6})),
        ("fatal", ("fatal", {"reason": "told to truncate below the high watermark"})),
    ],
)
def test_going_below_the_high_watermark_fails(kind, event):
    assert kinds("log-agreement", with_trace("n2", event)) == (Status.FAIL, {kind})


def test_truncating_what_was_not_committed_is_right():
    run = with_trace("n2", ("truncate", {"end_offset": 6, "epoch": 1}), high_watermark(6))
    assert kinds("log-agreement", run) == (Status.PASS, set())


def test_a_high_watermark_may_begin_lower_after_a_restart():
    run = with_trace("n2", (*high_watermark(2), 1))
    assert kinds("log-agreement", run) == (Status.PASS, set())


@pytest.mark.parametrize(
    ("exit_code", "status"), [(-11, Status.FAIL), (1, Status.FAIL), (-9, Status.UNKNOWN)]
)
def test_a_node_that_died_unasked_fails_unless_something_else_killed_it(exit_code, status):
    value = {"node": "n2", "exit_code": exit_code}
    crash = Event(0, 0, NEMESIS, EventType.INFO, "crash", None, value)
    assert kinds("log-agreement", good_run(events=[crash])) == (status, {"crash"})


FETCH = {"epoch": 1, "leader_id": 1, "offset": 6, "durable_end_offset": 6}
VOTE = {"epoch": 1, "candidate_id": 1, "pre_vote": False, "granted": True}


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("two-leaders", state(1, leader=3, voted=1)),
        ("two-leaders", ("epoch-start", {"epoch": 1, "offset": 0})),
        ("two-leaders", ("claim", {"epoch": 1, "offset": 0})),
        ("two-votes", ("vote", VOTE | {"candidate_id": 3}, 1)),
        ("two-votes", state(1, voted=2)),
        ("epoch-decrease", (*state(0), 1)),
        ("fetched-before-fsync", ("fetch", FETCH | {"durable_end_offset": 5})),
        ("acknowledged-before-commit", ("ack", {"epoch": 1, "offset": 6, "high_watermark": 6})),
        ("unconfirmed-read", ("read", {"epoch": 1, "offset": 5, "confirmed": False})),
        ("high-watermark-without-majority", high_watermark(7, replicas={"1": 7, "2": 6, "3": 6})),
        (
            "high-watermark-without-majority",
            high_watermark(7, replicas={"1": 7, "2": 7, "3": 6, "4": 6}),
        ),
    ],
)
def test_a_broken_rule_of_election_or_commit_fails(kind, event):
    assert kinds("election-safety", with_trace("n2", event)) == (Status.FAIL, {kind})


@pytest.mark.parametrize(
    "event",
    [
        ("vote", VOTE | {"candidate_id": 3, "granted": False}),
        ("vote", VOTE | {"candidate_id": 3, "pre_vote": True}),
        ("vote", VOTE | {"candidate_id": 3, "epoch": 2}),
        high_watermark(7, replicas={"1": 7, "2": 7, "3": 0}),
        ("fetch", FETCH | {"offset": 5}),
        ("fetch", FETCH | {"leader_id": 3, "asked_id": 3}),
        ("ack", {"epoch": 1, "offset": 5, "high_watermark": 6}),
    ],
)
def test_what_the_rules_allow_passes(event):
    assert kinds("election-safety", with_trace("n2", event)) == (Status.PASS, set())


def voters(offset, incarnation=0):
    return "voters", {"offset": offset, "kraft_version": 1, "voters": {"1": "a"}}, incarnation


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([voters(3), voters(5), (*high_watermark(6),), voters(-1)], {"forgotten-voters"}),
        ([voters(3), voters(5), (*high_watermark(6),), voters(3)], {"forgotten-voters"}),
        ([voters(3), (*high_watermark(6),), voters(6), voters(3)], set()),
        ([voters(3), (*high_watermark(6),), voters(6), voters(-1)], {"forgotten-voters"}),
        ([voters(3), (*high_watermark(6),), voters(8), voters(5)], set()),
        ([voters(3), (*high_watermark(6),), voters(-1, 1)], set()),
        ([voters(-1), voters(8), (*high_watermark(7),), voters(-1)], set()),
        # 8 was cut off; what is committed there later is another record.
        ([voters(3), voters(8), voters(3), (*high_watermark(9),), voters(10), voters(3)], set()),
        (
            [voters(3), voters(8), voters(3), voters(8), (*high_watermark(9),), voters(3)],
            {"forgotten-voters"},
        ),
    ],
)
def test_committed_voters_are_not_forgotten(events, found):
    """What is not committed is truncated, and a restarted node reads its log anew."""
    status = Status.FAIL if found else Status.PASS
    assert kinds("election-safety", with_trace("n2", *events)) == (status, found)


@pytest.mark.parametrize(
    ("directory", "found"),
    [("another", set()), ("one", {"epoch-decrease"}), (None, {"epoch-decrease"})],
)
def test_only_with_another_directory_does_a_node_begin_in_an_earlier_epoch(directory, found):
    events = [
        ("start", {"node_id": 2, "mutant": None, "directory_id": "one"}, 1),
        (*state(1), 1),
        ("start", {"node_id": 2, "mutant": None, "directory_id": directory}, 2),
        (*state(0), 2),
        (*state(1), 2),
    ]
    status = Status.FAIL if found else Status.PASS
    assert kinds("election-safety", with_trace("n2", *events)) == (status, found)


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("two-leaders", {"leaderId": 2}),
        ("two-votes", {"votedId": 3}),
        ("epoch-decrease", {"leaderEpoch": 0, "leaderId": -1, "votedId": -1}),
    ],
)
def test_the_quorum_state_file_counts(kind, changed):
    states = dict(good_run().evidence.quorum_states)
    states["n2"] = dict(states["n2"]) | changed
    assert kinds("election-safety", good_run(quorum_states=states)) == (Status.FAIL, {kind})


def test_the_log_counts_in_an_election():
    run = with_log("n2", [*good_log("n2"), leader_change("n2", 6, 1, 2)])
    assert kinds("election-safety", run) == (Status.FAIL, {"two-leaders"})


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("log-agreement", "logs"),
        ("log-agreement", "traces"),
        ("election-safety", "traces"),
        ("election-safety", "quorum_states"),
    ],
)
def test_evidence_that_is_missing_is_named_and_never_passes(name, part):
    run = good_run()
    kept = {node: v for node, v in getattr(run.evidence, part).items() if node != "n3"}
    result = run_check(CheckSpec(name), good_run(**{part: kept}))
    assert result.status is Status.UNKNOWN
    assert "n3" in result.summary


def test_missing_evidence_does_not_hide_what_the_rest_shows():
    traces = {"n2": good_trace("n2") + trace("n2", ("fatal", {"reason": "broken"}))}
    assert kinds("log-agreement", good_run(traces=traces)) == (Status.FAIL, {"fatal"})


@pytest.mark.parametrize("name", ["log-agreement", "election-safety"])
def test_without_any_evidence_nothing_passes(name):
    assert kinds(name, RunInput([], [], None)) == (Status.UNKNOWN, set())


ODD_LINES = [
    ("fetch", {"epoch": 1}, "'fetch' without offset"),
    ("fetch", {"offset": "6", "durable_end_offset": 6}, "'fetch' with offset '6'"),
    ("state", {"epoch": None, "leader_id": 1, "voted_id": 1}, "'state' with epoch None"),
    ("hw", {"epoch": 1, "offset": 9, "role": "leader"}, "'hw' without replicas"),
    ("hw", {"epoch": 1, "offset": 9, "role": "leader", "replicas": [1]}, "with replicas [1]"),
    ("vote", {"epoch": 1, "candidate_id": 3, "pre_vote": "no", "granted": True}, "with pre_vote"),
]


@pytest.mark.parametrize("name", ["log-agreement", "election-safety"])
@pytest.mark.parametrize(("event", "fields", "told"), ODD_LINES)
def test_an_odd_trace_line_is_told_and_never_passes(name, event, fields, told):
    result = run_check(CheckSpec(name), with_trace("n2", (event, fields)))
    assert result.status is Status.UNKNOWN
    assert "n2 (line" in result.summary
    assert told in result.summary


def test_an_odd_trace_line_does_not_hide_what_the_rest_shows():
    bad = ("fetch", FETCH | {"durable_end_offset": 1})
    run = with_trace("n2", ("fetch", {"epoch": 1}), bad)
    assert kinds("election-safety", run) == (Status.FAIL, {"fetched-before-fsync"})


def test_many_odd_lines_are_counted():
    run = with_trace("n2", *[("fetch", {})] * 10)
    assert "7 more malformed lines" in run_check(CheckSpec("election-safety"), run).summary


def test_an_odd_quorum_state_or_leader_change_is_told():
    states = dict(good_run().evidence.quorum_states) | {"n2": {"leaderId": "n1"}}
    result = run_check(CheckSpec("election-safety"), good_run(quorum_states=states))
    assert result.status is Status.UNKNOWN
    assert "quorum-state without a whole number" in result.summary
    odd = [*good_log("n2"), leader_change("n2", 6, 2, "n1")]
    result = run_check(CheckSpec("election-safety"), with_log("n2", odd))
    assert result.status is Status.UNKNOWN
    assert "names no leader" in result.summary


def died(reason, targets=("n2",), *, may_end_node=True):
    detail = {"may_end_node": may_end_node}
    inject = {"phase": "inject", "targets": list(targets), "verified": True, "detail": detail}
    events = [
        Event(0, 0, NEMESIS, EventType.INFO, "disk-error", None, inject),
        Event(1, 1, NEMESIS, EventType.INFO, "crash", None, {"node": "n2", "exit_code": 1}),
    ]
    traces = {n: good_trace(n) for n in NODES}
    traces["n2"] += trace("n2", ("fatal", {"reason": reason}))
    return kinds("log-agreement", good_run(events=events, traces=traces))


def test_a_node_may_end_when_a_fault_took_its_disk():
    assert died("OSError: [Errno 5] Input/output error") == (Status.PASS, set())


@pytest.mark.parametrize(
    "how",
    [
        {"reason": "OSError: x", "may_end_node": False},
        {"reason": "OSError: x", "targets": ("n1",)},
        {"reason": "AssertionError: told to truncate below the high watermark"},
    ],
)
def test_no_other_death_is_excused(how):
    assert died(**how) == (Status.FAIL, {"fatal", "crash"})


def with_lost(*lost):
    """A run whose n3 left a trace only, and what the nemesis says of who is lost."""
    told = {"read": ["n1", "n2"], "missing": {}, "sentinel": "s", "lost": list(lost)}
    events = [Event(0, 0, NEMESIS, EventType.INFO, "final-reads", None, told)]
    whole = good_run().evidence
    kept = {
        part: {node: of for node, of in getattr(whole, part).items() if node != "n3"}
        for part in ("logs", "quorum_states", "final_reads")
    }
    return good_run(events=events, lost=lost_nodes(events), **kept)


@pytest.mark.parametrize("check", ["log-agreement", "election-safety"])
def test_a_node_that_is_lost_for_good_owes_its_trace_only(check):
    assert run_check(CheckSpec(check), with_lost()).status is Status.UNKNOWN
    assert run_check(CheckSpec(check), with_lost("n3")).status is Status.PASS
    untraced = {node: good_trace(node) for node in ("n1", "n2")}
    run = with_lost("n3")
    run = replace(run, evidence=replace(run.evidence, traces=untraced))
    assert run_check(CheckSpec(check), run).status is Status.UNKNOWN


def test_what_was_committed_must_survive_on_a_majority_also_when_a_node_is_lost():
    run = with_lost("n3")
    logs = dict(run.evidence.logs) | {"n2": good_log("n2")[:4]}
    states = {node: {"leaderId": 1, "leaderEpoch": 1, "votedId": 1} for node in ("n1", "n2")}
    run = replace(run, evidence=replace(run.evidence, logs=logs, quorum_states=states))
    result = run_check(CheckSpec("log-agreement"), run)
    assert {one["kind"] for one in result.anomalies} == {"committed-lost"}


@pytest.mark.parametrize("lost", [None, 3, "n3", {"n3": 1}])
def test_an_odd_note_on_who_is_lost_excuses_nobody(lost):
    assert lost_nodes([Event(0, 0, NEMESIS, EventType.INFO, "final-reads", None, lost)]) == set()
    told = {"lost": lost}
    assert lost_nodes([Event(0, 0, NEMESIS, EventType.INFO, "final-reads", None, told)]) == set()
    of_a_client = Event(0, 0, 1, EventType.INFO, "final-reads", None, {"lost": ["n3"]})
    assert lost_nodes([of_a_client]) == set()


def test_a_cancelled_check_is_unknown():
    for name in ("log-agreement", "election-safety"):
        assert run_check(CheckSpec(name), good_run(), lambda: True).status is Status.UNKNOWN


def test_many_anomalies_of_one_node_are_counted_and_few_shown():
    bad = ("fetch", FETCH | {"durable_end_offset": 1})
    result = run_check(CheckSpec("election-safety"), with_trace("n2", *[bad] * 100))
    assert len(result.anomalies) == 3
    assert result.statistics["repeated"] == {"fetched-before-fsync on n2": 100}


@pytest.mark.parametrize(
    ("voters", "expected"),
    [
        ({"1": "a"}, (Status.PASS, set())),
        ({"1": "a", "2": "b"}, (Status.FAIL, {"committed-lost"})),
        ({"1": "a", "2": "b", "3": "c"}, (Status.FAIL, {"committed-lost"})),
    ],
)
def test_what_is_committed_is_kept_by_a_majority_of_the_voters_in_force(voters, expected):
    short = {node: good_log(node)[:4] for node in ("n2", "n3")}
    states = {node: {"leaderId": 1, "leaderEpoch": 1, "votedId": 1} for node in NODES}
    told = ("voters", {"offset": 2, "kraft_version": 1, "voters": voters})
    start, *rest = [(e.event, e.fields) for e in good_trace("n1")]
    traces = {node: good_trace(node) for node in NODES} | {"n1": trace("n1", start, told, *rest)}
    logs = {"n1": good_log("n1"), **short}
    assert kinds("log-agreement", good_run(logs=logs, quorum_states=states, traces=traces)) == (
        expected
    )
