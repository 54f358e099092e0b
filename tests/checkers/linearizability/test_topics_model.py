"""Ids show which create a describe saw; no id may come back under another topic."""

import pytest

from checkers.history import EventType
from checkers.linearizability.linearizable import judge
from checkers.verdict import Status
from porcupine_py.models import Topics
from tests.checkers.histories import op
from tests.checkers.linearizability.oracle import is_linearizable


def create(index, begin, end, topic_id=None):
    output = None if topic_id is None else {"id": topic_id}
    return op(index, "create", (begin, end), input={"partitions": 1}, output=output)


def delete(index, begin, end):
    return op(index, "delete", (begin, end))


def describe(index, begin, end, topic_id):
    output = None if topic_id is None else {"id": topic_id, "partitions": 1}
    return op(index, "describe", (begin, end), output=output)


CASES = {
    "the id of the create is seen": (True, [create(0, 0, 1, "x"), describe(1, 2, 3, "x")]),
    "another id is seen": (False, [create(0, 0, 1, "x"), describe(1, 2, 3, "y")]),
    "an indeterminate create shows its id": (
        True,
        [create(0, 0, None), describe(1, 2, 3, "x"), describe(2, 4, 5, "x")],
    ),
    "an indeterminate create shows two ids": (
        False,
        [create(0, 0, None), describe(1, 2, 3, "x"), describe(2, 4, 5, "y")],
    ),
    "an acknowledged create did not return its id": (
        True,
        [create(0, 0, 1), describe(1, 2, 3, "x"), delete(2, 4, 5), describe(3, 6, 7, None)],
    ),
    "a shown id comes back with another indeterminate create": (
        False,
        [
            create(0, 0, None),
            describe(1, 2, 3, "x"),
            delete(2, 4, 5),
            create(3, 6, None),
            describe(4, 7, 8, "x"),
        ],
    ),
    "a returned id comes back with an indeterminate create": (
        False,
        [create(0, 0, 1, "x"), delete(1, 2, 3), create(2, 4, None), describe(3, 5, 6, "x")],
    ),
    "an id is seen before its create": (
        False,
        [create(0, 0, None), describe(1, 2, 3, "x"), delete(2, 4, 5), create(3, 6, 7, "x")],
    ),
    "two creates return one id": (
        False,
        [create(0, 0, 1, "x"), delete(1, 2, 3), create(2, 4, 5, "x")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_model_judges_histories_of_a_topic(name):
    right, operations = CASES[name]
    assert is_linearizable(operations, "topics") == right
    assert judge(operations, Topics()).status is (Status.PASS if right else Status.FAIL)


def test_a_wrong_number_of_partitions_is_seen():
    operations = [
        create(0, 0, 1, "x"),
        op(1, "describe", (2, 3), output={"id": "x", "partitions": 9}),
    ]
    assert judge(operations, Topics()).status is Status.FAIL


@pytest.mark.parametrize("error", ["not_controller", "unknown_server_error", None])
def test_a_refusal_for_another_reason_shows_nothing(error):
    refused = op(0, "create", (0, 1), input=None, type=EventType.FAIL, error=error)
    assert judge([refused], Topics()).status is Status.PASS
