"""What the final reads must show, for each workload."""

from dataclasses import replace

import pytest

from checkers.history import EventType
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.verdict import Status
from tests.checkers.evidence.run_evidence import NODES, final_reads, good_run, record
from tests.checkers.histories import op, read, write

FAIL = EventType.FAIL


def judged(workload, operations, *states, **more):
    """Judge final states of n1, n2, n3; one state stands for all three."""
    per_node = states * 3 if len(states) == 1 else states
    reads = final_reads(**dict(zip(NODES, per_node, strict=True)))
    run = good_run(operations=operations, final_reads=reads)
    options = {"workload": workload, **more}
    if workload in ("register", "append"):
        options["config_prefix"] = "r."
    result = run_check(CheckSpec("durability", options), run)
    return result.status, sorted({anomaly["kind"] for anomaly in result.anomalies})


PASSED = (Status.PASS, [])


def add(index, name, kind=EventType.OK, **fields):
    end = None if kind is EventType.INFO else index + 1
    value = {"partitions": 2}
    return op(index, "add", (index, end), key=name, input=value, type=kind, node="n1", **fields)


def topics(*names, partitions=2):
    return {"topics": {name: {"id": f"id-{name}", "partitions": partitions} for name in names}}


def test_an_acknowledged_element_must_be_on_every_node():
    operations = [add(0, "a"), add(5, "b")]
    assert judged("set", operations, topics("a", "b")) == PASSED
    assert judged("set", operations, topics("a", "b"), topics("a", "b"), topics("a")) == (
        Status.FAIL,
        ["divergent", "lost"],
    )
    assert judged("set", operations, topics("a")) == (Status.FAIL, ["lost"])


def test_a_lost_element_is_named_with_its_node_and_time_of_acknowledgement():
    run = good_run(operations=[add(0, "a")], final_reads=final_reads(n1={}, n2={}, n3={}))
    result = run_check(CheckSpec("durability", {"workload": "set"}), run)
    explanation = result.anomalies[0]["explanation"]
    assert "n1: operation 0 (add" in explanation
    assert "acknowledged by n1 at 1 ns" in explanation


def test_an_element_that_failed_or_was_never_added_is_a_phantom():
    good = add(9, "z")
    failed = add(0, "a", FAIL, error="not_controller")
    assert judged("set", [good, failed], topics("z")) == PASSED
    assert judged("set", [good, failed], topics("a", "z")) == (Status.FAIL, ["phantom"])
    assert judged("set", [good], topics("a", "z")) == (Status.FAIL, ["phantom"])


def test_an_indeterminate_element_may_be_there_or_not_but_on_all_nodes_alike():
    operations = [add(0, "a"), add(2, "b", EventType.INFO)]
    assert judged("set", operations, topics("a")) == PASSED
    assert judged("set", operations, topics("a", "b")) == PASSED
    split = judged("set", operations, topics("a", "b"), topics("a"), topics("a"))
    assert split == (Status.FAIL, ["divergent"])
    later = topics("a", "b") | {"high_watermark": 9}
    assert judged("set", operations, later, topics("a"), topics("a")) == PASSED


@pytest.mark.parametrize(
    ("name", "found"),
    [("kraftprobe.r.k", PASSED), ("kraftprobe.r.other", (Status.FAIL, ["divergent"]))],
)
def test_a_request_that_comes_behind_the_sentinel_may_be_on_one_node_first(name, found):
    """Its client has given it up, and a starved node takes it up while the nodes are read."""
    cells = [("kraftprobe.r.k", "a"), ("kraftprobe.sentinel.1", "1"), (name, "b")]
    configs = {"resourceType": 4, "resourceName": "", "kind": "ConfigRecord"}
    log = [
        record("n1", at, name=key, value=text, **configs) for at, (key, text) in enumerate(cells)
    ]
    history = on("k", write(0, "a", 0, 1), write(1, "b", 2, None))
    for served, verdict in (("ab", found), ("aa", PASSED)):
        reads = {
            node: {"configs": {"broker:": {"kraftprobe.sentinel.1": "1", "kraftprobe.r.k": value}}}
            for node, value in zip(NODES, served, strict=False)
        }
        run = good_run(
            operations=history, final_reads=final_reads(**reads), logs=dict.fromkeys(NODES, log)
        )
        options = {"workload": "register", "config_prefix": "kraftprobe.r.", "nodes": ["n1", "n2"]}
        result = run_check(CheckSpec("durability", options), run)
        assert (result.status, [a["kind"] for a in result.anomalies]) == verdict


def test_a_topic_with_a_part_of_its_partitions_is_reported():
    found = judged("set", [add(0, "a")], topics("a", partitions=1))
    assert found == (Status.FAIL, ["wrong-partitions"])


def registers(**values):
    return {"configs": {"broker:": {"r." + k: v for k, v in values.items()} | {"other": "x"}}}


def on(key, *operations):
    return [replace(operation, key=key) for operation in operations]


def test_a_register_ends_with_what_was_written_last():
    operations = on("k", write(0, "a", 0, 1), write(1, "b", 2, 3))
    assert judged("register", operations, registers(k="b")) == PASSED
    assert judged("register", operations, registers(k="a")) == (Status.FAIL, ["lost"])
    assert judged("register", operations, registers()) == (Status.FAIL, ["lost"])
    assert judged("register", operations, registers(k="c")) == (Status.FAIL, ["phantom"])


def test_concurrent_and_indeterminate_writes_may_come_last():
    operations = on("k", write(0, "a", 0, 5), write(1, "b", 5, 6), write(2, "c", 0, None))
    for value in "abc":
        assert judged("register", operations, registers(k=value)) == PASSED


def test_an_indeterminate_write_that_was_read_counts_from_then_on():
    seen = on("k", write(0, "a", 0, None), read(1, "a", 1, 2), write(2, "b", 3, 4))
    assert judged("register", seen, registers(k="b")) == PASSED
    assert judged("register", seen, registers(k="a")) == (Status.FAIL, ["lost"])
    only = on("k", write(0, "a", 0, None), read(1, "a", 1, 2))
    assert judged("register", only, registers()) == (Status.FAIL, ["lost"])


def test_a_write_that_failed_is_a_phantom_when_it_is_there():
    failed = write(0, "a", 0, 1, type=FAIL, error="not_controller")
    found = judged("register", on("k", failed, write(1, "b", 2, 3)), registers(k="a"))
    assert found == (Status.FAIL, ["phantom"])
    assert judged("register", on("k", failed), registers()) == (Status.UNDER_EXERCISED, [])
    late = replace(failed, index=2, input="c", invoke_ns=4, complete_ns=5)
    assert judged("register", on("k", write(1, "b", 2, 3), late), registers(k="b")) == PASSED


def create(index, begin, end, topic_id=None, **fields):
    output = None if topic_id is None else {"id": topic_id, "partitions": 2}
    return op(
        index, "create", (begin, end), key="t", input={"partitions": 2}, output=output, **fields
    )


def delete(index, begin, end, **fields):
    return op(index, "delete", (begin, end), key="t", **fields)


def describe(index, begin, end, topic_id):
    output = None if topic_id is None else {"id": topic_id, "partitions": 2}
    return op(index, "describe", (begin, end), key="t", output=output)


def final(topic_id):
    return {"topics": {} if topic_id is None else {"t": {"id": topic_id, "partitions": 2}}}


@pytest.mark.parametrize(
    ("operations", "allowed", "refused"),
    [
        ([create(0, 0, 1, "x")], ["x"], {None: "lost", "y": "phantom"}),
        ([create(0, 0, 1, "x"), delete(1, 2, 3)], [None], {"x": "lost-deletion"}),
        ([create(0, 0, 3, "x"), delete(1, 2, 4)], [None, "x"], {}),
        ([create(0, 0, 1, "x"), delete(1, 2, None)], [None, "x"], {}),
        ([create(0, 0, 1, "x"), create(1, 5, 6, "y")], ["y"], {"x": "lost-deletion"}),
        ([create(0, 0, None), delete(9, 0, 1)], [None, "new"], {}),
        ([create(0, 0, None), describe(1, 2, 3, "i")], ["i"], {None: "lost"}),
        (
            [create(0, 0, None), describe(1, 2, 3, "i"), delete(2, 4, 5)],
            [None],
            {"i": "lost-deletion"},
        ),
        ([create(0, 0, 1, "x"), describe(1, 2, 3, None)], [], {"x": "lost-deletion"}),
        (
            [
                delete(5, 0, 1),
                create(0, 0, None),
                create(1, 2, 3, type=FAIL, error="topic_already_exists"),
            ],
            ["i"],
            {None: "lost"},
        ),
        (
            [create(0, 0, 1, "x"), delete(1, 2, 3, type=FAIL, error="unknown_topic_or_partition")],
            [],
            {"x": "lost-deletion"},
        ),
        (
            [create(0, 0, 1, "x"), delete(1, 2, 3, type=FAIL, error="not_controller")],
            ["x"],
            {None: "lost"},
        ),
    ],
)
def test_a_topic_name_ends_as_the_history_allows(operations, allowed, refused):
    for topic_id in allowed:
        assert judged("topics", operations, final(topic_id)) == PASSED, topic_id
    for topic_id, kind in refused.items():
        assert judged("topics", operations, final(topic_id)) == (Status.FAIL, [kind]), topic_id


def test_a_node_without_final_read_is_named_and_never_passes():
    run = good_run(
        operations=[add(0, "a")], final_reads=final_reads(n1=topics("a"), n2=topics("a"))
    )
    result = run_check(CheckSpec("durability", {"workload": "set"}), run)
    summary = "evidence is missing or malformed: n3 (final read)"
    assert (result.status, result.summary) == (Status.UNKNOWN, summary)


def test_without_evidence_or_acknowledgement_nothing_passes():
    spec = CheckSpec("durability", {"workload": "set"})
    assert run_check(spec, RunInput([], [add(0, "a")], None)).status is Status.UNKNOWN
    assert judged("set", [], topics()) == (Status.UNDER_EXERCISED, [])


def lists(**values):
    return {"configs": {"broker:": {f"r.{name}": value for name, value in values.items()}}}


def appended(index, element, kind=EventType.OK):
    end = None if kind is EventType.INFO else index + 1
    return op(index, "append", (index, end), key="l", input=element, type=kind, node="n1")


def test_a_list_lacks_nothing_and_goes_on_from_each_read():
    seen = op(20, "read", (20, 21), key="l", output=["a", "b"], node="n1")
    history = [appended(0, "a"), appended(5, "b"), appended(9, "x", EventType.INFO), seen]
    for right in ("a,b", "a,b,x"):
        assert judged("append", history, lists(l=right)) == PASSED
    for wrong, kind in (("a", "lost"), ("b,a", "reordered"), ("a,b,a", "doubled")):
        assert judged("append", history, lists(l=wrong)) == (Status.FAIL, [kind])
    assert judged("append", history, {}) == (Status.FAIL, ["lost"])
    refused = [*history, appended(12, "r", FAIL)]
    for phantom in ("a,b,r", "a,b,z"):
        assert judged("append", refused, lists(l=phantom)) == (Status.FAIL, ["phantom"])
    both = judged("append", history, lists(l="a,b"), lists(l="a,b,x"), lists(l="a,b"))
    assert both == (Status.FAIL, ["divergent"])


def incremented(index, kind=EventType.OK):
    end = None if kind is EventType.INFO else index + 1
    return op(index, "increment", (index, end), key="p", type=kind, node="n1")


def test_a_topic_has_the_partitions_that_were_acknowledged_and_no_more_than_can_be():
    history = [
        incremented(0),
        incremented(5),
        incremented(9, EventType.INFO),
        incremented(12, FAIL),
    ]
    for right in (3, 4):
        assert judged("partitions", history, topics("p", partitions=right)) == PASSED
    for wrong, kind in ((2, "lost"), (5, "phantom")):
        found = judged("partitions", history, topics("p", partitions=wrong))
        assert found == (Status.FAIL, [kind])
    assert judged("partitions", history, {}) == (Status.FAIL, ["lost"])


def test_increments_that_followed_a_read_are_there_beside_what_it_showed():
    shown = op(20, "read", (20, 21), key="p", output=1, node="n1")
    history = [incremented(9, EventType.INFO), shown, incremented(25)]
    assert judged("partitions", history, topics("p", partitions=3)) == PASSED
    assert judged("partitions", history, topics("p", partitions=2)) == (Status.FAIL, ["lost"])


def test_a_description_or_refusal_that_lags_proves_nothing_of_the_end():
    lags = {"functions": ["create", "delete"], "refusals": False}
    topic = {"id": "id-t", "partitions": 2}
    made = op(0, "create", (0, 1), key="t", input={"partitions": 2}, output=topic, node="n1")
    unseen = op(5, "describe", (5, 6), key="t", node="n2")
    refused = op(7, "delete", (7, 8), key="t", type=FAIL, error="unknown_topic_or_partition")
    for stale in (unseen, refused):
        strict = judged("topics", [made, stale], topics("t"))
        assert strict == (Status.FAIL, ["lost-deletion"])
        assert judged("topics", [made, stale], topics("t"), **lags) == PASSED
    gone = op(10, "delete", (10, 11), key="t", output={"id": "id-t"}, node="n1")
    late = op(15, "describe", (15, 16), key="t", output=topic, node="n2")
    assert judged("topics", [made, gone, late], {}) == (Status.FAIL, ["lost"])
    assert judged("topics", [made, gone, late], {}, **lags) == PASSED
    assert judged("topics", [made, gone], topics("t"), **lags) == (Status.FAIL, ["lost-deletion"])
    assert judged("topics", [made, unseen], {}, **lags) == (Status.FAIL, ["lost"])
