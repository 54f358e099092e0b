"""Hard parts of models with few states: the compiled search over a table of steps."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porcupine_py import (
    PENDING,
    CheckResult,
    Model,
    NondeterministicModel,
    Operation,
    check_operations,
    check_operations_timeout,
    judging,
    tables,
)
from porcupine_py.kernels import load
from porcupine_py.search import wgl
from tests.porcupine_py.models import CAS_REGISTER, REGISTER, read, write
from tests.porcupine_py.test_differential import brute_force

VALUES = st.integers(0, 2)
READ_OR_REFUSAL = st.tuples(
    st.tuples(st.just("read"), st.none()), st.tuples(st.sampled_from(["ok", "fail"]), VALUES)
)
WRITE = st.tuples(
    st.tuples(st.just("write"), VALUES), st.tuples(st.sampled_from(["ok", "info"]), st.none())
)
CAS = st.tuples(
    st.tuples(st.just("cas"), st.tuples(VALUES, VALUES)),
    st.tuples(st.sampled_from(["ok", "fail", "info"]), st.none()),
)
CALLS = st.tuples(
    st.one_of(READ_OR_REFUSAL, WRITE, CAS), st.integers(0, 12), st.integers(0, 6), st.booleans()
)


def step(state, given_, output):
    """As for Go: what nobody knows of is `info`, and returns at the end."""
    if output is PENDING or output[0] != "info":
        return CAS_REGISTER.step(state, given_, output)
    f, value = given_
    if f == "write":
        return True, value
    return True, value[1] if state == value[0] else state


CAS_OR_INFO = Model(init=lambda: None, step=step)


@pytest.fixture
def everything_is_hard(monkeypatch):
    """Yield what the table's search returned, of each part."""
    monkeypatch.setattr(judging, "_EASY_MIN", 0)
    monkeypatch.setattr(judging, "_EASY_EACH", 0)
    found, real = [], tables.search

    def search(*arguments):
        found.append(real(*arguments))
        return found[-1]

    monkeypatch.setattr(tables, "search", search)
    return found


def test_the_compiled_search_agrees_with_brute_force(everything_is_hard):
    @settings(max_examples=300, deadline=None)
    @given(st.lists(CALLS, max_size=6))
    def agrees(calls):
        history = [
            Operation(0, given_, call, output, ends(output, call, length, lost))
            for (given_, output), call, length, lost in calls
        ]
        assert check_operations(CAS_OR_INFO, history) == brute_force(CAS_OR_INFO, history)

    agrees()
    assert {outcome.status.value for outcome in everything_is_hard if outcome} == {"PASS", "FAIL"}


def ends(output, call, length, lost):
    if output[0] == "info":
        return 20
    return None if lost else call + length


def many_writes(last):
    """Writes of few values, all concurrent, then reads one after another."""
    history = [write(i % 4 + 1, 0, 100, client=i) for i in range(24)]
    return [*history, *(read(v, 101 + 2 * i, 102 + 2 * i) for i, v in enumerate(last))]


@pytest.mark.parametrize(
    ("reads", "result"), [((4, 4), CheckResult.OK), ((4, 3), CheckResult.ILLEGAL)]
)
def test_a_hard_history_goes_on_compiled(reads, result, monkeypatch):
    entered, real = [], wgl.search

    def search(*arguments, **options):
        outcome = real(*arguments, **options)
        entered.append(outcome.explored)
        return outcome

    monkeypatch.setattr(wgl, "search", search)
    assert check_operations_timeout(REGISTER, many_writes(reads), 60) is result
    assert sum(entered) <= judging._EASY_MIN + 1


def test_what_is_no_register_is_searched_in_python(everything_is_hard):
    counter = Model(init=lambda: 0, step=lambda n, given, out: (out in (None, n), n + given))
    history = [Operation(i, 1, 0, None, 10) for i in range(5)]
    assert check_operations(counter, [*history, Operation(0, 0, 11, 5, 12)])
    assert not check_operations(counter, [*history, Operation(0, 0, 11, 4, 12)])
    assert everything_is_hard == [None, None]


def test_a_model_that_fails_where_no_order_leads_is_searched_in_python(everything_is_hard):
    def step(state, value, output):
        if state == 2 and value == 1:
            raise KeyError(value)
        return True, value

    model = Model(init=lambda: 0, step=step)
    assert check_operations(model, [write(1, 0, 1), write(2, 2, 3)])
    assert everything_is_hard == [None]


def test_states_that_grow_without_end_make_no_table(everything_is_hard):
    """They double with each step, and a table asks for more steps than an order has."""

    def steps(state, value, output):
        if output is not None:
            return [state] if state == output else []
        return [2 * state, 2 * state + value]

    model = NondeterministicModel(init=lambda: [0], step=steps).to_model()
    history = [Operation(i, 1, 0, None, 10) for i in range(3)]
    assert not check_operations(model, [*history, Operation(0, 0, 11, 8, 12)])
    assert everything_is_hard == [None]


def test_there_is_no_table_without_the_library(everything_is_hard, monkeypatch):
    monkeypatch.setenv("KRAFTPROBE_COMPILED", "0")
    assert load() is None
    assert check_operations(REGISTER, [write(1, 0, 1), read(1, 2, 3)])
    assert everything_is_hard == [None]
