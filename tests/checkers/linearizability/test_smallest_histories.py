"""Verdicts that were wrong once, each with the smallest history that showed it."""

from dataclasses import replace
from random import Random

import pytest

from checkers import Status, check
from porcupine_py.models import model_named
from porcupine_py.search import outcome
from porcupine_py.search.certificate import RefusedError, verify_window
from porcupine_py.search.outcome import WALL_FACTOR, Budget, BudgetExceededError, Window
from porcupine_py.values import Keyword
from tests.checkers.histories import FAIL, op, read, verify, write


def verdict(operations, model):
    """Return status and kind; the certificate is accepted."""
    result = check(operations, model)
    assert verify(operations, model_named(model), result) is None
    return result.status, result.anomalies[0]["kind"] if result.anomalies else None


def test_a_refused_cas_that_lies_fails_beside_another_value():
    refused = op(2, "cas", (4, 5), input=[1, 2], type=FAIL)
    history = [write(0, 0, 0, 1), write(1, 1, 2, 3), refused, read(3, 1, 6, 7)]
    assert verdict(history, "cas-register") == (Status.FAIL, "refused-cas")


def test_a_value_that_is_delivered_three_times_fails():
    history = [op(0, "enqueue", (0, 1), input=1)]
    history += [op(i, "dequeue", (2 * i, 2 * i + 1), output=1) for i in (1, 2, 3)]
    assert verdict(history, "queue") == (Status.FAIL, "repeated")


def append(index, begin, end, *, at=None, value="x"):
    return op(index, "append", (begin, end), input=value, output=at)


def read_all(index, begin, end, *records):
    return op(index, "read-all", (begin, end), output=[list(record) for record in records])


def test_a_blind_retry_of_an_append_may_leave_two_records():
    history = [append(0, 0, 1, at=0), append(1, 2, None), read_all(2, 4, 5, (0, "x"), (1, "x"))]
    assert verdict(history, "log") == (Status.PASS, None)


def test_a_blind_retry_leaves_no_more_records_than_there_were_attempts():
    shown = [(0, "x"), (1, "x"), (2, "x")]
    history = [append(0, 0, 1, at=0), append(1, 2, None), read_all(2, 4, 5, *shown)]
    assert verdict(history, "log")[0] is Status.FAIL


def test_of_two_equal_records_the_earlier_attempt_may_be_either():
    """Neither returned an offset; one is at 0, below what was read, the other is read at 5."""
    tail = op(2, "read", (4, 5), input=3, output=[[5, "x"]])
    assert verdict([append(0, 0, 1), append(1, 2, 3), tail], "log") == (Status.PASS, None)
    assert verdict([append(0, 0, 9), append(1, 6, 9), tail], "log") == (Status.PASS, None)


def test_an_append_that_names_no_offset_has_to_be_in_the_log():
    assert verdict([append(0, 0, 1)], "log") == (Status.PASS, None)
    assert verdict([append(0, 0, 1), read_all(1, 4, 5)], "log")[0] is Status.FAIL
    assert verdict([append(0, 0, 9), read_all(1, 4, 5)], "log") == (Status.PASS, None)


def test_an_append_that_names_no_offset_needs_a_free_one():
    """Between 0 and 1 there is no room for it, between 0 and 2 there is."""
    first, unnamed = append(0, 0, 1, at=0, value="a"), append(1, 2, 3)
    without_room = [first, unnamed, append(2, 4, 5, at=1, value="b")]
    assert verdict(without_room, "log")[0] is Status.FAIL
    with_room = [first, unnamed, append(2, 4, 5, at=2, value="b")]
    assert verdict(with_room, "log") == (Status.PASS, None)
    hidden = op(3, "read", (6, 7), input=0, output=[[0, "a"], [2, "b"]])
    assert verdict([*with_room, hidden], "log")[0] is Status.FAIL


@pytest.mark.parametrize("value", [True, [1], Keyword("a")])
def test_a_window_of_a_right_log_proves_nothing(value):
    history = [append(0, 0, 1, value=value), read_all(1, 2, 3, (0, value))]
    with pytest.raises(RefusedError, match="can be linearized"):
        verify_window(history, model_named("log").prepare(history), Window((0, 1)))


def test_registrations_with_two_epochs_are_not_alike_in_a_window():
    """Open at its end are two of incarnation A: the second one explains the heartbeat."""
    rows = [("register", "A", {"epoch": 7}), ("register", "B", {"epoch": 5})]
    rows += [("register", "A", {"epoch": 3}), ("heartbeat", "A", {"epoch": 3, "fenced": False})]
    history = [
        op(i, f, (i, 3 if f == "heartbeat" else 9), input={"incarnation": who}, output=output)
        for i, (f, who, output) in enumerate(rows)
    ]
    assert verdict(history, "broker") == (Status.PASS, None)
    with pytest.raises(RefusedError, match="can be linearized"):
        verify_window(history, model_named("broker"), Window((0, 1, 2, 3), None, 3))


def crowd_of_strings(seed, clients=20, size=200):
    """A key that strings are put and appended to, with one get that shows what nobody wrote."""
    rnd = Random(seed)
    free, state, operations = [0] * clients, "", []
    for index in range(size):
        client = min(range(clients), key=free.__getitem__)
        begin = free[client] + rnd.randint(1, 1_000)
        free[client] = begin + rnd.randint(100, 10_000)
        f = rnd.choices(["get", "append", "put"], [50, 45, 5])[0]
        operations.append((rnd.randint(begin, free[client]), index, f, begin, free[client]))
    history = []
    for _, index, f, begin, end in sorted(operations):
        text = f"x {index} y"
        state = {"get": state, "append": state + text, "put": text}[f]
        values = {"output": state} if f == "get" else {"input": text}
        history.append(op(index, f, (begin, end), **values))
    wrong = next(o for o in history[int(0.9 * size) :] if o.f == "get" and o.output)
    spoilt = replace(wrong, output=wrong.output[: wrong.output.rindex("x")] + "x 0 y")
    history[history.index(wrong)] = spoilt
    return sorted(history, key=lambda o: (o.invoke_ns, o.index))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_wrong_string_among_twenty_clients_is_proved(seed):
    """The walk of one window had more configurations than could be tried: UNKNOWN."""
    history = crowd_of_strings(seed)
    result = check(history, "kv")
    assert result.status is Status.FAIL, result.summary
    assert verify(history, model_named("kv"), result) is None


@pytest.fixture
def clocks(monkeypatch):
    """Two clocks that stand still until a test moves them."""
    now = {"cpu": 100.0, "wall": 5000.0}
    monkeypatch.setattr(outcome.time, "process_time", lambda: now["cpu"])
    monkeypatch.setattr(outcome.time, "monotonic", lambda: now["wall"])
    return now


def test_a_time_limit_counts_processor_time(clocks):
    budget = Budget(2.0)
    clocks["wall"] += 2.0 * WALL_FACTOR  # the processor was somebody else's
    budget.spend()
    clocks["cpu"] += 2.1
    with pytest.raises(BudgetExceededError, match=r"^time limit of 2 s"):
        budget.spend()


def test_what_never_gets_the_processor_ends_as_well(clocks):
    budget = Budget(2.0).part(60.0)
    clocks["wall"] += 2.1 * WALL_FACTOR
    with pytest.raises(BudgetExceededError, match=r"^wall time limit of 40 s"):
        budget.spend()
