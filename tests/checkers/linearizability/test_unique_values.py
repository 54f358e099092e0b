"""Clusters and chains in NumPy against brute force and against a search."""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from checkers.linearizability.linearizable import judge
from checkers.verdict import Status
from porcupine_py.columns import from_operations
from porcupine_py.models import model_named, relevant
from porcupine_py.search import certificate, chains
from porcupine_py.search.clusters import unique_keys
from porcupine_py.search.encoding import encode
from tests.checkers.histories import FAIL, op, random_history, read, verify, write
from tests.checkers.linearizability.oracle import is_linearizable
from tests.checkers.linearizability.test_searches import SEARCHES
from tests.night import drawn


def judged(operations, name):
    columns = from_operations(operations)
    encoded = encode(columns, model_named(name))
    unique = unique_keys(encoded, len(columns.values))
    return columns, encoded, unique, chains.judge(encoded, len(columns.values))


def several_keys(rnd, kind):
    """Operations over some keys, and by key whether they are right."""
    operations, truth = [], {}
    for k in range(rnd.choice([1, 1, 3])):
        some, _ = random_history(rnd, kind, size_max=rnd.randint(1, 7))
        some = [replace(o, key=f"k{k}", index=o.index + 100 * k) for o in some]
        truth[f"k{k}"] = is_linearizable(some, kind.removeprefix("unique-"))
        operations += some
    return operations, truth


@pytest.mark.slow
@drawn(400, 10_000)
@pytest.mark.parametrize("kind", ["unique-register", "unique-cas-register"])
def test_each_key_of_random_histories_gets_the_verdict_of_brute_force(kind, cases):
    seen = {True: 0, False: 0, None: 0}
    name = kind.removeprefix("unique-")
    for seed in cases:
        operations, truth = several_keys(Random(seed), kind)
        columns, encoded, unique, verdict = judged(operations, name)
        assert unique.all()
        for k, key in enumerate(columns.keys):
            mine = [o for o in operations if o.key == key]
            if k in verdict.undecided:
                seen[None] += 1
                continue
            assert (k not in verdict.wrong) == truth[key], (seed, mine)
            seen[truth[key]] += 1
            low, high = encoded.bounds[k], encoded.bounds[k + 1]
            if truth[key]:
                order = [p for p in verdict.order.tolist() if low <= p < high]
                indexes = columns.index[encoded.rows[order]].tolist()
                certificate.verify_order(mine, model_named(name), indexes)
    assert min(seen[True], seen[False]) > len(cases) / 5
    assert seen[None] < 0.02 * seen[True]
    assert kind == "unique-cas-register" or seen[None] == 0


def status_by_zones(rnd):
    """Hold what zones say of a register against a search; None where its values are not unique."""
    kind = rnd.choice(["unique-register", "unique-register", "register"])
    operations, _ = random_history(rnd, kind, size_max=rnd.choice([3, 8, 20, 60]))
    model = model_named("register")
    result = judge(operations, model, algorithm="zones")
    if result.status is not Status.UNKNOWN:
        assert verify(operations, model, result) is None
    kept = relevant(operations, model)
    written = [o.input for o in kept if o.f == "write"]
    if None in written or len(set(written)) < len(written):
        return None  # the columns leave useless writes out before they look for values made twice
    found = SEARCHES["compiled wgl"](kept, model).status
    assert (result.status, result.algorithm) == (found, "zones"), operations
    if found is Status.FAIL:
        assert len(result.certificate["window"]) <= 6
        (anomaly,) = result.anomalies
        assert anomaly["kind"] in {"phantom-read", "read-before-write", "stale-read"}
    return found


@pytest.mark.slow
@drawn(500, 20_000)
def test_zones_find_what_a_search_finds_and_prove_it(cases):
    seen = Counter(status_by_zones(Random(f"zones-{case}")) for case in cases)
    assert min(seen[Status.PASS], seen[Status.FAIL], seen[None]) > len(cases) / 8


@pytest.mark.parametrize(
    ("operations", "unique"),
    [
        ([write(0, 1, 0, 1), write(1, 2, 2, 3)], True),
        ([write(0, 1, 0, 1), write(1, 1, 2, 3)], False),
        ([write(0, 1, 0, 1), op(1, "cas", (2, 3), input=[5, 1])], False),
        ([write(0, 1, 0, 1), write(1, None, 2, 3)], False),
        ([write(0, 1, 0, 1, type=FAIL), write(1, 1, 2, 3)], True),
    ],
)
def test_uniqueness_is_a_property_of_each_key(operations, unique):
    alone = from_operations([*operations, read(8, 1, 4, 5)])
    encoded = encode(alone, model_named("cas-register"))
    assert unique_keys(encoded, len(alone.values)).tolist() == [unique]
    other = [write(10, 1, 0, 1, key="b"), read(11, 1, 2, 3, key="b")]
    both = from_operations([*operations, *other])
    encoded = encode(both, model_named("cas-register"))
    assert dict(zip(both.keys, unique_keys(encoded, len(both.values)).tolist(), strict=True)) == {
        None: unique,
        "b": True,
    }


CHAIN = [
    write(0, 1, 0, 1),
    op(1, "cas", (2, 3), input=[1, 2]),
    op(2, "cas", (4, 5), input=[2, 3]),
    read(3, 3, 6, 7),
]


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ([], None),
        ([read(9, 2, 6, 7)], "stale-cas"),
        ([op(9, "cas", (6, 7), input=[1, 9])], "forked-cas"),
        ([op(9, "cas", (6, 7), input=[8, 9])], "phantom-cas"),
        ([op(8, "cas", (6, 7), input=[8, 9]), op(9, "cas", (6, 7), input=[9, 8])], "circular-cas"),
        ([write(8, 8, 3, 4), read(9, 8, 4, 5)], "stale-read"),
        ([op(9, "cas", (6, 6), input=[3, 9], type=FAIL), read(8, 3, 8, 9)], "refused-cas"),
        ([op(9, "cas", (6, 7), input=[2, 9], type=FAIL)], None),
        ([op(9, "cas", (5, None), input=[3, 9])], None),
        ([op(9, "cas", (5, None), input=[3, 9]), read(8, 9, 7, 8)], None),
        ([op(9, "cas", (5, None), input=[2, 9]), read(8, 9, 7, 8)], "forked-cas"),
    ],
)
def test_chains_name_the_anomaly(more, kind):
    *_, verdict = judged([*CHAIN, *more], "cas-register")
    found = verdict.wrong[0].kind if verdict.wrong else None
    assert (found, verdict.undecided) == (kind, set())
    assert is_linearizable([*CHAIN, *more], "cas-register") is (kind is None)


def test_a_refused_cas_is_proved_wrong_beside_values_that_nothing_ties_to_it():
    """What is left out of a window might be what it saw, so nothing that has an effect is."""
    operations = [
        op(0, "cas", (1, 2), input=[None, 1], type=FAIL),
        *(read(1, None, 3, 4), write(2, 2, 5, 9), write(3, 3, 5, 8)),
    ]
    result = judge(operations, model_named("cas-register"), algorithm="chains")
    assert (result.status, result.anomalies[0]["kind"]) == (Status.FAIL, "refused-cas")
    assert verify(operations, model_named("cas-register"), result) is None


def test_an_unread_indeterminate_write_explains_a_refused_cas():
    operations = [
        *(write(0, 1, 0, 1), write(1, 2, 2, None)),
        op(2, "cas", (3, 4), input=[1, 9], type=FAIL),
        write(3, 3, 5, 6),
    ]
    _, encoded, _, verdict = judged(operations, "cas-register")
    assert (verdict.wrong, verdict.undecided) == ({}, set())
    assert encoded.rows[verdict.order].tolist() == [0, 1, 2, 3]


def test_keys_far_apart_in_time_are_refused_together():
    operations = [write(i, i, 2**60, 2**60 + 1, key=str(i)) for i in range(9)]
    columns = from_operations(operations)
    encoded = encode(columns, model_named("register"))
    assert chains.judge(encoded, len(columns.values)) is None
    assert chains.judge(encoded.select(np.array([0])), len(columns.values)).wrong == {}
    assert np.all(encoded.select(np.array([3])).rows == [3])
