"""Maps that also know, for each mark, the keys of the values that bear it, without a search.

A *mark* is whatever a function finds in a value: of a partition, the brokers that hold it (Kafka's
BrokersToIsrs and BrokersToElrs), or that it has no leader. The index belongs to the committed map
and is kept by its writes, so that it is right after every replay. The overlay has none of its own:
it looks through the committed map's, and at the few values that are not committed. A revert has
nothing to undo, a load of a snapshot brings the index that was built with it.

Keys come in the order in which they came to bear the mark: the same on every replay of the same
records, not the same after a load.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Protocol, TypeVar

from cluster.node.controller.metadata.timeline import (
    AppendOffset,
    CommittedMap,
    StateMap,
    TimelineMap,
)

K = TypeVar("K")
V = TypeVar("V")

Marks = Callable[[V], tuple[Hashable, ...]]
"""The marks of a value, none twice."""


class MarkedMap(StateMap[K, V], Protocol[K, V]):
    """A map that finds keys by the marks of their values."""

    def keys_with(self, mark: Hashable) -> list[K]:
        """Return the keys of the values with a mark: O(those, and what is not committed)."""


class IndexedMap(CommittedMap[K, V]):
    """The committed moment, with its index."""

    __slots__ = ("_index", "_marks")

    def __init__(self, marks: Marks[V]) -> None:
        super().__init__()
        self._marks = marks
        self._index: dict[Hashable, dict[K, None]] | None = {}
        """None in a copy, until it is asked: most copies are only written to a snapshot."""

    def put(self, key: K, value: V) -> None:
        if self._index is not None:
            old = self._entries.get(key)
            marks = self._marks(value)
            if old is None:
                self._add(key, marks)
            elif (before := self._marks(old)) != marks:
                self._drop(key, (mark for mark in before if mark not in marks))
                self._add(key, marks)
        super().put(key, value)

    def remove(self, key: K) -> None:
        old = self._entries.get(key)
        if old is not None and self._index is not None:
            self._drop(key, self._marks(old))
        super().remove(key)

    def keys_with(self, mark: Hashable) -> list[K]:
        """Return the keys of the values with a mark."""
        if self._index is None:
            self._index = {}
            for key, value in self._entries.items():
                self._add(key, self._marks(value))
        return list(self._index.get(mark, ()))

    def marks_of(self, value: V) -> tuple[Hashable, ...]:
        """Return what the index holds a value under."""
        return self._marks(value)

    def __copy__(self) -> IndexedMap[K, V]:
        """Return another map with the same entries."""
        copied: IndexedMap[K, V] = IndexedMap(self._marks)
        copied._entries = dict(self._entries)
        copied._index = None
        return copied

    def replace_by(self, other: CommittedMap[K, V]) -> None:
        """Take over what another map holds, index and all."""
        assert isinstance(other, IndexedMap)
        super().replace_by(other)
        self._index = other._index

    def _add(self, key: K, marks: Iterable[Hashable]) -> None:
        assert self._index is not None
        for mark in marks:
            keys = self._index.get(mark)
            if keys is None:
                keys = self._index[mark] = {}
            keys[key] = None

    def _drop(self, key: K, marks: Iterable[Hashable]) -> None:
        assert self._index is not None
        for mark in marks:
            keys = self._index[mark]
            del keys[key]
            if not keys:
                del self._index[mark]


class IndexedTimelineMap(TimelineMap[K, V]):
    """The newest moment of an indexed map."""

    __slots__ = ("_marked",)

    def __init__(self, base: IndexedMap[K, V], offset: AppendOffset) -> None:
        super().__init__(base, offset)
        self._marked = base

    def keys_with(self, mark: Hashable) -> list[K]:
        """Return the keys of the newest values with a mark: committed values first."""
        marks_of, entries = self._marked.marks_of, self._entries
        found = []
        committed = dict.fromkeys(self._marked.keys_with(mark))
        for key in committed:
            entry = entries.get(key)
            if entry is None or (entry[1] is not None and mark in marks_of(entry[1])):
                found.append(key)
        for key, (_, value) in entries.items():
            if value is not None and key not in committed and mark in marks_of(value):
                found.append(key)
        return found
