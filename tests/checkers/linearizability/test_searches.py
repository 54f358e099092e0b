"""Each search, plain and compiled, against brute force and against every other."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from checkers.verdict import Status
from porcupine_py.columns import from_operations
from porcupine_py.kernels import load
from porcupine_py.models import model_named, relevant
from porcupine_py.search import certificate, wgl
from porcupine_py.search.dispatch import raced_outcome
from porcupine_py.search.encoding import encode
from porcupine_py.search.outcome import Budget
from porcupine_py.search.race import race
from tests.checkers.histories import FAIL, FIRST_WORLDS, INFO, OK, op, random_history, read, write
from tests.checkers.linearizability.oracle import is_linearizable
from tests.night import drawn

REGISTERS = ["register", "cas-register", "unique-register", "unique-cas-register"]


def plain_wgl(kept, model):
    return wgl.search(kept, model, Budget())


def compiled(*algorithms):
    def run(kept, model):
        columns = from_operations(kept)
        encoded = encode(columns, model)
        raced = race(load(), encoded, [encoded.initial], Budget(), algorithms)
        assert raced.algorithm in algorithms
        return raced_outcome(raced, encoded, columns.index, kept, model)

    return run


SEARCHES = {
    "plain wgl": plain_wgl,
    "compiled wgl": compiled("wgl"),
    "compiled frontier": compiled("frontier"),
    "race": compiled("wgl", "frontier"),
}
PAIRS = [
    *((kind, name) for kind in REGISTERS for name in SEARCHES),
    *((kind, "plain wgl") for kind in FIRST_WORLDS if kind not in REGISTERS),
    ("kv", "compiled wgl"),
]


def proved(operations, model, outcome):
    """The verdict, after the independent verifier accepted its proof."""
    if outcome.status is Status.PASS:
        certificate.verify_order(operations, model, outcome.linearization)
    else:
        assert outcome.status is Status.FAIL
        certificate.verify_window(operations, model, outcome.window)
    return outcome.status is Status.PASS


@pytest.mark.slow
@drawn(200, 3_000)
@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_the_verdict_is_that_of_brute_force(kind, name, cases):
    seen = Counter()
    for seed in cases:
        rnd = Random(seed)
        operations, _ = random_history(rnd, kind, size_max=rnd.randint(1, 7))
        model = model_named(kind.removeprefix("unique-")).prepare(operations)
        truth = is_linearizable(operations, kind.removeprefix("unique-"))
        outcome = SEARCHES[name](relevant(operations, model), model)
        assert proved(operations, model, outcome) == truth, (seed, operations)
        seen[truth] += 1
    assert min(seen[True], seen[False]) > len(cases) / 12


def crowd(rnd, size, clients, values):
    """A longer history of a compare-and-set register with much concurrency, right or nearly."""
    state, now, busy, operations = None, 0, [0] * clients, []
    for index in range(size):
        client = min(range(clients), key=lambda c: busy[c])
        begin = busy[client] + rnd.randint(0, 3)
        end = begin + rnd.randint(0, 12)
        busy[client] = end + 1
        now = max(now, begin)
        f = rnd.choice(["read", "read", "write", "cas"])
        info = f != "read" and rnd.random() < 0.15
        given = None if f == "read" else rnd.randrange(values)
        if f == "cas":
            given = [rnd.choice([state, rnd.randrange(values)]), given]
        done = f == "read" or f == "write" or given[0] == state
        if done and f != "read" and not (info and rnd.random() < 0.5):
            state = given if f == "write" else given[1]
        kind = INFO if info else OK if done else FAIL
        operations.append(
            op(index, f, (begin, None if info else max(end, now)), input=given, type=kind)
            if f != "read"
            else read(index, state, begin, max(end, now))
        )
    if rnd.random() < 0.5:
        for at in rnd.sample(range(size), size // 4):
            if operations[at].f == "read":
                operations[at] = replace(operations[at], output=rnd.randrange(values))
    return operations


@pytest.mark.slow
def test_all_searches_agree_on_crowded_histories():
    seen = Counter()
    for seed in range(120):
        rnd = Random(seed)
        operations = crowd(rnd, rnd.randint(10, 40), rnd.randint(2, 6), rnd.randint(2, 4))
        model = model_named("cas-register").prepare(operations)
        kept = relevant(operations, model)
        verdicts = {name: run(kept, model) for name, run in SEARCHES.items()}
        statuses = {outcome.status for outcome in verdicts.values()}
        assert len(statuses) == 1, (seed, {n: o.status for n, o in verdicts.items()})
        for outcome in verdicts.values():
            proved(operations, model, outcome)
        seen[statuses.pop()] += 1
    assert min(seen[Status.PASS], seen[Status.FAIL]) > 15


@pytest.mark.parametrize("run", SEARCHES.values(), ids=SEARCHES)
def test_an_expiring_write_may_go_unused_or_be_placed_at_the_last_moment(run):
    operations = [
        write(0, 0, 2, None),
        read(1, 0, 4, 6),
        write(2, 0, 3, 7),
        write(3, 2, 4, 8),
        read(4, 2, 7, 12),
        read(5, 2, 10, 13),
    ]
    model = model_named("register")
    assert run(relevant(operations, model), model).status is Status.PASS


@pytest.mark.parametrize("run", SEARCHES.values(), ids=SEARCHES)
def test_equal_indeterminate_writes_are_as_many_as_there_are(run):
    def history(lost):
        hidden = [write(i, 1, 0, None) for i in range(lost)]
        shown = [
            o
            for i in range(3)
            for o in (
                write(10 + i, 2 + i, 10 * i, 10 * i + 1),
                read(20 + i, 1, 10 * i + 5, 10 * i + 6),
            )
        ]
        return [*hidden, *shown]

    model = model_named("register")
    for lost, status in ((3, Status.PASS), (2, Status.FAIL)):
        operations = history(lost)
        kept = sorted(relevant(operations, model), key=lambda o: (o.invoke_ns, o.index))
        assert run(kept, model).status is status
