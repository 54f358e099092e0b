"""Dependencies of transactions over registers with unique written values (Elle, section 5).

A read names the write that it saw. The order of versions is only partly known: the initial value
(null) precedes all, and what a transaction read precedes what it then wrote to the same key. With
`linearizable_keys`, a write of a transaction that completed before another's began precedes it
too; that may only be asked of systems that promise it for single keys.

Anomalies without a cycle: `garbage`, `G1a`, `G1b` (a value that its transaction overwrote),
`internal`, `cyclic-versions`, `lost-update` (two transactions read one version and each replaced
it), `future-read`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from checkers.cycles.graph import components
from checkers.cycles.list_append import NotUniqueError
from checkers.cycles.search import realtime_edges
from checkers.cycles.transactions import (
    Anomaly,
    Dependencies,
    Edge,
    Key,
    Transaction,
    anomaly,
    future_reads,
    lost_updates,
    name,
)
from checkers.history import EventType
from checkers.history.values import show

WRITER = "w"
INITIAL = None


@dataclass(slots=True)
class _Register:
    """One key."""

    writers: dict[Hashable, Transaction] = field(default_factory=dict)
    last_of: dict[int, Hashable] = field(default_factory=dict)
    readers: dict[Hashable, list[Transaction]] = field(default_factory=dict)
    after: dict[Hashable, list[Hashable]] = field(default_factory=dict)
    """Value -> values that came later, by what a transaction read and then wrote."""


def infer(history: Sequence[Transaction], *, linearizable_keys: bool = False) -> Dependencies:
    """Infer what must come before what. Raises NotUniqueError."""
    registers: dict[Key, _Register] = {}
    for transaction in history:
        for step in transaction.writes(WRITER):
            register = registers.setdefault(step.key, _Register())
            if step.value is INITIAL or step.value in register.writers:
                raise NotUniqueError(f"{show(step.value)} was written twice to {show(step.key)}")
            register.writers[step.value] = transaction
            register.last_of[transaction.index] = step.value
    committed = {t.index: t for t in history if t.type is EventType.OK}
    anomalies: list[Anomaly] = []
    for transaction in committed.values():
        anomalies += [*_internal(transaction), *future_reads(transaction, WRITER)]
        for step in transaction.external_reads(WRITER):
            register = registers.setdefault(step.key, _Register())
            register.readers.setdefault(step.value, []).append(transaction)
            own = register.last_of.get(transaction.index)
            if own is not None and step.value is not INITIAL:
                register.after.setdefault(step.value, []).append(own)
    edges: list[Edge] = []
    transactions = dict(committed)
    for key, register in registers.items():
        read = {v: register.writers[v] for v in register.readers if v in register.writers}
        transactions.update({t.index: t for t in read.values() if t.type is not EventType.FAIL})
        anomalies += _bad_reads(key, register)
        found_there = ((t, key, value) for value, all_ in register.readers.items() for t in all_)
        anomalies += lost_updates(found_there, WRITER)
        if linearizable_keys:
            _add_real_time(register, transactions)
        if _cyclic(register):
            what = f"what was read and then written puts versions of {show(key)} into a circle"
            anomalies.append(anomaly("cyclic-versions", what, *register.writers.values()))
        else:
            edges += _edges(key, register, transactions)
    known = set(transactions)
    edges = [e for e in edges if e.source in known and e.target in known]
    return Dependencies(edges, anomalies, transactions)


def _internal(transaction: Transaction) -> Iterator[Anomaly]:
    seen: dict[Key, Hashable] = {}
    for step in transaction.steps:
        if step.f == "r" and seen.get(step.key, step.value) != step.value:
            explanation = (
                f"{name(transaction)} read {show(step.value)} of {show(step.key)}, though its own "
                f"steps before say {show(seen[step.key])}"
            )
            yield anomaly("internal", explanation, transaction)
        seen[step.key] = step.value


def _bad_reads(key: Key, register: _Register) -> Iterator[Anomaly]:
    for value, readers in register.readers.items():
        writer = register.writers.get(value)
        reader = readers[0]
        if value is INITIAL:
            continue
        if writer is None:
            explanation = f"{name(reader)} read {show(value)} of {show(key)}, which nobody wrote"
            yield anomaly("garbage", explanation, reader)
        elif writer.type is EventType.FAIL:
            explanation = (
                f"{name(reader)} read {show(value)} of {show(key)}, which {name(writer)} wrote "
            )
            yield anomaly("G1a", explanation + "and which aborted", reader, writer)
        elif register.last_of[writer.index] != value:
            others = [r for r in readers if r is not writer]
            if others:
                explanation = (
                    f"{name(others[0])} read {show(value)} of {show(key)}, which {name(writer)} "
                    f"itself overwrote"
                )
                yield anomaly("G1b", explanation, others[0], writer)


def _add_real_time(register: _Register, transactions: dict[int, Transaction]) -> None:
    """Order writes of a key by transactions that do not overlap; neighbours are enough."""
    final = [
        register.writers[v]
        for v in register.last_of.values()
        if register.writers[v].index in transactions
    ]
    for edge in realtime_edges({t.index: t for t in final}):
        register.after.setdefault(register.last_of[edge.source], []).append(
            register.last_of[edge.target]
        )


def _cyclic(register: _Register) -> bool:
    numbers = {value: i for i, value in enumerate(register.writers)}
    following: dict[int, list[int]] = {}
    for value, later in register.after.items():
        if value in numbers:
            following[numbers[value]] = [numbers[v] for v in later]
    return any(len(group) > 1 for group in components(following)) or any(
        value in later for value, later in register.after.items()
    )


def _edges(key: Key, register: _Register, known: dict[int, Transaction]) -> Iterator[Edge]:
    preceded = {v for later in register.after.values() for v in later}
    roots = [v for v in register.writers if v not in preceded]
    for value, readers in register.readers.items():
        writer = register.writers.get(value)
        for reader in readers:
            if writer is not None and register.last_of[writer.index] == value:
                why = f"wrote {show(value)} to {show(key)}, which the next one read"
                yield from _edge(writer, reader, "wr", why)
            for later in roots if value is INITIAL else register.after.get(value, ()):
                if register.writers[later].index in known:
                    why = f"read {show(value)} of {show(key)}, which the next one replaced by "
                    why += show(later)
                    yield from _edge(reader, register.writers[later], "rw", why)
    for value, later_ones in register.after.items():
        writer = register.writers.get(value)
        for later in later_ones if writer is not None else ():
            assert writer is not None
            why = f"wrote {show(value)} to {show(key)}, which the next one replaced by "
            why += show(later)
            yield from _edge(writer, register.writers[later], "ww", why)


def _edge(source: Transaction, target: Transaction, kind: str, why: str) -> Iterator[Edge]:
    if source is not target:
        yield Edge(source.index, target.index, kind, why)
