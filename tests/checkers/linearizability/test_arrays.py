"""Rules in columns: what brute force calls right they find an order for, and nothing else."""

from collections import Counter
from random import Random

import numpy as np
import pytest

from checkers import Status, check
from checkers.linearizability.columnar import judge_columns
from checkers.verdict import CheckResult
from porcupine_py.columns import from_operations
from porcupine_py.models import model_named, relevant
from porcupine_py.search import certificate, replay, replay_types
from porcupine_py.search.certificate import RefusedError, verify_order
from porcupine_py.search.rules import RULES
from tests.checkers.histories import FAIL, INFO, op
from tests.checkers.invariants.more_worlds import RULED
from tests.checkers.linearizability.oracle import is_linearizable
from tests.checkers.linearizability.test_rules import draw
from tests.night import drawn

TYPES = [name for name in RULED if name != "producer-ids"]


def arranged(operations, name):
    """The order that the rule in columns finds and its verifier accepts, as indexes; else None."""
    columns = from_operations(operations)
    order = RULES[type(model_named(name))].arrange(columns)
    if order is None:
        return None
    try:
        replay.verify_orders(columns, model_named(name), order)
    except RefusedError:
        return None
    return columns.index[order].tolist()


def compared(rnd, kind):
    """Hold the rule in columns against brute force, the plain rule and the plain verifier."""
    operations = draw(rnd, kind)
    name = kind.split()[1]
    truth = is_linearizable(operations, name)
    order = arranged(operations, name)
    model = model_named(name).prepare(operations)
    if order is not None:
        assert truth, (operations, order)
        certificate.verify_order(operations, model, order)
    plain = RULES[type(model)].judge(relevant(operations, model), model)
    if plain is not None and plain.status is Status.PASS:
        assert order is not None, "the plain rule finds an order"
    return truth, order is not None


@pytest.mark.slow
@drawn(300, 6_000)
@pytest.mark.parametrize("kind", [f"unique {name}" for name in TYPES])
def test_an_order_is_found_for_what_brute_force_calls_right(kind, cases):
    seen = Counter(compared(Random(f"{kind}-{case}"), kind) for case in cases)
    assert seen[True, True] > len(cases) / 3
    assert seen[False, False] > len(cases) / 20
    assert seen[False, True] == 0


@drawn(100, 2_000)
@pytest.mark.parametrize("kind", ["any queue", "any list-append"])
def test_repeated_values_make_no_rule_in_columns_wrong(kind, cases):
    seen = Counter()
    for case in cases:
        operations = draw(Random(f"{kind}-{case}"), kind)
        truth = is_linearizable(operations, kind.split()[1])
        order = arranged(operations, kind.split()[1])
        assert truth or order is None
        if order is not None:
            verify_order(operations, model_named(kind.split()[1]), order)
        seen[truth, order is not None] += 1
    assert seen[True, True] > 10


VERIFIED = [f"unique {name}" for name in TYPES] + ["any queue"]


def accepted_by_both(kind, case):
    """(does the plain verifier accept an order, does the one in columns), spoiled or not."""
    rnd, name = Random(f"verify-{kind}-{case}"), kind.split()[1]
    operations = draw(rnd, kind)
    model = model_named(name).prepare(operations)
    order = arranged(operations, name) or [o.index for o in relevant(operations, model)]
    for _ in range(rnd.choice([0, 1, 1, 2])):
        _spoil(rnd, order, operations)
    return _accepted(operations, model, order)


def _accepted(operations, model, order):
    try:
        verify_order(operations, model, order)
        plain = True
    except RefusedError:
        plain = False
    columns = from_operations(operations)
    row_of = {int(index): row for row, index in enumerate(columns.index)}
    rows = np.array([row_of[i] for i in order], np.int64)
    try:
        replay.verify_orders(columns, model, rows)
        mine, reason = True, ""
    except RefusedError as refusal:
        mine, reason = False, str(refusal)
    # What is not plain enough is refused, and left to the plain verifier.
    if plain and not mine and ("plain" in reason or _beyond(operations, order)):
        return plain, plain
    return plain, mine


@pytest.mark.slow
@drawn(300, 6_000)
@pytest.mark.parametrize("kind", VERIFIED)
def test_the_verifier_in_columns_agrees_with_the_plain_one(kind, cases):
    """On right orders, and on orders that were spoiled in one place or two."""
    seen = Counter(accepted_by_both(kind, case) for case in cases)
    assert seen.keys() == {(True, True), (False, False)}
    assert min(seen.values()) > len(cases) / 15


TWICE = [
    op(0, "add", (0, 1), input=1),
    op(1, "add", (0, 1), input=2),
    op(2, "read", (2, 3), output=[1, 1]),
]


def test_no_verifier_lets_a_read_show_an_element_twice():
    assert _accepted(TWICE, model_named("set"), [0, 1, 2]) == (False, False)


def _accepts_where_nothing_is_met(patch):
    patch.setattr(replay_types, "verify_met", lambda *arguments: None)


def _overlooks_real_time_in_columns(patch):
    patch.setattr(replay_types, "verify_times", lambda *arguments: None)


def _overlooks_what_is_missing_in_columns(patch):
    verify_times = replay_types.verify_times
    patch.setattr(replay_types, "verify_placed", lambda c, order, *_: verify_times(c, order))


def _lets_a_read_repeat_an_element(patch):
    patch.setattr(replay_types, "_repeats", lambda _seen: False)


def _ignores_where_reads_of_a_log_begin(patch):
    patch.setattr(replay_types, "starts", lambda columns, rows: np.zeros(len(rows), np.int64))


FAULTS = [
    _accepts_where_nothing_is_met,
    _overlooks_real_time_in_columns,
    _overlooks_what_is_missing_in_columns,
    _lets_a_read_repeat_an_element,
    _ignores_where_reads_of_a_log_begin,
]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__.strip("_"))
def test_a_fault_of_the_verifiers_is_noticed(fault, monkeypatch):
    fault(monkeypatch)
    try:
        compared = [_accepted(TWICE, model_named("set"), [0, 1, 2])]
        compared += [accepted_by_both(kind, case) for kind in VERIFIED for case in range(60)]
    except IndexError:  # a verifier that dies is noticed as well
        return
    assert any(plain != mine for plain, mine in compared), "this fault would have gone unnoticed"


def _beyond(operations, order):
    """An indeterminate operation other than an insertion was placed: no rule does that."""
    info = {o.index for o in operations if o.type is INFO and o.f == "dequeue"}
    return bool(info & set(order))


def _spoil(rnd, order, operations):
    if len(order) > 1 and rnd.random() < 0.6:
        at = rnd.randrange(len(order) - 1)
        order[at], order[at + 1] = order[at + 1], order[at]
    elif order and rnd.random() < 0.5:
        order.pop(rnd.randrange(len(order)))
    elif operations:
        order.insert(rnd.randint(0, len(order)), rnd.choice(operations).index)


def test_long_histories_are_judged_in_columns_and_spoiled_ones_by_objects():
    operations = []
    for i in range(400):
        operations.append(op(2 * i, "enqueue", (10 * i, 10 * i + 12), input=f"v{i}"))
        operations.append(op(2 * i + 1, "dequeue", (10 * i + 5, 10 * i + 14), output=f"v{i}"))
    operations.append(op(900, "dequeue", (5_000, 5_001), error="empty", type=FAIL))
    (result,) = judge_columns(from_operations(operations), model_named("queue"))
    assert (result.status, result.algorithm) == (Status.PASS, "fifo")
    assert "801 of 801 operations placed" in result.summary
    verify_order(operations, model_named("queue"), result.certificate["linearization"])
    operations.append(op(901, "dequeue", (5_000, 5_001), output="v9"))
    (result,) = judge_columns(from_operations(operations), model_named("queue"))
    assert (result.status, result.anomalies[0]["kind"]) == (Status.FAIL, "repeated")


def test_an_order_that_a_verifier_refuses_is_never_a_verdict(monkeypatch):
    operations = [op(i, "add", (i, i), input=1) for i in range(300)]
    operations.append(op(300, "read", (400, 401), output=299))
    real = RULES[type(model_named("counter"))]
    monkeypatch.setattr(
        type(real), "arrange", property(lambda self: lambda columns: np.arange(len(columns)))
    )
    result = check(operations, "counter")
    assert isinstance(result, CheckResult)
    (result,) = judge_columns(from_operations(operations), model_named("counter"))
    assert (result.status, result.anomalies[0]["kind"]) == (Status.FAIL, "too-low")


@pytest.mark.parametrize("shown", [[1, True], [1, 1.0], ["1"], [[1]], [None]])
def test_elements_that_only_look_alike_are_distinguished(shown):
    operations = [op(i, "add", (i, i), input=i) for i in range(300)]
    operations.append(op(300, "read", (400, 401), output=[*range(2, 300), 0, *shown]))
    (result,) = judge_columns(from_operations(operations), model_named("set"))
    assert result.status is Status.FAIL


def test_what_one_model_was_shown_is_not_what_another_one_is():
    operations = [op(i, "append", (i, i), input=i, output=i) for i in range(300)]
    shown = [[i, i] for i in range(300)]
    columns = from_operations([*operations, op(300, "read", (400, 401), output=shown)])
    results = [judge_columns(columns, model_named(name))[0] for name in ("log", "list-append")]
    assert [result.status for result in results] == [Status.PASS, Status.FAIL]
