"""Orders that explain transactions, against every order that there is."""

from collections import Counter
from itertools import combinations, permutations
from random import Random

import pytest

from checkers.history import EventType
from checkers.transactions import serial
from checkers.transactions.operations import Edge, transactions
from checkers.transactions.serial import Answer, explain, explain_snapshots
from tests.checkers.histories import op

OK, INFO = EventType.OK, EventType.INFO


def drawn(rnd):
    """Transactions of a serial run, of which a read may be spoilt, and some edges of its order."""
    values, found = {"x": None, "y": None}, []
    given = Counter()
    for _ in range(rnd.randint(2, 5)):
        steps = []
        for _ in range(rnd.randint(1, 3)):
            key = rnd.choice("xy")
            if rnd.random() < 0.5:
                given[key] += rnd.random() < 0.9  # else a value is written again
                values[key] = given[key]
                steps.append(["w", key, values[key]])
            else:
                steps.append(["r", key, values[key]])
        found.append(steps)
    for steps in found:
        for step in steps:
            if step[0] == "r" and rnd.random() < 0.2:
                step[2] = rnd.choice([None, *range(1, given[step[1]] + 1)])
    pairs = [pair for pair in combinations(range(len(found)), 2) if rnd.random() < 0.5]
    optional = rnd.choice([None, *range(len(found))]) if rnd.random() < 0.3 else None
    pairs = [pair for pair in pairs if optional not in pair]
    order = rnd.sample(range(len(found)), len(found))  # of completion
    asked = [[[f, k, None if f == "r" else v] for f, k, v in steps] for steps in found]
    every = transactions(
        [
            op(i, "txn", (0, None), input=asked[i], type=INFO)
            if i == optional
            else op(i, "txn", (0, 9 + order[i]), input=asked[i], output=steps)
            for i, steps in enumerate(found)
        ],
        "w",
    )
    must, may = ([t for t in every if (t.type is kind)] for kind in (OK, INFO))
    edges = [Edge(*pair, "realtime", "before") for pair in pairs]
    return must, may, [*edges, *seen(must)]


def seen(must):
    """Edges from who wrote a value, if only one did, to those that read it."""
    for reader in must:
        for step in reader.external_reads():
            writers = [t for t in must if step.value in finals(t).get(step.key, ())]
            if len(writers) == 1 and writers[0] is not reader:
                yield Edge(writers[0].index, reader.index, "wr", "was read", step.key)


def finals(transaction):
    """The value that a transaction leaves of each key."""
    return {step.key: (step.value,) for step in transaction.writes("w")}


def serial_order(must, may, edges):
    """The first order of all permutations that explains what was read; None: there is none."""
    for chosen in ([], may):
        for order in permutations([*must, *chosen]):
            place = {t.index: n for n, t in enumerate(order)}
            kept = [e for e in edges if e.source in place and e.target in place]
            if all(place[e.source] < place[e.target] for e in kept) and explains(order):
                return order
    return None


def explains(order):
    values = {}
    for transaction in order:
        external = transaction.external_reads() if transaction.type is OK else ()
        reads = {step.key: step.value for step in external}  # that they agree is judged before
        if any(values.get(key) != value for key, value in reads.items()):
            return False
        values.update({step.key: step.value for step in transaction.writes("w")})
    return True


def is_circle(cycle):
    ends = [(edge.source, edge.target) for edge in cycle]
    return all(here[1] == after[0] for here, after in zip(ends, [*ends[1:], ends[0]], strict=True))


@pytest.mark.parametrize("first_steps", [-1, serial.FIRST_STEPS], ids=["saturated", "searched"])
def test_there_is_an_order_where_one_of_all_permutations_is_one(monkeypatch, first_steps):
    """The first search meets its bound at once, so that all that follows from the edges decides."""
    monkeypatch.setattr(serial, "FIRST_STEPS", first_steps)
    answers = Counter()
    for seed in range(600):
        must, may, edges = drawn(Random(seed))
        found = explain(must, may, edges, lambda: False)
        truth = serial_order(must, may, edges)
        assert found.answer is (Answer.NONE if truth is None else Answer.ORDER), seed
        assert not found.cycle or is_circle(found.cycle), seed
        if truth is not None:  # a serial order is one of snapshots
            snapshots = explain_snapshots(must, may, edges, lambda: False)
            assert snapshots.answer is Answer.ORDER, seed
        answers[found.answer, bool(found.cycle)] += 1
    assert min(answers.values()) > 40, answers
    assert len(answers) == (3 if first_steps < 0 else 2)
