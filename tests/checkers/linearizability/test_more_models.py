"""A queue without order, counters, and what indeterminate operations show."""

import pytest

from checkers import Status, check
from tests.checkers.histories import op


def status(history, model, **options):
    return check(history, model, **options).status


@pytest.mark.parametrize(
    ("amounts", "read", "expected"),
    [
        ([("increment", 5)], 5, Status.PASS),
        ([("increment", 5)], 1, Status.FAIL),
        ([("increment", None), ("decrement", None), ("increment", 2)], 2, Status.PASS),
        ([("add", 7), ("decrement", 3)], 4, Status.PASS),
        ([("add", 7), ("decrement", 3)], 6, Status.FAIL),
        ([("increment", -2), ("decrement", -5)], 3, Status.PASS),
        ([("increment", 0)], 0, Status.PASS),
        ([("increment", 2)], 2.0, Status.PASS),
    ],
)
def test_a_counter_counts_the_amounts(amounts, read, expected):
    history = [op(i, f, (2 * i, 2 * i + 1), input=n) for i, (f, n) in enumerate(amounts)]
    assert status([*history, op(8, "read", (90, 91), output=read)], "counter") is expected


@pytest.mark.parametrize(
    ("model", "unknown", "seen"),
    [
        ("log", {"f": "append", "input": 1}, {"f": "read-all", "output": [[0, 1]]}),
        ("counter", {"f": "increment", "input": 5}, {"f": "read", "output": 5}),
        ("producer-ids", {"f": "allocate"}, {"f": "allocate", "output": [0, 10]}),
        ("unique-ids", {"f": "generate"}, {"f": "generate", "output": 1}),
        ("topics", {"f": "create", "input": {}}, {"f": "describe", "output": {"id": "b"}}),
    ],
)
@pytest.mark.parametrize("said", [None, 1, 7, [5, 9], {"id": "a"}])
def test_what_an_indeterminate_operation_says_is_no_observation(model, unknown, seen, said):
    history = [op(0, times=(0, None), **unknown, output=said), op(1, times=(2, 3), **seen)]
    assert status(history, model) is Status.PASS


def test_an_indeterminate_dequeue_may_have_taken_another_value_than_it_says():
    history = [op(i, "enqueue", (i, i), input=i) for i in (1, 2)]
    history += [op(3, "dequeue", (3, None), output=2), op(4, "dequeue", (4, 5), output=2)]
    for model in ("queue", "unordered-queue"):
        assert status(history, model) is Status.PASS


def test_an_indeterminate_append_may_be_the_record_that_a_read_shows():
    """The acknowledged append of the same value began when the read was over."""
    unknown = op(0, "append", (0, None), input="a")
    read = op(1, "read-all", (2, 3), output=[[1, "a"]])
    later = op(2, "append", (4, 5), input="a")
    repeated = op(0, "append", (0, None), input="a", output="a")  # as Jepsen's clients complete it
    assert status([unknown, read, later], "log") is Status.PASS
    assert status([repeated, read, later], "log") is Status.PASS
    assert status([read, later], "log") is Status.FAIL
