"""Small faults put into chains, encoding and race: brute force or a verifier notices each.

A fault counts as noticed when a verdict is wrong, when a proof is refused (UNKNOWN), or when the
checker dies. What no fault may do is go unnoticed, and the battery finds nothing in a sound checker.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from checkers.linearizability.columnar import judge_columns
from checkers.verdict import Status
from porcupine_py.columns import from_operations
from porcupine_py.kernels import load
from porcupine_py.models import model_named, relevant
from porcupine_py.search import chains, clusters, encoding, race, refused
from porcupine_py.search.outcome import Budget
from tests.checkers.histories import FAIL, op, random_history, repeated_strings, write
from tests.checkers.linearizability.oracle import is_linearizable
from tests.checkers.linearizability.test_searches import SEARCHES, crowd

MUTANTS = {}


def mutant(fault):
    MUTANTS[fault.__name__] = fault
    return fault


def battery() -> Iterator[str]:
    """Yield a complaint for every verdict that a right checker would not give."""
    (helped,) = judge_columns(from_operations(HELPED), model_named("cas-register"))
    if helped.status is not Status.PASS:
        yield helped.summary
    for last, truth_of_all in (("ab", Status.PASS), ("ba", Status.FAIL)):
        (strings,) = judge_columns(from_operations(repeated_strings(last)), model_named("kv"))
        if strings.status is not truth_of_all:
            yield strings.summary
    for seed in range(400):
        for kind in ("unique-cas-register", "cas-register", "unique-register", "register", "kv"):
            rnd = Random(seed)
            name = kind.removeprefix("unique-")
            operations, truth = [], {}
            for k in range(2):
                some, _ = random_history(rnd, kind, size_max=rnd.randint(2, 7))
                operations += [replace(o, key=f"k{k}", index=o.index + 100 * k) for o in some]
                truth[f"k{k}"] = Status.PASS if is_linearizable(some, name) else Status.FAIL
            model = model_named(name)
            for result in judge_columns(from_operations(operations), model):
                if result.status is not truth[result.key]:
                    yield f"{kind} {seed}: {result.summary}"
    yield from _narrow()


HELPED = [
    op(0, "cas", (2, 6), input=[0, 1], type=FAIL),
    write(1, 1, 5, None),
    op(2, "cas", (5, 7), input=[None, 1], type=FAIL),
    op(4, "cas", (7, 13), input=[None, 0], type=FAIL),
    write(3, 0, 9, 11),
    op(5, "cas", (11, 15), input=[1, 0], type=FAIL),
]
"""The one value that could explain operation 2 is what operation 5 must not meet."""


def _narrow() -> Iterator[str]:
    """The race may begin with a frontier that is far too narrow."""
    for seed in range(60):
        operations = crowd(Random(seed), 25, 5, 3)
        model = model_named("cas-register")
        encoded = encoding.encode(from_operations(operations), model)
        status = race.race(load(), encoded, [encoded.initial], Budget(), ["frontier"]).status
        if status is not SEARCHES["compiled wgl"](relevant(operations, model), model).status:
            yield f"race {seed}"


@mutant
def leaves_indeterminate_operations_out(patch):
    codes = encoding._codes

    def fewer(columns, model):
        code = codes(columns, model)
        code[columns.type == 2] = -1
        return code

    patch.setattr(encoding, "_codes", fewer)


@mutant
def reads_a_refused_cas_as_nothing(patch):
    codes = encoding._codes

    def fewer(columns, model):
        code = codes(columns, model)
        code[code == encoding.NOT] = -1
        return code

    patch.setattr(encoding, "_codes", fewer)


@mutant
def takes_touching_zones_for_a_conflict(patch):
    honest = clusters.conflicts
    patch.setattr(chains, "conflicts", lambda f, s: honest(f, s + 1))


@mutant
def overlooks_zones_that_overlap_by_one(patch):
    honest = clusters.conflicts
    patch.setattr(chains, "conflicts", lambda f, s: honest(f + 1, s - 1))


@mutant
def takes_every_value_for_unique(patch):
    patch.setattr(
        "checkers.linearizability.columnar.unique_keys",
        lambda e, n: np.ones(len(e.bounds) - 1, np.bool_),
    )
    patch.setattr("porcupine_py.search.dispatch.has_unique_values", lambda e, n: True)


@mutant
def lets_indeterminate_links_of_a_chain_take_no_effect(patch):
    patch.setattr(chains, "_spread_effect", lambda layout, found: None)


@mutant
def ignores_the_order_within_a_chain(patch):
    patch.setattr(chains, "_within", lambda layout, found, linked, judged: None)


@mutant
def shows_no_witness_of_effect(patch):
    patch.setattr(chains, "witnesses", lambda layout, successor, m: [int(layout.makers[m])])


@mutant
def helps_with_a_value_that_is_refused_itself(patch):
    build = refused.Helpers.__init__

    def careless(self, layout, found, linked):
        kept = layout.refused_cluster
        layout.refused_cluster = np.full_like(kept, -1)
        build(self, layout, found, linked)
        layout.refused_cluster = kept

    patch.setattr(refused.Helpers, "__init__", careless)


@mutant
def believes_a_narrow_frontier_that_died(patch):
    advance = race.FrontierRun.advance

    def believing(self, steps, bytes_max):
        return race.NONE if advance(self, steps, bytes_max) == race.DIED else self.status

    patch.setattr(race, "_WIDTHS", (1, 1 << 40))
    patch.setattr(race.FrontierRun, "advance", believing)


@mutant
def takes_every_string_for_unseen(patch):
    seen = encoding._hash_prefixes
    patch.setattr(
        encoding,
        "_hash_prefixes",
        lambda texts, ends: (seen(texts, ends)[0], np.zeros(1, np.int64)),
    )


@mutant
def hashes_strings_by_their_length(patch):
    def of_prefixes(hashes, begins, lengths):
        return lengths

    patch.setattr(encoding, "_of_prefixes", of_prefixes)


@pytest.mark.slow
def test_the_battery_finds_nothing_in_a_sound_checker():
    assert next(battery(), None) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_the_battery_notices(name, monkeypatch):
    MUTANTS[name](monkeypatch)
    try:
        complaint = next(battery(), None)
    except Exception as error:  # noqa: BLE001  (a checker that dies is noticed as well)
        complaint = repr(error)
    assert complaint is not None, "this fault would have gone unnoticed"
