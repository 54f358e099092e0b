"""Fetches the partitions that one other broker leads (ReplicaFetcherThread, AbstractFetcherThread).

One Fetch is under way at a time, with a session: it names what is new since the one before, and to
find that costs no look at the others, of which there may be ten thousand. What it
brings goes to each partition (`FollowedPartition`), in the leader's order. A partition with an
error is left out for a while; one whose leader epoch was fenced waits for the metadata. What was
asked for in an earlier leader epoch of a partition is dropped.

The offset that a Fetch names acknowledges everything below it. So the next one is sent when a kill
of this process can no longer lose what the last one brought, and the first one of a partition when
it can no longer lose what an earlier leader sent.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from cluster.node.broker.lifecycle.exchange import Exchange
from cluster.node.broker.replication.topic_settings import ReplicaConfig
from cluster.node.errors import ErrorCode
from cluster.node.ports import Clock, Endpoint, Network, Timer
from cluster.node.protocol import data_messages

INITIAL_EPOCH: Final = 0
MIN_BYTES: Final = 1
"""replica.fetch.min.bytes"""

Key = tuple[data_messages.Topic, int]


class Outcome(enum.Enum):
    """What a partition makes of its part of a reply."""

    GO_ON = "go-on"
    RETRY = "retry"
    """After a while."""
    STOP = "stop"
    """Until the metadata say more."""
    ASK_OFFSETS = "ask-offsets"
    """It is out of the leader's range: the leader's offsets are asked for first."""


class FollowedPartition(Protocol):
    """A partition that this broker follows."""

    @property
    def is_written(self) -> bool:
        """Whether a kill of this process keeps all of it."""

    def position(self) -> data_messages.FetchPartition:
        """Say from where on it is to be fetched."""

    def take_fetch(self, result: data_messages.FetchResult) -> Outcome:
        """Take what its leader sent."""

    def ask_offsets(self, leader: Endpoint, done: Callable[[Outcome], None]) -> None:
        """Find out where the leader's log begins and ends, and make its own fit."""


@dataclass(slots=True, eq=False)
class _Fetched:
    partition: FollowedPartition
    ready_ms: float = 0.0
    is_busy: bool = False
    """Its leader's offsets are asked for."""
    is_stopped: bool = False


class ReplicaFetcher:
    """See the module."""

    def __init__(
        self,
        config: ReplicaConfig,
        leader: Endpoint,
        clock: Clock,
        network: Network,
        broker_epoch: Callable[[], int],
        when_written: Callable[[Callable[[], None]], None],
    ) -> None:
        """`when_written`: calls its argument once a kill can no longer lose what was appended."""
        self.leader = leader
        self._when_written = when_written
        self._is_writing = False
        self._has_unwritten = False
        """Whether a partition that was added has what no kill may take yet."""
        self._config = config
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._partitions: dict[Key, _Fetched] = {}
        self._session_id = data_messages.NO_SESSION
        self._session_epoch = INITIAL_EPOCH
        self._session: dict[Key, tuple[_Fetched, data_messages.FetchPartition]] = {}
        """What the leader's session holds: for whom it was asked for, and from where on."""
        self._moved: dict[Key, None] = {}
        """Those whose position may be another than the session has."""
        self._resting: dict[Key, None] = {}
        """Those that are left out for now."""
        self._exchange = Exchange(clock, partial(network.request, leader))
        self._timer: Timer | None = None
        self._stopped = False

    def __len__(self) -> int:
        return len(self._partitions)

    def has(self, key: Key) -> bool:
        """Whether it fetches a partition."""
        return key in self._partitions

    def add(self, key: Key, partition: FollowedPartition) -> None:
        """Fetch a partition from now on; one that it had already begins anew."""
        self._partitions[key] = _Fetched(partition)
        self._has_unwritten |= not partition.is_written
        self._moved[key] = None
        self._resting.pop(key, None)
        if not self._is_busy:
            self._schedule(0.0)  # with all that the same publication brings

    def remove(self, key: Key) -> None:
        """Fetch it no more."""
        if self._partitions.pop(key, None) is not None:
            self._moved[key] = None
            self._resting.pop(key, None)

    def on_move(self, key: Key) -> None:
        """Learn that a partition's position has changed by itself: its log begins later."""
        if key in self._partitions:
            self._moved[key] = None

    def stop(self) -> None:
        """Fall silent; a reply that is under way is dropped."""
        self._stopped = True
        self._exchange.drop()
        self._partitions.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _is_busy(self) -> bool:
        return self._exchange.in_flight or self._is_writing

    def _schedule(self, delay_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(delay_ms, self._send)

    def _send(self) -> None:
        self._timer = None
        wait_ms = self._wake()
        if len(self._resting) == len(self._partitions):
            if wait_ms is not None:
                self._schedule(wait_ms)
            return
        if self._has_unwritten:
            self._has_unwritten = False
            self._await_write()
            return
        timeout_ms = self._config.fetch_wait_max_ms + self._config.request_timeout_ms
        self._exchange.begin(self._request(), timeout_ms, self._on_answer)

    def _wake(self) -> float | None:
        """Go on with those that have rested for long enough; says when the next one will have."""
        now_ms = self._clock.monotonic_ms()
        waits_ms: list[float] = []
        for key in list(self._resting):
            fetched = self._partitions[key]
            if fetched.is_stopped or fetched.is_busy:
                continue
            if fetched.ready_ms > now_ms:
                waits_ms.append(fetched.ready_ms - now_ms)
            else:
                del self._resting[key]
                self._moved[key] = None
        return min(waits_ms, default=None)

    def _request(self) -> data_messages.FetchRequest:
        """Name what the session does not have yet, and what it is to forget."""
        config = self._config
        is_full = self._session_epoch == INITIAL_EPOCH
        if is_full:
            self._session.clear()
        named: list[data_messages.FetchPartition] = []
        forgotten: list[Key] = []
        for key in self._partitions if is_full else self._moved:
            fetched, held = self._partitions.get(key), self._session.get(key)
            if fetched is None or key in self._resting:
                if held is not None:
                    del self._session[key]
                    forgotten.append(key)
                continue
            at = fetched.partition.position()
            if held is None or held[0] is not fetched or held[1] != at:
                named.append(at)
            self._session[key] = (fetched, at)
        self._moved.clear()
        return data_messages.FetchRequest(
            replica_id=config.broker_id,
            replica_epoch=self._broker_epoch(),
            max_wait_ms=config.fetch_wait_max_ms,
            min_bytes=MIN_BYTES,
            max_bytes=config.fetch_response_max_bytes,
            partitions=tuple(named),
            forgotten=tuple(forgotten),
            session_id=self._session_id,
            session_epoch=self._session_epoch,
        )

    def _on_answer(self, reply: Any) -> None:
        if not isinstance(reply, data_messages.FetchResponse) or reply.error is not ErrorCode.none:
            was_full = self._session_epoch == INITIAL_EPOCH
            self._session_epoch = INITIAL_EPOCH
            lost = isinstance(reply, data_messages.FetchResponse) and reply.error in _SESSION_ERRORS
            self._schedule(0.0 if lost and not was_full else self._config.fetch_backoff_ms)
            return
        self._session_id = reply.session_id
        if reply.session_id == data_messages.NO_SESSION:
            self._session_epoch = INITIAL_EPOCH
        else:
            self._session_epoch = self._session_epoch % (2**31 - 1) + 1
        for result in reply.partitions:
            key = (result.topic, result.index)
            fetched = self._partitions.get(key)
            asked = self._session.get(key)
            # A partition that was added again since then is fetched in another leader epoch.
            if fetched is not None and asked is not None and asked[0] is fetched:
                self._moved[key] = None
                self._apply(key, fetched, fetched.partition.take_fetch(result))
        if self._stopped:
            return
        if any(result.records for result in reply.partitions):
            self._await_write()
        else:
            self._schedule(0.0)

    def _await_write(self) -> None:
        self._is_writing = True
        self._when_written(self._on_write)

    def _on_write(self) -> None:
        self._is_writing = False
        if not self._stopped:
            self._schedule(0.0)

    def _apply(self, key: Key, fetched: _Fetched, outcome: Outcome) -> None:
        if outcome is Outcome.GO_ON or self._partitions.get(key) is not fetched:
            return
        self._resting[key] = self._moved[key] = None
        if outcome is Outcome.RETRY:
            fetched.ready_ms = self._clock.monotonic_ms() + self._config.fetch_backoff_ms
        elif outcome is Outcome.STOP:
            fetched.is_stopped = True
        elif outcome is Outcome.ASK_OFFSETS:
            fetched.is_busy = True

            def done(then: Outcome) -> None:
                if self._partitions.get(key) is not fetched or not fetched.is_busy:
                    return
                fetched.is_busy = False
                # `_wake` ends its rest when that is over, at once if it is to go on.
                self._apply(key, fetched, Outcome.RETRY if then is outcome else then)
                if not self._is_busy:
                    self._schedule(0.0)

            fetched.partition.ask_offsets(self.leader, done)


_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
    }
)
"""The session is over; what it held is asked for in full at once."""
