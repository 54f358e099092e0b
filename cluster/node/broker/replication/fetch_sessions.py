"""Fetch sessions: a fetcher names only what is new, and gets only what has changed (KIP-227).

| request | session id | epoch | what it gets |
|---|---|---|---|
| full, no session | 0 | -1 | all partitions that it names |
| full, a session is asked for | 0, or the one that it replaces | 0 | the same, and a session id |
| incremental | its session's | 1, 2, ... | of its session's partitions those with news |
| full, ends its session | its session's | -1 | all that it names |

A partition has news when it brings records, an error or a divergence, or when its high watermark or
log start has moved.

An idle cluster with ten thousand partitions costs nothing: a session's partition that was found to
have nothing (*quiet*) is not looked at again before it is named, or its log, high watermark, log
start or leadership has changed (`stir`). One that brings records or an error stays stirred.

Sessions are bounded, in number and in partitions: a new one takes the place of one that was not
used for long; followers go before consumers. Who gets none fetches in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from cluster.node.broker.replication.partition import FetchTimes
from cluster.node.controller.metadata.state import PartitionKey
from cluster.node.errors import ErrorCode
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Clock, Random
from cluster.node.protocol import data_messages

INITIAL_EPOCH: Final = 0
SESSIONS_MAX: Final = 1_000
"""max.incremental.fetch.session.cache.slots"""
PARTITIONS_MAX: Final = 200_000
"""Of all sessions together: Kafka bounds only the sessions, each as large as a request can be."""
EVICTED_AFTER_MS: Final = 120_000.0
"""How long a session that others compete with may stay unused."""

Key = tuple[data_messages.Topic, int]
_Seen = tuple[int, int, OffsetAndEpoch | None]


@dataclass(slots=True, eq=False)
class _Session:
    id: int
    is_follower: bool
    used_ms: float
    epoch: int = 1
    """Of the next request."""
    partitions: dict[Key, data_messages.FetchPartition] = field(default_factory=dict)
    stirred: dict[Key, None] = field(default_factory=dict)
    """Those to look at, the next to be answered first: who brought records goes to the end."""
    watched: dict[Key, PartitionKey] = field(default_factory=dict)
    """Those whose changes stir them."""
    seen: dict[Key, _Seen] = field(default_factory=dict)
    """High watermark, log start and divergence that its fetcher has seen."""
    times: FetchTimes = field(default_factory=FetchTimes)
    on_stirred: Callable[[Key], None] | None = None
    """What a Fetch that waits does about it."""
    is_by_name: bool = True
    """Whether it names topics by name, or by id."""
    is_over: bool = False
    """Whether it is another's turn: a Fetch of it that waits still finds its answer."""


class Fetching:
    """One Fetch in the light of its session; without one, it has one of its own while it lasts."""

    def __init__(
        self, sessions: FetchSessions, session: _Session, *, is_full: bool, is_kept: bool
    ) -> None:
        self._sessions = sessions
        self._session = session
        self._is_full = is_full
        self._is_kept = is_kept
        self._on_stirred: Callable[[Key], None] | None = None

    @property
    def partitions(self) -> tuple[data_messages.FetchPartition, ...]:
        """All that is to be read, in order."""
        held = self._session.partitions
        if self._is_full:
            return tuple(held.values())
        return tuple([held[key] for key in self._session.stirred])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to wait for."""
        return not self._session.partitions

    @property
    def times(self) -> FetchTimes:
        """When the session fetched."""
        return self._session.times

    def partition(self, key: Key) -> data_messages.FetchPartition | None:
        """Return from where on a partition is to be read, None where it is forgotten."""
        return self._session.partitions.get(key)

    def watch(self, key: Key, partition: PartitionKey, *, is_quiet: bool) -> None:
        """Look at a partition again once it has changed, or with the next Fetch, too."""
        self._sessions.watch(self._session, key, partition)
        if is_quiet:
            self._session.stirred.pop(key, None)

    def wait(self, on_stirred: Callable[[Key], None]) -> None:
        """Have `on_stirred` called with each partition that has changed, until the answer."""
        self._session.on_stirred = self._on_stirred = on_stirred

    def has_news(self, result: data_messages.FetchResult) -> bool:
        """Whether a partition's result belongs into the answer."""
        if self._is_full or not self._is_kept:
            return True
        if result.records or result.error is not ErrorCode.none:
            return True
        key = (result.topic, result.index)
        row = self._session.partitions.get(key)
        if row is not None and result.high_watermark > row.high_watermark:
            return True  # the asker says that it does not know it, whatever it was sent
        return self.is_unseen(result)

    def is_unseen(self, result: data_messages.FetchResult) -> bool:
        """Whether a session that was there before knows less of a partition than this."""
        if self._is_full or not self._is_kept:
            return False
        return self._session.seen.get((result.topic, result.index)) != _position_of(result)

    def answer(self, results: Iterable[data_messages.FetchResult]) -> data_messages.FetchResponse:
        """Make the response of all results, those without news left out."""
        news = tuple(result for result in results if self.has_news(result))
        session = self._session
        if session.on_stirred is self._on_stirred:  # else a later Fetch waits already
            session.on_stirred = None
        if not self._is_kept:
            self._sessions.end(session)
            return data_messages.FetchResponse(ErrorCode.none, news)
        for result in news:
            key = (result.topic, result.index)
            if result.error is ErrorCode.none:
                session.seen[key] = _position_of(result)
            else:
                session.seen.pop(key, None)
            if result.records and key in session.stirred:
                session.stirred[key] = session.stirred.pop(key)
        return data_messages.FetchResponse(ErrorCode.none, news, session.id)


def _position_of(result: data_messages.FetchResult) -> _Seen:
    return result.high_watermark, result.log_start_offset, result.diverging


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._sessions: dict[int, _Session] = {}
        """The one that was used longest ago comes first."""
        self._count = 0
        """Partitions of all of them."""
        self._watchers: dict[PartitionKey, dict[_Session, Key]] = {}

    def begin(self, request: data_messages.FetchRequest) -> Fetching | ErrorCode:
        """Take a request; return what to read, or the error of the whole response."""
        if request.session_epoch in (INITIAL_EPOCH, data_messages.FINAL_SESSION_EPOCH):
            self._drop(self._sessions.get(request.session_id))
            return self._open(request)
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.epoch != request.session_epoch:
            return ErrorCode.invalid_fetch_session_epoch
        if not _named_alike(session, request):
            return ErrorCode.fetch_session_topic_id_error
        session.epoch = session.epoch + 1 if session.epoch < 2**31 - 1 else 1
        session.used_ms = self._clock.monotonic_ms()
        session.times.latest_ms = session.used_ms
        self._sessions[session.id] = self._sessions.pop(session.id)
        before = len(session.partitions)
        for partition in request.partitions:
            key = (partition.topic, partition.index)
            session.partitions[key] = partition
            session.stirred.setdefault(key)
        for key in request.forgotten:
            self._forget(session, key)
        self._count += len(session.partitions) - before
        if self._count > PARTITIONS_MAX:
            self._drop(session)
            return ErrorCode.fetch_session_id_not_found
        return Fetching(self, session, is_full=False, is_kept=True)

    def watch(self, session: _Session, key: Key, partition: PartitionKey) -> None:
        """Have `partition` stir what the session names `key`."""
        if session.is_over:
            return
        before = session.watched.get(key)
        if before != partition:
            if before is not None:
                self._unwatch(session, before)
            session.watched[key] = partition
            self._watchers.setdefault(partition, {})[session] = key

    def stir(self, partition: PartitionKey) -> None:
        """Let every session look at a partition again: something of it has changed."""
        for session, key in list(self._watchers.get(partition, {}).items()):
            session.stirred.setdefault(key)
            if session.on_stirred is not None:
                session.on_stirred(key)

    def end(self, session: _Session) -> None:
        """Watch nothing for a session any more."""
        session.is_over = True
        for partition in session.watched.values():
            self._unwatch(session, partition)
        session.watched.clear()

    def _unwatch(self, session: _Session, partition: PartitionKey) -> None:
        watchers = self._watchers[partition]
        del watchers[session]
        if not watchers:
            del self._watchers[partition]

    def _forget(self, session: _Session, key: Key) -> None:
        session.partitions.pop(key, None)
        session.stirred.pop(key, None)
        session.seen.pop(key, None)
        partition = session.watched.pop(key, None)
        if partition is not None:
            self._unwatch(session, partition)

    def _open(self, request: data_messages.FetchRequest) -> Fetching:
        is_follower = request.replica_id > data_messages.CONSUMER
        session = _Session(data_messages.NO_SESSION, is_follower, self._clock.monotonic_ms())
        session.times.latest_ms = session.used_ms
        session.partitions = {(row.topic, row.index): row for row in request.partitions}
        session.stirred = dict.fromkeys(session.partitions)
        session.is_by_name = all(isinstance(topic, str) for topic, _ in session.partitions)
        is_kept = request.session_epoch == INITIAL_EPOCH and self._has_room(session)
        if is_kept:
            while session.id == data_messages.NO_SESSION or session.id in self._sessions:
                session.id = self._random.randrange(1, 2**31)
            self._sessions[session.id] = session
            self._count += len(session.partitions)
        return Fetching(self, session, is_full=True, is_kept=is_kept)

    def _has_room(self, session: _Session) -> bool:
        """Whether a session can be kept, maybe in the place of others."""
        wanted = len(session.partitions)
        if not 0 < wanted <= PARTITIONS_MAX:
            return False
        while len(self._sessions) >= SESSIONS_MAX or self._count + wanted > PARTITIONS_MAX:
            if not self._evict(is_follower=session.is_follower):
                return False
        return True

    def _evict(self, *, is_follower: bool) -> bool:
        """Make room for a new session; return whether there is."""
        now_ms = self._clock.monotonic_ms()
        for session in self._sessions.values():
            unused = now_ms - session.used_ms > EVICTED_AFTER_MS
            if unused or (is_follower and not session.is_follower):
                self._drop(session)
                return True
        return False

    def _drop(self, session: _Session | None) -> None:
        if session is not None:
            del self._sessions[session.id]
            self._count -= len(session.partitions)
            self.end(session)


def _named_alike(session: _Session, request: data_messages.FetchRequest) -> bool:
    """Whether a request names topics as its session does: by name, or by id."""
    named = [row.topic for row in request.partitions]
    named += [topic for topic, _ in request.forgotten]
    ways = {isinstance(topic, str) for topic in named}
    return not ways or ways == {session.is_by_name}
