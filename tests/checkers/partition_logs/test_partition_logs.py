"""Logs with offsets: each anomaly by hand, its explanation, and all of them against brute force."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers import Status
from checkers.history import NEMESIS, Event, EventType
from checkers.partition_logs import EXPLAINED_MAX, check
from checkers.registry import CheckSpec, RunInput, run_check
from tests.checkers.histories import FAIL, INFO, op
from tests.checkers.linearizability.oracles.partition_logs import judge
from tests.checkers.partition_logs.partition_logs import history, spoilt

KEY = "t0-3"


def send(index, value, offset, times=None, *, process=1, epoch=None, **fields):
    times = (10 * index, 10 * index + 5) if times is None else times
    fields |= {"process": process, "key": KEY, "node": "n1", "input": value}
    return op(index, "send", times, offset=offset, epoch=epoch, **fields)


def poll(index, records, times=None, *, at=None, process=2, epoch=None, f="poll", **marks):
    node = marks.pop("node", "n2")
    times = (10 * index, 10 * index + 5) if times is None else times
    output = {"records": records, **marks}
    fields = {"process": process, "key": KEY, "node": node, "input": at, "epoch": epoch}
    return op(index, f, times, output=output, **fields)


def whole(index, records, times=None, *, process=9, **fields):
    return poll(index, records, times, process=process, f="poll-all", **fields)


def refused(index, at, epoch):
    return op(
        index,
        "poll",
        (10 * index, 10 * index + 5),
        type=FAIL,
        error="offset_out_of_range",
        process=2,
        key=KEY,
        node="n2",
        input=at,
        epoch=epoch,
    )


def judged(operations, events=(), **options):
    result = run_check(CheckSpec("log", options), RunInput(events, operations))
    assert (result.status is Status.FAIL) == bool(result.anomalies)
    return result


def kinds(operations, **options):
    """Kinds by number, and those that are only notes."""
    found = judged(operations, **options).statistics
    return found["anomalies_by_kind"], found["allowed_by_kind"]


A, B = send(0, "a", 0), send(1, "b", 1)
BOTH = [[0, "a"], [1, "b"]]


C = send(2, "c", 2)
ALL = [*BOTH, [2, "c"]]


LATE = send(0, "a", 1)
READ = poll(4, BOTH, at=0, epoch=3)


@pytest.mark.parametrize(
    ("expected", "history", "parts"),
    [
        ("lost-write", [A, B, whole(9, BOTH[:1])], ["'b' of producer 1", "poll-all 9"]),
        (
            "lost-write",
            [A, poll(5, BOTH[:1]), whole(9, [])],
            ["'a' of producer 1", "and read by poll 5 of consumer 2", "poll-all 9"],
        ),
        ("lost-committed", [send(0, "a", None, (0, None)), poll(5, BOTH[:1]), whole(9, [])], []),
        (
            "duplicate",
            [A, whole(9, [[0, "a"], [4, "a"]])],
            ["stands at offset 0, by poll-all 9", "offset 4, by"],
        ),
        (
            "inconsistent-offsets",
            [A, send(1, "b", 0, process=3)],
            ["offset 0 holds 'a' of producer 1", "'b' of producer 3"],
        ),
        (
            "moved",
            [A, whole(9, [[4, "a"]])],
            ["acknowledged at offset 0", "was read at offset 4 by poll-all 9"],
        ),
        (
            "torn-batch",
            [send(0, ["a", "b"], None, (0, None)), whole(9, [[0, "a"], [4, "b"]])],
            ["'b' of producer 1 (operation 0, without an answer)", "behind 'a' of the same batch"],
        ),
        (
            "phantom",
            [A, whole(9, [[0, "a"], [1, "x"]])],
            ["shows at offset 1 'x', which nobody sent there"],
        ),
        (
            "aborted-read",
            [A, send(1, "b", None, type=FAIL, error="not_enough_replicas"), whole(9, BOTH)],
            ["'b' of producer 1 (operation 1, failed: not_enough_replicas)"],
        ),
        (
            "read-before-send",
            [A, poll(3, BOTH, (6, 8)), B, whole(9, BOTH)],
            ["'b' of producer 1", "before it was sent"],
        ),
        (
            "nonmonotonic-send",
            [LATE, send(1, "b", 0), whole(9, [[0, "b"], [1, "a"]])],
            ["behind 'b' of the same producer at offset 0 (operation 1), which was only sent at"],
        ),
        (
            "real-time",
            [LATE, send(1, "b", 0, process=4), whole(9, [[0, "b"], [1, "a"]])],
            ["'a' of producer 1", "behind 'b' of producer 4 at offset 0 (operation 1)"],
        ),
        (
            "real-time",
            [
                *(send(0, "a", None, (0, None)), poll(1, [[1, "a"]], at=1)),
                *(send(2, "b", 0, process=4), whole(9, [[0, "b"], [1, "a"]])),
            ],
            ["'a' of producer 1 (operation 0, without an answer)", "read by poll 1 of consumer 2"],
        ),
        (
            "real-time",
            [poll(0, [], at=0, high_watermark=2), send(1, "b", 1), whole(9, BOTH[1:])],
            ["at offset 1, and was only sent at", "after poll 0 of consumer 2", "gave 2 as high"],
        ),
        (
            "poll-skip",
            [A, B, C, poll(5, ALL[2:], at=1), whole(9, ALL)],
            ["poll 5 of consumer 2", "passed over offset 1, where 'b' of producer 1"],
        ),
        ("int-poll-skip", [A, B, C, poll(5, ALL[::2], at=0), whole(9, ALL)], []),
        (
            "nonmonotonic-poll",
            [A, B, poll(5, BOTH, at=1), whole(9, BOTH)],
            ["asked from offset 1 and shows offset 0, without a seek"],
        ),
        (
            "nonmonotonic-poll",
            [A, B, poll(5, BOTH, at=0), poll(6, BOTH), whole(9, BOTH)],
            ["asked from where its last poll had ended and shows offset 0"],
        ),
        (
            "int-nonmonotonic-poll",
            [A, B, poll(5, BOTH[::-1], at=0), whole(9, BOTH)],
            ["shows 'a' at offset 0 behind 'b'"],
        ),
        (
            "truncated",
            [A, B, READ, refused(5, 2, 4), whole(9, BOTH)],
            [
                "poll 5 from offset 2 was refused by n2 in leader epoch 4",
                "poll 4",
                "a record at 1 or up",
            ],
        ),
        (
            "dirty-read",
            [A, B, READ, poll(5, [], at=2, epoch=3, high_watermark=1), whole(9, BOTH)],
            ["poll 4", "shows offset 1", "poll 5", "gives 1 as high watermark"],
        ),
        (
            "dirty-read",
            [poll(n, [], at=0, epoch=3, high_watermark=9 - n) for n in range(2)],
            ["poll 0", "gives 9 as high watermark; afterwards", "gives 8 as high watermark"],
        ),
        (
            "dirty-ack",
            [
                *(A, send(1, "b", 1, epoch=3)),
                *(poll(5, BOTH[:1], at=0, epoch=3, high_watermark=1, node="n1"), whole(9, BOTH)),
            ],
            [
                "'b' of producer 1",
                "by n1 at 15 ns, leader epoch 3 or later",
                "gives 1 as high watermark",
            ],
        ),
        (
            "log-start-moved",
            [A, whole(9, BOTH[:1], log_start=1)],
            ["begins at offset 1 by poll-all 9"],
        ),
    ],
)
def test_each_anomaly_is_found_alone_and_has_its_sentence(expected, history, parts):
    assert kinds(history) == ({expected: 1}, {})
    explanation = judged(history).anomalies[0]["explanation"]
    assert explanation.startswith("t0-3: ")
    assert [part for part in parts if part not in explanation] == [], explanation
    assert "NONE" not in explanation


def consume(index, records, others=()):
    shown = {KEY: records} | ({"t0-1": others} if others else {})
    output = {"member": "m", "instance": None, "generation": 1, "records": shown}
    return op(index, "consume", (10 * index, 10 * index + 5), output=output, process=7)


OPEN = send(1, "b", None, (10, None))


@pytest.mark.parametrize(
    ("expected", "history"),
    [
        ({}, [A, OPEN, consume(5, BOTH), consume(6, BOTH[:1]), whole(9, BOTH)]),
        ({"lost-committed": 1}, [A, OPEN, consume(5, BOTH), whole(9, BOTH[:1])]),
        ({"phantom": 1}, [A, consume(5, [[1, "x"]]), whole(9, BOTH[:1])]),
        ({"phantom": 1}, [A, consume(5, BOTH[:1], [[0, "a"]]), whole(9, BOTH[:1])]),
        ({"int-poll-skip": 1}, [A, B, C, consume(5, ALL[::2]), whole(9, ALL)]),
    ],
)
def test_what_a_member_of_a_group_is_shown_is_in_the_log(expected, history):
    result = judged(history)
    assert expected == result.statistics["anomalies_by_kind"]
    assert {each["key"] for each in result.anomalies} <= {KEY, "t0-1"}


def test_what_is_no_answer_to_a_member_is_unknown():
    for output in (None, 5, {"records": 5}, {"records": {KEY: 5}}, {"records": {KEY: [5]}}):
        odd = op(5, "consume", (50, 55), output=output)
        assert judged([A, odd, whole(9, BOTH[:1])]).status is Status.UNKNOWN


@pytest.mark.parametrize(("mark", "expected"), [(1, {}), (2, {"real-time": 1})])
def test_nothing_that_is_sent_later_stands_below_a_high_watermark(mark, expected):
    marked = poll(0, [], at=0, high_watermark=mark)
    for sent in (send(1, "b", 1), send(1, "b", None, (10, None))):
        assert kinds([marked, sent, whole(9, BOTH[1:])])[0] == expected
    assert kinds([marked, send(1, "b", 1, (5, 9)), whole(9, BOTH[1:])])[0] == {}
    instead = [A, poll(1, [], at=0, high_watermark=1), send(2, "b", 0), whole(9, [[0, "b"]])]
    assert kinds(instead)[0] == {"lost-write": 1}


def test_a_record_that_took_the_place_of_a_lost_one_is_named_with_it():
    taken = send(3, "c", 1, process=4)
    result = judged([A, B, taken, whole(9, [[0, "a"], [1, "c"]])])
    assert result.statistics["anomalies_by_kind"] == {"lost-write": 1}
    (anomaly,) = result.anomalies
    found = (anomaly["key"], anomaly["offset"], anomaly["producer"], anomaly["operations"])
    assert found == ("t0-3", 1, 1, [1, 9])
    assert "'c'" in anomaly["explanation"]


def test_an_acknowledgement_is_dirty_only_by_what_its_node_says_of_its_epoch_afterwards():
    """A record sent again is acknowledged by the next leader, of which the former may not know."""
    sent = send(1, "b", 1, epoch=3)
    marks = {"at": 0, "epoch": 3, "high_watermark": 1, "node": "n1"}
    for later in (
        poll(5, BOTH[:1], **marks | {"node": "n2"}),
        poll(5, BOTH[:1], **marks | {"epoch": 4}),
        poll(5, BOTH[:1], **marks | {"epoch": None}),
        poll(5, BOTH[:1], (14, 60), **marks),
        poll(5, BOTH, **marks | {"high_watermark": 2}),
    ):
        assert kinds([A, sent, later, whole(9, BOTH)]) == ({}, {})
    unnamed = [replace(sent, node=None), poll(5, BOTH[:1], **marks | {"node": None})]
    assert kinds([A, *unnamed, whole(9, BOTH)]) == ({}, {}), "which nodes these were is unknown"
    early = poll(5, BOTH[:1], **marks)
    assert kinds([A, sent, early, whole(9, BOTH)], acks="1") == ({}, {})


def test_acks_1_may_lose_to_a_later_leader_what_nobody_read():
    acknowledged = [send(0, "a", 0, epoch=3), send(1, "b", 1, epoch=3)]
    cut = whole(9, BOTH[:1], epoch=4)
    assert kinds([*acknowledged, cut], acks="1") == ({}, {"allowed-loss": 1})
    result = judged([*acknowledged, cut], acks="1")
    assert result.status is Status.PASS
    (allowed,) = result.statistics["allowed"]
    assert (allowed["kind"], allowed["key"], allowed["offset"]) == ("allowed-loss", "t0-3", 1)
    assert (allowed["producer"], allowed["epoch"], allowed["operations"]) == (1, 3, [1, 9])
    # The log of the same leader gets no shorter.
    same = whole(9, BOTH[:1], epoch=3)
    assert kinds([*acknowledged, same], acks="1") == ({"lost-write": 1}, {})
    # What a consumer read was on all replicas in sync.
    assert kinds([*acknowledged, poll(5, BOTH, at=0), cut], acks="1") == ({"lost-committed": 1}, {})
    # So was what its leader announced as committed.
    mark = poll(5, [], at=0, epoch=3, high_watermark=2)
    assert kinds([*acknowledged, mark, cut], acks="1") == ({"lost-committed": 1}, {})
    later = poll(5, [], at=0, epoch=4, high_watermark=2)
    assert kinds([*acknowledged, later, cut], acks="1") == ({}, {"allowed-loss": 1})


def test_parts_of_two_copies_are_no_torn_batch_unless_another_record_stands_between():
    twice, again = send(1, ["a", "b"], None, (10, None)), {"acks": "1", "retries": True}
    parts = [twice, poll(3, [[4, "b"]], at=4), poll(4, [[7, "a"], [8, "b"]], at=7)]
    assert kinds(parts, **again) == ({}, {"duplicate": 1})
    before = [send(0, "c", 3), *parts, poll(6, [[3, "c"]], at=3)]
    assert kinds(before, **again)[0] == {"torn-batch": 1}
    assert kinds(parts, acks="1")[0] == {"torn-batch": 1, "duplicate": 1}


def fault(index, time_ns, phase, targets=("n1",)):
    value = {"phase": phase, "targets": list(targets), "verified": True}
    return Event(index, time_ns, NEMESIS, EventType.OK, "kill", value=value)


def test_an_explanation_names_producer_offset_epoch_node_operations_and_faults():
    lost = send(1, "b", 1, (2_000_000_000, 2_500_000_000), epoch=3, process=7)
    final = whole(9, BOTH[:1], (9_000_000_000, 9_100_000_000), epoch=5)
    events = [
        fault(20, 1_000_000_000, "inject", ["n9"]),
        fault(21, 1_500_000_000, "heal", ["n9"]),
        fault(22, 3_000_000_000, "inject"),
        fault(23, 5_000_000_000, "heal"),
    ]
    anomaly = judged([A, lost, final], events).anomalies[0]
    assert anomaly == {
        "kind": "lost-write",
        "key": KEY,
        "operations": [1, 9],
        "offset": 1,
        "producer": 7,
        "epoch": 3,
        "node": "n2",
        "faults": ["kill of n1"],
        "explanation": (
            "t0-3: 'b' of producer 7 (operation 1, acknowledged at offset 1 by n1 at "
            "2.500 s, leader epoch 3 or later) is not in the whole log as read by poll-all 9 of "
            "consumer 9 (answered by n2 in leader epoch 5 at 9.100 s); "
            "faults meanwhile: kill of n1 from 3.000 s"
        ),
    }


def test_many_of_one_kind_are_counted_and_some_explained():
    sent = [send(i, i, i) for i in range(50)]
    result = judged([*sent, whole(90, [])])
    assert result.statistics["anomalies_by_kind"] == {"lost-write": 50}
    assert len(result.anomalies) == EXPLAINED_MAX
    assert result.summary.startswith("50 lost-write; first: t0-3: 0 of producer 1")


@pytest.mark.parametrize(
    ("history", "why"),
    [
        ([A, B], "partition t0-3 was not read whole (poll-all) after its last acknowledgement"),
        ([A, whole(1, [[0, "a"]], (5, 8))], "was not read whole"),
        ([A, whole(1, [[0, "a"]]), send(2, "b", 1)], "was not read whole"),
        ([A, send(1, "a", 1), whole(9, [[0, "a"]])], "the value 'a' was sent twice"),
        ([A, poll(5, [[0, "a", 3]])], "operation 5: poll: [0, 'a', 3] is no offset and value"),
        ([A, poll(5, [[-1, "a"]])], "operation 5: poll: [-1, 'a'] is no offset and value"),
        ([A, poll(5, [[True, "a"]])], "[True, 'a'] is no offset and value"),
        ([A, poll(5, [[2**63, "a"]])], "is no offset and value"),
        ([A, poll(5, [[0, ["a"]]])], "[0, ['a']] is no offset and value"),
        ([A, poll(5, ["a"])], "'a' is no offset and value"),
        ([A, poll(5, [{"a": 1, "b": 2}])], "is no offset and value"),
        ([A, poll(5, None)], "its answer is no object with a list of records"),
        ([A, op(5, "poll", (50, 55), key=KEY, output=[[0, "a"]])], "its answer is no object"),
        ([A, poll(5, [], at="0")], "position '0' is no number from 0"),
        ([A, poll(5, [], at=2**70)], "is no number from 0"),
        ([A, poll(5, [], high_watermark=1.5)], "high_watermark 1.5 is no number"),
        ([A, poll(5, [], log_start=True)], "log_start True is no number"),
        ([send(0, 1.5, 0)], "operation 0: send: 1.5 is no text, number or list of such to send"),
        ([send(0, [], 0)], "[] is no text"),
        ([send(0, [["a"]], 0)], "is no text"),
        ([send(0, None, 0)], "None is no text"),
        ([send(0, True, 0)], "True is no text"),
        ([send(0, "a", 2**62)], "offset 4611686018427387904 is no number"),
        ([op(0, "send", (0, 5), input="a", offset=0)], "operation 0: send names no partition"),
    ],
)
def test_what_cannot_be_judged_is_unknown_in_one_line(history, why):
    result = judged(history)
    assert result.status is Status.UNKNOWN
    assert why in result.summary
    assert "\n" not in result.summary


def test_a_lost_record_is_found_where_another_partition_was_not_read():
    other = op(3, "send", (30, 35), key="t0-4", input="z", offset=0, process=5)
    assert judged([A, other, whole(9, [])]).status is Status.FAIL
    assert judged([A, other, whole(9, BOTH[:1])]).status is Status.UNKNOWN


def test_one_value_in_two_partitions_is_two_records():
    twin = op(3, "send", (30, 35), key="t0-4", input="a", offset=7, process=5)
    final = op(8, "poll-all", (80, 85), key="t0-4", output={"records": [[7, "a"]]}, process=8)
    assert judged([A, twin, final, whole(9, BOTH[:1])]).status is Status.PASS
    stray = op(8, "poll-all", (80, 85), key="t0-4", output={"records": []}, process=8)
    assert kinds([A, twin, stray, whole(9, BOTH[:1])])[0] == {"lost-write": 1}


def test_nothing_acknowledged_is_under_exercised_and_other_functions_are_not_looked_at():
    assert judged([]).status is Status.UNDER_EXERCISED
    elect = op(3, "elect-leader", (30, 35), input={"to": 2})
    assert judged([A, elect, whole(9, BOTH[:1])]).operations == 2


def test_a_check_that_is_cancelled_is_unknown():
    result = check(RunInput([], [A, B, whole(9, [])]), {}, lambda: True)
    assert (result.status, result.summary) == (Status.UNKNOWN, "cancelled")


def compared(rnd, operations, options):
    result = check(RunInput([], operations), options)
    found = result.statistics["anomalies_by_kind"], result.statistics["allowed_by_kind"]
    assert found == tuple(map(dict, judge(operations, **options))), operations
    return result


def drawn(rnd):
    options = {"acks": rnd.choice(["0", "1", "all"]), "retries": rnd.random() < 0.2}
    size, batches = rnd.choice([4, 8, 16]), rnd.random() < 0.5
    return options, history(rnd, **options, batches=batches, size=size)


@pytest.mark.slow
def test_right_logs_pass_and_spoilt_ones_are_found_as_by_brute_force():
    every, verdicts = Counter(), Counter()
    for seed in range(1_200):
        rnd = Random(seed)
        options, operations = drawn(rnd)
        right = compared(rnd, operations, options)
        assert right.status is not Status.FAIL, (seed, right.summary)
        for _ in range(rnd.choice([1, 1, 2, 4])):
            operations = spoilt(rnd, operations)
        result = compared(rnd, operations, options)
        every.update(result.statistics["anomalies_by_kind"].keys())
        verdicts[result.status] += 1
    assert len(every) == 19, "every kind was met"
    assert min(verdicts[Status.PASS], verdicts[Status.FAIL]) > 300


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats(allow_nan=False)
    | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)
RECORDS = st.lists(VALUES | st.tuples(st.integers(-1, 2**64), VALUES).map(list), max_size=3)
ANSWERS = VALUES | st.fixed_dictionaries(
    {"records": VALUES | RECORDS}, optional={"high_watermark": VALUES, "log_start": VALUES}
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    sent=st.lists(VALUES, max_size=3),
    read=st.lists(st.tuples(VALUES, ANSWERS), max_size=3),
    offset=st.none() | st.integers(0, 2**63 - 1),
    kind=st.sampled_from([EventType.OK, FAIL, INFO]),
)
def test_whatever_values_are_in_a_history_it_is_judged_or_unknown(sent, read, offset, kind):
    sends = [send(i, value, offset, type=kind) for i, value in enumerate(sent)]
    reads = [
        op(5 + i, "poll-all", (50 + i, 60 + i), key=KEY, input=at, output=answer, process=20 + i)
        for i, (at, answer) in enumerate(read)
    ]
    result = judged([*sends, *reads])
    assert "the checker itself failed" not in result.summary


@pytest.mark.parametrize(
    ("read", "status"),
    [
        (whole(9, BOTH), Status.PASS),
        (whole(9, BOTH, at=0), Status.PASS),
        (whole(9, [], at=2), Status.UNKNOWN),
        (whole(9, BOTH[1:], at=1), Status.UNKNOWN),
    ],
)
def test_a_read_that_begins_above_the_start_shows_no_whole_log(read, status):
    assert judged([A, B, read]).status is status


@pytest.mark.parametrize("acks", ["0", "1"])
def test_where_no_record_was_read_nothing_was_tried(acks):
    sent = [send(0, "a", 0, epoch=1), send(1, "b", 1, epoch=1)]
    result = judged([*sent, whole(9, [], epoch=2)], acks=acks)
    assert result.status is Status.UNDER_EXERCISED
