"""What a history is: events as they were journaled, and operations paired from them.

Operations, and what their completions mean, are `porcupine_py.operations`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from porcupine_py.operations import INFINITY_NS, EventType, HistoryError, Operation, Value, seconds

__all__ = [
    "INFINITY_NS",
    "NEMESIS",
    "Event",
    "EventType",
    "HistoryError",
    "Operation",
    "Value",
    "operation_of",
    "pair",
    "seconds",
]

NEMESIS = "nemesis"
"""The process name under which faults are journaled."""


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


def pair(events: Iterable[Event]) -> list[Operation]:
    """Client operations of a history in order of invocation; nemesis events are left out.

    Raises HistoryError when a process invokes while an operation of its own is open, completes
    what it did not invoke, is used again after `info`, or when times or indexes go back.
    """
    before: Event | None = None
    open_events: dict[int | str, Event] = {}
    gone: set[int | str] = set()
    operations: list[Operation] = []
    for event in events:
        _check_order(event, before)
        before = event
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


def _check_order(event: Event, before: Event | None) -> None:
    """Refuse an index that does not grow along a journal, or a time that goes back."""
    index, time_ns = (-1, 0) if before is None else (before.index, before.time_ns)
    if event.index <= index:
        raise _form_error(event, f"comes after index {index}")
    if event.time_ns < 0:
        raise _form_error(event, "has a time before the run began: times count from 0")
    if event.time_ns < time_ns:
        back_ms = (time_ns - event.time_ns) / 1e6
        raise _form_error(event, f"goes back in time by {back_ms:g} ms, from {seconds(time_ns)}")


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
