"""Rules in columns: what brute force calls right they find an order for, and nothing else."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkers import Status, certificate, check, columnar
from checkers.certificate import RefusedError, verify_order
from checkers.columnar import judge_columns
from checkers.columns import from_operations
from checkers.models import model_named, relevant
from checkers.rules import RULES
from checkers.rules.arrays import array_rule_for
from checkers.verdict import CheckResult
from tests.checkers.histories import FAIL, INFO, op
from tests.checkers.more_worlds import RULED
from tests.checkers.oracle import is_linearizable
from tests.checkers.test_rules import draw

CASES = 1_500
TYPES = [name for name in RULED if name != "producer-ids"]


def arranged(operations, name):
    """The order that the rule in columns finds and its verifier accepts, as indexes; else None."""
    columns = from_operations(operations)
    rule = array_rule_for(model_named(name))
    order = rule.arrange(columns)
    if order is None:
        return None
    try:
        rule.verify(columns, order)
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
    plain = RULES[name][0](relevant(operations, model), model)
    if plain is not None and plain.status is Status.PASS:
        assert order is not None, "the plain rule finds an order"
    return truth, order is not None


@pytest.mark.parametrize("kind", [f"unique {name}" for name in TYPES])
def test_an_order_is_found_for_what_brute_force_calls_right(kind):
    seen = Counter(compared(Random(f"{kind}-{case}"), kind) for case in range(CASES))
    assert seen[True, True] > CASES / 3
    assert seen[False, False] > CASES / 20
    assert seen[False, True] == 0


@pytest.mark.parametrize("kind", ["any queue", "any stack", "any list-append"])
def test_repeated_values_make_no_rule_in_columns_wrong(kind):
    seen = Counter()
    for case in range(CASES // 3):
        operations = draw(Random(f"{kind}-{case}"), kind)
        truth = is_linearizable(operations, kind.split()[1])
        order = arranged(operations, kind.split()[1])
        assert truth or order is None
        if order is not None:
            verify_order(operations, model_named(kind.split()[1]), order)
        seen[truth, order is not None] += 1
    assert seen[True, True] > 10


@pytest.mark.parametrize("kind", [f"unique {name}" for name in TYPES])
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(rnd=st.randoms(use_true_random=False))
def test_no_counterexample_to_a_rule_in_columns_is_found(kind, rnd):
    compared(rnd, kind)


@pytest.mark.parametrize("kind", [f"unique {name}" for name in TYPES] + ["any queue", "any stack"])
def test_the_verifier_in_columns_agrees_with_the_plain_one(kind):
    """On right orders, and on orders that were spoiled in one place or two."""
    seen = Counter()
    name = kind.split()[1]
    for case in range(CASES):
        rnd = Random(f"verify-{kind}-{case}")
        operations = draw(rnd, kind)
        columns = from_operations(operations)
        model = model_named(name).prepare(operations)
        order = arranged(operations, name) or [o.index for o in relevant(operations, model)]
        for _ in range(rnd.choice([0, 1, 1, 2])):
            _spoil(rnd, order, operations)
        try:
            verify_order(operations, model, order)
            plain = True
        except RefusedError:
            plain = False
        row_of = {int(index): row for row, index in enumerate(columns.index)}
        try:
            array_rule_for(model).verify(columns, np.array([row_of[i] for i in order], np.int64))
            mine = True
            said = ""
        except RefusedError as refusal:
            mine, said = False, str(refusal)
        # What is not plain enough is refused, and left to the plain verifier.
        assert mine == plain or "plain" in said or _beyond(operations, order), (operations, order)
        assert plain or not mine, (operations, order)
        seen[plain, mine] += 1
    assert min(seen[True, True], seen[False, False]) > 100


def _beyond(operations, order):
    """An indeterminate operation other than an insertion was placed: no rule does that."""
    info = {o.index for o in operations if o.type is INFO and o.f in ("dequeue", "pop")}
    return bool(info & set(order))


def _spoil(rnd, order, operations):
    if len(order) > 1 and rnd.random() < 0.6:
        at = rnd.randrange(len(order) - 1)
        order[at], order[at + 1] = order[at + 1], order[at]
    elif order and rnd.random() < 0.5:
        order.pop(rnd.randrange(len(order)))
    elif operations:
        order.insert(rnd.randint(0, len(order)), rnd.choice(operations).index)


LONG = {
    "queue": ("enqueue", "dequeue", "fifo"),
    "stack": ("push", "pop", "lifo"),
}


@pytest.mark.parametrize("name", LONG)
def test_long_histories_are_judged_in_columns_and_spoiled_ones_by_objects(name):
    into, out_of, algorithm = LONG[name]
    operations = []
    for i in range(400):
        operations.append(op(2 * i, into, (10 * i, 10 * i + 12), input=f"v{i}"))
        operations.append(op(2 * i + 1, out_of, (10 * i + 5, 10 * i + 14), output=f"v{i}"))
    operations.append(op(900, out_of, (5_000, 5_001), error="empty", type=FAIL))
    (told,) = judge_columns(from_operations(operations), model_named(name))
    assert (told.status, told.algorithm) == (Status.PASS, algorithm)
    assert "801 of 801 operations placed" in told.summary
    verify_order(operations, model_named(name), told.certificate["linearization"])
    operations.append(op(901, out_of, (5_000, 5_001), output="v9"))
    (told,) = judge_columns(from_operations(operations), model_named(name))
    assert (told.status, told.anomalies[0]["kind"]) == (Status.FAIL, "repeated")


def test_an_order_that_a_verifier_refuses_is_never_a_verdict(monkeypatch):
    operations = [op(i, "add", (i, i), input=1) for i in range(300)]
    operations.append(op(300, "read", (400, 401), output=299))
    real = columnar.array_rule_for(model_named("counter"))
    monkeypatch.setattr(
        type(real), "arrange", property(lambda self: lambda columns: np.arange(len(columns)))
    )
    result = check(operations, "counter")
    assert isinstance(result, CheckResult)
    (result,) = judge_columns(from_operations(operations), model_named("counter"))
    assert (result.status, result.anomalies[0]["kind"]) == (Status.FAIL, "too-low")


@pytest.mark.parametrize("shown", [[1, True], [1, 1.0], ["1"], [[1]], [None]])
def test_elements_that_only_look_alike_are_told_apart(shown):
    operations = [op(i, "add", (i, i), input=i) for i in range(300)]
    operations.append(op(300, "read", (400, 401), output=[*range(2, 300), 0, *shown]))
    (result,) = judge_columns(from_operations(operations), model_named("set"))
    assert result.status is Status.FAIL
