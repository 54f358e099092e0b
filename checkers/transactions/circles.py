"""What Kafka's transactions did, in an order of time that goes in a circle: it cannot have been so.

A transaction reads, appends and is decided, in this order, if its steps are. Its moments and those
of others follow from each other:

- the decision of each record that a read_committed consumer shows comes before that read, not only
  the decision of the last one: nobody orders the transactions that append to one partition;
- the append of each record that a read_uncommitted consumer shows comes before that read;
- a record is appended before what stands behind it, and what the longest read shows before what
  that lacks, as offsets only grow;
- what was answered happened before anything that was begun afterwards.

Where these make no circle, moments that fit all of them can be chosen, so nothing else follows from
orders (`tests/checkers/transactions/moments.py` chooses them). An edge from each record to each
read would be as many as all lists are long. Instead each version that was read is a moment of its
own, reached from the version before and from what it adds: O(transactions x clients + records +
reads) edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from checkers.history import EventType
from checkers.transactions.list_append import WRITER, Version
from checkers.transactions.operations import Edge, Key, Transaction
from checkers.transactions.search import NEXT, cycle_anomaly, in_components, realtime_edges
from checkers.verdict import Anomaly
from porcupine_py.values import show

_SEEN, _LOG = "wr", "log"
_WITHIN = "within"
"""Kind of an edge between moments of one transaction, or out of a version."""


def circles(committed: Sequence[Transaction], dirty: Sequence[Transaction]) -> Iterator[Anomaly]:
    """Find a shortest circle of each component: `append-order`, or without appends' order another.

    `dirty`: reads with read_uncommitted.
    """
    moments = _Moments()
    for transaction in (*committed, *dirty):
        moments.add(transaction)
    appended = moments.read(committed, is_committed=True)
    moments.follow_on(moments.read(dirty, is_committed=False), appended)
    moments.take_time()
    for cycle in in_components(moments.edges, (_SEEN, _LOG)):
        whole = list(moments.between_transactions(cycle))
        kinds = {edge.kind for edge in whole}
        if len(whole) > 1 or moments.is_dirty(whole[0]):
            kind = "append-order" if _LOG in kinds else "circular-reads"
            yield cycle_anomaly(kind, whole, moments.transactions)


_Readers = list[tuple[int, bool]]
"""Transactions that read a version, and whether before all of their own appends."""


@dataclass
class _Moments:
    transactions: dict[int, Transaction] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    owners: list[int | None] = field(default_factory=list)
    """Of each moment its transaction; None: it is that of a version."""
    begins: dict[int, int] = field(default_factory=dict)
    """Transaction -> when it was invoked, and has read."""
    ends: dict[int, int] = field(default_factory=dict)
    """Transaction -> when it was decided."""
    appends: dict[tuple[Key, object], int] = field(default_factory=dict)

    def _moment(self, transaction: Transaction | None) -> int:
        self.owners.append(None if transaction is None else transaction.index)
        return len(self.owners) - 1

    def _within(self, source: int, target: int) -> None:
        self.edges.append(Edge(source, target, _WITHIN, ""))

    def add(self, transaction: Transaction) -> None:
        """Take the moments of a transaction; a partition has its appends in order."""
        self.transactions[transaction.index] = transaction
        begin = self.begins[transaction.index] = self._moment(transaction)
        end = self.ends[transaction.index] = self._moment(transaction)
        self._within(begin, end)
        last: dict[Key, int] = {}
        for step in transaction.writes(WRITER):
            moment = self.appends[step.key, step.value] = self._moment(transaction)
            self._within(last.get(step.key, begin), moment)
            self._within(moment, end)
            last[step.key] = moment

    def read(self, readers: Iterable[Transaction], *, is_committed: bool) -> Mapping[Key, Version]:
        """Take what reads show; returns the longest of each partition."""
        longest: dict[Key, Version] = {}
        for key, versions in _versions(readers).items():
            ordered = sorted(versions, key=len)
            if any(longer[: len(shorter)] != shorter for shorter, longer in pairwise(ordered)):
                continue  # `incompatible-order`
            before: int | None = None
            length = 0
            for version in filter(None, ordered):
                there = self._moment(None)
                if before is not None:
                    self._within(before, there)
                for element in version[length:]:
                    self._show(key, element, there, is_committed=is_committed)
                for reader, is_first in versions[version]:
                    self._within(there, (self.begins if is_first else self.ends)[reader])
                before, length = there, len(version)
            longest[key] = ordered[-1]
            for first, second in pairwise(ordered[-1]):
                self._follow(key, first, second)
        return longest

    def _show(self, key: Key, element: object, there: int, *, is_committed: bool) -> None:
        moment = self.appends.get((key, element))
        if moment is None:
            return
        owner = self.owners[moment]
        assert owner is not None, "a record is of a transaction"
        why = f"appended {show(element)} to {show(key)}, which {NEXT} read"
        source = self.ends[owner] if is_committed else moment
        self.edges.append(Edge(source, there, _SEEN, why, key))

    def _follow(self, key: Key, first: object, second: object) -> None:
        source, target = self.appends.get((key, first)), self.appends.get((key, second))
        if source is not None and target is not None:
            why = f"appended {show(first)} to {show(key)} before {NEXT} appended {show(second)}"
            self.edges.append(Edge(source, target, _LOG, why, key))

    def follow_on(self, shown: Mapping[Key, Version], committed: Mapping[Key, Version]) -> None:
        """What read_uncommitted does not show of what was committed comes behind what it shows."""
        for key, version in shown.items():
            there = set(version)
            lacking = next((e for e in committed.get(key, ()) if e not in there), None)
            if version and lacking is not None:
                self._follow(key, version[-1], lacking)

    def take_time(self) -> None:
        """Order what was answered, and what was begun afterwards.

        The records of a transaction that failed may arrive later still.
        """
        for edge in realtime_edges(self.transactions):
            is_ok = self.transactions[edge.source].type is EventType.OK
            source = (self.ends if is_ok else self.begins)[edge.source]
            self.edges.append(Edge(source, self.begins[edge.target], edge.kind, edge.why))

    def between_transactions(self, cycle: Sequence[Edge]) -> Iterator[Edge]:
        """Leave out what is within transactions and versions."""
        start = next(n for n, edge in enumerate(cycle) if edge.kind != _WITHIN)
        begin: Edge | None = None
        for edge in (*cycle[start:], *cycle[:start]):
            begin = edge if begin is None and edge.kind != _WITHIN else begin
            target = self.owners[edge.target]
            if begin is not None and target is not None:
                source = self.owners[begin.source]
                assert source is not None, "only what is within goes out of a version"
                yield Edge(source, target, begin.kind, begin.why, begin.key)
                begin = None

    def is_dirty(self, edge: Edge) -> bool:
        """Whether a transaction that contradicts itself did not commit.

        One that did is found by `checkers.transactions.list_append`.
        """
        return self.transactions[edge.source].type is not EventType.OK


def _versions(readers: Iterable[Transaction]) -> Mapping[Key, Mapping[Version, _Readers]]:
    found: dict[Key, dict[Version, _Readers]] = {}
    for transaction in readers:
        is_first = True
        for step in transaction.steps if transaction.type is EventType.OK else ():
            if step.f == "r":
                version = found.setdefault(step.key, {}).setdefault(step.value, [])
                version.append((transaction.index, is_first))
            is_first &= step.f == "r"
    return found
