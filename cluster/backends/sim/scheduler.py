"""Virtual time: one queue of callbacks, run in order of time and then of arrival."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import cast

_Entry = list[object]
"""[due ms, sequence number, callback or None when cancelled]; compared by the first two."""


class _Timer:
    __slots__ = ("_entry",)

    def __init__(self, entry: _Entry) -> None:
        self._entry = entry

    def cancel(self) -> None:
        self._entry[2] = None


class Scheduler:
    """The only thing in a simulated world that makes anything happen."""

    def __init__(self) -> None:
        self._now_ms = 0.0
        self._queue: list[_Entry] = []
        self._sequence = 0
        self.events = 0
        """How many callbacks have run."""

    @property
    def now_ms(self) -> float:
        """Virtual milliseconds since the world began."""
        return self._now_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> _Timer:
        """Run `callback` once `delay_ms` have passed, after all that is due by then already."""
        assert delay_ms >= 0, delay_ms
        entry: _Entry = [self._now_ms + delay_ms, self._sequence, callback]
        self._sequence += 1
        heapq.heappush(self._queue, entry)
        return _Timer(entry)

    def step(self) -> bool:
        """Run the next callback; False when there is none."""
        while self._queue:
            due_ms, _, callback = heapq.heappop(self._queue)
            if callback is not None:
                self._now_ms = cast("float", due_ms)
                self.events += 1
                cast("Callable[[], None]", callback)()
                return True
        return False

    def run_for(self, duration_ms: float) -> None:
        """Run everything that is due within the next `duration_ms`, then stand there."""
        end_ms = self._now_ms + duration_ms
        while self._queue and cast("float", self._queue[0][0]) <= end_ms:
            self.step()
        self._now_ms = end_ms

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Run until `condition` holds, for at most `timeout_ms`; returns whether it does."""
        end_ms = self._now_ms + timeout_ms
        while not condition():
            if not self._queue or cast("float", self._queue[0][0]) > end_ms:
                return condition()
            self.step()
        return True
