"""Small faults put into the checkers: each is noticed by the battery, and a sound checker passes it."""

from dataclasses import replace

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
from porcupine_py.search import certificate, dispatch, walk, wgl
from porcupine_py.search.rules import collections, counter, ladder, log, offsets, queue
from tests.checkers.battery import battery

MUTANTS = {}


def mutant(fault):
    MUTANTS[fault.__name__] = fault
    return fault


def everywhere(patch, changed):
    """Change what every checker is given."""
    patch.setattr(dispatch, "relevant", changed)


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
def drops_the_last_key(patch):
    patch.setattr(
        registry,
        "group_by_key",
        lambda ops: {k: [o for o in ops if o.key == k] for k in {ops[0].key}},
    )


@mutant
def judges_the_first_part_only(patch):
    whole = Model.partition
    patch.setattr(Model, "partition", lambda self, ops: whole(self, ops)[:1])


@mutant
def takes_the_best_verdict_of_all_keys(patch):
    patch.setattr(
        registry, "worst", lambda s: Status.PASS if Status.PASS in (all_ := list(s)) else all_[0]
    )


@mutant
def accepts_phantom_reads(patch):
    patch.setattr(
        Register,
        "step",
        lambda self, state, o: (True, state) if o.f == "read" else (True, base.freeze(o.input)),
    )


@mutant
def reads_the_initial_value_as_anything(patch):
    step = CasRegister.step
    patch.setattr(
        CasRegister,
        "step",
        lambda self, s, o: (True, s) if o.f == "read" and s is None else step(self, s, o),
    )


@mutant
def ignores_a_refused_cas(patch):
    patch.setattr(CasRegister, "observation", lambda self, o: None)


@mutant
def takes_true_for_one(patch):
    for module in ("registers", "base"):
        patch.setattr(f"porcupine_py.models.{module}.freeze", lambda value: value)
    patch.setattr("porcupine_py.columns.freeze", lambda value: value)


@mutant
def takes_all_indeterminate_operations_of_one_kind_for_alike(patch):
    patch.setattr(Model, "same_effect", lambda self, o: o.f)


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
def does_not_compare_reads_of_a_list(patch):
    patch.setattr(collections, "_incompatible", lambda reads, appends: None)


@mutant
def does_not_miss_elements_that_no_read_shows(patch):
    ordered = collections._order_reads

    def only_shown(reads, adds):
        shown = {element for _, elements in reads for element in elements}
        return ordered(reads, {e: a for e, a in adds.items() if e in shown})

    patch.setattr(collections, "_order_reads", only_shown)


@mutant
def counts_an_addition_at_its_completion(patch):
    patch.setattr(counter, "bisect_right", _left)


def _left(values, key):
    return next((i for i, value in enumerate(values) if value >= key), len(values))


@mutant
def takes_any_order_of_a_queue(patch):
    patch.setattr(queue, "_value_order", lambda items: sorted(items, key=lambda i: i.into_from))


@mutant
def lets_a_queue_be_empty_at_any_time(patch):
    patch.setattr(queue, "empty_moments", lambda found: [(o.invoke_ns, o) for o in found.empties])


@mutant
def lets_blocks_of_ids_overlap(patch):
    block = ProducerIds.block
    patch.setattr(ProducerIds, "block", lambda self, o: (block(self, o)[0], 1))


@mutant
def overlooks_holes_in_reads_of_a_log(patch):
    patch.setattr(log, "_holes", lambda *columns: None)


@mutant
def ignores_topic_ids(patch):
    patch.setattr(
        Topics,
        "_describe",
        lambda self, s, o: ((not s.present) if o.output is None else s.present, s),
    )


@mutant
def accepts_every_order(patch):
    patch.setattr(certificate, "verify_order", lambda operations, model, order: None)


@mutant
def accepts_every_window(patch):
    patch.setattr(certificate, "dead_end", lambda operations, model, states: (operations[0], ()))


@mutant
def leaves_writes_out_of_windows(patch):
    restrict = certificate.restrict

    def lax(operations, model, window):
        inside = [o for o in operations if o.index in window.operations]
        return restrict(inside, model, window)

    patch.setattr(certificate, "restrict", lax)


@mutant
def lets_an_append_hide_what_is_open(patch):
    patch.setattr(KeyValue, "forgets", lambda self, operation: operation.f != "get")


@mutant
def hides_reads_before_a_write(patch):
    patch.setattr(Register, "always_legal", lambda self, operation: True)


@mutant
def drops_all_but_one_configuration_of_a_state(patch):
    def add(self, configuration):
        state, owed, spent = configuration
        return self._of_state.setdefault(state, [(owed, spent)]) == [(owed, spent)]

    patch.setattr(walk._Best, "add", add)


@mutant
def calls_all_strings_indistinct(patch):
    patch.setattr(KeyValue, "indistinct", lambda self, operations: lambda state: "")


@mutant
def takes_texts_that_come_twice_for_one(patch):
    patch.setattr(parts, "Counter", lambda texts: dict.fromkeys(texts, 1))


@mutant
def takes_a_string_apart_in_the_first_of_two_ways(patch):
    patch.setattr(parts._Reached, "ways", property(lambda self: 1, lambda self, ways: None))


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
def calls_every_cycle_g2(patch):
    patch.setattr(search, "_name", lambda cycle: "G2")


@mutant
def lets_a_session_read_backwards(patch):
    patch.setitem(sessions._BY_FUNCTIONS, ("read", "read"), "nothing")


@mutant
def lets_a_node_go_back(patch):
    patch.setattr(growth, "_went_back", lambda answers: None)


@mutant
def lets_a_stale_read_skip_an_element(patch):
    patch.setattr(growth, "inversion", lambda order: None)


@mutant
def takes_appended_records_for_committed(patch):
    patch.setattr(assisted, "_committed_end", lambda evidence: 10**9)


@mutant
def compares_committed_logs_by_checksum_only(patch):
    columns_of = log_audit.columns_of_logs

    def without_epochs(logs):
        columns = columns_of(logs)
        return replace(columns, epoch=columns.epoch * 0)

    patch.setattr(log_audit, "columns_of_logs", without_epochs)


@pytest.mark.slow
def test_a_sound_checker_passes_the_battery():
    assert list(battery()) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_the_battery_notices(name, monkeypatch):
    MUTANTS[name](monkeypatch)
    assert next(battery(), None) is not None, "this fault would have gone unnoticed"
