"""Gives every event of a run its index and time, and appends it to the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from checkers.evidence import PHASE
from checkers.history import NEMESIS, Event, EventType, Value
from harness.run.generators.base import NANOSECONDS
from workloads.base import Completion, Op


class Journal(Protocol):
    """The sink of events, such as `results.store.journal.JournalWriter`."""

    def append(self, event: Event) -> None:
        """Store one event before returning."""


Listener = Callable[[Event], None]


class Recorder:
    """Makes events with gapless indexes and non-decreasing times.

    `run` is what the first event says of the run, so that the journal cannot be taken for that of
    another: `seed`, and outside of a simulated world `run` (its name) and `at` (the time of day).

    `now_s` is the running loop's time, real or virtual; times are counted from the moment at
    which the recorder is made. `clock` names the clock that `now_s` reads, as nodes name theirs in
    their traces. Listeners (the display) are called after the journal has the event.
    """

    def __init__(
        self,
        journal: Journal,
        now_s: Callable[[], float],
        clock: str = "",
        run: Mapping[str, Value] | None = None,
    ) -> None:
        self._journal = journal
        self._now_s = now_s
        self._clock = clock
        self._run = dict(run or {})
        self._origin_s = now_s()
        self._index = 0
        self._last_ns = 0
        self._listeners: list[Listener] = []

    def now_ns(self) -> int:
        """Nanoseconds since the run began; never goes back."""
        now_ns = round((self._now_s() - self._origin_s) * NANOSECONDS)
        self._last_ns = max(self._last_ns, now_ns)
        return self._last_ns

    def listen(self, listener: Listener) -> None:
        """Call `listener` with every event from now on."""
        self._listeners.append(listener)

    def begin(self) -> Event:
        """Journal the first phase, with the clock and origin that align the nodes' traces."""
        origin_ns = round(self._origin_s * NANOSECONDS)
        start = {"name": "start", "clock": self._clock, "origin_ns": origin_ns}
        return self.note(PHASE, {**start, **self._run})

    def invoke(self, process: int | str, op: Op) -> Event:
        """Journal an invocation; to be called before any byte of it leaves the harness.

        It names a node where the operation is for that one alone.
        """
        return self._append(process, EventType.INVOKE, op, op.value, node=op.node)

    def complete(self, process: int | str, op: Op, end: Completion) -> Event:
        """Journal the completion of what `process` invoked."""
        more = {"error": end.error, "node": end.node, "offset": end.offset, "epoch": end.epoch}
        return self._append(process, end.type, op, end.value, **more)

    def note(self, f: str, value: Value, type_: EventType = EventType.OK) -> Event:
        """Journal an observation, not an operation: a leader, a phase, a crash."""
        return self._append(NEMESIS, type_, Op(f), value)

    def _append(
        self, process: int | str, type_: EventType, op: Op, value: Value, **more: Any
    ) -> Event:
        event = Event(self._index, self.now_ns(), process, type_, op.f, op.key, value, **more)
        self._journal.append(event)
        self._index += 1
        for listener in self._listeners:
            listener(event)
        return event
