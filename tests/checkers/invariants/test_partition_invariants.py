"""Each invariant of what a partition is owed at once: a broken look, and the closest right ones."""

import pytest

from checkers.invariants.partitions import PARTITIONS
from tests.checkers.invariants import watching
from tests.checkers.invariants.watching import broken_by


def broken(event, **fields):
    return watching.broken(event, name="t-0", **fields)


FETCHED = {"session": (3, 9, 7)}
OF_EPOCH, AT_LEADER = {"leader": "n2", "known": 8}, {"follower": 2, "has": (9, 7)}


@pytest.mark.parametrize(
    ("event", "given", "asked", "right", "wrong", "found"),
    [
        ("isr-answer", OF_EPOCH, "asked", (8, 9), (7,), "newest-changed"),
        ("isr-asked", {"agreed": 7}, "asked", (8,), (7,), "changed-once"),
        (
            *("session-sent", {**FETCHED, "rests_ms": 0}, "log", ((3, 9, 7),)),
            *(((4, 9, 7), (3, 9, 8)), "session-known"),
        ),
        ("session-sent", {**FETCHED, "log": (3, 9, 7)}, "rests_ms", (0,), (5,), "session-known"),
        ("held", {"high_watermark": 9}, "held", (8, 9), (10,), "held-committed"),
        (
            *("fetch-waits", AT_LEADER, "asked", ((9, 7), (10, 7), (9, 8)), ((8, 7), (9, 6))),
            "fetch-answered",
        ),
        ("voters-wait", {"epoch": 3, "high_watermark": 7}, "known", (7, 9), (6,), "fetch-answered"),
        ("waits-lost", {"epoch": 3}, "count", (0,), (1,), "fetch-answered"),
        ("directory-marked", {}, "directory", (), ("/d",), "mark-removed"),
        ("directory-left", {"directory": "/d"}, "lost", ([],), (["t-0/0.log"],), "clean-ends"),
        ("fetch-sent", {"offset": 9}, "kept", (9, 12), (8,), "fetched-written"),
        ("replica-placed", {"to_dir": "/b", "to": "B"}, "assigned", "B", "A", "moved-as-assigned"),
        ("replica-used", {"broker_epoch": 70}, "offset", (70, 90), (69,), "caught-up-first"),
        ("log-topic", {"topic": "b"}, "held", "b", "a", "own-topic"),
    ],
)
def test_a_look_is_right_up_to_its_bound(event, given, asked, right, wrong, found):
    """A member that has just joined, or a new leader, may have less; none has less than it owes."""
    assert [broken(event, **given, **{asked: value}) for value in right] == [[] for _ in right]
    assert [broken(event, **given, **{asked: value}) for value in wrong] == [[found] for _ in wrong]


@pytest.mark.parametrize(
    ("previous", "last", "is_known", "found"),
    [
        (7, 7, True, []),
        (-1, 7, False, []),
        (-1, -1, True, []),
        (-1, 7, True, ["clean-ends"]),
        (7, -1, False, ["clean-ends"]),
        (5, 7, True, ["clean-ends"]),
    ],
    ids=[
        *("its last end", "a log directory had no mark", "it was killed", "it forgets its end"),
        *("it was killed, and had ended in order before", "an earlier end"),
    ],
)
def test_a_broker_that_registers_names_its_last_end_in_order(previous, last, is_known, found):
    assert broken("registration-sent", previous=previous, last=last, is_known=is_known) == found


@pytest.mark.parametrize(
    ("acks", "high_watermark", "written_end", "found"),
    [
        (-1, 8, 9, ["acks-awaited"]),
        (-1, 9, 9, []),
        (-1, 9, 8, ["acks-awaited"]),
        (1, 9, 8, ["acks-awaited"]),
        (1, 0, 9, []),
        (0, 0, 0, []),
    ],
    ids=[
        *("not committed", "just that", "committed by others", "not written"),
        *("not committed, as is asked", "not asked"),
    ],
)
def test_a_produce_is_answered_once_its_acks_are_there(acks, high_watermark, written_end, found):
    marks = {"high_watermark": high_watermark, "written_end": written_end}
    assert broken("acknowledged", acks=acks, end=9, **marks) == found


@pytest.mark.parametrize(
    ("remembered_end", "high_watermark", "counted", "found"),
    [
        (8, 7, 60, ["remembered-in-log"]),
        (7, 8, 60, ["remembered-in-log"]),
        (7, 7, 60, []),
        (0, 6, 60, []),
        (7, 7, 90, ["remembered-in-log"]),
    ],
    ids=[
        "it remembers what was cut off",
        "it calls what it lacks committed",
        "it remembers its last batch, and all is committed",
        "it knows no producer",
        "it counts what was cut off",
    ],
)
def test_a_replica_remembers_what_is_in_its_log(remembered_end, high_watermark, counted, found):
    fields = {"remembered_end": remembered_end, "high_watermark": high_watermark}
    fields |= {"counted_bytes": counted, "held_bytes": 60}
    assert broken("remembered", log_end=7, **fields) == found


@pytest.mark.parametrize(
    ("asked", "error", "found"),
    [
        ([0, 2], "out_of_order_sequence_number", ["sequences"]),
        ([0, 2], "none", []),
        ([5, 6], "out_of_order_sequence_number", []),
        ([3, 4], "out_of_order_sequence_number", []),
    ],
    ids=[
        "a retry that is refused",
        "a retry that is known",
        "the producer was not known, and its second batch came first",
        "other records in one of the same sequence",
    ],
)
def test_what_is_remembered_of_a_producer_is_not_refused(asked, error, found):
    held = [[0, 2], [3, 3]]
    assert broken("producer-answer", producer=7, asked=asked, error=error, held=held) == found


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ([(0, 2, 9), (4, 4, 10)], ["sequences"]),
        ([(4, 4, 9), (0, 2, 12)], ["sequences"]),
        ([(0, 2, 9), (3, 3, 10)], []),
        ([(2**31 - 2, 2**31 - 1, 9), (0, 0, 10)], []),
        ([(3, 3, 8), (4, 6, 11)], ["sequences"]),
        ([(3, 3, 8), (4, 6, 12)], []),
    ],
    ids=[
        "a gap",
        "an earlier one behind",
        "one behind the other",
        "they begin again",
        "another replica remembers more of a batch",
        "another batch that ends with the same sequence",
    ],
)
def test_sequences_of_a_producer_follow_one_another(batches, found):
    looked = {"name": "t-0", "producer": 7, "epoch": 0}
    one = ("n1", "producer-batches", looked | {"batches": [(3, 6, 11)]})
    other = ("n2", "producer-batches", looked | {"batches": batches})
    assert broken_by(one, other, among=PARTITIONS) == found


@pytest.mark.parametrize(
    ("asked", "answer", "found"),
    [
        (4, ("none", 4), []),
        (-1, ("none", 5), []),
        (3, ("none", 2), ["deletes-asked"]),
        (4, ("none", 6), ["deletes-asked"]),
        (8, ("none", 5), ["deletes-asked"]),
        (-2, ("none", 5), ["deletes-asked"]),
        (8, ("offset_out_of_range", -1), []),
        (-2, ("offset_out_of_range", -1), []),
        (7, ("offset_out_of_range", -1), ["deletes-asked"]),
        (0, ("policy_violation", -1), ["deletes-asked"]),
        (7, ("request_timed_out", -1), []),
        (7, None, ["deletes-asked"]),
    ],
)
def test_what_is_committed_is_deleted_when_that_is_asked(asked, answer, found):
    assert broken("deletion", asked=asked, answer=answer, log=(5, 7)) == found
