"""Dependencies of list-append transactions (Kingsbury and Alvaro, "Elle", VLDB 2020).

Every element is appended once to its key, so a read shows the whole history of the list: which
transactions wrote it, in which order. Of two committed reads of a key one is a prefix of the
other; the longest gives the version order. What no read shows was appended after that: an append
that the longest read lacks follows everything in it. This holds of committed transactions, and of
crashed ones of which a read shows any element: who reads it at read committed or above shows that
it committed, with all of its appends. A crashed transaction that no read shows may not have been.

At read uncommitted a read may show what was aborted later, so there only the elements of
transactions that ended `ok` have an order.

Anomalies without a cycle: `garbage` (an element that nobody appended), `duplicate` (an element
twice in a read), `append-order` (appends of one transaction to a key in another order than it made
them, or a later one without an earlier one), `internal` (a read behind own appends that does not
end with them: in Adya's histories, of whatever level, that is no read of this transaction),
`cyclic-versions` (committed appends of which two reads show different orders), `G1a` (an element of
an aborted transaction), `G1b` (a read that ends with an element after which its transaction
appended another), `incompatible-order` (reads of which none is a prefix of the other, so one shows
what was undone), `non-repeatable-read`, `fractured-read` (it shows one write of a transaction, and
of another key a state before that transaction's write), `lost-update` (two transactions read one
version and each appended to it), `dirty-update` (a committed append behind an aborted one),
`future-read`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from checkers.history import EventType
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
from checkers.verdict import Anomaly, anomaly
from porcupine_py.values import show

WRITER = "append"
Version = tuple[Hashable, ...]


class NotUniqueError(ValueError):
    """An element was appended twice to a key, so nothing can be inferred; the message says."""


@dataclass(slots=True)
class _List:
    """One key."""

    writers: dict[Hashable, Transaction] = field(default_factory=dict)
    appends: dict[int, list[Hashable]] = field(default_factory=dict)
    """Transaction -> what it appended, in order."""
    reads: list[tuple[Transaction, Version]] = field(default_factory=list)
    """What each transaction read there, its own appends taken off."""
    before_append: dict[int, tuple[Transaction, Version]] = field(default_factory=dict)
    """Transaction -> what it read last before it appended; else what its appends stand behind."""
    shown: dict[Version, Transaction] = field(default_factory=dict)
    """What reads returned, own appends and all, and who was the first."""
    order: Version = ()
    """The longest read, if all are prefixes of it."""

    def place(self) -> Mapping[Hashable, int]:
        """Return where the elements of the order stand."""
        return {element: i for i, element in enumerate(self.order)}


def infer(history: Sequence[Transaction]) -> Dependencies:
    """Infer what must come before what. Raises NotUniqueError."""
    lists = _lists(history)
    transactions = {t.index: t for t in history if t.type is EventType.OK}
    anomalies: list[Anomaly] = []
    for transaction in transactions.values():
        anomalies += [*_internal(transaction), *future_reads(transaction, WRITER)]
        _gather(transaction, lists)
    transactions |= {t.index: t for t in _crashed_and_shown(lists.values())}
    edges: list[Edge] = []
    is_total = True
    for key, key_list in lists.items():
        anomalies += _bad_reads(key, key_list)
        found_there = ((t, key, ("list", v)) for t, v in key_list.before_append.values())
        anomalies += lost_updates(found_there, WRITER)
        key_list.order, incompatible = _version_order(key, key_list)
        anomalies += [*incompatible, *_dirty_updates(key, key_list)]
        if incompatible or any(e not in key_list.writers for e in key_list.order):
            edges += _committed_order(key, key_list, key_list.shown)
            continue
        unread = _unread(key_list, transactions)
        is_total &= len({writer.index for _, writer in unread}) < 2
        edges += _edges(key, key_list, unread)
        edges += _committed_order(key, key_list, [key_list.order])
    for what, reader, writer in _halves(lists, is_last=True):
        anomalies.append(anomaly("fractured-read", what, reader, writer))
    return Dependencies(
        [e for e in edges if e.source in transactions and e.target in transactions],
        anomalies,
        transactions,
        is_total=is_total,
        partly_read=lambda: next((what for what, *_ in _halves(lists, is_last=False)), None),
    )


def as_registers(transactions: Iterable[Transaction]) -> list[Transaction]:
    """Return them with versions of lists for values: who appended last; all reads come first."""
    transactions = list(transactions)
    wrote = {(s.key, s.value): t.index for t in transactions for s in t.writes(WRITER)}
    result = []
    for transaction in transactions:
        reads: dict[Key, Step] = {}
        own: dict[Key, int] = {}
        for step in transaction.steps:
            if step.f == WRITER:
                own[step.key] = own.get(step.key, 0) + 1
            elif transaction.type is EventType.OK and step.key not in reads:
                found = step.value[: len(step.value) - own.get(step.key, 0)]
                version = wrote[step.key, found[-1]] if found else None
                reads[step.key] = replace(step, value=version)
        writes = [Step("w", key, transaction.index) for key in own]
        result.append(replace(transaction, steps=(*reads.values(), *writes)))
    return result


def _lists(history: Sequence[Transaction]) -> dict[Key, _List]:
    lists: dict[Key, _List] = {}
    for transaction in history:
        for step in transaction.writes(WRITER):
            key_list = lists.setdefault(step.key, _List())
            if step.value in key_list.writers:
                raise NotUniqueError(f"{show(step.value)} was appended twice to {show(step.key)}")
            key_list.writers[step.value] = transaction
            key_list.appends.setdefault(transaction.index, []).append(step.value)
    return lists


def _gather(transaction: Transaction, lists: dict[Key, _List]) -> None:
    """Note what a committed transaction read."""
    own: dict[Key, Version] = {}
    last: dict[Key, Version] = {}
    for step in transaction.steps:
        mine = own.get(step.key, ())
        if step.f == WRITER:
            own[step.key] = (*mine, step.value)
            continue
        key_list = lists.setdefault(step.key, _List())
        key_list.shown.setdefault(step.value, transaction)
        if _tail(step, len(mine)) != mine:  # an anomaly already
            continue
        found = step.value[: len(step.value) - len(mine)]
        if last.get(step.key) != found:
            key_list.reads.append((transaction, found))
        if not mine or step.key not in last:
            key_list.before_append[transaction.index] = transaction, found
        last[step.key] = found


def _internal(transaction: Transaction) -> Iterator[Anomaly]:
    """Compare reads of a key with the transaction's own earlier steps."""
    seen: dict[Key, Version] = {}
    appended: dict[Key, Version] = {}
    for step in transaction.steps:
        own = appended.get(step.key, ())
        if step.f == WRITER:
            appended[step.key] = (*own, step.value)
            continue
        read = f"{name(transaction)} read {show(('list', step.value))} of {show(step.key)}"
        if _tail(step, len(own)) != own:
            what = f"{read} after it had appended {', '.join(map(show, own))} itself"
            yield anomaly("internal", what, transaction)
            continue
        found = step.value[: len(step.value) - len(own)]
        before = seen.setdefault(step.key, found)
        if before != found:
            what = f"{read}, where it had read {show(('list', before))} before"
            yield anomaly("non-repeatable-read", what, transaction)
        seen[step.key] = found


def _tail(step: Step, length: int) -> Version:
    version: Version = step.value
    return version[len(version) - length :] if length else ()


def _crashed_and_shown(lists: Iterable[_List]) -> Iterator[Transaction]:
    """Return crashed transactions of which a read shows an element, so that they committed."""
    for key_list in lists:
        crashed = {e: t for e, t in key_list.writers.items() if t.type is EventType.INFO}
        if crashed:
            for version in key_list.shown:
                yield from (crashed[e] for e in version if e in crashed)


def _bad_reads(key: Key, key_list: _List) -> Iterator[Anomaly]:
    for version, reader in key_list.shown.items():
        read = f"{name(reader)} read"
        if len(set(version)) < len(version):
            what = f"{read} an element of {show(key)} twice: {show(('list', version))}"
            yield anomaly("duplicate", what, reader)
        shown_of: dict[int, list[Hashable]] = {}
        for element in dict.fromkeys(version):
            writer = key_list.writers.get(element)
            if writer is None:
                what = f"{read} {show(element)} of {show(key)}, which nobody appended"
                yield anomaly("garbage", what, reader)
                continue
            shown_of.setdefault(writer.index, []).append(element)
            if writer.type is EventType.FAIL:
                what = f"{read} {show(element)} of {show(key)}, which {name(writer)} appended"
                yield anomaly("G1a", f"{what} and which aborted", reader, writer)
        for index, elements in shown_of.items():
            made = key_list.appends[index]
            if elements != made[: len(elements)]:
                writer = key_list.writers[made[0]]
                what = f"{read} {show(('list', version))} of {show(key)}, to which {name(writer)}"
                what += f" appended {', '.join(map(show, made))} in this order"
                yield anomaly("append-order", what, reader, writer)
    for reader, version in key_list.reads:
        last = version[-1] if version else None
        writer = key_list.writers.get(last) if version else None
        if writer is None or writer is reader or key_list.appends[writer.index][-1] == last:
            continue
        what = f"{name(reader)} read {show(key)} up to {show(last)}, in the middle of"
        yield anomaly("G1b", f"{what} {name(writer)}", reader, writer)


def _version_order(key: Key, key_list: _List) -> tuple[Version, list[Anomaly]]:
    """Return the longest read; any read that is no prefix of a longer read is an anomaly.

    What was undone by an abort may have been read before it was: only where this does not explain
    it, since the committed elements alone differ as well, it breaks every level.
    """
    ordered = sorted(key_list.shown.items(), key=lambda read: len(read[0]))
    found = list(_differ(key, "incompatible-order", ordered))
    if found:
        committed = [
            (_committed_elements(version, key_list), reader) for version, reader in ordered
        ]
        committed.sort(key=lambda read: len(read[0]))
        found += _differ(key, "cyclic-versions", committed)
    return (ordered[-1][0] if ordered and not found else ()), found


def _differ(key: Key, kind: str, reads: Sequence[tuple[Version, Transaction]]) -> Iterator[Anomaly]:
    for (shorter, reader), (longer, other) in pairwise(reads):
        if longer[: len(shorter)] != shorter:
            what = f"{name(reader)} read {show(('list', shorter))} of {show(key)} and"
            what += f" {name(other)} {show(('list', longer))}: neither is a prefix of the other"
            yield anomaly(kind, what, reader, other)


def _committed_elements(version: Version, key_list: _List) -> Version:
    """Return the elements of transactions that ended `ok`."""
    writers = key_list.writers
    return tuple(e for e in version if e in writers and writers[e].type is EventType.OK)


def _committed_order(key: Key, key_list: _List, versions: Iterable[Version]) -> Iterator[Edge]:
    """Order appends of transactions that ended `ok`, whatever aborted or crashed between them."""
    writers = key_list.writers
    order = max((_committed_elements(v, key_list) for v in versions), key=len, default=())
    if order == key_list.order:
        return
    place = set(order)
    unread = [e for e, w in writers.items() if w.type is EventType.OK and e not in place]
    pairs = [*pairwise(order), *((order[-1], e) for e in unread if order)]
    for element, later in pairs:
        why = _before(key, element, later)
        yield from edge_between(writers[element], writers[later], "ww", why, key)


def _dirty_updates(key: Key, key_list: _List) -> Iterator[Anomaly]:
    """Return committed appends to a state that holds an aborted one.

    Between them may be indeterminate ones, of which nobody knows whether they committed.
    """
    aborted: tuple[Hashable, Transaction] | None = None
    for element in key_list.order:
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


def _unread(
    key_list: _List, committed: Mapping[int, Transaction]
) -> list[tuple[Hashable, Transaction]]:
    """Return what committed transactions appended and no read shows: it comes last."""
    place = key_list.place()
    writers = key_list.writers.items()
    return [(e, w) for e, w in writers if e not in place and w.index in committed]


def _edges(
    key: Key, key_list: _List, unread: Sequence[tuple[Hashable, Transaction]]
) -> Iterator[Edge]:
    order = key_list.order
    following = [[(e, key_list.writers[e])] for e in order] + [list(unread)]
    for i, element in enumerate(order):
        for later, writer in following[i + 1]:
            why = _before(key, element, later)
            yield from edge_between(key_list.writers[element], writer, "ww", why, key)
    for reader, version in key_list.reads:
        if version:
            last = version[-1]
            why = f"appended {show(last)} to {show(key)}, which the next one read"
            yield from edge_between(key_list.writers[last], reader, "wr", why, key)
        for later, writer in following[len(version)]:
            why = f"read {show(key)} without {show(later)}, which the next one appended"
            yield from edge_between(reader, writer, "rw", why, key)


def _before(key: Key, element: Hashable, later: Hashable) -> str:
    what = f"appended {show(element)} to {show(key)} before the next one appended"
    return f"{what} {show(later)}"


# -- fractured reads -------------------------------------------------------------------------------

_Half = tuple[str, Transaction, Transaction]
_Read = tuple[Key, Transaction, Version]


def _halves(lists: Mapping[Key, _List], *, is_last: bool) -> Iterator[_Half]:
    """Return reads that show one append of a transaction and lack another one, of another key.

    As (what, reader, writer). `is_last`: only of writers whose append is the last that was read.
    An append is a write of a version (Adya; Bailis and others, "Scalable Atomic Visibility with
    RAMP Transactions", 2014): who reads a version that somebody else appended behind it need not
    see all of the transaction, if that one does not. Where lists are data of which each append is
    seen or not (Cerone, Bernardi and Gotsman, 2015) it has to. So that stays open.
    """
    reads, wrote = _by_transaction(lists)
    places = {key: key_list.place() for key, key_list in lists.items()}
    for own in reads.values():
        shown: dict[int, tuple[Transaction, Key, Hashable]] = {}
        for key, _, version in own if len(own) > 1 else ():
            for element in version[-1:] if is_last else version:
                writer = lists[key].writers.get(element)
                if writer is not None and len(wrote[writer.index]) > 1:
                    shown[writer.index] = writer, key, element
        for writer, from_key, element in shown.values():
            if writer is own[0][1]:
                continue
            for (key, reader, _), last in _lacking(own, wrote[writer.index], places):
                what = f"{name(reader)} read {show(element)} of {show(from_key)}, but not"
                what += f" {show(last)} of {show(key)}; {name(writer)} appended both"
                yield what, reader, writer


def _by_transaction(
    lists: Mapping[Key, _List],
) -> tuple[dict[int, list[_Read]], dict[int, dict[Key, Hashable]]]:
    """Return what each transaction read, and what it appended last to each key."""
    reads: dict[int, list[_Read]] = {}
    wrote: dict[int, dict[Key, Hashable]] = {}
    for key, key_list in lists.items():
        for reader, version in key_list.reads:
            reads.setdefault(reader.index, []).append((key, reader, version))
        for index, elements in key_list.appends.items():
            wrote.setdefault(index, {})[key] = elements[-1]
    return reads, wrote


def _lacking(
    reads: Sequence[_Read],
    wrote: Mapping[Key, Hashable],
    places: Mapping[Key, Mapping[Hashable, int]],
) -> Iterator[tuple[_Read, Hashable]]:
    """Return reads without the last element that a transaction appended there."""
    for read in reads:
        key, _, version = read
        is_known = not version or bool(places[key])
        if key in wrote and is_known:
            last = wrote[key]
            if places[key].get(last, len(version)) >= len(version):
                yield read, last
