"""Waiting for a number to be reached (ThresholdPurgatory.java).

Used for Fetch requests that wait for the log to grow or the high watermark to move, and for appends
that wait to be committed.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from enum import Enum


class Outcome(Enum):
    """How a wait ended."""

    REACHED = "reached"
    EXPIRED = "expired"
    LOST = "lost"
    """The leadership in which it waited ended."""


Done = Callable[[Outcome], None]


class ThresholdPurgatory:
    """Waiters complete in the order in which they began to wait."""

    def __init__(self) -> None:
        self._waiters: dict[int, tuple[int, Done]] = {}
        self._next = 0
        self._deadlines: list[tuple[float, int]] = []

    def wait(self, threshold: int, deadline_ms: float, done: Done) -> None:
        """Call `done` once a value of at least `threshold` is reached, or the deadline passes."""
        self._waiters[self._next] = (threshold, done)
        if deadline_ms < math.inf:
            heapq.heappush(self._deadlines, (deadline_ms, self._next))
        self._next += 1

    def reach(self, value: int) -> None:
        """Complete everything with a threshold of at most `value`."""
        if self._waiters:
            due = [i for i, (threshold, _) in self._waiters.items() if threshold <= value]
            self._finish(due, Outcome.REACHED)

    def reach_all(self) -> None:
        """Complete everything, because what it waited for may have changed otherwise."""
        self._finish(list(self._waiters), Outcome.REACHED)

    def lose_all(self) -> None:
        """Complete everything as lost: the leadership is over."""
        self._finish(list(self._waiters), Outcome.LOST)

    def expire(self, now_ms: float) -> None:
        """End what has waited too long."""
        if not self._deadlines or self._deadlines[0][0] > now_ms:
            return
        due: list[int] = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            due.append(heapq.heappop(self._deadlines)[1])
        self._finish([i for i in due if i in self._waiters], Outcome.EXPIRED)

    def next_deadline_ms(self) -> float:
        """When `expire` is due next; infinite when nothing waits with a deadline."""
        while self._deadlines and self._deadlines[0][1] not in self._waiters:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else math.inf

    def _finish(self, ids: list[int], outcome: Outcome) -> None:
        waiters = [self._waiters.pop(i) for i in ids]
        for _, done in waiters:
            done(outcome)
