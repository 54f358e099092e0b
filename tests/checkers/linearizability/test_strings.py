"""Strings that are taken apart into what was put and appended, and judged without a search."""

from random import Random

import pytest

from benchmarks.checkers.generate import Shape, generate
from checkers.linearizability.columnar import judge_columns
from checkers.linearizability.linearizable import judge
from checkers.verdict import Status
from porcupine_py.columns import from_operations
from porcupine_py.models import model_named
from porcupine_py.models.parts import parts_of
from tests.checkers.histories import op, verify


def put(index, text, begin, end):
    return op(index, "put", (begin, end), input=text)


def append(index, text, begin, end):
    return op(index, "append", (begin, end), input=text)


def get(index, text, begin, end):
    return op(index, "get", (begin, end), output=text)


def chained(operations, initial=None):
    """Judge by `chains`, and have the proof accepted."""
    model = model_named("kv", initial)
    result = judge(operations, model, algorithm="chains")
    if result.status is not Status.UNKNOWN:
        assert verify(operations, model, result) is None
        (columns,) = judge_columns(from_operations(operations), model)
        assert columns.status is result.status
    return result


def kind_of(operations):
    result = chained(operations)
    assert result.status is Status.FAIL
    return result.anomalies[0]["kind"]


def test_strings_are_taken_apart_in_the_only_way_there_is():
    parts = parts_of(["", "ab", "abc", "xa", "y"], ["", "x"], ["a", "b", "c"])
    assert parts.torn == ("", "xa") or parts.torn == ("ab", "xa")
    assert set(parts.strings) == {"", "ab", "abc", "xa"}
    assert [parts.origin("get", text) for text in ("abc", "xa", "y")] == [
        parts.begins[""],
        parts.begins["x"],
        None,
    ]
    parts = parts_of(["xbc"], ["", "x", "unseen"], ["b", "c", "d"])
    assert parts.torn is None
    assert [parts.first[parts.steps[text][1]] for text in "bc"] == [parts.begins["x"]] * 2
    assert parts.origin("append", "d") is parts.origin("put", "unseen") is None


@pytest.mark.parametrize(
    ("got", "first", "appended"),
    [
        (["ab"], ["", "ab"], ["a", "b"]),
        (["ab"], [""], ["a", "b", "ab"]),
        (["aa"], [""], ["a", "a"]),
        (["x"], ["x", "x"], []),
        ([""], ["", ""], []),
        (["a"], [""], ["a", ""]),
        (["x" * 70], [""], ["x" * length for length in range(1, 66)]),
    ],
)
def test_strings_that_may_be_made_in_two_ways_are_not_taken_apart(got, first, appended):
    assert parts_of(got, first, appended) is None


def test_texts_that_come_twice_do_no_harm_where_nobody_sees_them():
    parts = parts_of(["xa"], ["", "x", "u", "u"], ["a", "v", "v"])
    assert parts.torn is None
    assert set(parts.strings) == {"xa"}


@pytest.mark.slow
def test_long_strings_share_what_they_begin_with():
    texts = [f"<{number}>" for number in range(2_000)]
    got = ["".join(texts[:length]) for length in range(2_001)]
    parts = parts_of(got, [""], texts)
    assert parts.torn is None
    assert len(parts.strings) == 2_001
    assert len(parts.first) == 2_001


def test_what_is_there_first_is_appended_to():
    operations = [append(0, "b", 0, 1), get(1, "ab", 2, 3)]
    assert chained(operations, "a").status is Status.PASS
    assert chained(operations).status is Status.FAIL


@pytest.mark.parametrize(
    ("operations", "kind"),
    [
        ([put(0, "x", 0, 1), get(1, "y", 2, 3)], "phantom-read"),
        ([append(0, "a", 0, 1), get(1, "aa", 2, 3)], "torn-append"),
        (
            [append(0, "a", 0, 9), put(1, "x", 0, 9), get(2, "a", 0, 9), get(3, "xa", 0, 9)],
            "torn-append",
        ),
        (
            [append(0, "a", 0, 9), append(1, "b", 0, 9), get(2, "a", 0, 9), get(3, "b", 0, 9)],
            "forked-append",
        ),
        ([append(0, "a", 0, 1), get(1, "", 2, 3), get(2, "a", 4, 5)], "stale-get"),
        ([get(0, "x", 0, 1), put(1, "x", 2, 3)], "read-before-write"),
        ([put(0, "x", 0, 1), put(1, "y", 2, 3), get(2, "x", 6, 7)], "stale-read"),
        # An acknowledged append is gone.
        ([append(0, "a", 0, 1), get(1, "", 2, 3)], "stale-read"),
        ([put(0, "x", 0, 1), append(1, "a", 2, 3), get(2, "x", 4, 5)], "stale-read"),
    ],
)
def test_wrong_strings_fail_by_name_with_a_window_that_is_accepted(operations, kind):
    assert kind_of(operations) == kind


@pytest.mark.parametrize(
    "operations",
    [
        [append(0, "a", 0, 1), append(1, "a", 2, 3), get(2, "aa", 4, 5)],
        [append(0, "ab", 0, 9), append(1, "a", 0, 9), append(2, "b", 0, 9), get(3, "ab", 4, 5)],
        # It fits in between, which a write of another value would not.
        [append(0, "", 4, 5), append(1, "a", 0, 1), get(2, "a", 2, 3), get(3, "a", 6, 7)],
    ],
)
def test_what_has_parts_in_more_ways_is_searched(operations):
    assert chained(operations).status is Status.UNKNOWN
    result = judge(operations, model_named("kv"))
    assert result.algorithm == "wgl"
    assert result.status in (Status.PASS, Status.FAIL)


def test_fifty_clients_on_one_key_need_no_search():
    operations = generate(Shape("kv", 50, 1_000, None, seed=3)).operations()
    result = judge(operations, model_named("kv"), time_limit_s=10)
    assert (result.status, result.algorithm) == (Status.PASS, "chains")


@pytest.mark.slow
def test_a_window_of_many_appends_to_one_string_is_small():
    """Leaving out whole strings is not enough where there is one: the window is cut in time."""
    rnd, operations, state = Random(1), [], ""
    for number in range(1_000):
        if rnd.random() < 0.5:
            state += f"<{number}>"
            operations.append(append(number, f"<{number}>", 2 * number, 2 * number + 1))
        else:
            shown = state[: state.rindex("<")] if number == 900 else state
            operations.append(get(number, shown, 2 * number, 2 * number + 1))
    result = judge(operations, model_named("kv"))
    assert result.status is Status.FAIL
    assert verify(operations, model_named("kv"), result) is None
    assert len(result.certificate["window"]) < 10
