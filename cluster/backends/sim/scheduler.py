"""Virtual time: one queue of callbacks, run in order of time and then of arrival.

A callback may have an owner, the process that it belongs to. What is due for a process that is
stopped (SIGSTOP) waits in its backlog; what is due for a dead process is dropped. So no caller has
to wrap its callbacks in such a check, which would cost more than the queue itself.

Most time-outs are long, of a few lengths, and cancelled before they are due. Those of one length
are due in the order in which they were scheduled: they stand in a line, and only its first entry is
in the queue. An entry that is cancelled before it becomes the first never enters the queue.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Protocol

BUSY_EVENTS_MAX = 100_000
"""More callbacks than this without time passing are a busy loop."""
LONG_MS = 100.0
"""Delays from here on stand in lines."""


class BusyLoopError(AssertionError):
    """Time no longer passes: callbacks schedule each other for now, for ever."""


class StuckError(BaseException):
    """A process does not return from a callback. Not an Exception: its code may handle those."""


class Owner(Protocol):
    """The process that a callback belongs to."""

    runs: bool
    """Neither stopped nor dead."""
    alive: bool
    backlog: list[list[Any]]
    """Entries of the queue that became due while it was stopped."""

    def die(self, error: BaseException) -> None:
        """End for an error that one of its callbacks raised."""


class Entry(list[Any]):
    """[due ms, sequence number, callback or None when cancelled, owner, delay of its line or None].

    The first two compare.
    """

    __slots__ = ()

    def cancel(self) -> None:
        self[2] = None


class Condition:
    """A truth value that is computed each time it is tested."""

    __slots__ = ("_holds",)

    def __init__(self, holds: Callable[[], bool]) -> None:
        self._holds = holds

    def __bool__(self) -> bool:
        return bool(self._holds())


class Scheduler:
    """The one source of events in a simulated world: nothing runs but its callbacks."""

    __slots__ = ("_at_once", "_lines", "_queue", "_sequence", "events", "now_ms", "running")

    def __init__(self) -> None:
        self.now_ms = 0.0
        """Virtual milliseconds since the world began; only this class changes it."""
        self.events = 0
        """How many callbacks have run."""
        self.running: Owner | None = None
        """The process whose code runs now."""
        self._queue: list[list[Any]] = []
        self._lines: dict[float, deque[Entry]] = {}
        """By delay. The first of each is in the queue, whatever became of it."""
        self._sequence = 0
        self._at_once = 0

    def call_later(
        self, delay_ms: float, callback: Callable[[], None], owner: Owner | None = None
    ) -> Entry:
        """Run `callback` once `delay_ms` have passed, after all that is due by then already."""
        assert delay_ms >= 0, delay_ms
        self._sequence = sequence = self._sequence + 1
        if delay_ms < LONG_MS:
            entry = Entry((self.now_ms + delay_ms, sequence, callback, owner, None))
            heappush(self._queue, entry)
            return entry
        entry = Entry((self.now_ms + delay_ms, sequence, callback, owner, delay_ms))
        line = self._lines.get(delay_ms)
        if line is None:
            self._lines[delay_ms] = deque((entry,))
            heappush(self._queue, entry)
        else:
            line.append(entry)
        return entry

    def post(self, delay_ms: float, callback: Callable[[], None], owner: Owner | None) -> None:
        """As `call_later`, for a callback that is never cancelled: half of all, and cheaper."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._queue, [self.now_ms + delay_ms, sequence, callback, owner, None])

    def call_at(
        self, due_ms: float, callback: Callable[[], None], owner: Owner | None = None
    ) -> Entry:
        """Run `callback` at a moment, which is now when it lies in the past."""
        self._sequence = sequence = self._sequence + 1
        entry = Entry((max(due_ms, self.now_ms), sequence, callback, owner, None))
        heappush(self._queue, entry)
        return entry

    def requeue(self, entry: list[Any]) -> None:
        """Run now what waited in a backlog, unless it is cancelled before its turn."""
        self._sequence += 1
        entry[:] = (self.now_ms, self._sequence, *entry[2:4], None)
        heappush(self._queue, entry)

    def raise_next(self, error: BaseException) -> None:
        """Raise an error out of `run` before any other callback; for handlers of signals."""

        def fail() -> None:
            raise error

        self._sequence += 1
        heappush(self._queue, [-math.inf, self._sequence, fail, None, None])

    def _advance(self, delay_ms: float) -> None:
        """Queue the next entry of a line whose first has left the queue."""
        line = self._lines[delay_ms]
        line.popleft()
        while line and line[0][2] is None:
            line.popleft()
        if line:
            heappush(self._queue, line[0])
        else:
            del self._lines[delay_ms]

    def run(self, end_ms: float = math.inf, until: object = None) -> bool:
        """Run what is due by `end_ms`, or until `until` is true; returns whether it is.

        `until` is tested before each callback: a container that fills, or a `Condition`. Raises
        what a callback without owner raises. What is due for stopped owners only goes to their
        backlogs, so the entry after it may be due much later: each is compared with `end_ms`.
        """
        queue = self._queue
        while not until:
            if not queue or queue[0][0] > end_ms:
                return False
            entry = heappop(queue)
            due_ms, _, callback, owner, delay_ms = entry
            if delay_ms is not None:
                self._advance(delay_ms)
            if callback is None:
                continue
            if owner is not None and not owner.runs:
                if owner.alive:
                    owner.backlog.append(entry)
                continue
            if due_ms > self.now_ms:
                self.now_ms = due_ms
                self._at_once = 0
            else:
                self._count_at_once(callback)
            self.events += 1
            self.running = owner
            try:
                callback()
            except (Exception, StuckError) as error:
                owner = self.running if isinstance(error, StuckError) else owner
                if owner is None:
                    raise
                owner.die(error)
            self.running = None
        return True

    def _count_at_once(self, callback: Callable[[], None]) -> None:
        self._at_once += 1
        if self._at_once > BUSY_EVENTS_MAX:
            raise BusyLoopError(f"no time passes any more at {self.now_ms} ms: {callback}")

    def step(self) -> bool:
        """Run the next callback; False when there is none."""
        before = self.events
        return self.run(until=Condition(lambda: self.events > before))

    def run_for(self, duration_ms: float) -> None:
        """Run everything that is due within the next `duration_ms`, and end at that time."""
        end_ms = self.now_ms + duration_ms
        self.run(end_ms)
        self.now_ms = end_ms

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Run until `condition` holds, for at most `timeout_ms`; returns whether it does."""
        return self.run(self.now_ms + timeout_ms, Condition(condition))
