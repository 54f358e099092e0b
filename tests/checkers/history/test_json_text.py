"""What may stand in a journal: exactly what is read again once it is written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.history.json_text import DEPTH_MAX, JsonError, is_json, parse


def is_read_again(value: object) -> bool:
    try:
        parse(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError, JsonError):
        return False
    return True


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


SINGLE = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | st.text(st.characters(), max_size=3)
    | st.binary(max_size=1)
)
VALUES = st.recursive(
    SINGLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=2) | st.integers(0, 2), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_a_value_is_json_if_it_is_read_again(value: object) -> None:
    assert is_json(value) == is_read_again(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"records": [[0, "a"], [1, "b"]], "high_watermark": 2}, True),
        ({"records": [[0, "a"], [1, "\ud800"]]}, False),
        ({"records": [[0, float("nan")]]}, False),
        ({1: "a", "1": "b"}, False),
        ([10**4300], False),
        ([[b"a"]], False),
        (nested(DEPTH_MAX), True),
        (nested(DEPTH_MAX + 1), False),
    ],
)
def test_what_only_looks_like_json_is_none(value: object, expected: bool) -> None:
    assert is_json(value) is expected
