"""Particular histories: closed intervals, indeterminacy, bounds, certificates, dispatch."""

from dataclasses import replace
from random import Random

import pytest

from checkers import Status, check
from checkers.history import EventType, HistoryError
from checkers.linearizability.linearizable import judge
from porcupine_py.models import Model, NondeterministicModel, Register, model_named
from porcupine_py.search import dispatch
from porcupine_py.search.outcome import Outcome, Window
from porcupine_py.values import Double, Keyword
from tests.checkers.histories import op, read, verify, write

FAIL = EventType.FAIL


def status(operations, model="register", **options):
    return judge(operations, model_named(model), **options).status


@pytest.mark.parametrize("algorithm", [None, "frontier", "wgl"])
@pytest.mark.parametrize("first", [False, Keyword("free"), [1, 2], {"a": 1}, Double(1.0)])
def test_what_is_there_first_may_be_any_value(first, algorithm):
    model = model_named("cas-register", first)
    taken = op(1, "cas", (2, 3), input=[first, "taken"])
    assert judge([read(0, first, 0, 1), taken], model, algorithm=algorithm).status is Status.PASS
    refused = replace(taken, type=FAIL)
    assert judge([read(0, first, 0, 1), refused], model, algorithm=algorithm).status is Status.FAIL


@pytest.mark.parametrize(
    ("operations", "kind"),
    [
        ([write(0, 1, 0, 1), read(1, 2, 2, 3)], "phantom-read"),
        ([read(0, 1, 0, 1), write(1, 1, 2, 3)], "read-before-write"),
        ([write(0, 1, 0, 1), write(1, 2, 2, 3), read(2, 1, 4, 5)], "stale-read"),
        ([write(0, 1, 0, 1), read(1, 1, 2, 3), read(2, None, 4, 5)], "stale-read"),
    ],
)
def test_zones_name_the_anomaly_and_show_a_small_window(operations, kind):
    others = [write(10 + i, 100 + i, 20 + i, 20 + i) for i in range(50)]
    result = judge([*operations, *others], Register())
    assert (result.algorithm, result.status) == ("zones", Status.FAIL)
    assert result.anomalies[0]["kind"] == kind
    assert {o["index"] for o in result.anomalies[0]["window"]} <= {o.index for o in operations}


def test_repeated_or_initial_values_send_zones_away():
    twice = [write(0, 1, 0, 1), write(1, 2, 2, 3), write(2, 1, 4, 5), read(3, 1, 6, 7)]
    assert judge(twice, Register()).algorithm == "wgl"
    assert judge([write(0, None, 0, 1)], Register()).algorithm == "wgl"
    forced = judge(twice, Register(), algorithm="zones")
    assert (forced.status, forced.certificate) == (Status.UNKNOWN, None)


def passing():
    return [
        write(0, 1, 0, 1),
        read(1, 1, 2, 3),
        write(2, 2, 2, 9),
        read(3, 2, 10, 11),
        write(4, 3, 0, None),
    ]


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ([0, 1, 2], "operation 3 is missing"),
        ([0, 1, 2, 3, 3], "twice"),
        ([0, 1, 2, 3, 99], "not in the history"),
        ([2, 3, 0, 1], "had completed before one placed earlier"),
        ([0, 2, 1, 3], "the model refuses operation 1"),
        ([0, 1, 2, 4, 3], "the model refuses operation 3"),
    ],
)
def test_a_tampered_order_is_refused(order, reason):
    result = judge(passing(), Register())
    assert verify(passing(), Register(), result) is None
    tampered = replace(result, certificate={"linearization": order})
    assert reason in verify(passing(), Register(), tampered)


def failing():
    return [
        write(0, 1, 0, 1),
        write(1, 2, 2, 3),
        read(2, 1, 4, 5),
        write(3, 5, 4, 6),
        read(4, 5, 7, 8),
    ]


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        (Window((0, 2)), "can be linearized"),
        (Window((1, 2)), "operation 0 may not be left out"),
        (Window((0, 1, 2, 99)), "do not belong"),
        (Window((0, 1, 2), horizon_ns=4), "do not belong"),
        (Window((2,), from_ns=4), "can be linearized"),
        (Window(()), "can be linearized"),
    ],
)
def test_a_tampered_window_is_refused(window, reason):
    result = judge(failing(), Register())
    assert (result.status, verify(failing(), Register(), result)) == (Status.FAIL, None)
    proof = {
        "window": list(window.operations),
        "from_ns": window.from_ns,
        "horizon_ns": window.horizon_ns,
    }
    assert reason in verify(failing(), Register(), replace(result, certificate=proof))


def test_a_mutation_may_not_be_left_out_of_a_window_of_another_model():
    operations = [write(0, 1, 0, 1), op(1, "cas", (2, 3), input=[1, 2]), read(2, 2, 4, 5)]
    lied = replace(
        judge(failing(), Register()),
        certificate={"window": [2], "from_ns": None, "horizon_ns": None},
    )
    assert "not be left out" in verify(operations, model_named("cas-register"), lied)


def test_a_wrong_verdict_of_an_algorithm_is_refused(monkeypatch):
    forged = Outcome(Status.PASS, "trust me", linearization=(0, 1, 2, 3, 4))
    monkeypatch.setattr(dispatch, "judged_outcome", lambda *_: forged)
    result = judge(failing(), Register())
    assert result.status is Status.UNKNOWN
    assert "CERTIFICATE REFUSED" in result.summary
    forged = Outcome(Status.FAIL, "trust me", window=Window((0, 1)))
    monkeypatch.setattr(dispatch, "judged_outcome", lambda *_: forged)
    assert judge(passing(), Register()).status is Status.UNKNOWN


def test_windows_are_small_even_at_the_end_of_a_long_history():
    rnd = Random(7)
    operations = []
    for i in range(400):
        begin = 10 * i
        operations.append(write(2 * i, rnd.randint(0, 4), begin, begin + 12))
        operations.append(write(2 * i + 1, 9, begin, begin + 1, type=FAIL))
    operations.append(read(900, 7, 5000, 5001))
    operations.append(op(901, "cas", (5002, 5003), input=[7, 1]))
    result = judge(operations, model_named("cas-register"))
    assert result.status is Status.FAIL
    assert len(result.certificate["window"]) <= 3


class Coin(NondeterministicModel):
    """`flip` shows one of two sides, and nobody knows which before it is read."""

    name = "coin"

    def init_states(self):
        return ["up"]

    def steps(self, state, operation):
        if operation.f == "flip":
            return ["up", "down"]
        return [state] if operation.output == state else []

    def has_effect(self, operation):
        return operation.f == "flip"


def test_a_nondeterministic_model_may_be_in_any_of_its_states():
    flip = op(0, "flip", (0, 1))
    down, up = op(1, "look", (2, 3), output="down"), op(2, "look", (4, 5), output="up")
    assert judge([flip, down], Coin()).status is Status.PASS
    assert judge([flip, down, up], Coin()).status is Status.FAIL
    assert judge([down], Coin()).status is Status.FAIL


class Folded(Model):
    """A register that does not distinguish upper from lower case."""

    name = "folded"

    def init(self):
        return ""

    def step(self, state, operation):
        if operation.f == "write":
            return True, operation.input
        return state.lower() == operation.output.lower(), state

    def equal(self, left, right):
        return left.lower() == right.lower()


def test_a_model_may_say_which_states_are_equal():
    operations = [write(0, "a", 0, 9), write(1, "A", 0, 9), read(2, "a", 10, 11)]
    assert judge(operations, Folded()).status is Status.PASS
    assert judge([*operations, read(3, "b", 12, 13)], Folded()).status is Status.FAIL


def test_operations_that_a_model_does_not_know_are_reported():
    with pytest.raises(HistoryError, match="has no function 'pop'"):
        check([op(0, "pop", (0, 1))], "register")
