"""What the active controller does unasked: fence silent brokers and elect leaders.

Each task is an event of its own that appends what it finds. It comes again at once while it finds
something, so that every step sees the one before it, and otherwise after its interval. Tasks run
only while brokers are registered: a static cluster has nothing to fence and nobody to elect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from cluster.node.controller.brokers.broker_lifecycle import BrokerHeartbeatManager
from cluster.node.controller.metadata.state import MetadataState
from cluster.node.controller.partitions.leadership import (
    broker_fenced,
    preferred_elections,
    unclean_elections,
)
from cluster.node.controller.records import MetadataRecord
from cluster.node.ports import Clock, Timer
from cluster.values import valueclass

ELECTION_INTERVAL_MS: Final = 300_000.0
"""leader.imbalance.check.interval.seconds, and how often unclean elections are tried."""

Generate = Callable[[MetadataState], Iterable[MetadataRecord]]
Append = Callable[[Generate, Callable[[int], None]], None]
"""(records of a state, callback with their number) -> one event; neither when not active."""


@valueclass
class _Task:
    interval_ms: float
    generate: Generate


class PeriodicTasks:
    """The timers of one claim."""

    def __init__(self, clock: Clock, heartbeats: BrokerHeartbeatManager, append: Append) -> None:
        self._clock = clock
        self._append = append
        self._heartbeats = heartbeats
        self._tasks = (
            _Task(heartbeats.session_timeout_ms / 4, self._fence_stale_broker),
            _Task(ELECTION_INTERVAL_MS, preferred_elections),
            _Task(ELECTION_INTERVAL_MS, unclean_elections),
        )
        self._timers: dict[int, Timer] = {}

    def start(self) -> None:
        """Begin, unless begun."""
        if not self._timers:
            for number in range(len(self._tasks)):
                self._schedule(number)

    def stop(self) -> None:
        """End; nothing that is under way schedules anything any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _schedule(self, number: int) -> None:
        task = self._tasks[number]
        self._timers[number] = self._clock.call_later(task.interval_ms, lambda: self._run(number))

    def _run(self, number: int) -> None:
        timer = self._timers.get(number)

        def done(count: int) -> None:
            if timer is None or self._timers.get(number) is not timer:
                return  # stopped, perhaps begun anew, in between
            if count:
                self._run(number)
            else:
                self._schedule(number)

        self._append(self._tasks[number].generate, done)

    def _fence_stale_broker(self, state: MetadataState) -> Iterable[MetadataRecord]:
        broker = self._heartbeats.stale_broker(state)
        return () if broker is None else broker_fenced(state, broker)
