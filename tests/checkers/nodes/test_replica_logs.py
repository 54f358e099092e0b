"""Replicas' logs: what must agree and be there is asked for, and nothing else."""

from dataclasses import replace

import pytest

from checkers import Status
from checkers.evidence import DataBatch, FinalRead, PartitionLog
from checkers.history import NEMESIS, Event, EventType, pair
from checkers.nodes.in_sync import members_at_end
from checkers.partition_logs.columns import CONFIGURE, RENEW, UNCLEAN
from checkers.registry import CheckSpec, run_check
from checkers.run_input import RunInput
from tests.checkers.evidence.run_evidence import (
    NODES,
    good_run,
    high_watermark,
    leader_change,
    record,
    trace,
)

TOPIC = ("TopicRecord", {"name": "d0", "topicId": "T"})
OK, INVOKE = EventType.OK, EventType.INVOKE


def batch(offset, *values, epoch=0, crc=None):
    crc = sum(map(hash, values)) & 0xFFFFFFFF if crc is None else crc
    return DataBatch(offset, offset + max(1, len(values)) - 1, epoch, crc, list(values))


def log_of(node, *batches, mark=None, start=0):
    end = batches[-1].last_offset + 1 if batches else start
    return PartitionLog(node, "d0-0", start, end, end if mark is None else mark, list(batches))


def isr_of(*members, **fields):
    made = {"topicId": "T", "partitionId": 0, "replicas": [1, 2, 3], "isr": list(members)}
    return "PartitionRecord", made | {"leader": 1, "leaderEpoch": 9, "partitionEpoch": 0} | fields


def metadata(*records):
    return {
        node: [record(node, at, kind=kind, **value) for at, (kind, value) in enumerate(records)]
        for node in NODES
    }


WHOLE_ISR = (TOPIC, isr_of(1, 2, 3))


def run_of(logs, events=(), records=WHOLE_ISR, committed=None, **more):
    held = {node: [] for node in NODES}
    for log in logs:
        held[log.node].append(log)
    committed = len(records) if committed is None else committed
    said = more.pop("traces", {})
    traces = {node: trace(node, high_watermark(committed), *said.get(node, ())) for node in NODES}
    run = good_run(partition_logs=held, logs=metadata(*records), traces=traces, **more)
    return RunInput(list(events), pair(events), run.evidence)


def judged(run, acks="all"):
    return run_check(CheckSpec("replica-logs", {"acks": acks}), run)


def kinds(run, acks="all"):
    result = judged(run, acks)
    assert (result.status is Status.FAIL) is bool(result.statistics["anomalies_by_kind"])
    return result.statistics["anomalies_by_kind"]


def history(*rows):
    """Events of operations (f, key, process, input, output, offset, node); None: phase."""
    events = []
    for row in rows:
        index, time_ns = len(events), 10 * len(events)
        if row is None:
            value = {"name": "final-reads"}
            events.append(Event(index, time_ns, NEMESIS, EventType.INFO, "phase", None, value))
            continue
        f, process, given, output, offset, node = row
        events.append(Event(index, time_ns, process, INVOKE, f, "d0-0", given))
        events.append(
            Event(index + 1, time_ns + 5, process, OK, f, "d0-0", output, None, node, offset, 0)
        )
    return events


def sent(value, offset, process=1):
    return ("send", process, value, value, offset, "n1")


def read(*records, f="poll", node="n1", process=2):
    return (f, process, None, {"records": [list(r) for r in records]}, None, node)


SAME = [log_of(node, batch(0, "a", "b"), batch(2, "c", epoch=1)) for node in NODES]


def test_equal_logs_that_hold_what_was_acknowledged_pass():
    run = run_of(SAME, history(sent(["a", "b"], 0), read((2, "c"))))
    result = judged(run)
    assert result.status is Status.PASS
    assert "hold 3 records" in result.summary


@pytest.mark.parametrize(
    ("value", "found"), [("c" * 200, {"acknowledged-missing": 3}), ("c" * 201, {})]
)
def test_a_text_that_evidence_does_not_keep_is_no_other_value(value, found):
    logs = [log_of(node, batch(0, "a", "b"), batch(2, None, crc=7, epoch=1)) for node in NODES]
    assert kinds(run_of(logs, history(sent(value, 2)))) == found


def test_what_a_leader_that_was_cut_off_wrote_alone_decides_nothing():
    run = run_of(SAME[:2], history(sent(["a", "b"], 0)), (TOPIC, isr_of(1, 2)))
    alone = [*metadata(TOPIC, isr_of(1, 2), isr_of(3))["n3"], record("n3", 3, kind="NoOpRecord")]
    newer = {n: [*run.evidence.logs[n], leader_change(n, 2, 2, 1)] for n in ("n1", "n2")}
    evidence = replace(run.evidence, logs={**newer, "n3": alone})
    assert members_at_end(evidence)["d0-0"].in_sync == {"n1", "n2"}
    assert judged(replace(run, evidence=evidence)).status is Status.PASS


def test_without_any_batch_nothing_was_tried():
    assert judged(run_of([])).status is Status.UNDER_EXERCISED


def test_a_follower_that_lags_outside_of_the_isr_owes_nothing():
    logs = [*SAME[:2], log_of("n3", batch(0, "a", "b"))]
    run = run_of(logs, history(sent("c", 2)), (TOPIC, isr_of(1, 2)))
    assert kinds(run) == {}


@pytest.mark.parametrize(
    ("f", "lacking"), [("txn", 2), ("txn-late", 2), ("read", 2), ("zombie", 0), ("offsets", 0)]
)
def test_what_a_transaction_wrote_or_read_is_there_at_any_offset(f, lacking):
    steps = [["r", "d0-0", ["a", "b"]], ["commit", "d0-0", 1001], ["append", "d0-0", "c"]]
    alike = [log_of(node, batch(0, "b", "a"), batch(3, "c", epoch=1), mark=3) for node in NODES]
    run = run_of(alike, history((f, 1, steps, steps, None, "n1")))
    assert "acknowledged-missing" not in kinds(run)
    lost = [log_of(node, batch(0, "x", "a"), batch(2, "d", epoch=1)) for node in NODES[:1]] + SAME[
        1:
    ]
    found = judged(run_of(lost, history((f, 1, steps, steps, None, "n1")))).anomalies
    missing = [each for each in found if each["kind"] == "acknowledged-missing"]
    assert [(each["node"], each["key"]) for each in missing] == [("n1", "d0-0")] * lacking


@pytest.mark.parametrize("missing", ["the records", "the log"])
def test_a_member_of_the_isr_that_lacks_what_was_acknowledged_is_found(missing):
    logs = SAME[:2] + ([] if missing == "the log" else [log_of("n3", batch(0, "a", "b"))])
    run = run_of(logs, history(sent("c", 2)))
    result = judged(run)
    assert kinds(run) == {"acknowledged-missing": 1, "committed-missing": 1}
    assert (
        "the log of n3, which is in sync, lacks 'c' at offset 2"
        in result.anomalies[1]["explanation"]
    )


def test_what_was_acknowledged_by_a_leader_alone_is_owed_by_nobody_until_it_is_read():
    logs = [log_of("n1", batch(0, "a"), mark=0), log_of("n2"), log_of("n3")]
    assert kinds(run_of(logs, history(sent("a", 0))), "1") == {}
    assert kinds(run_of(logs, history(read((0, "a")))), "1") == {"acknowledged-missing": 2}


def test_another_value_at_the_offset_is_named():
    logs = [*SAME[:2], log_of("n3", batch(0, "a", "x"), batch(2, "c", epoch=1))]
    result = judged(run_of(logs, history(sent(["a", "b"], 0))))
    missing = result.anomalies[-1]
    assert (missing["kind"], missing["node"]) == ("acknowledged-missing", "n3")
    assert (missing["offset"], missing["operations"]) == (1, [0])
    assert "'x'" in missing["explanation"]


def test_a_replica_that_was_read_whole_in_the_end_holds_what_was_acknowledged_before():
    logs = [*SAME[:2], log_of("n3", batch(0, "a", "b"), mark=2)]
    whole = read((0, "a"), (1, "b"), (2, "c"), f="poll-all", node="n3", process=3)
    records = (TOPIC, isr_of(1, 2))
    assert kinds(run_of(logs, history(sent("c", 2), None, whole), records)) == {
        "acknowledged-missing": 1
    }
    assert kinds(run_of(logs, history(sent("c", 2), whole), records)) == {}, "not in the end"
    assert kinds(run_of(logs, history(None, whole, sent("c", 2)), records)) == {}, "later"
    events = history(sent("c", 2), None, whole)
    moved = "PartitionChangeRecord", {"topicId": "T", "partitionId": 0, "replicas": [1, 2]}
    assert kinds(run_of(logs[:2], events, (*records, moved))) == {}, "a reassignment took it away"
    assert kinds(run_of(logs[:2], events, (*records, moved), committed=2)) == {}, "perhaps"


def test_one_epoch_at_one_offset_is_one_batch():
    logs = [log_of("n1", batch(0, "a"), mark=0), log_of("n2", batch(0, "b"), mark=0)]
    result = judged(run_of(logs, records=(TOPIC, isr_of(1))))
    assert result.statistics["anomalies_by_kind"] == {"log-mismatch": 1}
    (anomaly,) = result.anomalies
    assert (anomaly["node"], anomaly["offset"], anomaly["epoch"]) == ("n1", 0, 0)


def test_logs_that_agree_at_an_offset_agree_below_it():
    logs = [
        log_of("n1", batch(0, "a"), batch(1, "c", epoch=2), mark=0),
        log_of("n2", batch(0, "b", epoch=1), batch(1, "c", epoch=2), mark=0),
    ]
    assert kinds(run_of(logs, records=(TOPIC, isr_of(1)))) == {"log-mismatch": 1}


def test_a_deposed_leader_may_hold_what_was_never_committed():
    logs = [
        log_of("n1", batch(0, "a"), batch(1, "x", "y"), mark=1),
        log_of("n2", batch(0, "a"), batch(1, "b", epoch=1)),
    ]
    assert kinds(run_of(logs, records=(TOPIC, isr_of(2)))) == {}


def test_what_both_have_for_committed_is_equal():
    logs = [
        log_of("n1", batch(0, "a"), batch(1, "x")),
        log_of("n2", batch(0, "a"), batch(1, "b", epoch=1)),
    ]
    assert kinds(run_of(logs, records=(TOPIC, isr_of(2)))) == {"committed-differs": 1}


def test_logs_that_begin_later_are_compared_from_there():
    logs = [SAME[0], log_of("n2", batch(2, "c", epoch=1), start=2)]
    run = run_of(logs, history(sent(["a", "b"], 0)), (TOPIC, isr_of(1, 2)))
    assert kinds(run) == {}


@pytest.mark.parametrize(
    ("batches", "kind"),
    [
        ((batch(0, "a"), batch(2, "c")), "offset-gap"),
        ((batch(0, "a", epoch=2), batch(1, "b", epoch=1)), "epoch-decrease"),
    ],
)
def test_a_log_is_contiguous_and_its_epochs_grow(batches, kind):
    assert kinds(run_of([log_of("n1", *batches)], records=(TOPIC, isr_of(1)))) == {kind: 1}


def test_an_isr_counts_from_what_was_committed_to_the_end():
    """n3 left the ISR in a record that may or may not have been committed."""
    change = ("PartitionChangeRecord", {"topicId": "T", "partitionId": 0, "isr": [1, 2]})
    records = (TOPIC, isr_of(1, 2, 3), change)
    logs = [*SAME[:2], log_of("n3", batch(0, "a", "b"))]
    assert kinds(run_of(logs, records=records, committed=2)) == {}
    joins = (TOPIC, isr_of(1, 2), ("PartitionChangeRecord", {**change[1], "isr": [1, 2, 3]}))
    assert kinds(run_of(logs, records=joins, committed=2)) == {}
    assert kinds(run_of(logs, records=joins, committed=3)) == {"committed-missing": 1}


@pytest.mark.parametrize(
    ("node", "epoch", "found"),
    [("n2", 8, {}), ("n2", 9, {"unwritten": 1}), ("n2", 10, {"unwritten": 1}), ("n1", 9, {})],
)
def test_nobody_holds_what_no_leader_wrote(node, epoch, found):
    logs = [log_of(n, batch(0, "a"), mark=1) for n in NODES if n != node]
    logs.append(log_of(node, batch(0, "a"), batch(1, "x", epoch=epoch), mark=1))
    assert kinds(run_of(logs)) == found


def test_a_damaged_log_is_not_judged_and_leaves_the_verdict_open():
    damaged = PartitionLog("n3", "d0-0", 0, 0, None, (), "x.log: byte 3: CRC is wrong")
    result = judged(run_of([*SAME[:2], damaged], history(sent("c", 2))))
    assert result.status is Status.UNKNOWN
    assert "n3 (d0-0 is damaged: x.log: byte 3: CRC is wrong)" in result.summary


def test_a_node_of_which_nothing_was_decoded_leaves_the_verdict_open():
    run = run_of(SAME)
    held = {node: logs for node, logs in run.evidence.partition_logs.items() if node != "n2"}
    run = replace(run, evidence=replace(run.evidence, partition_logs=held))
    result = judged(run)
    assert (result.status, "n2 (logs)" in result.summary) == (Status.UNKNOWN, True)


def test_a_member_of_the_elr_that_serves_clients_again_holds_what_was_committed():
    logs = [*SAME[:2], log_of("n3", batch(0, "a", "b"), mark=2)]
    records = (TOPIC, isr_of(1, 2, eligibleLeaderReplicas=[3]))
    served = {"n3": FinalRead("n3", 2, {}, {})}
    assert kinds(run_of(logs, records=records, final_reads=served)) == {"committed-missing": 1}
    assert kinds(run_of(logs, records=records)) == {}, "it may have lost its disk since"


def leads(epoch, start=0, mark=0, **fields):
    said = {"topic": "d0", "partition": 0, "leader_epoch": epoch, "start_offset": start}
    return "replica-leader", said | {
        "partition_epoch": 0,
        "isr": [],
        "high_watermark": mark,
    } | fields


def follows(epoch):
    return "replica-follower", {"topic": "d0", "partition": 0, "leader_epoch": epoch}


def cuts(epoch, from_offset, to_offset, mark):
    said = {"topic": "d0", "partition": 0, "leader_epoch": epoch, "high_watermark": mark}
    return "replica-truncated", said | {"from_offset": from_offset, "to_offset": to_offset}


@pytest.mark.parametrize(
    ("traces", "kind"),
    [
        ({"n1": [leads(0), follows(1)], "n2": [follows(0), leads(1, 3, 3)]}, None),
        ({"n1": [leads(0)], "n2": [cuts(0, 5, 3, 3)]}, None),
        ({"n1": [leads(3, 5, 5)], "n2": [leads(2, 9, 5)]}, None),
        ({"n1": [leads(2)], "n2": [leads(2)]}, "two-leaders"),
        ({"n1": [leads(2), leads(2, partition=1)], "n2": [leads(2, topic="d1")]}, None),
        ({"n1": [follows(3), leads(2)]}, "epoch-back"),
        ({"n1": [(*follows(3), 0), (*leads(2), 1)]}, None),
        ({"n1": [leads(1, 5, 5)], "n2": [leads(2, 4, 4)]}, "leader-incomplete"),
        ({"n1": [leads(2, 4)], "n2": [cuts(1, 6, 5, 5)]}, "leader-incomplete"),
        ({"n1": [leads(2, 4)], "n2": [leads(3, 6, 6)]}, None),
        ({"n2": [cuts(2, 6, 4, 5)]}, "truncated-committed"),
    ],
)
def test_what_brokers_traced_of_a_partition_does_not_contradict_itself(traces, kind):
    assert kinds(run_of(SAME, traces=traces)) == ({} if kind is None else {kind: 1})


def test_a_topic_that_was_made_anew_is_not_judged_by_its_name():
    logs = [log_of("n1", batch(0, "a"), mark=0), log_of("n2", batch(0, "b"), mark=0)]
    traces = {"n1": [leads(2)], "n2": [leads(2)]}
    renewed = history((RENEW, 1, None, None, None, "n1"))
    assert kinds(run_of(logs, records=(TOPIC, isr_of(1)), traces=traces)) == {
        "log-mismatch": 1, "two-leaders": 1,
    }  # fmt: skip
    run = run_of(logs, renewed, records=(TOPIC, isr_of(1)), traces=traces)
    assert judged(run).statistics["anomalies_by_kind"] == {}


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ({"name": UNCLEAN, "value": "true"}, {}),
        (
            {"name": UNCLEAN, "value": "false"},
            {"committed-differs": 1, "committed-missing": 1, "leader-incomplete": 1},
        ),
    ],
)
def test_what_was_committed_may_be_lost_where_leaders_may_be_elected_uncleanly(setting, found):
    """n2 led uncleanly from offset 1 on; n1, which had more, has not come back to it yet."""
    logs = [
        log_of("n1", batch(0, "a"), batch(1, "b"), batch(2, "c")),
        log_of("n2", batch(0, "a"), batch(1, "x", epoch=2)),
    ]
    traces = {"n1": [leads(1, 3, 3)], "n2": [leads(2, 1, 1)]}
    configured = history((CONFIGURE, 1, setting, None, None, "n1"))
    run = run_of(logs, configured, records=(TOPIC, isr_of(2)), traces=traces)
    assert kinds(run) == found


def test_replicas_agree_below_what_they_share_also_where_records_may_be_lost():
    logs = [
        log_of("n1", batch(0, "a"), batch(1, "x", epoch=2)),
        log_of("n2", batch(0, "b"), batch(1, "x", epoch=2)),
    ]
    traces = {"n1": [leads(2)], "n2": [leads(2)]}
    setting = {"name": UNCLEAN, "value": "true"}
    configured = history((CONFIGURE, 1, setting, None, None, "n1"))
    run = run_of(logs, configured, records=(TOPIC, isr_of(2)), traces=traces)
    assert kinds(run) == {"log-mismatch": 1, "two-leaders": 1}


def test_a_trace_that_says_too_little_leaves_the_verdict_open():
    result = judged(run_of(SAME, traces={"n2": [leads(0, mark="5")]}))
    assert (result.status, "'replica-leader' with high_watermark '5'" in result.summary) == (
        Status.UNKNOWN,
        True,
    )


def test_a_partition_that_the_metadata_lack_is_not_judged_and_missing():
    result = judged(run_of(SAME, history(sent("a", 0)), records=(("NoOpRecord", {}),)))
    assert result.status is Status.UNKNOWN
    assert result.statistics["missing"] == ["the metadata of d0-0"]
