"""What a history is: events as they were journaled, and operations paired from them.

One operation is an invocation and a completion of the same process (Herlihy and Wing 1990).
Completion types follow Jepsen:

- `ok`: it happened, between invocation and completion.
- `fail`: it did not happen and never will.
- `info`: nobody knows; it may take effect at any time after its invocation, even after the
  run's last event, or never. The process that met it is done and never comes back.

Intervals are closed: an invocation at the very time of another's completion is concurrent with
it. Real time order is therefore `a.complete_ns < b.invoke_ns`. With half-open intervals a clock of
coarse resolution would order operations that were in fact concurrent, and a correct system could
be called wrong.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Value = Any
"""JSON value: None, bool, int, float, str, list or dict of these."""

NEMESIS = "nemesis"
"""The process name under which faults are journaled."""

INFINITY_NS = 2**63 - 1
"""Completion time of an operation that never completed."""


class EventType(enum.StrEnum):
    """What an event says about its operation."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class HistoryError(ValueError):
    """The history is not well formed; the message says which event and why."""


@dataclass(slots=True, unsafe_hash=True)
class Event:
    """One line of a journal.

    Never changed once it is made. `frozen` would cost a call for each field, and histories have
    millions of these.
    """

    index: int
    """Position in the journal, from 0, without gaps."""
    time_ns: int
    """Monotonic nanoseconds since the run began, never decreasing along the journal."""
    process: int | str
    """A client process number, or `nemesis`."""
    type: EventType
    f: str
    """What is done: read, write, cas, create, delete, describe, add, kill, partition, ..."""
    key: str | None = None
    value: Value = None
    """Invocation: the argument. Completion: the result (of a write: the argument again)."""
    error: str | None = None
    """On fail and info: why, in a word or a line."""
    node: str | None = None
    """The node that was asked."""
    offset: int | None = None
    """Where the server says that it put the write, if it says so."""
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """An invocation with its completion."""

    index: int
    """Index of the invocation event; identifies the operation in its history."""
    process: int | str
    f: str
    key: str | None
    input: Value
    """The invocation's value."""
    output: Value
    """The completion's value; None when there is no completion."""
    type: EventType
    """ok, fail or info; an invocation without completion is info."""
    invoke_ns: int
    complete_ns: int
    """`INFINITY_NS` for info: it stays open for ever."""
    error: str | None = None
    node: str | None = None
    offset: int | None = None
    epoch: int | None = None
    end_index: int | None = None
    """Index of the completion event; None when there is none."""


def pair(events: Iterable[Event]) -> list[Operation]:
    """Client operations of a history in order of invocation; nemesis events are left out.

    Raises HistoryError when a process invokes while an operation of its own is open, completes
    what it did not invoke, is used again after `info`, or when times or indexes go back.
    """
    order = _Order()
    open_events: dict[int | str, Event] = {}
    gone: set[int | str] = set()
    operations: list[Operation] = []
    for event in events:
        order.follow(event)
        process = event.process
        if process == NEMESIS:
            continue
        if event.type is EventType.INVOKE:
            if process in open_events:
                raise _form_error(event, f"invokes while its operation {event.f!r} is open")
            if process in gone:
                raise _form_error(event, "is used again after it ended in info")
            open_events[process] = event
            continue
        invocation = open_events.pop(process, None)
        if invocation is None:
            raise _form_error(event, f"completes {event.f!r} without an invocation")
        if event.f != invocation.f or event.key not in (None, invocation.key):
            raise _form_error(event, f"completes {event.f!r} of {event.key!r}, not what it invoked")
        if event.type is EventType.INFO:
            gone.add(process)
        operations.append(operation_of(invocation, event))
    operations.extend(operation_of(invocation, None) for invocation in open_events.values())
    operations.sort(key=lambda operation: operation.index)
    return operations


class _Order:
    """Indexes grow and times never go back along a journal."""

    def __init__(self) -> None:
        self._index = -1
        self._time_ns = 0

    def follow(self, event: Event) -> None:
        if event.index <= self._index:
            raise _form_error(event, f"comes after index {self._index}")
        if event.time_ns < 0:
            raise _form_error(event, "has a time before the run began: times count from 0")
        if event.time_ns < self._time_ns:
            back_ms = (self._time_ns - event.time_ns) / 1e6
            last = seconds(self._time_ns)
            raise _form_error(event, f"goes back in time by {back_ms:g} ms, from {last}")
        self._index, self._time_ns = event.index, event.time_ns


def seconds(time_ns: int, digits: int = 6) -> str:
    """Return a time of a run for a person: `10.958907 s`, counted from the run's beginning.

    Below a microsecond it is shown in nanoseconds: files count steps so. Bounds that
    stand for no time are words: what is below 0 is older than the run, INFINITY_NS never comes.
    """
    if time_ns < 0:
        return "the run's beginning"
    if time_ns >= INFINITY_NS:
        return "the run's end"
    return f"{time_ns} ns" if 0 < time_ns < 1000 else f"{time_ns / 1e9:.{digits}f} s"


def _form_error(event: Event, what: str) -> HistoryError:
    return HistoryError(f"event {event.index}: process {event.process!r} {what}")


def operation_of(invocation: Event, completion: Event | None) -> Operation:
    """Return the operation of an invocation and its completion; None: there is none."""
    end = completion or invocation
    kind = EventType.INFO if completion is None else completion.type
    return Operation(
        index=invocation.index,
        process=invocation.process,
        f=invocation.f,
        key=invocation.key,
        input=invocation.value,
        output=None if completion is None else completion.value,
        type=kind,
        invoke_ns=invocation.time_ns,
        complete_ns=INFINITY_NS if kind is EventType.INFO else end.time_ns,
        error=None if completion is None else completion.error,
        node=end.node or invocation.node,
        offset=None if completion is None else completion.offset,
        epoch=None if completion is None else completion.epoch,
        end_index=None if completion is None else completion.index,
    )
