"""What the active controller does unasked: fence silent brokers, elect leaders, expire tokens.

Each task is an event of its own that appends what it finds. It comes again at once while it finds
something, so that every step sees the one before it, and otherwise after its interval. Tasks of
brokers run only while some are registered: a static cluster has nothing to fence and nobody to
elect. Tokens are swept from the claim on where it finds some, else from the first that is issued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from cluster.node.controller.delegation_tokens import expired_tokens
from cluster.node.controller.heartbeats import BrokerHeartbeatManager
from cluster.node.controller.leadership import broker_fenced, preferred_elections, unclean_elections
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.state import MetadataState
from cluster.node.ports import Clock, Timer
from cluster.values import valueclass

ELECTION_INTERVAL_MS: Final = 300_000.0
"""leader.imbalance.check.interval.seconds, and how often unclean elections are tried."""

Generate = Callable[[MetadataState], Iterable[MetadataRecord]]
Append = Callable[[Generate, Callable[[int], None]], None]
"""(records of a state, callback with their number) -> one event; neither when not active."""


_OF_BROKERS: Final = range(3)
_OF_TOKENS: Final = 3
"""Numbers of tasks."""


@valueclass
class _Task:
    interval_ms: float
    generate: Generate


class PeriodicTasks:
    """The timers of one claim."""

    def __init__(
        self,
        clock: Clock,
        heartbeats: BrokerHeartbeatManager,
        append: Append,
        token_check_interval_ms: float,
    ) -> None:
        """`token_check_interval_ms`: delegation.token.expiry.check.interval.ms."""
        self._clock = clock
        self._append = append
        self._heartbeats = heartbeats
        self._tasks = (
            _Task(heartbeats.session_timeout_ms / 4, self._fence_stale_broker),
            _Task(ELECTION_INTERVAL_MS, preferred_elections),
            _Task(ELECTION_INTERVAL_MS, unclean_elections),
            _Task(token_check_interval_ms, self._expire_tokens),
        )
        self._timers: dict[int, Timer] = {}

    def start(self) -> None:
        """Begin those of brokers, unless begun."""
        if _OF_BROKERS[0] not in self._timers:
            for number in _OF_BROKERS:
                self._schedule(number)

    def start_token_sweep(self) -> None:
        """Begin to expire delegation tokens, unless begun."""
        if _OF_TOKENS not in self._timers:
            self._schedule(_OF_TOKENS)

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

    def _expire_tokens(self, state: MetadataState) -> Iterable[MetadataRecord]:
        return expired_tokens(state, self._clock.wall_ms())
