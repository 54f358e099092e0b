"""Small faults put into the checkers: each is noticed by the battery, and a sound checker passes it."""

from dataclasses import replace

import numpy as np
import pytest

from checkers import registry
from checkers.evidence import assisted, log_audit
from checkers.guarantees import growth, sessions
from checkers.history import EventType
from checkers.transactions import list_append, search
from checkers.verdict import Status
from porcupine_py.models import base, parts, strings
from porcupine_py.models.base import Model, relevant
from porcupine_py.models.counters import ProducerIds
from porcupine_py.models.registers import CasRegister, Register
from porcupine_py.models.strings import KeyValue
from porcupine_py.models.topics import Topics
from porcupine_py.search import (
    certificate,
    chains,
    clusters,
    dispatch,
    encoding,
    race,
    refused,
    walk,
    wgl,
)
from porcupine_py.search.rules import collections, counter, ladder, log, offsets, queue
from tests.checkers.battery import battery


def everywhere(patch, changed):
    """Change what every checker is given."""
    patch.setattr(dispatch, "relevant", changed)


def _left(values, key):
    return next((i for i, value in enumerate(values) if value >= key), len(values))


REPLACED = {
    "drops_the_last_key": (
        registry,
        "group_by_key",
        lambda ops: {k: [o for o in ops if o.key == k] for k in {ops[0].key}},
    ),
    "takes_the_best_verdict_of_all_keys": (
        registry,
        "worst",
        lambda s: Status.PASS if Status.PASS in (all_ := list(s)) else all_[0],
    ),
    "accepts_phantom_reads": (
        Register,
        "step",
        lambda self, state, o: (True, state) if o.f == "read" else (True, base.freeze(o.input)),
    ),
    "ignores_a_refused_cas": (CasRegister, "observation", lambda self, o: None),
    "takes_all_indeterminate_operations_of_one_kind_for_alike": (
        Model,
        "same_effect",
        lambda self, o: o.f,
    ),
    "does_not_compare_reads_of_a_list": (collections, "_incompatible", lambda reads, appends: None),
    "counts_an_addition_at_its_completion": (counter, "bisect_right", _left),
    "takes_any_order_of_a_queue": (
        queue,
        "_value_order",
        lambda items: sorted(items, key=lambda i: i.into_from),
    ),
    "lets_a_queue_be_empty_at_any_time": (
        queue,
        "empty_moments",
        lambda found: [(o.invoke_ns, o) for o in found.empties],
    ),
    "overlooks_holes_in_reads_of_a_log": (log, "_holes", lambda *columns: None),
    "ignores_topic_ids": (
        Topics,
        "_describe",
        lambda self, s, o: ((not s.present) if o.output is None else s.present, s),
    ),
    "accepts_every_order": (certificate, "verify_order", lambda operations, model, order: None),
    "accepts_every_window": (
        certificate,
        "dead_end",
        lambda operations, model, states: (operations[0], ()),
    ),
    "lets_an_append_hide_what_is_open": (
        KeyValue,
        "forgets",
        lambda self, operation: operation.f != "get",
    ),
    "hides_reads_before_a_write": (Register, "always_legal", lambda self, operation: True),
    "calls_all_strings_indistinct": (
        KeyValue,
        "indistinct",
        lambda self, operations: lambda state: "",
    ),
    "takes_texts_that_come_twice_for_one": (
        parts,
        "Counter",
        lambda texts: dict.fromkeys(texts, 1),
    ),
    "takes_a_string_apart_in_the_first_of_two_ways": (
        parts._Reached,
        "ways",
        property(lambda self: 1, lambda self, ways: None),
    ),
    "calls_every_cycle_g2": (search, "_name", lambda cycle: "G2"),
    "lets_a_node_go_back": (growth, "_went_back", lambda answers: None),
    "lets_a_stale_read_skip_an_element": (growth, "inversion", lambda order: None),
    "takes_appended_records_for_committed": (assisted, "_committed_end", lambda evidence: 10**9),
    "lets_indeterminate_links_of_a_chain_take_no_effect": (
        chains,
        "_spread_effect",
        lambda layout, found: None,
    ),
    "ignores_the_order_within_a_chain": (
        chains,
        "_within",
        lambda layout, found, linked, judged: None,
    ),
    "shows_no_witness_of_effect": (
        chains,
        "witnesses",
        lambda layout, successor, m: [int(layout.makers[m])],
    ),
}
"""What a fault puts in the place of one name."""
MUTANTS = {fault: lambda patch, put=put: patch.setattr(*put) for fault, put in REPLACED.items()}


def mutant(fault):
    MUTANTS[fault.__name__] = fault
    return fault


@mutant
def ignores_indeterminate_operations(patch):
    everywhere(patch, lambda o, m: [x for x in relevant(o, m) if x.type is not EventType.INFO])


@mutant
def takes_indeterminate_operations_for_done(patch):
    everywhere(
        patch,
        lambda ops, m: [
            replace(o, type=EventType.OK, complete_ns=10**9) if o.type is EventType.INFO else o
            for o in relevant(ops, m)
        ],
    )


@mutant
def takes_failed_operations_for_done(patch):
    everywhere(
        patch,
        lambda ops, m: relevant(
            [replace(o, type=EventType.OK) if o.type is EventType.FAIL else o for o in ops], m
        ),
    )


@mutant
def half_open_intervals_before_the_search(patch):
    everywhere(
        patch,
        lambda ops, m: [
            replace(o, complete_ns=max(o.invoke_ns, o.complete_ns - 1))
            if o.type is EventType.OK
            else o
            for o in relevant(ops, m)
        ],
    )


@mutant
def wider_intervals_before_the_search(patch):
    everywhere(
        patch,
        lambda ops, m: [
            replace(o, complete_ns=o.complete_ns + 1) if o.type is EventType.OK else o
            for o in relevant(ops, m)
        ],
    )


@mutant
def judges_the_first_part_only(patch):
    whole = Model.partition
    patch.setattr(Model, "partition", lambda self, ops: whole(self, ops)[:1])


@mutant
def reads_the_initial_value_as_anything(patch):
    step = CasRegister.step
    patch.setattr(
        CasRegister,
        "step",
        lambda self, s, o: (True, s) if o.f == "read" and s is None else step(self, s, o),
    )


@mutant
def takes_true_for_one(patch):
    for module in ("registers", "base"):
        patch.setattr(f"porcupine_py.models.{module}.freeze", lambda value: value)
    patch.setattr("porcupine_py.columns.freeze", lambda value: value)


@mutant
def remembers_configurations_without_their_state(patch):
    class Forgetful(set):
        def add(self, key):
            super().add(key[:-1])

        def __contains__(self, key):
            return super().__contains__(key[:-1])

    build = wgl._Search.__init__

    def init(self, *arguments, **named):
        build(self, *arguments, **named)
        self._memo = Forgetful()

    patch.setattr(wgl._Search, "__init__", init)


@mutant
def orders_concurrent_operations(patch):
    def inversion(order):
        latest = None
        for o in order:
            if latest is not None and o.complete_ns <= latest.invoke_ns and o is not latest:
                return latest, o
            latest = o if latest is None or o.invoke_ns > latest.invoke_ns else latest
        return None

    for module in (ladder, collections):
        patch.setattr(module, "inversion", inversion)


@mutant
def never_compares_with_real_time(patch):
    for module in (ladder, collections, counter):
        patch.setattr(module, "inversion", lambda order: None)


@mutant
def trusts_offsets(patch):
    patch.setattr(offsets, "inversion", lambda order: None)
    patch.setattr(offsets, "_place", lambda reads, writes, states, model: [[*writes], [*reads]])


@mutant
def does_not_miss_elements_that_no_read_shows(patch):
    ordered = collections._order_reads

    def only_shown(reads, adds):
        shown = {element for _, elements in reads for element in elements}
        return ordered(reads, {e: a for e, a in adds.items() if e in shown})

    patch.setattr(collections, "_order_reads", only_shown)


@mutant
def lets_blocks_of_ids_overlap(patch):
    block = ProducerIds.block
    patch.setattr(ProducerIds, "block", lambda self, o: (block(self, o)[0], 1))


@mutant
def leaves_writes_out_of_windows(patch):
    restrict = certificate.restrict

    def lax(operations, model, window):
        inside = [o for o in operations if o.index in window.operations]
        return restrict(inside, model, window)

    patch.setattr(certificate, "restrict", lax)


@mutant
def drops_all_but_one_configuration_of_a_state(patch):
    def add(self, configuration):
        state, owed, spent = configuration
        return self._of_state.setdefault(state, [(owed, spent)]) == [(owed, spent)]

    patch.setattr(walk._Best, "add", add)


@mutant
def makes_a_write_of_an_append_of_nothing(patch):
    parts_of = strings.parts_of
    patch.setattr(
        strings, "parts_of", lambda got, first, texts: parts_of(got, first, [*filter(None, texts)])
    )


@mutant
def lets_a_configuration_place_an_operation_again(patch):
    placed = walk._Walk._place

    def again(self, state, owed, spent, begun):
        return ((s, o, spent) for s, o, _ in placed(self, state, owed, spent, begun))

    patch.setattr(walk._Walk, "_place", again)


@mutant
def overlooks_anti_dependencies(patch):
    edges = list_append._edges
    patch.setattr(list_append, "_edges", lambda *a: [e for e in edges(*a) if e.kind != "rw"])


@mutant
def overlooks_real_time_between_transactions(patch):
    patch.setattr("checkers.transactions.realtime_edges", lambda transactions: [])


@mutant
def takes_an_aborted_transaction_for_committed(patch):
    bad = list_append._bad_reads
    patch.setattr(list_append, "_bad_reads", lambda *a: [x for x in bad(*a) if x["kind"] != "G1a"])


@mutant
def lets_a_session_read_backwards(patch):
    patch.setitem(sessions._BY_FUNCTIONS, ("read", "read"), "nothing")


@mutant
def compares_committed_logs_by_checksum_only(patch):
    columns_of = log_audit.columns_of_logs

    def without_epochs(logs):
        columns = columns_of(logs)
        return replace(columns, epoch=columns.epoch * 0)

    patch.setattr(log_audit, "columns_of_logs", without_epochs)


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


@pytest.mark.slow
def test_a_sound_checker_passes_the_battery():
    assert list(battery()) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_the_battery_notices(name, monkeypatch):
    MUTANTS[name](monkeypatch)
    assert next(battery(), None) is not None, "this fault would have gone unnoticed"
