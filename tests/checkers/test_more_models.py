"""Models that Knossos has: several registers at once, and a queue without order."""

import pytest

from checkers import HistoryError, Status, check
from tests.checkers.histories import op


def status(history, model, **options):
    return check(history, model, **options).status


def test_a_transaction_on_several_registers_is_one_step():
    both = op(0, "txn", (0, 1), input=[["w", "x", 1], ["w", "y", 1]])
    seen = op(1, "txn", (2, 3), input=None, output=[["r", "x", 1], ["r", "y", 1]])
    torn = op(1, "txn", (2, 3), input=None, output=[["r", "x", 1], ["r", "y", 0]])
    assert status([both, seen], "multi-register") is Status.PASS
    assert status([both, torn], "multi-register", initial={"y": 0}) is Status.FAIL
    assert status([torn], "multi-register", initial={"x": 1, "y": 0}) is Status.PASS


def test_a_read_of_null_on_several_registers_shows_nothing():
    write = op(0, "txn", (0, 1), input=[["write", "x", 1]])
    read = op(1, "txn", (2, 3), input=None, output=[["read", "x", None]])
    assert status([write, read], "multi-register") is Status.PASS


def test_what_is_no_step_on_a_register_is_refused():
    for value in (7, [["r", "x"]], [["cas", "x", 1]]):
        with pytest.raises(HistoryError, match="operation 0"):
            check([op(0, "txn", (0, 1), input=value)], "multi-register")
    with pytest.raises(ValueError, match="starts with a map"):
        check([], "multi-register", initial=7)


def test_a_queue_without_order_gives_back_what_is_in_it():
    history = [op(i, "enqueue", (i, i), input=i) for i in (1, 2)]
    history += [op(3, "dequeue", (4, 5), output=2), op(4, "dequeue", (6, 7), output=1)]
    assert status(history, "queue") is Status.FAIL
    assert status(history, "unordered-queue") is Status.PASS
    twice = [*history, op(5, "dequeue", (8, 9), output=1)]
    assert status(twice, "unordered-queue") is Status.FAIL


def test_an_unknown_dequeue_may_have_emptied_a_queue_without_order():
    history = [op(1, "enqueue", (1, 1), input=1), op(2, "dequeue", (4, 5))]
    assert status(history, "unordered-queue") is Status.FAIL
    lost = op(3, "dequeue", (2, None))
    assert status([*history, lost], "unordered-queue") is Status.PASS
