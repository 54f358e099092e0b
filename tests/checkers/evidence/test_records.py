"""The journal, the logs and the final reads are held against each other."""

from dataclasses import replace

import pytest

from checkers.evidence import FINAL_READS, PHASE, FinalRead, RunClock, Snapshot, TraceEvent
from checkers.evidence.effects import RULES, effects_of
from checkers.evidence.extent import Extent
from checkers.history import INFINITY_NS, NEMESIS, Event, EventType, Operation
from checkers.history.recorded import columns_of
from checkers.nodes.answered import LATE_MS, join
from checkers.registry import CheckSpec, run_check
from checkers.verdict import Status
from tests.checkers.evidence.run_evidence import final_reads, good_run, leader_change, record

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
    op("append", element, element, invoke=2 * n, complete=9 + n, key="l")
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


@pytest.mark.parametrize(("served", "status"), [("true", OK), ("1", FAIL), (" TRUE", OK)])
def test_a_configuration_that_a_node_serves_is_in_the_log(served, status):
    operations, records = HOLD["register"]
    configs = {"broker:": {REGISTER + "k": "v", "b": served}}
    found = judged("register", operations, [*records, cell(2, "b", "True")], configs=configs)
    assert found[1] == (set() if status is OK else {"read-differs"})


@pytest.mark.parametrize(
    ("workload", "f", "prefix", "second"),
    [("register", "write", REGISTER, "w"), ("append", "append", LIST, "v,w")],
)
def test_a_cell_that_is_taken_away_was_not_asked_for(workload, f, prefix, second):
    """And is not, by an acknowledged operation, made good: no client removes a cell."""
    done = [
        op(f, value, value, invoke=at, complete=at + 1, key="k")
        for at, value in ((1, "v"), (5, "w"))
    ]
    records = [cell(1, prefix + "k", "v"), cell(2, prefix + "k", second)]
    assert judged(workload, done, records) == (Status.PASS, set())
    gone = [records[0], cell(2, prefix + "k", None), cell(3, prefix + "k", second)]
    status, found = judged(workload, done, gone)
    assert (status, "unasked-record" in found) == (Status.FAIL, True)


def test_an_answer_that_names_no_broker_epoch_is_looked_for_nowhere():
    odd = [replace(REGISTERED, output=None), replace(REGISTERED, key="k")]
    assert judged("brokers", [REGISTERED, *odd], HOLD["brokers"][1]) == (Status.PASS, set())


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


@pytest.mark.parametrize(("value", "kinds"), [("v", set()), ("w", {"read-differs"})])
@pytest.mark.parametrize("begin", [1, 2])
def test_a_read_is_judged_by_a_log_that_begins_in_the_segment_of_its_oldest_snapshot(
    begin, value, kinds
):
    log = [topic(1, "a"), topic(2, "b"), topic(3, "c")]
    held = [(record.kind, record.value) for record in (topic(0, "a"), topic(1, "b"))]
    held.append(("ConfigRecord", cell(0, REGISTER + "k", "v").value))
    shown = {name: {"id": f"id-{name}", "partitions": 0} for name in "abc"}
    served = {"topics": shown, "configs": {"broker:": {REGISTER + "k": value}}}
    run = good_run(
        logs=dict.fromkeys(NODES, log[begin - 1 :]),
        final_reads=final_reads(n1={"high_watermark": 4, **served}),
        operations=[WRITE],
        snapshots={"n1": [], "n2": [Snapshot("n2", 2, 1, held)], "n3": []},
    )
    spec = CheckSpec("records", {"workload": "register", "traced": []})
    result = run_check(spec, run)
    assert {anomaly["kind"] for anomaly in result.anomalies} == kinds
    without = replace(run.evidence, snapshots=dict.fromkeys(NODES, ()))
    nowhere = run_check(spec, replace(run, evidence=without))
    assert (nowhere.status, "snapshot" in nowhere.summary) == (Status.UNKNOWN, True)


@pytest.mark.parametrize(("crc", "kinds"), [(None, {"acknowledged-lost"}), (7, set())])
def test_what_the_newest_log_lacks_below_its_begin_another_one_has(crc, kinds):
    """Where both are of one batch there: else nothing is known of what came before."""
    log = [leader_change("n2", 0, 1, 1), topic(1, "a"), topic(2, "b")]
    newest = [record("n1", 2, crc=crc), topic(3, "c")]
    held = [Snapshot("n1", 2, 1, [("TopicRecord", topic(1, "a").value)])]
    run = good_run(
        logs={"n1": newest, "n2": log, "n3": log},
        operations=[CREATE],
        snapshots={"n1": held, "n2": [], "n3": []},
    )
    result = run_check(CheckSpec("records", {"workload": "topics", "traced": []}), run)
    assert {anomaly["kind"] for anomaly in result.anomalies} == kinds


LOST, UNASKED = {"acknowledged-lost"}, {"unasked-record"}
PARTS = [topic(0, "k"), *(partition(0, "k", number) for number in range(4))]


@pytest.mark.parametrize(
    ("workload", "f", "held", "kinds"),
    [
        ("append", "append", [cell(0, LIST + "k", "a,b")], set()),
        ("append", "append", [cell(0, LIST + "k", "a")], LOST),
        ("append", "append", [cell(0, LIST + "k", "a,b,x")], UNASKED),
        ("register", "write", [cell(0, REGISTER + "k", "b")], set()),
        ("register", "write", [cell(0, REGISTER + "k", "x")], UNASKED),
        ("reconfig", "write", [], set()),  # another one may have replaced them
        ("partitions", "increment", PARTS[:4], set()),
        ("partitions", "increment", PARTS[:3], LOST),
        ("partitions", "increment", PARTS, UNASKED),
        ("set", "add", [topic(0, "k")], set()),
        ("set", "add", [], LOST),
        ("topics", "create", [], set()),  # it may have been deleted
    ],
)
def test_what_a_snapshot_holds_is_of_operations_and_they_left_what_no_other_replaces(
    workload, f, held, kinds
):
    done = [op(f, v, {"id": "id-k"}, invoke=n, complete=n + 1, key="k") for n, v in enumerate("ab")]
    base = Snapshot("n1", 3, 1, [(each.kind, each.value) for each in held])
    log = [record("n1", 3, kind="NoOpRecord")]
    run = good_run(logs=dict.fromkeys(NODES, log), operations=done, snapshots={"n1": [base]})
    result = run_check(CheckSpec("records", {"workload": workload, "traced": []}), run)
    assert {anomaly["kind"] for anomaly in result.anomalies} == kinds


def test_what_a_snapshot_holds_of_a_list_was_not_appended_by_the_first_record_behind_it():
    log = [cell(8, LIST + "l", "a,b"), cell(9, LIST + "l", "a,b,c")]
    appends = [
        op("append", element, element, invoke=n, complete=n + 1, key="l")
        for n, element in enumerate("abc")
    ]
    places = RULES["append"].places(effects_of(RULES["append"], log), columns_of(appends))
    assert dict(zip(places.rows.tolist(), places.first.tolist(), strict=True)) == {1: 8, 2: 9}


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


@pytest.mark.parametrize("served", [6, 7])
def test_a_trace_goes_on_until_its_node_knew_what_it_served(served):
    run = good_run(final_reads=final_reads(n2={"high_watermark": served}))
    result = run_check(CheckSpec("records", {"workload": "log"}), run)
    early = [each for each in result.statistics["missing"] if "end of its trace" in each]
    assert early == ["n2 (the end of its trace: it knew 6, and served 7)"] * (served - 6)


def test_a_final_read_that_was_taken_and_is_gone_is_missed():
    """Also where the workload has no check of durability, which would miss it."""
    note = Event(
        0,
        5,
        NEMESIS,
        OK,
        FINAL_READS,
        None,
        {"read": ["n1"], "missing": {"n2": "dead"}, "sentinel": "s"},
    )
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
    joined = join(operations, evidence, "register", (), (), None, None)
    return len(joined.lacking), joined.judged


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
    joined = join([replace(WRITE, node="n1")], evidence, "register", (), (), None, None)
    assert (joined.lacking, joined.judged) == ([], False)


def answers(lines, operations, records=(), workload="register", notes=(), timeout_ms=None):
    """Join operations with lines of n1, (time, event, offset)."""
    start = TraceEvent("n1", 0, 0, "start", {"clock": "c"})
    events = [
        TraceEvent("n1", 0, time_ns, event, {"offset": offset, "query": True})
        for time_ns, event, offset in lines
    ]
    evidence = replace(
        good_run().evidence, traces={"n1": [start, *events]}, run_clock=RunClock("c", 0)
    )
    rule = RULES[workload]
    columns = columns_of(operations)
    places = rule.places and rule.places(effects_of(rule, records), columns)
    return join(operations, evidence, workload, records, notes, places, timeout_ms)


def read_of(value, invoke, complete, node="n1"):
    return op("read", None, value, invoke=invoke, complete=complete, key="k", node=node)


TWO = [cell(0, REGISTER + "k", "v"), cell(1, REGISTER + "k", "w")]


@pytest.mark.parametrize(
    ("lines", "value", "kinds"),
    [
        ([(5, "read", 0)], "v", []),
        ([(5, "read", 1)], "w", []),
        ([(5, "read", 0)], "w", ["answer-differs"]),
        ([(5, "read", 1)], "v", ["answer-differs"]),
        ([(5, "read", 1)], None, ["answer-differs"]),
        ([(2, "hw", 2), (5, "read", 0)], "v", ["stale-answer"]),
        ([(5, "hw", 2), (6, "read", 0)], "v", []),  # committed when the read had been invoked
        ([(5, "read", 0), (6, "read", 1)], "w", []),
    ],
)
def test_what_was_read_is_what_the_log_holds_up_to_the_line(lines, value, kinds):
    joined = answers(lines, [read_of(value, 4, 8)], TWO)
    assert [anomaly["kind"] for anomaly in joined.wrong] == kinds


def test_an_acknowledgement_has_the_offset_of_its_record():
    write = op("write", "v", "v", invoke=1, complete=9, key="k", node="n1")
    for offset, kinds in ((0, []), (1, ["answer-differs"])):
        joined = answers([(5, "ack", offset)], [write], TWO)
        assert [anomaly["kind"] for anomaly in joined.wrong] == kinds


@pytest.mark.parametrize(
    ("records", "kinds"),
    [
        ([topic(0, "p"), partition(1, "p", 0), partition(2, "p", 1)], []),
        ([topic(0, "q"), partition(1, "q", 0), partition(2, "q", 1)], ["answer-differs"]),
        ([partition(1, "p", 0), partition(2, "p", 1)], []),  # a snapshot has the topic
        ([topic(1, "q"), partition(2, "q", 1)], ["answer-differs"]),
    ],
)
def test_an_increment_is_acknowledged_at_a_record_of_its_topic(records, kinds):
    grow = op("increment", None, None, invoke=1, complete=9, key="p", node="n1")
    joined = answers([(5, "ack", 2)], [grow], records, "partitions")
    assert [anomaly["kind"] for anomaly in joined.wrong] == kinds


def test_reads_that_nobody_asked_for_are_missing_in_the_journal():
    heal = Event(0, 100, NEMESIS, OK, PHASE, None, {"name": "heal"})
    refused = replace(op("read", None, None, invoke=3, complete=9, key="k"), type=FAIL, node="n1")
    for operations, lacking in (
        ([read_of("v", 4, 8), read_of("v", 5, 9)], 0),
        ([read_of("v", 4, 8), refused], 0),
        ([read_of("v", 4, 8), replace(refused, type=INFO, complete_ns=INFINITY_NS)], 0),
        ([read_of("v", 4, 8)], 1),
        ([read_of("v", 4, 8), read_of("v", 5, 9, node="n2")], 2),  # and n2 traced none
    ):
        lines = [(6, "read", 0), (7, "read", 0)]
        assert len(answers(lines, operations, TWO, notes=[heal]).lacking) == lacking


def test_the_node_that_answered_is_known():
    assert len(answers([(5, "read", 0)], [read_of("v", 4, 8, node=None)], TWO).lacking) == 1


def test_an_answer_comes_while_its_client_waits():
    late = LATE_MS + 100
    for after_ms, lacking in ((late - 1, 0), (late + 1, 1)):
        read = read_of("v", 4, 5 + int(after_ms * 1e6))
        assert len(answers([(5, "read", 0)], [read], TWO, timeout_ms=100).lacking) == lacking


@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        ((1, 2, OK), (3, 4, OK), ["out-of-order"]),
        ((1, 2, OK), (3, INFINITY_NS, INFO), ["out-of-order"]),  # not done before it was invoked
        ((1, INFINITY_NS, INFO), (3, 4, OK), []),
        ((1, 4, OK), (3, 5, OK), []),
        ((1, 3, OK), (3, 4, OK), []),
    ],
)
def test_the_log_orders_writes_of_different_keys_as_time_does(first, second, kinds):
    records = [cell(0, REGISTER + "b", "w"), cell(1, REGISTER + "a", "v")]
    writes = [
        replace(op("write", value, value, invoke=a, complete=b, key=key), type=kind)
        for (a, b, kind), key, value in ((first, "a", "v"), (second, "b", "w"))
    ]
    run = good_run(operations=writes)
    evidence = replace(run.evidence, logs=dict.fromkeys(NODES, records), final_reads={})
    result = run_check(
        CheckSpec("records", {"workload": "register"}), replace(run, evidence=evidence)
    )
    assert [anomaly["kind"] for anomaly in result.anomalies] == kinds


@pytest.mark.parametrize(
    ("workload", "f", "places", "records"),
    [
        ("append", "append", ("a", "b"), [cell(1, LIST + "a", "a"), cell(2, LIST + "b", "b")]),
        ("topics", "create", ({"id": "id-a"}, {"id": "id-b"}), [topic(1, "a"), topic(2, "b")]),
        (
            *("unique-ids", "allocate", ([0, 10], [10, 10])),
            [
                record("n1", end, kind="ProducerIdsRecord", nextProducerId=10 * end)
                for end in (1, 2)
            ],
        ),
    ],
)
def test_the_log_orders_all_that_has_records_of_its_own(workload, f, places, records):
    done = [
        op(f, shown, shown, invoke=2 * n, complete=2 * n + 1, key=key)
        for n, (key, shown) in enumerate(zip("ab", places, strict=True))
    ]
    assert judged(workload, done, records) == (Status.PASS, set())
    swapped = [replace(each, offset=n) for n, each in enumerate(reversed(records), 1)]
    assert judged(workload, done, swapped) == (Status.FAIL, {"out-of-order"})


@pytest.mark.parametrize(
    ("configs", "kinds"),
    [
        ({"kraftprobe.sentinel.1": "1"}, []),
        ({"kraftprobe.sentinel.1": "1", "min.insync.replicas": "1"}, ["read-differs"]),
        ({"kraftprobe.sentinel.2": "1"}, ["read-differs", "sentinel-missing"]),
        ({}, ["sentinel-missing"]),
    ],
)
def test_a_final_read_shows_the_sentinel_and_what_logs_hold(configs, kinds):
    note = {"read": ["n1"], "missing": {}, "sentinel": "kraftprobe.sentinel.1"}
    events = [Event(0, 5, NEMESIS, OK, FINAL_READS, None, note)]
    logs = {key: [cell(0, "kraftprobe.sentinel.1", "1")] for key in NODES}
    reads = {"n1": FinalRead("n1", 1, {}, {"broker:": configs})}
    run = good_run(events=events, logs=logs, final_reads=reads)
    result = run_check(CheckSpec("records", {"workload": "register"}), run)
    assert [anomaly["kind"] for anomaly in result.anomalies] == kinds


@pytest.mark.parametrize(
    ("traced", "status"), [(["start", "state", "hw"], Status.PASS), (None, Status.UNKNOWN)]
)
def test_a_clock_in_common_is_missed_where_nodes_trace_answers(traced, status):
    """Apache Kafka's traces are made of its output, which says nothing of answers."""
    options = {"workload": "register", "one_clock": True}
    options |= {} if traced is None else {"traced": traced}
    result = run_check(CheckSpec("records", options), good_run())
    assert result.status is status, result
