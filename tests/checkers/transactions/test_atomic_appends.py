"""Atomicity of transactions on partitions: what Kafka promises FAILs when broken, and no more."""

from dataclasses import replace

import pytest

from checkers import Status
from checkers.history import NEMESIS, Event, EventType
from checkers.registry import CheckError, CheckSpec, RunInput, find_check
from checkers.transactions.atomic_appends import check
from tests.checkers.histories import op

OK, FAIL, INFO = EventType.OK, EventType.FAIL, EventType.INFO
S = 1_000_000_000


def a(key, value):
    return ["append", key, value]


def r(key, *values):
    return ["r", key, list(values)]


class History:
    """Operations of which each is done before the next begins, unless a test says otherwise."""

    def __init__(self):
        self.operations = []
        self.now = 0

    def add(self, f, *steps, kind=OK, times=None, **fields):
        index = len(self.operations)
        begin, end = times or (self.now, self.now + 1)
        self.now = max(self.now, begin, end or 0) + 1
        asked = [[g, k, None if g == "r" else v] for g, k, v in steps]
        done = None if kind is INFO else end
        self.operations.append(
            op(
                index,
                f,
                (begin, done),
                input=asked,
                output=list(steps) if kind is OK else asked,
                type=kind,
                process=index,
                **fields,
            )
        )
        return self

    def txn(self, *steps, **fields):
        return self.add("txn", *steps, **fields)

    def read(self, *steps, **fields):
        return self.add("read", *steps, **fields)

    def dirty(self, *steps, **fields):
        return self.add("read-uncommitted", *steps, **fields)

    def end(self, **lists):
        for key, values in lists.items():
            self.add("read-all", r(key, *values))
        return self


def judged(history, **options):
    result = check(RunInput([], history.operations), options)
    return result.status, {anomaly["kind"] for anomaly in result.anomalies}


PASS = (Status.PASS, set())


def failed(*kinds):
    return Status.FAIL, set(kinds)


def c(key, offset):
    return ["commit", key, offset]


def with_offset(offset, *, kind=OK, f="txn", times=None):
    """A transaction commits offset 1, another one offset 2; then this one is looked up."""
    history = History().txn(c("x", 1), a("x", 1))
    history.add(f, c("x", 2), a("x", 2), kind=kind)
    seen = (1, 2) if kind is OK and f == "txn" else (1,)
    history.add("offsets", r("x"), times=times)
    lookup = history.operations[-1]
    history.operations[-1] = replace(lookup, output=[["r", "x", offset]])
    return history.end(x=seen)


@pytest.mark.parametrize(
    ("offset", "fields", "found"),
    [
        (2, {}, PASS),
        (1, {}, failed("lost-offset")),
        (-1, {}, failed("lost-offset")),
        (9, {}, failed("phantom-offset")),
        (1, {"kind": FAIL}, PASS),
        (2, {"kind": FAIL}, failed("aborted-offset")),
        (2, {"kind": FAIL, "f": "zombie"}, failed("aborted-offset")),
        (2, {"kind": INFO, "f": "abort"}, failed("aborted-offset")),
        (1, {"kind": INFO}, PASS),
        (2, {"kind": INFO}, PASS),
        (-1, {"kind": INFO}, failed("lost-offset")),
        (1, {"times": (3, 9)}, PASS),  # it is looked up before the second one is done
    ],
)
def test_an_offset_shares_the_fate_of_its_transaction(offset, fields, found):
    history = with_offset(offset, **fields)
    last = history.add("offsets", r("x")).operations[-1]
    shown = 2 if (found[0] is not Status.FAIL and offset == 2) or not fields.get("kind") else 1
    history.operations[-1] = replace(last, output=[["r", "x", shown]])
    assert judged(history) == found


@pytest.mark.parametrize(
    ("early", "last", "found"),
    [
        (2, 2, failed("lost-offset")),  # it was seen before the third was committed
        (1, 2, PASS),  # it may have been committed after the third
        (1, 3, PASS),
        (2, 1, failed("lost-offset")),
    ],
)
def test_an_offset_without_an_answer_counts_from_when_it_is_seen(early, last, found):
    history = History().txn(c("x", 1), a("x", 1)).txn(c("x", 2), a("x", 2), kind=INFO)
    history.add("offsets", ["r", "x", early])
    if last != 1:
        history.txn(c("x", 3), a("x", 3))
    history.end(x=(1,) if last == 1 else (1, 3)).add("offsets", ["r", "x", last])
    assert judged(history) == found


@pytest.mark.parametrize(
    ("fault", "target", "heal", "found"),
    [
        ("partition", "n1", 99, PASS),
        ("partition", "n2", 99, failed("lost-offset")),
        ("kill", "n1", 99, failed("lost-offset")),
        ("partition", "n1", 4, failed("lost-offset")),  # by then every node knows who coordinates
    ],
)
def test_a_coordinator_that_was_cut_off_may_show_what_was_before(fault, target, heal, found):
    history = History().txn(c("x", 1), a("x", 1)).txn(c("x", 2), a("x", 2))
    history.add("offsets", ["r", "x", 1], node="n1")
    history.end(x=(1, 2)).add("offsets", ["r", "x", 2])
    value = {"phase": "inject", "targets": [target], "verified": True}
    notes = [
        Event(0, 0, NEMESIS, OK, fault, value=value),
        Event(1, heal, NEMESIS, OK, "phase", value={"name": "heal"}),
    ]
    result = check(RunInput(notes, history.operations), {})
    assert (result.status, {anomaly["kind"] for anomaly in result.anomalies}) == found


@pytest.mark.parametrize(("last", "found"), [(2, PASS), (1, failed("lost-offset"))])
def test_an_offset_that_was_replaced_does_not_come_back(last, found):
    history = History().txn(c("x", 1), a("x", 1), times=(0, 9))
    history.txn(c("x", 2), a("x", 2), times=(1, 99))
    for at, shown in ((10, 1), (20, 2), (30, last)):
        history.add("offsets", ["r", "x", shown], times=(at, at + 1))
    assert judged(history.end(x=(1, 2)).add("offsets", ["r", "x", 2])) == found


def test_an_offset_that_nobody_looked_up_in_the_end_is_unknown():
    history = History().txn(c("x", 1), a("x", 1)).end(x=[1])
    assert judged(history) == (Status.UNKNOWN, set())


def two():
    return History().txn(a("x", 1), a("y", 2))


# --- whole or not at all ---


def test_half_of_a_committed_transaction_in_the_end_is_torn():
    history = two().end(x=[1], y=[])
    assert judged(history) == failed("torn-transaction")
    (found,) = check(RunInput([], history.operations), {}).anomalies
    assert found["operations"] == [0, 1, 2]
    assert "see 1 in x, but not 2 in y" in found["explanation"]


def test_a_last_read_of_several_partitions_shows_each_as_it_is():
    for shown, expected in (([2], PASS), ([], failed("torn-transaction"))):
        history = History().txn(a("x", 1), a("y", 2)).add("read-all", r("x", 1), r("y", *shown))
        assert judged(history) == expected


# --- aborts and zombies ---


@pytest.mark.parametrize(
    ("f", "error", "expected"),
    [
        ("zombie", "producer_fenced", PASS),
        ("outlive", "invalid_producer_epoch", PASS),
        ("outlive", "invalid_txn_state", failed("fatal-refusal")),
        ("outlive", "timed-out", (Status.UNDER_EXERCISED, set())),
    ],
    ids=[
        "a zombie that is fenced is right",
        "a producer that outlived its transaction is fenced",
        "it is not ended",
        "transactions that should time out and never do show nothing",
    ],
)
def test_a_producer_that_may_not_go_on_is_refused_with_the_error_that_says_so(f, error, expected):
    history = two().add(f, a("x", 8), kind=FAIL, error=error)
    assert judged(history.end(x=[1], y=[2])) == expected


@pytest.mark.parametrize("f", ["zombie", "outlive"])
@pytest.mark.parametrize("x", [[1, 8], [1]], ids=["it is there", "it is not"])
def test_what_a_producer_commits_that_may_not_go_on_is_never_acknowledged(f, x):
    assert judged(two().add(f, a("x", 8)).end(x=x, y=[2])) == failed("zombie-commit")


# --- isolation that is not promised ---


def test_all_that_is_read_was_committed_and_not_only_the_last_of_it():
    history = History().txn(r("y", 2), a("x", 1), times=(0, 9)).txn(a("x", 3), times=(0, 9))
    history.txn(r("x", 1, 3), a("y", 2), times=(0, 9))
    assert judged(history.end(x=[1, 3], y=[2])) == failed("circular-reads")


def test_nobody_reads_uncommitted_what_is_appended_later():
    history = two().dirty(r("x", 1, 3)).add("abort", a("x", 3), kind=FAIL)
    assert judged(history.end(x=[1], y=[2])) == failed("circular-reads")
    history = two().add("abort", a("x", 3), a("x", 4), kind=FAIL).dirty(r("x", 1, 4, 3))
    assert judged(history.end(x=[1], y=[2])) == failed("append-order")
    history = two().add("abort", a("x", 3), kind=FAIL).dirty(r("x", 3)).dirty(r("x", 3, 1))
    assert judged(history.end(x=[1], y=[2])) == failed("append-order")


@pytest.mark.parametrize("function", ["abort", "zombie", "outlive", "abort-late"])
def test_what_nothing_could_commit_is_not_seen_however_it_ended(function):
    history = two().add(function, a("x", 3), kind=INFO)
    assert judged(history.end(x=[1, 3], y=[2])) == failed("aborted-read")


def test_a_last_read_that_may_have_begun_before_the_last_commit_shows_no_loss():
    history = two().txn(a("x", 3), times=(0, 9)).add("read-all", r("x", 1), times=(9, 10))
    assert judged(history.add("read-all", r("y", 2)))[0] is Status.UNKNOWN


def test_two_transactions_cannot_each_have_read_what_the_other_committed():
    history = History().txn(r("y", 2), a("x", 1), times=(0, 9))
    history.txn(r("x", 1), a("y", 2), times=(0, 9))
    assert judged(history.end(x=[1], y=[2])) == failed("circular-reads")


# --- a partition is a log ---


def test_nothing_is_there_twice_and_nothing_of_nobody():
    assert judged(two().end(x=[1, 1], y=[2])) == failed("duplicate")
    assert judged(two().end(x=[1, "junk"], y=[2])) == failed("phantom")


# --- read_uncommitted ---


@pytest.mark.parametrize(
    ("shown", "kind"),
    [((3,), "skipped"), ((3, 1), "skipped"), ((1, 1), "duplicate"), ((1, 77), "phantom")],
)
def test_read_uncommitted_shows_the_log_as_it_is(shown, kind):
    history = two().txn(a("x", 3)).dirty(r("x", *shown))
    status, kinds = judged(history.end(x=[1, 3], y=[2]))
    assert status is Status.FAIL
    assert kind in kinds


# --- the end ---


def test_without_a_whole_read_of_each_partition_nothing_is_known_of_the_end():
    assert judged(two().end(x=[1])) == (Status.UNKNOWN, set())
    early = History().add("read-all", r("x")).txn(a("x", 1))
    assert judged(early) == (Status.UNKNOWN, set())


def test_without_a_commit_nothing_was_tried():
    history = History().add("abort", a("x", 9), kind=FAIL).end(x=[])
    assert judged(history) == (Status.UNDER_EXERCISED, set())


def hanging(times, offsets):
    history = two().end(y=[2])
    for (begin, end), offset in zip(times, offsets, strict=True):
        history.add(
            "read-all",
            r("x"),
            kind=FAIL,
            times=(begin * S, end * S),
            error="open-transaction",
            offset=offset,
        )
    return history


def test_a_transaction_that_stays_open_for_longer_than_its_bound_hangs():
    history = hanging([(1, 6), (7, 12), (13, 22)], [4, 4, 4])
    assert judged(history, open_ms=20_000) == failed("hanging-transaction")


def test_one_that_is_tried_for_less_time_or_followed_by_another_does_not():
    history = hanging([(1, 6), (7, 12), (13, 20)], [4, 4, 4])
    assert judged(history, open_ms=20_000) == (Status.UNKNOWN, set())
    history = hanging([(1, 6), (7, 12), (13, 22)], [4, 5, 5])
    assert judged(history, open_ms=20_000) == (Status.UNKNOWN, set())


def test_one_that_is_over_before_the_last_try_does_not_either():
    history = hanging([(1, 6), (7, 30)], [4, 4])
    history.end(x=[1])
    assert judged(history, open_ms=20_000) == PASS


def test_a_history_of_other_forms_is_refused():
    twice = History().txn(a("x", 1)).txn(a("x", 1)).end(x=[1])
    assert judged(twice) == (Status.UNKNOWN, set())
    with pytest.raises(CheckError, match="open_ms must be above 0"):
        find_check(CheckSpec("atomic-appends", {"open_ms": 0}))
