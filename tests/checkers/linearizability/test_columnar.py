"""All keys of a history together: the verdicts that each gets alone, and orders that are verified."""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from checkers import check
from checkers.linearizability import columnar
from checkers.linearizability.columnar import judge_columns
from checkers.verdict import Status
from porcupine_py.columns import from_operations
from porcupine_py.models import Register, model_named
from porcupine_py.search import chains
from porcupine_py.search.certificate import RefusedError, verify_order
from porcupine_py.search.replay import verify_orders
from tests.checkers.histories import FAIL, op, random_history, read, verify, write
from tests.checkers.linearizability.oracle import is_linearizable

KINDS = ["register", "unique-register", "cas-register", "unique-cas-register", "kv", "set"]


def many_keys(seed, kind, keys):
    rnd = Random(seed)
    operations = []
    for k in range(keys):
        some, _ = random_history(rnd, kind, size_max=rnd.randint(1, 6))
        operations += [replace(o, key=f"k{k}", index=o.index + 100 * k) for o in some]
    return operations


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_gets_the_verdict_of_brute_force_and_a_proof(kind):
    seen = Counter()
    name = kind.removeprefix("unique-")
    for seed in range(30):
        operations = many_keys(seed, kind, keys=12)
        results = judge_columns(from_operations(operations), model_named(name))
        assert sorted(r.key for r in results) == sorted({o.key for o in operations})
        for result in results:
            mine = [o for o in operations if o.key == result.key]
            truth = is_linearizable(mine, name)
            assert (result.status is Status.PASS) == truth, (seed, result, mine)
            assert result.operations == len(mine)
            assert verify(mine, model_named(name), result) is None
            seen[truth, result.algorithm] += 1
    assert min(n for (truth, _), n in seen.items() if truth) > 0


def test_certificates_can_be_left_out_when_keys_pass_and_never_when_they_fail():
    operations = [write(0, 1, 0, 1, key="good"), read(1, 2, 0, 1, key="bad")]
    good, bad = judge_columns(from_operations(operations), Register(), certificates=False)
    assert (good.status, good.certificate) == (Status.PASS, None)
    assert (bad.status, bad.certificate["window"]) == (Status.FAIL, [1])


HISTORY = [
    write(0, 1, 0, 1),
    op(1, "cas", (2, 3), input=[1, 2]),
    op(2, "cas", (4, 5), input=[1, 3], type=FAIL),
    read(3, 2, 6, 7),
    write(4, 9, 6, None),
    write(5, 9, 0, 1, key="other"),
    read(6, 9, 2, 3, key="other"),
]


@pytest.mark.parametrize(
    ("order", "refusal"),
    [
        ([0, 1, 2, 3, 5, 6], None),
        ([0, 1, 2, 3, 4, 5, 6], None),
        ([5, 6, 0, 1, 2, 3], None),
        ([0, 1, 2, 3, 5], "operation 6 is missing"),
        ([0, 1, 3, 5, 6], "operation 2 is missing"),
        ([0, 1, 2, 3, 3, 5, 6], "twice"),
        ([0, 5, 1, 2, 3, 6], "mixed"),
        ([0, 2, 1, 3, 5, 6], "operation 1 had completed|refuses operation 2"),
        ([1, 0, 2, 3, 5, 6], "operation 0 had completed before one placed|refuses operation 1"),
        ([0, 1, 2, 4, 3, 5, 6], "refuses operation 3"),
    ],
)
def test_orders_are_verified_in_columns(order, refusal):
    columns = from_operations(HISTORY)
    row_of = {int(index): row for row, index in enumerate(columns.index)}
    rows = np.array([row_of[index] for index in order])
    if refusal is None:
        verify_orders(columns, model_named("cas-register"), rows)
    else:
        with pytest.raises(RefusedError, match=refusal):
            verify_orders(columns, model_named("cas-register"), rows)


def accepts(verifier, *arguments):
    try:
        verifier(*arguments)
    except RefusedError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cas-register", "kv"])
def test_the_verifiers_agree(name):
    """The readable one and the compiled one, or the one in columns."""
    seen = Counter()
    for seed in range(1200):
        rnd = Random(seed)
        operations, _ = random_history(rnd, name, size_max=rnd.randint(1, 4))
        columns, model = from_operations(operations), model_named(name)
        rows = rnd.sample(range(len(columns)), rnd.randint(0, len(columns)))
        if rnd.random() < 0.7:
            rows.sort()
        plain = accepts(verify_order, operations, model, columns.index[rows].tolist())
        order = np.array(rows, np.int64)
        assert accepts(verify_orders, columns, model, order) == plain, seed
        seen[plain] += 1
    assert min(seen[True], seen[False]) > 50


def test_what_is_not_judged_need_not_be_placed_and_must_not_be():
    columns = from_operations(HISTORY)
    judged = np.array([key == "other" for key in columns.keys])
    rows = {int(index): row for row, index in enumerate(columns.index)}
    for order, accepted in (([5, 6], True), ([5], False), ([5, 6, 0], False)):
        arguments = (np.array([rows[i] for i in order]), judged)
        assert accepts(verify_orders, columns, model_named("cas-register"), *arguments) is accepted


@pytest.mark.parametrize("name", ["cas-register", "kv", "counter"])
@pytest.mark.parametrize("row", [-1, 1])
def test_an_order_of_rows_that_are_not_there_is_refused(name, row):
    f = {"cas-register": "write", "kv": "put", "counter": "add"}[name]
    columns = from_operations([op(0, f, (0, 1), input=1 if f != "put" else "a")])
    model = model_named(name)
    verify_orders(columns, model, np.array([0]))
    with pytest.raises(RefusedError, match="not in the history"):
        verify_orders(columns, model, np.array([row]))


def test_orders_that_are_wrong_are_noticed_and_every_key_is_judged_anew(monkeypatch):
    honest = chains.judge

    def liar(encoded, *arguments, **named):
        judged = honest(encoded, *arguments, **named)
        if len(encoded.bounds) > 2:  # over all keys at once only
            judged.order = judged.order[::-1].copy()
            judged.wrong.clear()
        return judged

    monkeypatch.setattr(columnar.chains, "judge", liar)
    operations = [write(i, i, 10 * i, 10 * i + 1, key="a") for i in range(5)]
    operations += [write(10, 1, 0, 1, key="b"), read(11, 7, 2, 3, key="b")]
    results = judge_columns(from_operations(operations), Register())
    assert [(r.key, r.status) for r in results] == [("a", Status.PASS), ("b", Status.FAIL)]


def test_a_model_of_several_keys_parts_columns_as_it_wants():
    class Shared(Register):
        """One register behind all keys."""

        def partition(self, operations):
            return [list(operations)]

    history = [write(0, 1, 0, 1, key="a"), read(1, None, 2, 3, key="b")]
    for given in (history, from_operations(history)):
        assert check(given, Shared()).status is Status.FAIL
