"""Dependencies of list-append transactions (Kingsbury and Alvaro, "Elle", VLDB 2020).

Every element is appended once to its key, so a read shows the whole history of the list: which
transactions wrote it, in which order. Of two committed reads of a key one is a prefix of the
other; the longest gives the version order. What no read shows was appended after that: a committed
append that the longest read lacks follows everything in it.

Anomalies without a cycle: `garbage` (an element that nobody appended), `G1a` (an element of an
aborted transaction), `G1b` (a read that ends with an element after which its transaction appended
another), `duplicate` (an element twice in a read), `internal` (a transaction that contradicts
itself), `incompatible-order`, `lost-update` (two transactions read one version and each appended to
it), `dirty-update` (a committed append behind an aborted one), `future-read`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from checkers.cycles.transactions import (
    Anomaly,
    Dependencies,
    Edge,
    Key,
    Step,
    Transaction,
    anomaly,
    future_reads,
    lost_updates,
    name,
)
from checkers.history import EventType
from checkers.history.values import show

WRITER = "append"
Version = tuple[Hashable, ...]


class NotUniqueError(ValueError):
    """An element was appended twice to a key, so nothing can be inferred; the message says."""


@dataclass(slots=True)
class _List:
    """One key."""

    writers: dict[Hashable, Transaction] = field(default_factory=dict)
    last_of: dict[int, Hashable] = field(default_factory=dict)
    """Transaction -> the last element that it appended."""
    reads: list[tuple[Transaction, Version]] = field(default_factory=list)
    """What each transaction found there, its own appends taken off."""
    shown: list[tuple[Transaction, Version]] = field(default_factory=list)
    """What reads returned, own appends and all: they have their place in the order, too."""


def infer(history: Sequence[Transaction]) -> Dependencies:
    """Infer what must come before what. Raises NotUniqueError."""
    lists: dict[Key, _List] = {}
    for transaction in history:
        for step in transaction.writes(WRITER):
            key_list = lists.setdefault(step.key, _List())
            if key_list.writers.setdefault(step.value, transaction) is not transaction:
                raise NotUniqueError(f"{show(step.value)} was appended twice to {show(step.key)}")
            if key_list.last_of.get(transaction.index) == step.value:
                raise NotUniqueError(f"{show(step.value)} was appended twice to {show(step.key)}")
            key_list.last_of[transaction.index] = step.value
    committed = {t.index: t for t in history if t.type is EventType.OK}
    anomalies: list[Anomaly] = []
    for transaction in committed.values():
        anomalies += [*_internal(transaction), *future_reads(transaction, WRITER)]
        _gather(transaction, lists)
    edges: list[Edge] = []
    transactions = dict(committed)
    for key, key_list in lists.items():
        anomalies += _bad_reads(key, key_list)
        found_there = ((t, key, ("list", version)) for t, version in key_list.reads)
        anomalies += lost_updates(found_there, WRITER)
        order, incompatible = _version_order(key, key_list)
        anomalies += [*incompatible, *_dirty_updates(key, key_list, order)]
        transactions.update(
            {key_list.writers[e].index: key_list.writers[e] for e in order if e in key_list.writers}
        )
        edges += _edges(key, key_list, order)
    known = set(transactions)
    edges = [e for e in edges if e.source in known and e.target in known]
    return Dependencies(edges, anomalies, transactions)


def _gather(transaction: Transaction, lists: dict[Key, _List]) -> None:
    """Note what a committed transaction read."""
    own: dict[Key, Version] = {}
    found: set[Key] = set()
    for step in transaction.steps:
        mine = own.get(step.key, ())
        if step.f == WRITER:
            own[step.key] = (*mine, step.value)
        elif _tail(step, len(mine)) == mine:  # anything else is an anomaly already
            key_list = lists.setdefault(step.key, _List())
            key_list.shown.append((transaction, step.value))
            if step.key not in found:
                found.add(step.key)
                without = step.value[: len(step.value) - len(mine)]
                key_list.reads.append((transaction, without))


def _internal(transaction: Transaction) -> Iterator[Anomaly]:
    """Compare later reads of a key with the transaction's own earlier steps."""
    seen: dict[Key, Version | None] = {}
    appended: dict[Key, Version] = {}
    for step in transaction.steps:
        if step.f == WRITER:
            appended[step.key] = (*appended.get(step.key, ()), step.value)
            continue
        own = appended.get(step.key, ())
        before = seen.get(step.key)
        expected = None if before is None else before + own
        wrong = step.value != expected if expected is not None else _tail(step, len(own)) != own
        if wrong:
            explanation = (
                f"{name(transaction)} read {show(('list', step.value))} of {show(step.key)} after "
                f"its own steps"
            )
            yield anomaly("internal", explanation, transaction)
        seen[step.key] = step.value[: len(step.value) - len(own)]


def _tail(step: Step, length: int) -> Version:
    version: Version = step.value
    return version[len(version) - length :] if length else ()


def _bad_reads(key: Key, key_list: _List) -> Iterator[Anomaly]:
    for reader, version in key_list.reads:
        if len(set(version)) < len(version):
            what = f"read an element of {show(key)} twice: {show(('list', version))}"
            explanation = f"{name(reader)} {what}"
            yield anomaly("duplicate", explanation, reader)
        for element in version:
            writer = key_list.writers.get(element)
            if writer is None:
                what = f"read {show(element)} of {show(key)}, which nobody appended"
                explanation = f"{name(reader)} {what}"
                yield anomaly("garbage", explanation, reader)
            elif writer.type is EventType.FAIL:
                explanation = (
                    f"{name(reader)} read {show(element)} of {show(key)}, which {name(writer)} "
                    f"appended "
                )
                yield anomaly("G1a", explanation + "and which aborted", reader, writer)
        last = version[-1] if version else None
        writer = key_list.writers.get(last) if version else None
        if writer is not None and writer is not reader and key_list.last_of[writer.index] != last:
            explanation = (
                f"{name(reader)} read {show(key)} up to {show(last)}, in the middle of "
                f"{name(writer)}"
            )
            yield anomaly("G1b", explanation, reader, writer)


def _version_order(key: Key, key_list: _List) -> tuple[Version, list[Anomaly]]:
    """Return the longest read; any read that is no prefix of a longer read is an anomaly."""
    ordered = sorted(key_list.shown, key=lambda read: len(read[1]))
    found = []
    for (reader, shorter), (other, longer) in pairwise(ordered):
        if longer[: len(shorter)] != shorter:
            explanation = (
                f"{name(reader)} read {show(('list', shorter))} of {show(key)} and {name(other)} "
                f"{show(('list', longer))}: "
                f"neither is a prefix of the other"
            )
            found.append(anomaly("incompatible-order", explanation, reader, other))
    return (ordered[-1][1] if ordered and not found else ()), found


def _dirty_updates(key: Key, key_list: _List, order: Version) -> Iterator[Anomaly]:
    """Return committed appends to a state that holds an aborted one.

    Between them may be indeterminate ones, of which nobody knows whether they committed.
    """
    aborted: tuple[Hashable, Transaction] | None = None
    for element in order:
        writer = key_list.writers.get(element)
        if writer is None or writer.type is EventType.INFO:
            continue
        if writer.type is EventType.OK and aborted is not None:
            explanation = (
                f"{name(writer)} appended {show(element)} to {show(key)} behind "
                f"{show(aborted[0])} of {name(aborted[1])}, which aborted"
            )
            yield anomaly("dirty-update", explanation, writer, aborted[1])
        aborted = (element, writer) if writer.type is EventType.FAIL else None


def _edges(key: Key, key_list: _List, order: Version) -> Iterator[Edge]:
    writers = [key_list.writers.get(element) for element in order]
    if None in writers:
        return
    place = {element: i for i, element in enumerate(order)}
    unread = [
        (element, writer)
        for element, writer in key_list.writers.items()
        if element not in place and writer.type is EventType.OK
    ]
    following = [[(e, key_list.writers[e])] for e in order] + [unread]
    for i, element in enumerate(order):
        for later, writer in following[i + 1]:
            why = f"appended {show(element)} to {show(key)} before the next one appended "
            why += show(later)
            yield from _edge(key_list.writers[element], writer, "ww", why, key)
    for reader, version in key_list.reads:
        if version[:] != order[: len(version)]:
            continue
        if version:
            last = version[-1]
            why = f"appended {show(last)} to {show(key)}, which the next one read"
            yield from _edge(key_list.writers[last], reader, "wr", why, key)
        for later, writer in following[len(version)]:
            why = f"read {show(key)} without {show(later)}, which the next one appended"
            yield from _edge(reader, writer, "rw", why, key)


def _edge(
    source: Transaction, target: Transaction, kind: str, why: str, key: Key
) -> Iterator[Edge]:
    if source is not target:
        yield Edge(source.index, target.index, kind, why, key)
