"""Small faults put into chains, encoding and race: the battery notices each."""

import numpy as np
import pytest

from porcupine_py.search import chains, clusters, encoding, race, refused
from tests.checkers.battery import battery

MUTANTS = {}


def mutant(fault):
    MUTANTS[fault.__name__] = fault
    return fault


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
        status = advance(self, steps, bytes_max)
        return race.NONE if status == race.DIED else status

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


@pytest.mark.parametrize("name", MUTANTS)
def test_the_battery_notices(name, monkeypatch):
    MUTANTS[name](monkeypatch)
    assert next(battery(), None) is not None, "this fault would have gone unnoticed"
