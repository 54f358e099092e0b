"""How the controller is set, and what it owes: writes to be committed, reads to be confirmed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster.node.controller.metadata.result import PendingReply
from cluster.node.controller.records import MetadataRecord
from cluster.node.ports import Clock, Timer
from cluster.values import valueclass


@valueclass
class ControllerSettings:
    """Kafka's properties of the same names."""

    max_idle_interval_ms: float = 500
    """metadata.max.idle.interval.ms; 0 turns the NoOpRecord off."""
    max_record_bytes_between_snapshots: int = 20 * 1024 * 1024
    """metadata.log.max.record.bytes.between.snapshots"""
    max_snapshot_interval_ms: float = 3_600_000
    """metadata.log.max.snapshot.interval.ms; 0 turns snapshots by time off."""
    broker_session_timeout_ms: float = 9_000
    """broker.session.timeout.ms"""
    min_insync_replicas: int = 1
    bootstrap: tuple[MetadataRecord, ...] = ()
    """What a new cluster begins with, if not with the defaults (`bootstrap_file`)."""


@valueclass
class DeferredWrite:
    """Appended; `response` is due when `last_offset` is committed."""

    last_offset: int
    pending: PendingReply[Any]
    response: Any


@dataclass(slots=True)
class WaitingRead:
    """A read of the image, or (with `response`) the information of a write without records."""

    epoch: int
    offset: int
    """What must be committed and replayed before the answer."""
    answer: Callable[[], Any]
    pending: PendingReply[Any]
    must_confirm: bool
    query: bool
    """Whether it asks for the image; else it is what a write without records answers."""
    confirmed: bool = False


class Drain:
    """The last writes of a controller that is shut down.

    A leader that resigns at once leaves them without a known outcome, which a client cannot but
    take for a failure. What comes after the drain has begun is never appended, and brokers hold it
    for the next leader.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.begun = False
        self._then: Callable[[], None] | None = None
        self._timer: Timer | None = None

    def begin(self, timeout_ms: float, then: Callable[[], None]) -> None:
        """Call `then` once, when `check` finds that nothing is owed, or in `timeout_ms`."""
        assert not self.begun, "drained twice"
        self.begun = True
        self._then = then
        self._timer = self._clock.call_later(timeout_ms, lambda: self.check(0))

    def check(self, owed: int) -> None:
        """Take note that so many writes are owed an answer."""
        if self._then is None or owed:
            return
        assert self._timer is not None
        self._timer.cancel()
        then, self._then = self._then, None
        then()
