"""Log agreement, and missing or malformed evidence: no finding in a correct run, one in any other."""

from dataclasses import replace

import pytest

from checkers.evidence import RunClock, Snapshot
from checkers.history import NEMESIS, Event, EventType
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.verdict import Status
from tests.checkers.evidence.run_evidence import (
    NODES,
    good_log,
    good_run,
    good_trace,
    judged,
    leader_change,
    record,
    trace,
    with_evidence,
    with_log,
    with_trace,
)


@pytest.mark.parametrize("name", ["log-agreement", "invariants"])
def test_a_run_in_order_passes(name):
    assert judged(good_run(), name) == (Status.PASS, set())


LOG_FAULTS = {
    "offset-gap": [*good_log("n2")[:3], record("n2", 4), record("n2", 5)],
    "epoch-decrease": [*good_log("n2"), record("n2", 6, 3), record("n2", 7, 2)],
    "epoch-without-leader": [*good_log("n2"), record("n2", 6, 2)],
}


@pytest.mark.parametrize("kind", LOG_FAULTS)
def test_a_wrong_log_fails(kind):
    status, found = judged(with_log("n2", LOG_FAULTS[kind]), "log-agreement")
    assert status is Status.FAIL
    assert kind in found


def test_what_was_committed_must_be_in_a_majority_of_logs():
    short = {node: good_log(node)[:4] for node in ("n2", "n3")}
    states = {node: {"leaderId": 1, "leaderEpoch": 1, "votedId": 1} for node in NODES}
    run = good_run(logs={"n1": good_log("n1"), **short}, quorum_states=states)
    assert judged(run, "log-agreement") == (Status.FAIL, {"committed-lost"})
    shorter = good_run(logs={"n1": good_log("n1"), "n2": good_log("n2"), "n3": short["n3"]})
    assert judged(shorter, "log-agreement") == (Status.PASS, set())


@pytest.mark.parametrize(
    ("exit_code", "status"), [(-11, Status.FAIL), (1, Status.FAIL), (-9, Status.UNKNOWN)]
)
def test_a_node_that_died_unasked_fails_unless_something_else_killed_it(exit_code, status):
    value = {"node": "n2", "exit_code": exit_code}
    crash = Event(0, 0, NEMESIS, EventType.INFO, "crash", None, value)
    assert judged(good_run(events=[crash]), "log-agreement") == (status, {"crash"})


FETCH = {"epoch": 1, "leader_id": 1, "offset": 6, "durable_end_offset": 6}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("log-agreement", "logs"),
        ("log-agreement", "traces"),
        ("invariants", "traces"),
        ("invariants", "quorum_states"),
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
    assert judged(good_run(traces=traces), "log-agreement") == (Status.FAIL, {"fatal"})


@pytest.mark.parametrize("name", ["log-agreement", "invariants"])
def test_without_any_evidence_nothing_passes(name):
    assert judged(RunInput([], [], None), name) == (Status.UNKNOWN, set())


ODD_LINES = [
    ("fetch", {"epoch": 1}, "'fetch' without offset"),
    ("fetch", {"offset": "6", "durable_end_offset": 6}, "'fetch' with offset '6'"),
    (
        "state",
        {"state": "Follower", "epoch": None, "leader_id": 1, "voted_id": 1},
        "'state' with epoch None",
    ),
    ("hw", {"epoch": 1, "offset": 9, "role": "leader"}, "'hw' without replicas"),
    ("hw", {"epoch": 1, "offset": 9, "role": "leader", "replicas": [1]}, "with replicas [1]"),
    (
        "hw",
        {"epoch": 1, "offset": 9, "role": "leader", "replicas": {"1": 9, "2": "9"}},
        "with replicas",
    ),
    ("voters", {"offset": -1, "voters": {"1": "d1", "2": None}}, "'voters' with voters"),
    ("vote", {"epoch": 1, "candidate_id": 3, "pre_vote": "no", "granted": True}, "with pre_vote"),
]


@pytest.mark.parametrize("name", ["log-agreement", "invariants"])
@pytest.mark.parametrize(("event", "fields", "message"), ODD_LINES)
def test_a_malformed_trace_line_is_reported_and_never_passes(name, event, fields, message):
    result = run_check(CheckSpec(name), with_trace("n2", (event, fields)))
    assert result.status is Status.UNKNOWN
    assert "n2 (line" in result.summary
    assert message in result.summary


def test_a_malformed_trace_line_does_not_hide_what_the_rest_shows():
    bad = ("fetch", FETCH | {"durable_end_offset": 1})
    run = with_trace("n2", ("fetch", {"epoch": 1}), bad)
    assert judged(run) == (Status.FAIL, {"durable-fetch"})


def test_many_malformed_lines_are_counted():
    run = with_trace("n2", *[("fetch", {})] * 10)
    assert "7 more malformed lines" in run_check(CheckSpec("invariants"), run).summary


def test_a_malformed_quorum_state_or_leader_change_is_reported():
    states = dict(good_run().evidence.quorum_states) | {"n2": {"leaderId": "n1"}}
    result = run_check(CheckSpec("invariants"), good_run(quorum_states=states))
    assert result.status is Status.UNKNOWN
    assert "without a whole number" in result.summary
    voters = [{"voterId": 1, "directoryId": "d1"}, {"voterId": 2}]
    for odd, said in (
        (leader_change("n2", 6, 2, "n1"), "names no leader"),
        (record("n2", 6, kind="control:KRAFT_VOTERS", voters=voters), "names no voters"),
    ):
        result = run_check(CheckSpec("invariants"), with_log("n2", [*good_log("n2"), odd]))
        assert result.status is Status.UNKNOWN
        assert said in result.summary
    right = record("n2", 6, kind="control:KRAFT_VOTERS", voters=voters[:1])
    assert judged(with_log("n2", [*good_log("n2"), right]))[0] is Status.PASS


@pytest.mark.parametrize("check", ["log-agreement", "invariants"])
@pytest.mark.parametrize("kind", ["undecodable", "control:undecodable"])
def test_a_record_that_cannot_be_decoded_may_be_what_a_check_looks_for(check, kind):
    unknown = [record("n2", offset, kind=kind, hex="00") for offset in range(6, 10)]
    held = {node: [] for node in NODES} | {"n3": [Snapshot("n3", 4, 1, [(kind, {})])]}
    for run, said in (
        (with_log("n2", [*good_log("n2"), *unknown]), "at offset 6 cannot be decoded"),
        (with_log("n2", [*good_log("n2"), *unknown]), "1 more malformed records in its log"),
        (good_run(snapshots=held), "snapshot 4-1 holds a record that cannot be decoded"),
    ):
        result = run_check(CheckSpec(check), run)
        assert result.status is Status.UNKNOWN
        assert said in result.summary


BROKEN = "metadata publishing fault: KRaft snapshot file generation error; "


@pytest.mark.parametrize(
    ("reason", "hit", "found"),
    [
        (BROKEN + "IllegalArgumentException: Snapshot id is not valid", False, {"fault"}),
        (BROKEN + "IllegalArgumentException: Snapshot id is not valid", True, set()),
        (BROKEN + "java.io.IOException: No space left on device", False, set()),
        (BROKEN + "org.apache.kafka.common.errors.KafkaStorageException: offline", False, set()),
    ],
)
def test_what_a_node_reports_of_its_metadata_fails_unless_its_storage_may_be_at_fault(
    reason, hit, found
):
    detail = {"may_end_node": hit}
    inject = {"phase": "inject", "targets": ["n2"], "verified": True, "detail": detail}
    events = [Event(0, 0, NEMESIS, EventType.INFO, "disk-full", None, inject)]
    traces = {node: good_trace(node) for node in NODES}
    traces["n2"] += trace("n2", ("fault", {"reason": reason}))
    status = Status.FAIL if found else Status.PASS
    assert judged(good_run(events=events, traces=traces), "log-agreement") == (status, found)


def died(reason, targets=("n2",), *, may_end_node=True, exit_codes=(1,)):
    detail = {"may_end_node": may_end_node}
    inject = {"phase": "inject", "targets": list(targets), "verified": True, "detail": detail}
    events = [
        Event(0, 0, NEMESIS, EventType.INFO, "disk-error", None, inject),
        *(
            Event(i, i, NEMESIS, EventType.INFO, "crash", None, {"node": "n2", "exit_code": code})
            for i, code in enumerate(exit_codes, 1)
        ),
    ]
    traces = {n: good_trace(n) for n in NODES}
    traces["n2"] += trace("n2", ("fatal", {"reason": reason}))
    return judged(good_run(events=events, traces=traces), "log-agreement")


def test_a_node_may_end_when_a_fault_took_its_disk():
    assert died("OSError: [Errno 5] Input/output error") == (Status.PASS, set())
    offline = "LogDirectoryError: log directory /d is out of use: [Errno 24] Too many open files"
    assert died(offline) == (Status.PASS, set())
    kafkas = (
        "Unexpected error in raft IO thread; java.io.UncheckedIOException: Error while writing the "
        "Quorum status from the file /d/quorum-state; java.io.SyncFailedException: sync failed"
    )
    assert died(kafkas) == (Status.PASS, set())


@pytest.mark.parametrize(("at_ns", "status"), [(40, Status.FAIL), (55, Status.PASS)])
def test_a_fault_excuses_no_end_before_it(at_ns, status):
    inject = {"phase": "inject", "entry": 0}
    met = {**inject, "targets": ["n2"], "verified": True, "detail": {"may_end_node": True}}
    events = [
        Event(0, 50, NEMESIS, EventType.INVOKE, "disk-full", None, inject),
        Event(1, 60, NEMESIS, EventType.OK, "disk-full", None, met),
    ]
    traces = {node: good_trace(node) for node in NODES}
    first, *rest = traces["n2"]
    start = replace(first, fields={**first.fields, "clock": "c"})
    fatal = trace("n2", ("fatal", {"reason": "OSError: [Errno 28]"}), begin_ns=at_ns)
    traces["n2"] = [start, *rest, *fatal]
    run = good_run(traces=traces, events=events, run_clock=RunClock("c", 0))
    assert judged(run, "log-agreement")[0] is status


@pytest.mark.parametrize(
    "how",
    [
        {"reason": "OSError: x", "may_end_node": False},
        {"reason": "OSError: x", "targets": ("n1",)},
        {"reason": "AssertionError: a truncation below the high watermark"},
    ],
)
def test_no_other_death_is_excused(how):
    assert died(**how) == (Status.FAIL, {"fatal", "crash"})


def test_an_end_that_is_explained_explains_no_other_one():
    assert died("OSError: [Errno 28]", exit_codes=(1, 139)) == (Status.FAIL, {"crash"})


@pytest.mark.parametrize("check", ["log-agreement", "invariants"])
def test_a_node_that_left_a_trace_only_leaves_a_doubt(check):
    whole = good_run().evidence
    kept = {
        part: {node: of for node, of in getattr(whole, part).items() if node != "n3"}
        for part in ("logs", "quorum_states", "final_reads")
    }
    assert run_check(CheckSpec(check), good_run(**kept)).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("snapshot", "ends", "status"),
    [
        (6, (6, 6), Status.PASS),
        (6, (4, 6), Status.UNKNOWN),
        (4, (6, 6), Status.UNKNOWN),
        (0, (0, 0), Status.UNKNOWN),
    ],
)
def test_a_log_of_which_a_snapshot_has_replaced_everything_is_there(snapshot, ends, status):
    places = dict(zip(("logStartOffset", "logEndOffset"), ends, strict=True))
    states = good_run().evidence.quorum_states
    held = {node: [] for node in NODES} | {"n3": [Snapshot("n3", snapshot, 1, [])]}
    run = with_evidence(
        with_log("n3", []),
        quorum_states={**states, "n3": {**states["n3"], **places}},
        snapshots=held,
    )
    assert run_check(CheckSpec("log-agreement"), run).status is status


def test_a_cancelled_check_is_unknown():
    for name in ("log-agreement", "invariants"):
        assert run_check(CheckSpec(name), good_run(), lambda: True).status is Status.UNKNOWN


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
    changed = ("voters", {"offset": 2, "kraft_version": 1, "voters": voters})
    traces = {
        node: [
            replace(e, fields=changed[1]) if e.event == "voters" else e for e in good_trace(node)
        ]
        for node in NODES
    }
    logs = {"n1": good_log("n1"), **short}
    assert judged(good_run(logs=logs, quorum_states=states, traces=traces), "log-agreement") == (
        expected
    )


@pytest.mark.parametrize(("voters", "status"), [((1,), Status.PASS), ((1, 2, 3), Status.FAIL)])
def test_where_no_trace_names_voters_those_of_the_quorum_states_count(voters, status):
    """Kafka prints none before 3.9: brokers that are no controllers may end behind them."""
    short = {node: good_log(node)[:4] for node in ("n2", "n3")}
    named = [{"voterId": voter} for voter in voters]
    states = {
        n: {"leaderId": 1, "leaderEpoch": 1, "votedId": 1, "currentVoters": named} for n in NODES
    }
    traces = {node: [e for e in good_trace(node) if e.event != "voters"] for node in NODES}
    run = good_run(logs={"n1": good_log("n1"), **short}, quorum_states=states, traces=traces)
    assert judged(run, "log-agreement")[0] is status
