"""Histories in Porcupine's two forms: operations with times, or calls and returns in order.

An interval is closed, as in Porcupine: an operation of [10, 20] is concurrent with one of [20, 30].
A clock that is read twice may give the same time twice; with half-open intervals two operations
that overlapped could then be taken for one after the other, and a correct system for a wrong one.

Porcupine wants a return of every call. Here an operation may be *pending*: its client never had an
answer, because it crashed or the run ended. It may take effect at any time after its call, or
never (Herlihy and Wing 1990, section 2.2); `Model.step` is given `PENDING` as its output.

Source of the vocabulary: https://pkg.go.dev/github.com/anishathalye/porcupine (v1.3).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, Final, Generic, TypeVar

from porcupine_py.operations import HistoryError

InputT = TypeVar("InputT")
OutputT = TypeVar("OutputT")
InputT_co = TypeVar("InputT_co", covariant=True)
OutputT_co = TypeVar("OutputT_co", covariant=True)


class _Pending:
    """The type of `PENDING`, of which there is one object."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "PENDING"

    def __reduce__(self) -> str:
        return "PENDING"


PENDING: Final[Any] = _Pending()
"""The output of an operation that never returned: it may be any, or the operation never happened.
Compare with `is`; it equals nothing else. Typed Any, to be compared with outputs of any type."""


@dataclass(frozen=True, slots=True)
class Operation(Generic[InputT_co, OutputT_co]):
    """A call of a client with its return."""

    client_id: int
    """From 0; a row in the visualisation, and nothing else."""
    input: InputT_co
    call: float
    """Time of the call, in any unit, the same in the whole history: int, or float without NaN."""
    output: OutputT_co
    """What came back. Not looked at when the operation is pending."""
    return_: float | None
    """Time of the return, not before `call`; None: pending. (`return` is a word of Python.)"""
    metadata: Any = None
    """Shown in the visualisation; not judged."""


def answer_of(operation: Operation[InputT, OutputT]) -> Any:
    """Return what a model is given as the output of an operation."""
    return PENDING if operation.return_ is None else operation.output


class EventKind(enum.Enum):
    """Whether an event begins or ends an operation."""

    CALL = "call"
    RETURN = "return"


@dataclass(frozen=True, slots=True)
class Event:
    """A call or a return; events stand in the order in which they happened."""

    client_id: int
    kind: EventKind
    value: Any
    """The input of a call, the output of a return."""
    id: int
    """The same for a call and its return, and for no other event. A call without return is
    pending."""
    metadata: Any = None
    """Shown in the visualisation; that of the return is preferred. Not judged."""


def operations_of(events: Sequence[Event]) -> list[Operation[Any, Any]]:
    """Pair events to operations, in order of their calls; times are positions among the events.

    Raises HistoryError for a return without its call, an id that is used twice, and a return by
    another client.
    """
    calls: dict[int, int] = {}
    returns: dict[int, int] = {}
    for position, event in enumerate(events):
        if not isinstance(event, Event):
            raise HistoryError(f"event {position} is a {type(event).__name__}, not an Event")
        if event.kind is EventKind.CALL:
            if event.id in calls:
                raise HistoryError(f"event {position}: id {event.id!r} is called a second time")
            calls[event.id] = position
            continue
        if event.id not in calls:
            raise HistoryError(f"event {position}: id {event.id!r} returns without a call")
        if event.id in returns:
            raise HistoryError(f"event {position}: id {event.id!r} returns a second time")
        called = events[calls[event.id]].client_id
        if event.client_id != called:
            raise HistoryError(
                f"event {position}: id {event.id!r} was called by client {called!r} "
                f"and returns to client {event.client_id!r}"
            )
        returns[event.id] = position
    return [_operation(events, call, returns.get(name)) for name, call in calls.items()]


def _operation(events: Sequence[Event], call: int, end: int | None) -> Operation[Any, Any]:
    begun = events[call]
    if end is None:
        return Operation(begun.client_id, begun.value, call, PENDING, None, begun.metadata)
    done = events[end]
    metadata = begun.metadata if done.metadata is None else done.metadata
    return Operation(begun.client_id, begun.value, call, done.value, end, metadata)


def ranks(operations: Sequence[Operation[Any, Any]]) -> dict[float, int]:
    """Return the rank of each time among the different times of a history, from 0.

    Only the order of times counts, so the search and the visualisation work on ranks: times may
    be negative, far apart, or as large as Go's `math.MaxInt64`.

    Raises HistoryError for a time that is no number, and for a return before its call.
    """
    times: set[float] = set()
    for position, operation in enumerate(operations):
        if not isinstance(operation, Operation):
            name = type(operation).__name__
            raise HistoryError(f"operation {position} is a {name}, not an Operation")
        call, end = operation.call, operation.return_
        for time in (call,) if end is None else (call, end):
            if isinstance(time, bool) or not isinstance(time, int | float) or isnan(time):
                raise HistoryError(f"operation {position}: {time!r} is not a time")
            times.add(time)
        if end is not None and end < call:
            raise HistoryError(f"operation {position} returns at {end!r}, before its call {call!r}")
    return {time: rank for rank, time in enumerate(sorted(times))}
