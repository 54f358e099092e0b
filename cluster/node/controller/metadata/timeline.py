"""Maps with two moments: what is committed, and what was appended after it.

The active controller decides about a write with all earlier writes in view, committed or not, so
that several can be under way at once. All others must see committed state only, and when
leadership is lost the uncommitted part must vanish without a trace (Kafka's SnapshotRegistry and
timeline structures; mutant M35 forgets the revert).

Kafka keeps a snapshot for every appended batch. Two moments are enough here: the committed map is
replayed by itself, on every node alike, so the overlay only holds the newest uncommitted value of
a key with the offset of the record that wrote it, and forgets it when that offset is committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class StateMap(Protocol[K, V]):
    """The map operations that a replay needs. Values are immutable and never None."""

    def get(self, key: K) -> V | None:
        """Return the value, or None when there is none."""

    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""

    def remove(self, key: K) -> None:
        """Forget a key; no error when it is absent."""

    def __len__(self) -> int:
        """How many keys have a value."""

    def keys(self) -> Iterator[K]:
        """Yield all keys, in an order that is the same on every replay of the same records."""

    def entries(self) -> dict[K, V]:
        """Return a copy as a dictionary, in the order of the keys. No key is hashed."""


class MapDelta(Generic[K, V]):
    """What became of a committed map since its changes were last taken.

    Values after are the map's own: a delta is to be read before the map changes again.
    """

    __slots__ = ("_after", "_recorded", "_replaced")

    def __init__(
        self, recorded: Mapping[K, V | None], replaced: Mapping[K, V] | None, after: Mapping[K, V]
    ) -> None:
        """Take what written keys held before; or all that made way for another content since."""
        self._recorded = recorded
        self._replaced = replaced
        self._after = after

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written. What was written may be what was there before."""
        return self._replaced is None and not self._recorded

    def before(self, key: K) -> V | None:
        """Return the value that a key had, None for none."""
        if self._replaced is not None:
            return self._replaced.get(key)
        return self._recorded[key] if key in self._recorded else self._after.get(key)

    def after(self, key: K) -> V | None:
        """Return the value that a key has now, None for none."""
        return self._after.get(key)

    def keys(self) -> Iterator[K]:
        """Yield the keys of differing values. O(all) after a replacement, else O(written)."""
        if self._replaced is None:
            candidates: Iterable[K] = self._recorded
        else:
            candidates = dict.fromkeys((*self._after, *self._replaced))
        for key in candidates:
            if self.before(key) != self.after(key):
                yield key


class CommittedMap(Generic[K, V]):
    """A plain map: the committed moment. It records what changed in it, once asked to."""

    __slots__ = ("_before", "_entries", "_nothing", "_replaced")

    def __init__(self) -> None:
        self._entries: dict[K, V] = {}
        self._before: dict[K, V | None] | None = None
        """What keys held before they were written; None until changes are asked for."""
        self._replaced: dict[K, V] | None = None
        self._nothing: MapDelta[K, V] | None = None
        """The delta of no change, once there was one; most maps have none most of the time."""

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        self._write(key, self._entries.get(key), value)

    def _write(self, key: K, old: V | None, value: V) -> None:
        if self._before is not None:
            self._before.setdefault(key, old)
        self._entries[key] = value

    def remove(self, key: K) -> None:
        value = self._entries.pop(key, None)
        if self._before is not None:
            self._before.setdefault(key, value)

    def keys(self) -> Iterator[K]:
        """Yield all keys, oldest first."""
        return iter(self._entries)

    def entries(self) -> dict[K, V]:
        """Return a copy as a dictionary, oldest first."""
        return dict(self._entries)

    def __copy__(self) -> CommittedMap[K, V]:
        """Return another map with the same entries."""
        copied = type(self).__new__(type(self))
        CommittedMap.__init__(copied)
        copied._entries = dict(self._entries)
        return copied

    def replace_by(self, other: CommittedMap[K, V]) -> None:
        """Take over what another map holds, and nothing else: that one is not to be used again."""
        if self._before is not None and self._replaced is None:
            for key, value in self._before.items():  # what the replaced content was before that
                _put_or_remove(self._entries, key, value)
            self._before, self._replaced = {}, self._entries
        self._entries = other._entries
        self._nothing = None

    def take_delta(self) -> MapDelta[K, V]:
        """Return what changed since the last call; the first time, all there is."""
        if self._before is None:
            delta: MapDelta[K, V] = MapDelta({}, {}, self._entries)
        elif self._before or self._replaced is not None:
            delta = MapDelta(self._before, self._replaced, self._entries)
        else:
            nothing = self._nothing
            if nothing is None:
                nothing = self._nothing = MapDelta({}, None, self._entries)
            return nothing
        self._before, self._replaced = {}, None
        return delta

    def __len__(self) -> int:
        return len(self._entries)


def take_deltas(maps: Sequence[CommittedMap[Any, Any]]) -> list[MapDelta[Any, Any]]:
    """Take the delta of each: most did not change, and are passed by."""
    return [
        changed._nothing
        if changed._nothing is not None and not changed._before and changed._replaced is None
        else changed.take_delta()
        for changed in maps
    ]


def _put_or_remove(entries: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value


NOTHING = -1
"""The append offset before anything was replayed into the overlay."""


class AppendOffset:
    """The offset of the record that is being replayed into the overlay, shared by its maps."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = NOTHING


class TimelineMap(Generic[K, V]):
    """The newest moment: uncommitted values over a committed map, which it never changes."""

    __slots__ = ("_base", "_entries", "_offset", "_writes")

    def __init__(self, base: StateMap[K, V], offset: AppendOffset) -> None:
        self._base = base
        self._offset = offset
        self._entries: dict[K, tuple[int, V | None]] = {}
        self._writes: deque[tuple[int, K]] = deque()

    def get(self, key: K) -> V | None:
        """Return the newest value, or None when there is none."""
        entry = self._entries.get(key) if self._entries else None
        return self._base.get(key) if entry is None else entry[1]

    def put(self, key: K, value: V) -> None:
        """Set the value of a key at the current append offset."""
        self._write(key, value)

    def remove(self, key: K) -> None:
        """Hide a key from the current append offset on."""
        self._write(key, None)

    def _write(self, key: K, value: V | None) -> None:
        offset = self._offset.value
        assert not self._writes or self._writes[-1][0] <= offset
        self._entries[key] = (offset, value)
        self._writes.append((offset, key))

    def keys(self) -> Iterator[K]:
        """Yield all keys: committed ones first, then new ones."""
        for key in list(self._base.keys()):
            entry = self._entries.get(key)
            if entry is None or entry[1] is not None:
                yield key
        for key, (_, value) in list(self._entries.items()):
            if value is not None and self._base.get(key) is None:
                yield key

    def entries(self) -> dict[K, V]:
        """Return a copy of the newest moment as a dictionary: committed keys first."""
        entries = self._base.entries()
        for key, (_, value) in self._entries.items():
            _put_or_remove(entries, key, value)
        return entries

    def drop_through(self, offset: int) -> None:
        """Forget what was written at `offset` or before: the committed map has it now."""
        while self._writes and self._writes[0][0] <= offset:
            written_at, key = self._writes.popleft()
            entry = self._entries.get(key)
            if entry is not None and entry[0] == written_at:
                del self._entries[key]

    def revert(self) -> None:
        """Forget everything that is not committed."""
        self._entries.clear()
        self._writes.clear()

    def __len__(self) -> int:
        """Count the keys with an uncommitted value."""
        return len(self._entries)


# Maps that also know, for each mark, the keys of the values that bear it, without a search.
#
# A *mark* is whatever a function finds in a value: of a partition, the brokers that hold it
# (Kafka's BrokersToIsrs and BrokersToElrs), or that it has no leader. The index belongs to the
# committed map and is kept by its writes, so that it is right after every replay. The overlay has
# none of its own: it looks through the committed map's, and at the few values that are not
# committed. A revert has nothing to undo, a load of a snapshot brings the index that was built
# with it.
#
# Keys come in the order in which they came to bear the mark: the same on every replay of the same
# records, not the same after a load.


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
        old = self._entries.get(key)
        if self._index is not None:
            marks, before = self._marks(value), () if old is None else self._marks(old)
            if before != marks:
                self._drop(key, (mark for mark in before if mark not in marks))
                self._add(key, (mark for mark in marks if mark not in before))
        self._write(key, old, value)

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
