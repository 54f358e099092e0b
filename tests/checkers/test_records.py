"""The journal, the logs and the final reads are held against each other."""

from dataclasses import replace

import pytest

from checkers.evidence import FINAL_READS, RunClock, TraceEvent
from checkers.evidence.extent import Extent
from checkers.history import NEMESIS, Event, EventType, Operation
from checkers.nodes.answered import untraced
from checkers.registry import CheckSpec, run_check
from checkers.verdict import Status
from tests.checkers.run_evidence import final_reads, good_run, leader_change, record

OK, FAIL, INFO = EventType.OK, EventType.FAIL, EventType.INFO
NODES = ("n1", "n2", "n3")


def op(f, input_, output, *, invoke, complete, key, node=None):
    """An acknowledged operation; its invocation is its index."""
    return Operation(
        index=invoke,
        process=0,
        f=f,
        type=OK,
        key=key,
        input=input_,
        output=output,
        invoke_ns=invoke,
        complete_ns=complete,
        node=node,
    )


def cell(offset, name, value, node="n1"):
    fields = {"resourceType": 4, "resourceName": "", "name": name, "value": value}
    return record(node, offset, kind="ConfigRecord", **fields)


def topic(offset, name, node="n1"):
    return record(node, offset, kind="TopicRecord", name=name, topicId=f"id-{name}")


def partition(offset, name, number, node="n1"):
    at = {"topicId": f"id-{name}", "partitionId": number}
    return record(node, offset, kind="PartitionRecord", **at)


def judged(workload, operations, records, *, extent=None, **served):
    log = [leader_change("n1", 0, 1, 1), *records]
    logs = {node: [replace(each, node=node) for each in log] for node in NODES}
    reads = final_reads(n1={"high_watermark": len(log), **served}) if served else {}
    run = good_run(logs=logs, operations=operations, final_reads=reads)
    if extent is not None:
        run = replace(run, extent=extent)
    result = run_check(CheckSpec("records", {"workload": workload, "traced": []}), run)
    return result.status, {anomaly["kind"] for anomaly in result.anomalies}


REGISTER = "kraftprobe.register."
LIST = "kraftprobe.list."
WRITE = op("write", "v", "v", invoke=1, complete=2, key="k")
APPENDS = [
    op("append", element, element, invoke=2 * n, complete=2 * n + 1, key="l")
    for n, element in enumerate(("a", "b"))
]
GROW = op("increment", None, None, invoke=1, complete=2, key="p")
CREATE = op("create", None, {"id": "id-t"}, invoke=1, complete=2, key="t")
REGISTERED = op("register", None, {"epoch": 1}, invoke=1, complete=2, key="3")
ALLOCATED = op("allocate", None, [1000, 10], invoke=1, complete=2, key="producer-ids")


def registration(offset, broker_id):
    return record("n1", offset, kind="RegisterBrokerRecord", brokerId=broker_id)


HOLD = {
    "register": ([WRITE], [cell(1, REGISTER + "k", "v")]),
    "append": (APPENDS, [cell(1, LIST + "l", "a"), cell(2, LIST + "l", "a,b")]),
    "partitions": ([GROW], [topic(1, "p"), partition(2, "p", 0), partition(3, "p", 1)]),
    "topics": ([CREATE], [topic(1, "t")]),
    "brokers": ([REGISTERED], [registration(1, 2003)]),
    "unique-ids": ([ALLOCATED], [record("n1", 1, kind="ProducerIdsRecord", nextProducerId=1010)]),
}


@pytest.mark.parametrize("workload", HOLD)
def test_what_was_acknowledged_is_in_the_log_or_the_check_fails(workload):
    operations, records = HOLD[workload]
    assert judged(workload, operations, records) == (Status.PASS, set())
    lost = judged(workload, operations, [record("n1", 1, kind="NoOpRecord")])
    assert lost == (Status.FAIL, {"acknowledged-lost"})


@pytest.mark.parametrize("workload", ["register", "append", "topics"])
@pytest.mark.parametrize("kind", [FAIL, INFO])
def test_what_was_refused_is_not_in_the_log_and_what_is_unknown_may_be(workload, kind):
    operations, records = HOLD[workload]
    changed = [replace(operation, type=kind) for operation in operations]
    expected = (Status.FAIL, {"unasked-record"}) if kind is FAIL else (Status.PASS, set())
    assert judged(workload, changed, records) == expected


def test_more_partitions_than_increments_fail():
    more = [*HOLD["partitions"][1], partition(4, "p", 2)]
    assert judged("partitions", [GROW], more) == (Status.FAIL, {"unasked-record"})


@pytest.mark.parametrize("records", [["b", "b,a"], ["a,b"], ["a", "b"]])
def test_a_list_grows_at_its_end_by_one_element_at_a_time(records):
    log = [cell(n, LIST + "l", text) for n, text in enumerate(records, 1)]
    status, kinds = judged("append", APPENDS, log)
    assert (status, kinds) == (
        (Status.PASS, set()) if records == ["b", "b,a"] else (Status.FAIL, kinds)
    )


def test_an_operation_behind_the_end_of_the_journal_is_a_doubt():
    prefix = Extent(end_ns=5, closed=False, finished=False)
    assert judged("register", [], HOLD["register"][1], extent=prefix)[0] is Status.UNKNOWN


SERVED = {"configs": {"broker:": {REGISTER + "k": "v"}}}


@pytest.mark.parametrize(
    ("served", "kinds"),
    [
        (SERVED, set()),
        ({"configs": {"broker:": {REGISTER + "k": "w"}}}, {"read-differs"}),
        ({**SERVED, "topics": {"t": {"id": "x", "partitions": 1}}}, {"read-differs"}),
        ({**SERVED, "high_watermark": 99}, {"read-beyond-logs"}),
    ],
)
def test_what_a_node_serves_in_the_end_is_what_the_log_adds_up_to(served, kinds):
    assert judged("register", [WRITE], HOLD["register"][1], **served)[1] == kinds


def test_a_topic_that_a_node_does_not_serve_fails():
    records = [topic(1, "t"), partition(2, "t", 0)]
    there = {"topics": {"t": {"id": "id-t", "partitions": 1}}}
    assert judged("topics", [CREATE], records, **there) == (Status.PASS, set())
    assert judged("topics", [CREATE], records, topics={}) == (Status.FAIL, {"read-differs"})


def test_what_was_written_behind_the_mark_may_be_served_or_not():
    records = [cell(1, REGISTER + "k", "v"), cell(2, REGISTER + "k", "w")]
    later = op("write", "w", "w", invoke=3, complete=4, key="k")
    for value in ("v", "w"):
        read = {"high_watermark": 2, "configs": {"broker:": {REGISTER + "k": value}}}
        assert judged("register", [WRITE, later], records, **read) == (Status.PASS, set())


def test_a_final_read_that_was_taken_and_is_gone_is_missed():
    """Also where the workload has no check of durability, which would miss it."""
    note = Event(0, 5, NEMESIS, OK, FINAL_READS, None, {"read": ["n1"], "missing": {"n2": "dead"}})
    result = run_check(CheckSpec("records", {"workload": "brokers"}), good_run(events=[note]))
    assert result.status is Status.UNKNOWN
    assert result.statistics["missing"] == ["n1 (final read)"]


def answered(*times_ns, node="n1"):
    start = TraceEvent(node, 0, 0, "start", {"clock": "c"})
    acks = [TraceEvent(node, 0, time_ns, "ack", {}) for time_ns in times_ns]
    traces = {node: [start, *acks]}
    evidence = replace(good_run().evidence, traces=traces, run_clock=RunClock("c", 0))
    operations = [
        op("write", 1, 1, invoke=10, complete=20, key="k", node=node),
        op("write", 2, 2, invoke=12, complete=16, key="k", node=node),
    ]
    sentences, judged_ = untraced(operations, evidence, "register")
    return len(sentences), judged_


@pytest.mark.parametrize(
    ("times_ns", "lacking"),
    [
        ((13, 18), 0),
        ((11, 15), 0),
        ((15, 16), 0),
        ((13,), 1),
        ((17, 18), 1),
        ((), 1),
        ((25, 13), 1),
    ],
)
def test_each_answer_has_an_event_of_its_own(times_ns, lacking):
    assert answered(*sorted(times_ns)) == (lacking, True)


def test_answers_without_a_clock_in_common_are_not_judged():
    evidence = replace(good_run().evidence, run_clock=RunClock("another", 0))
    assert untraced([replace(WRITE, node="n1")], evidence, "register") == ([], False)
