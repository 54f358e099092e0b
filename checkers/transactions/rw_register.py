"""Dependencies of transactions over registers (Elle, section 5).

A read names the write that it saw, if no other write wrote that value to the key. The order of
versions is only partly known: the initial value (null) precedes all; more follows from what a
caller assumes (`Assumptions`, Elle's options). What is known of one version of a key, that an
earlier version was seen or written by a transaction that came before, is laid down as `after`.

Anomalies without a cycle: `garbage`, `G1a`, `G1b` (a value that its transaction overwrote),
`internal` (a read behind an own write that does not return it), `non-repeatable-read`,
`fractured-read`, `cyclic-versions`, `lost-update` (two transactions read one version and each
replaced it), `future-read`.

Where no read may see a transaction in part, more of the order follows (`atomic`; Biswas and Enea,
OOPSLA 2019): of two transactions that wrote a key, a reader of the one's value that saw anything of
the other puts the other first. That decides read atomic.

A value that was written twice to a key, or that is null, is *unclear*: who reads it may have read
either, so nothing is inferred from it. What is inferred stays true; how much is missing is for
`checkers.transactions.serial`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from checkers.history import EventType, HistoryError
from checkers.transactions.graph import components
from checkers.transactions.operations import (
    Dependencies,
    Edge,
    Key,
    Step,
    Transaction,
    edge_between,
    future_reads,
    lost_updates,
    name,
)
from checkers.transactions.search import process_edges, realtime_edges
from checkers.verdict import Anomaly, anomaly
from porcupine_py.values import show

WRITER = "w"
INITIAL = None


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What of the order of versions a caller takes for granted."""

    wfr_keys: bool = True
    """What a transaction read precedes what it then wrote to the same key."""
    wfr_is_given: bool = False
    """A caller says so; else it follows from read committed, and is nothing for G0."""
    sequential_keys: bool = False
    """Versions of a key are seen in the order of each process."""
    linearizable_keys: bool = False
    """Versions of a key are seen in real time."""
    transaction_order: Mapping[int, float] = field(default_factory=dict)
    """Index of a completion -> place of the transaction in an order that the database gave."""


@dataclass(slots=True)
class _Register:
    """One key."""

    writers: dict[Hashable, Transaction] = field(default_factory=dict)
    """Value -> who wrote it, if only one did."""
    unclear: dict[Hashable, list[Transaction]] = field(default_factory=dict)
    """Value -> all who wrote it, where reads of it do not say whose they saw."""
    last_of: dict[int, Hashable] = field(default_factory=dict)
    readers: dict[Hashable, list[Transaction]] = field(default_factory=dict)
    first_read: dict[int, Hashable] = field(default_factory=dict)
    """Transaction -> what it found there."""
    after: dict[Hashable, list[Hashable]] = field(default_factory=dict)
    """Value -> values that came later."""
    after_read: dict[Hashable, list[Hashable]] = field(default_factory=dict)
    """Value -> values that transactions wrote which had read it: later, if reads are committed."""

    def add_write(self, transaction: Transaction, value: Hashable) -> None:
        others = self.unclear.get(value)
        if others is None and value in self.writers:
            others = self.unclear[value] = [self.writers.pop(value)]
        if others is None and value is INITIAL:
            others = self.unclear[value] = []
        if others is not None:
            others.append(transaction)
        else:
            self.writers[value] = transaction
        self.last_of[transaction.index] = value

    def follows(self, before: Hashable, later: Hashable, *, by_read: bool = False) -> None:
        """Note that a version came later than another one."""
        is_known = before not in self.unclear and later not in self.unclear
        if is_known and before is not INITIAL and before != later:
            after = self.after_read if by_read else self.after
            after.setdefault(before, []).append(later)

    def all_after(self) -> dict[Hashable, list[Hashable]]:
        """Return what came later than each value, by whatever is known."""
        both = (self.after, self.after_read)
        return {
            value: [*self.after.get(value, ()), *self.after_read.get(value, ())]
            for value in dict.fromkeys(v for after in both for v in after)
        }


def infer(history: Sequence[Transaction], assumed: Assumptions) -> Dependencies:
    """Infer what must come before what. Raises HistoryError for an order of other transactions."""
    place = _places(history, assumed)
    registers = _registers(history)
    repeated = {(key, value) for key, r in registers.items() for value in r.unclear}
    committed = {t.index: t for t in history if t.type is EventType.OK}
    anomalies: list[Anomaly] = []
    for transaction in committed.values():
        anomalies += _internal(transaction)
        anomalies += future_reads(transaction, WRITER, repeated=repeated)
        for step in transaction.external_reads():
            _note_read(registers.setdefault(step.key, _Register()), transaction, step, assumed)
    edges: list[Edge] = []
    transactions = dict(committed)
    for register in registers.values():
        read = [register.writers[v] for v in register.readers if v in register.writers]
        transactions |= {t.index: t for t in read if t.type is not EventType.FAIL}
    for key, register in registers.items():
        anomalies += _bad_reads(key, register)
        found_there = ((t, key, v) for v, all_ in register.readers.items() for t in all_)
        clear = (found for found in found_there if found[2] not in register.unclear)
        anomalies += lost_updates(clear, WRITER)
        _add_order(register, transactions, assumed, place)
        if _cyclic(register.after):
            what = f"versions of {show(key)} that were read and written form a circle"
            anomalies.append(anomaly("cyclic-versions", what, *_transactions_of(register)))
            continue
        if _cyclic(register.all_after()):
            register.after_read.clear()  # what was read and written says so itself: G1c
        edges += _edges(key, register, transactions)
    known = set(transactions)
    edges = [e for e in edges if e.source in known and e.target in known]
    atomic, fractured = _atomic(registers, transactions)
    anomalies += fractured
    return Dependencies(
        edges, anomalies, transactions, unclear=len(repeated), atomic=atomic, is_total=False
    )


def _atomic(
    registers: Mapping[Key, _Register], known: Mapping[int, Transaction]
) -> tuple[list[Edge], list[Anomaly]]:
    """Return what order of writes follows where reads see transactions whole."""
    reads: dict[int, dict[Key, Hashable]] = {}
    wrote: dict[int, list[Key]] = {}
    for key, register in registers.items():
        for value, readers in register.readers.items():
            for reader in readers:
                reads.setdefault(reader.index, {})[key] = value
        for index in register.last_of:
            wrote.setdefault(index, []).append(key)
    edges: list[Edge] = []
    anomalies: list[Anomaly] = []
    for index, values in reads.items():
        reader = known[index]
        for writer, from_key, key in _seen_twice(values, registers, wrote):
            value = values[key]
            other = registers[key].writers.get(value)
            if writer is reader or writer.index not in known or value in registers[key].unclear:
                continue
            if value is INITIAL:
                what = f"{name(reader)} read {show(from_key)} of {name(writer)}, but nothing"
                what += f" of {show(key)}, which that wrote as well"
                anomalies.append(anomaly("fractured-read", what, reader, writer))
            elif other is not None and other.index in known:
                why = f"wrote {show(key)} before the next one: {name(reader)} read"
                why += f" {show(value)} of the latter beside {show(from_key)} of the former"
                edges += edge_between(writer, other, "atomic", why, key)
    return edges, anomalies


def _seen_twice(
    values: Mapping[Key, Hashable],
    registers: Mapping[Key, _Register],
    wrote: Mapping[int, Sequence[Key]],
) -> Iterator[tuple[Transaction, Key, Key]]:
    """Return who wrote a value that was read, its key, and each key both wrote and read."""
    for from_key, value in values.items() if len(values) > 1 else ():
        writer = registers[from_key].writers.get(value)
        if writer is not None:
            yield from ((writer, from_key, key) for key in wrote[writer.index] if key in values)


def _registers(history: Sequence[Transaction]) -> dict[Key, _Register]:
    registers: dict[Key, _Register] = {}
    for transaction in history:
        for step in transaction.writes(WRITER):
            registers.setdefault(step.key, _Register()).add_write(transaction, step.value)
    return registers


def _note_read(
    register: _Register, transaction: Transaction, step: Step, assumed: Assumptions
) -> None:
    readers = register.readers.setdefault(step.value, [])
    if transaction not in readers[-1:]:
        readers.append(transaction)
    register.first_read.setdefault(transaction.index, step.value)
    own = register.last_of.get(transaction.index)
    if assumed.wfr_keys and transaction.index in register.last_of:
        register.follows(step.value, own, by_read=not assumed.wfr_is_given)


def _internal(transaction: Transaction) -> Iterator[Anomaly]:
    """Compare reads of a key with the transaction's own earlier steps."""
    seen: dict[Key, Step] = {}
    for step in transaction.steps:
        before = seen.get(step.key)
        if step.f == "r" and before is not None and before.value != step.value:
            what = f"{name(transaction)} read {show(step.value)} of {show(step.key)}, which it had"
            is_own = before.f == WRITER
            what += f" {'written' if is_own else 'read'} as {show(before.value)} before"
            yield anomaly("internal" if is_own else "non-repeatable-read", what, transaction)
        if step.f == WRITER or before is None or before.f == "r":
            seen[step.key] = step


def _bad_reads(key: Key, register: _Register) -> Iterator[Anomaly]:
    for value, readers in register.readers.items():
        writer = register.writers.get(value)
        reader = readers[0]
        what = f"read {show(value)} of {show(key)}, which"
        if value is INITIAL:
            continue
        if value in register.unclear:
            wrote = register.unclear[value]
            if all(transaction.type is EventType.FAIL for transaction in wrote):
                explanation = f"{name(reader)} {what} only transactions wrote that aborted"
                yield anomaly("G1a", explanation, reader, *wrote)
        elif writer is None:
            yield anomaly("garbage", f"{name(reader)} {what} nobody wrote", reader)
        elif writer.type is EventType.FAIL:
            explanation = f"{name(reader)} {what} {name(writer)} wrote and which aborted"
            yield anomaly("G1a", explanation, reader, writer)
        elif register.last_of[writer.index] != value:
            others = [r for r in readers if r is not writer]
            if others:
                explanation = f"{name(others[0])} {what} {name(writer)} itself overwrote"
                yield anomaly("G1b", explanation, others[0], writer)


def _add_order(
    register: _Register,
    transactions: Mapping[int, Transaction],
    assumed: Assumptions,
    place: Mapping[int, float],
) -> None:
    """Order versions by the order of transactions, as far as a caller assumes that.

    Of two transactions in order the last version of the first comes no later than the first
    version of the second. Neighbours are enough, since within a transaction, too, what it found
    comes before what it left.
    """
    first, last = register.first_read, register.last_of
    touching = {
        i: t
        for i, t in transactions.items()
        if (i in first or i in last)
        and first.get(i) not in register.unclear
        and last.get(i, first.get(i)) not in register.unclear
    }
    orders: list[Iterable[Edge]] = []
    if assumed.sequential_keys:
        orders.append(process_edges(touching))
    if assumed.linearizable_keys:
        orders.append(realtime_edges(touching))
    for order in orders:
        for edge in order:
            found = first[edge.target] if edge.target in first else last[edge.target]
            left = last[edge.source] if edge.source in last else first[edge.source]
            register.follows(left, found)
    if orders:
        for index in touching.keys() & first.keys() & last.keys():
            register.follows(first[index], last[index])
    writers = [t for i, t in transactions.items() if i in last and i in place]
    writers.sort(key=lambda t: place[t.index])
    for earlier, later in pairwise(writers):
        register.follows(last[earlier.index], last[later.index])


def _places(history: Sequence[Transaction], assumed: Assumptions) -> Mapping[int, float]:
    """Return transactions' places in the order that the database gave, by index."""
    given = {int(end): at for end, at in assumed.transaction_order.items()}
    place = {t.index: given.pop(_end(t)) for t in history if _end(t) in given}
    if given:
        raise HistoryError(f"transaction_order has {min(given)}, where no transaction ends")
    return place


def _end(transaction: Transaction) -> int:
    end = transaction.operation.end_index
    return transaction.index if end is None else end


def _cyclic(after: Mapping[Hashable, Sequence[Hashable]]) -> bool:
    numbers: dict[Hashable, int] = {}
    for value, later in after.items():
        for each in (value, *later):
            numbers.setdefault(each, len(numbers))
    following = {numbers[v]: [numbers[n] for n in later] for v, later in after.items()}
    return INITIAL in numbers or any(len(group) > 1 for group in components(following))


def _transactions_of(register: _Register) -> list[Transaction]:
    versions = {v for value, later in register.after.items() for v in (value, *later)}
    wrote = [t for v, t in register.writers.items() if v in versions]
    return wrote or [readers[0] for readers in register.readers.values()]


def _edges(key: Key, register: _Register, known: Mapping[int, Transaction]) -> Iterator[Edge]:
    after = register.all_after()
    preceded = {v for later in after.values() for v in later}
    roots = [v for v in register.writers if v not in preceded]
    for value, readers in register.readers.items():
        if value in register.unclear:
            continue
        writer = register.writers.get(value)
        for reader in readers:
            if writer is not None and register.last_of[writer.index] == value:
                why = f"wrote {show(value)} to {show(key)}, which the next one read"
                yield from edge_between(writer, reader, "wr", why, key)
            for later in roots if value is INITIAL else after.get(value, ()):
                replacing = register.writers.get(later)
                if replacing is not None and replacing.index in known:
                    why = f"read {show(value)} of {show(key)}, which the next one replaced by "
                    yield from edge_between(reader, replacing, "rw", why + show(later), key)
    for value, later_ones in register.after.items():
        writer = register.writers.get(value)
        for later in later_ones if writer is not None else ():
            assert writer is not None
            replacing = register.writers.get(later)
            if replacing is not None:
                why = f"wrote {show(value)} to {show(key)}, which the next one replaced by "
                yield from edge_between(writer, replacing, "ww", why + show(later), key)
