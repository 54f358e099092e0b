"""A run's history in columns, as checks of whole runs go through it: events and operations.

A million operations are a gigabyte of objects, and few checks look at each. So the objects of
`Journal` and `Recorded` are made when they are asked for, some thousand at a time, and not kept;
what a check wants of all of them it takes from the columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from checkers.history import NEMESIS, Event, EventType, Operation
from porcupine_py.columns import KINDS, NO_END, Columns, Int64s, from_operations


class Journal(Sequence[Event]):
    """The events of a run; `checkers.history.event_columns` has them in columns."""

    @property
    @abstractmethod
    def notes(self) -> Sequence[Event]:
        """The events of the nemesis."""

    @property
    @abstractmethod
    def span_ns(self) -> tuple[int, int]:
        """Times of the first and the last event of a client; zeros where there is none."""

    @property
    @abstractmethod
    def times_ns(self) -> Int64s:
        """Time of each event, which is the one with that index."""

    @property
    @abstractmethod
    def end_ns(self) -> int:
        """Time of the last event; -1 where there is none."""

    @abstractmethod
    def failures(self, beginning: str) -> Sequence[Event]:
        """Return the events with errors that begin so."""


class Recorded(Sequence[Operation]):
    """Operations in columns."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.columns)

    @overload
    def __getitem__(self, row: int) -> Operation: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Operation]: ...
    def __getitem__(self, row: int | slice) -> Operation | Sequence[Operation]:
        if isinstance(row, slice):
            return Recorded(self.columns.take(row))
        return self.columns.operation(range(len(self))[row])

    def where(self, wanted: NDArray[np.bool_]) -> Recorded:
        """Return those that are wanted."""
        return self if wanted.all() else Recorded(self.columns.take(np.flatnonzero(wanted)))


def notes_of(events: Sequence[Event]) -> Sequence[Event]:
    """Return the events of the nemesis."""
    if isinstance(events, Journal):
        return events.notes
    return [event for event in events if event.process == NEMESIS]


def statements(events: Sequence[Event], *names: str) -> Iterator[Event]:
    """Yield the events of the nemesis that say something: of these names, or of any.

    Journals of other tools have values there that are no documents; no check reads these.
    """
    for event in notes_of(events):
        if isinstance(event.value, dict) and (not names or event.f in names):
            yield event


def span_of(events: Sequence[Event]) -> tuple[int, int]:
    """Return the times of the first and the last event of a client; zeros where there is none."""
    if isinstance(events, Journal):
        return events.span_ns
    times = [event.time_ns for event in events if event.process != NEMESIS]
    return (times[0], times[-1]) if times else (0, 0)


def since(events: Sequence[Event], time_ns: int) -> Sequence[Event]:
    """Return the events from a time on."""
    if isinstance(events, Journal):
        return events[int(np.searchsorted(events.times_ns, time_ns)) :]
    return [event for event in events if event.time_ns >= time_ns]


def end_of(events: Sequence[Event]) -> int:
    """Return the time of the last event; -1 where there is none."""
    if isinstance(events, Journal):
        return events.end_ns
    return events[-1].time_ns if events else -1


def failures(events: Sequence[Event], beginning: str) -> Sequence[Event]:
    """Return the events with errors that begin so."""
    if isinstance(events, Journal):
        return events.failures(beginning)
    return [e for e in events if e.error is not None and e.error.startswith(beginning)]


def ended_ns(operations: Sequence[Operation], events: Sequence[Event]) -> Int64s:
    """Return when each operation's completion was journaled, also that of `info`; -1: never."""
    if isinstance(operations, Recorded) and isinstance(events, Journal):
        rest = operations.columns.rest
        assert rest is not None, "operations of a journal know their events"
        return ends_at(rest.ends, events.times_ns)
    ends = (operation.end_index for operation in operations)
    return np.array([-1 if end is None else events[end].time_ns for end in ends], np.int64)


def ends_at(end_index: Int64s, times_ns: Int64s) -> Int64s:
    """Return the times of completions by their indexes; -1 where there is none."""
    return np.where(end_index == NO_END, -1, times_ns[end_index])


def columns_of(operations: Sequence[Operation]) -> Columns:
    """Return operations in columns. Raises HistoryError for what these do not hold."""
    return operations.columns if isinstance(operations, Recorded) else from_operations(operations)


def tally(operations: Sequence[Operation]) -> Counter[tuple[str, EventType]]:
    """Count operations by function and outcome."""
    if not isinstance(operations, Recorded):
        return Counter((operation.f, operation.type) for operation in operations)
    columns = operations.columns
    codes = columns.f.astype(np.int64) * len(KINDS) + columns.type
    found, counts = np.unique(codes, return_counts=True)
    return Counter(
        {
            (columns.functions[code // len(KINDS)], KINDS[code % len(KINDS)]): count
            for code, count in zip(found.tolist(), counts.tolist(), strict=True)
        }
    )


def count_keys(operations: Sequence[Operation]) -> int:
    """Count the keys that operations have, no key being one."""
    if isinstance(operations, Recorded):
        return len(np.unique(operations.columns.key))
    return len({operation.key for operation in operations})


_Item = TypeVar("_Item", Event, Operation)


def by_index(items: Sequence[_Item]) -> Mapping[int, _Item]:
    """Return events or operations by their indexes; objects are made of those looked up."""
    if isinstance(items, Journal):
        return _Rows(items, np.arange(len(items)))
    if isinstance(items, Recorded):
        return _Rows(items, items.columns.index)
    return {item.index: item for item in items}


class _Rows(Mapping[int, Any]):
    """Items in order of their indexes."""

    def __init__(self, items: Sequence[Any], indexes: Int64s) -> None:
        self._items = items
        self._indexes = indexes

    def __getitem__(self, index: int) -> Any:
        row = int(np.searchsorted(self._indexes, index))
        if row == len(self._indexes) or self._indexes[row] != index:
            raise KeyError(index)
        return self._items[row]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indexes.tolist())

    def __len__(self) -> int:
        return len(self._indexes)
