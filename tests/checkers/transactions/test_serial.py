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

pytestmark = pytest.mark.slow
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


def found_by(transaction):
    """What a transaction read of others; that it read the same each time is judged before."""
    reads = transaction.external_reads() if transaction.type is OK else ()
    return {step.key: step.value for step in reads}


def seen(must):
    """Edges from who wrote a value, if only one did, to those that read it."""
    for reader in must:
        for key, value in found_by(reader).items():
            writers = [t for t in must if value is not None and left_by(t).get(key) == value]
            if len(writers) == 1 and writers[0] is not reader:
                yield Edge(writers[0].index, reader.index, "wr", "was read", key)


def left_by(transaction):
    """The value that a transaction leaves of each key."""
    return {step.key: step.value for step in transaction.writes("w")}


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
        if any(values.get(key) != value for key, value in found_by(transaction).items()):
            return False
        values.update(left_by(transaction))
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
    assert min(answers.values()) > 30, answers
    assert len(answers) == (3 if first_steps < 0 else 2)


def closure(pairs):
    """All pairs that follow from these."""
    while more := {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs:
        pairs = pairs | more
    return pairs


def by_rule(must, may, edges):
    """What follows of edges: who writes a key comes before what was read, or behind who read it."""
    known = closure({(e.source, e.target) for e in edges})
    wrote = {t.index: left_by(t) for t in (*must, *may)}
    reads = [
        (writers[0], reader.index, key)
        for reader in must
        for key, value in found_by(reader).items()
        for writers in [[i for i in wrote if wrote[i].get(key) == value]]
        if value is not None and len(writers) == 1 and writers[0] != reader.index
    ]
    sure = {t.index for t in must}
    while True:
        new = set()
        for writer, reader, key in reads:
            others = {i for i in sure if key in wrote[i]} - {writer, reader}
            if writer in sure:
                new |= {(other, writer) for other in others if (other, reader) in known}
                new |= {(reader, other) for other in others if (writer, other) in known}
        if new <= known:
            return known
        known = closure(known | new)


def test_all_that_follows_from_known_dependencies_is_found_and_no_more():
    circles = implied = 0
    for seed in range(600):
        must, may, edges = drawn(Random(seed))
        task = serial._task(serial._whole(must), serial._whole(may))
        number = {index: i for i, index in enumerate(task.indexes)}
        found = serial._saturate(task, number, edges, lambda: False)
        known, truth = closure({(e.source, e.target) for e in found}), by_rule(must, may, edges)
        is_circular = any(a == b for a, b in truth)
        assert is_circular == any(a == b for a, b in known), seed
        assert is_circular or known == truth, seed
        circles, implied = circles + is_circular, implied + (len(found) > len(edges))
    assert min(circles, implied) > 30, (circles, implied)
