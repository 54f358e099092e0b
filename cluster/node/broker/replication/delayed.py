"""Requests that wait for partitions (DelayedOperationPurgatory.java): Produce and Fetch.

An operation is tried when it comes, again when anything that it watches has changed, and ended when
its time is over. Nothing else ends it: whoever asked may be long gone. So there is a bound, and
beyond it the oldest one is ended before its time, as if that were over.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from cluster.node.ports import Clock, Timer

OPERATIONS_MAX: Final = 10_000
"""More than there are connections: only of those that are gone can there be so many."""


class DelayedOperation(Protocol):
    """A request that is not answered yet."""

    def try_complete(self) -> bool:
        """Answer it, if it can be; return whether it was answered."""

    def expire(self) -> None:
        """Answer it with what there is: its time is over."""


@dataclass(slots=True, eq=False)
class _Waiting:
    operation: DelayedOperation
    keys: Sequence[Hashable]
    timer: Timer
    is_tried: bool = False
    """An answer may change what it waits for: it is not answered twice."""


class Purgatory:
    """Operations by what they watch; those of one key are tried in the order in which they came."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watchers: dict[Hashable, dict[_Waiting, None]] = {}
        self._waiting: dict[_Waiting, None] = {}
        """The oldest comes first."""

    def try_or_watch(
        self, operation: DelayedOperation, keys: Sequence[Hashable], timeout_ms: float
    ) -> None:
        """Complete it now, or once one of `keys` has changed, or when the time is over."""
        if operation.try_complete():
            return
        waiting: _Waiting
        timer = self._clock.call_later(max(timeout_ms, 0.0), lambda: self._expire(waiting))
        waiting = _Waiting(operation, keys, timer)
        for key in keys:
            self._watchers.setdefault(key, {})[waiting] = None
        self._waiting[waiting] = None
        if len(self._waiting) > OPERATIONS_MAX:
            oldest = next(iter(self._waiting))
            oldest.timer.cancel()
            self._expire(oldest)

    def check(self, key: Hashable) -> None:
        """Try again what watches a key."""
        for waiting in list(self._watchers.get(key, ())):
            if waiting.is_tried or waiting not in self._watchers.get(key, ()):
                continue
            waiting.is_tried = True
            if waiting.operation.try_complete():
                waiting.timer.cancel()
                self._forget(waiting)
            waiting.is_tried = False

    def _expire(self, waiting: _Waiting) -> None:
        # The time of a process that was stopped may be over when it is answered after all: what is
        # due then comes although it was cancelled.
        if waiting in self._waiting:
            self._forget(waiting)
            waiting.operation.expire()

    def _forget(self, waiting: _Waiting) -> None:
        del self._waiting[waiting]
        for key in waiting.keys:
            watchers = self._watchers.get(key)
            if watchers is not None:
                watchers.pop(waiting, None)
                if not watchers:
                    del self._watchers[key]
