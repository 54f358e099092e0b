"""Operations of a history: an invocation with its completion, in Jepsen's words.

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
from dataclasses import dataclass
from typing import Any

Value = Any
"""JSON value: None, bool, int, float, str, list or dict of these."""

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


def seconds(time_ns: int, digits: int = 6) -> str:
    """Return a time of a run for a person: `10.958907 s`, counted from the run's beginning.

    Below a microsecond it is shown in nanoseconds: files count steps so. Bounds that
    stand for no time are words: what is below 0 is older than the run, INFINITY_NS never comes.
    """
    if time_ns < 0:
        return "the run's beginning"
    if time_ns >= INFINITY_NS:
        return "the run's end"
    if time_ns == 0:
        return "0 s"
    return f"{time_ns} ns" if time_ns < 1000 else f"{time_ns / 1e9:.{digits}f} s"
