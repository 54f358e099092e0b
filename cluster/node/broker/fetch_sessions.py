"""Fetch sessions: a fetcher names only what is new, and gets only what has changed (KIP-227).

| request | session id | epoch | what it gets |
|---|---|---|---|
| full, no session | 0 | -1 | all partitions that it names |
| full, a session is asked for | 0, or the one that it replaces | 0 | the same, and a session id |
| incremental | its session's | 1, 2, ... | of its session's partitions those with news |
| full, ends its session | its session's | -1 | all that it names |

A partition has news when it brings records, an error or a divergence, or when its high watermark or
log start has moved. Sessions are bounded: a new one takes the place of one that was not used for
long; followers go before consumers. Who gets none fetches in full.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from cluster.node.errors import ErrorCode
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Clock, Random
from cluster.node.protocol.data_messages import (
    CONSUMER,
    FINAL_SESSION_EPOCH,
    NO_SESSION,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResult,
    Topic,
)

INITIAL_EPOCH: Final = 0
SESSIONS_MAX: Final = 1_000
"""max.incremental.fetch.session.cache.slots"""
EVICTED_AFTER_MS: Final = 120_000.0
"""How long a session that others compete with may stay unused."""

Key = tuple[Topic, int]
_Seen = tuple[int, int, OffsetAndEpoch | None]


@dataclass(slots=True)
class _Session:
    id: int
    is_follower: bool
    used_ms: float
    epoch: int = 1
    """Of the next request."""
    partitions: dict[Key, FetchPartition] = field(default_factory=dict)
    """The next to be answered first: those that brought records go to the end."""
    seen: dict[Key, _Seen] = field(default_factory=dict)
    """High watermark, log start and divergence that its fetcher has seen."""


class Fetching:
    """One Fetch in the light of its session."""

    def __init__(self, partitions: Iterable[FetchPartition], session: _Session | None) -> None:
        self.partitions = tuple(partitions)
        """All that is to be read, in order."""
        self._session = session
        self._is_full = True

    @classmethod
    def incremental(cls, session: _Session) -> Fetching:
        """Fetch what a session holds."""
        made = cls(session.partitions.values(), session)
        made._is_full = False
        return made

    def has_news(self, result: FetchResult) -> bool:
        """Whether a partition's result belongs into the answer."""
        if self._is_full or self._session is None:
            return True
        if result.records or result.error is not ErrorCode.none:
            return True
        return self._session.seen.get((result.topic, result.index)) != _seen(result)

    def answer(self, results: Iterable[FetchResult]) -> FetchResponse:
        """Make the response of all results, those without news left out."""
        news = tuple(result for result in results if self.has_news(result))
        session = self._session
        if session is None:
            return FetchResponse(ErrorCode.none, news)
        for result in news:
            key = (result.topic, result.index)
            if result.error is ErrorCode.none:
                session.seen[key] = _seen(result)
            else:
                session.seen.pop(key, None)
            if result.records and key in session.partitions:
                session.partitions[key] = session.partitions.pop(key)
        return FetchResponse(ErrorCode.none, news, session.id)


def _seen(result: FetchResult) -> _Seen:
    return result.high_watermark, result.log_start_offset, result.diverging


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self, clock: Clock, random: Random, sessions_max: int = SESSIONS_MAX) -> None:
        self._clock = clock
        self._random = random
        self._max = sessions_max
        self._sessions: dict[int, _Session] = {}
        """The one that was used longest ago comes first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest) -> Fetching | ErrorCode:
        """Take a request; return what to read, or the error of the whole response."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_SESSION_EPOCH):
            self._sessions.pop(request.session_id, None)
            session = None
            if request.session_epoch == INITIAL_EPOCH:
                session = self._opened(request)
            return Fetching(request.partitions, session)
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.epoch != request.session_epoch:
            return ErrorCode.invalid_fetch_session_epoch
        if not _named_alike(session, request):
            return ErrorCode.fetch_session_topic_id_error
        session.epoch = session.epoch + 1 if session.epoch < 2**31 - 1 else 1
        session.used_ms = self._clock.monotonic_ms()
        self._sessions[session.id] = self._sessions.pop(session.id)
        for partition in request.partitions:
            session.partitions[partition.topic, partition.index] = partition
        for key in request.forgotten:
            session.partitions.pop(key, None)
            session.seen.pop(key, None)
        return Fetching.incremental(session)

    def _opened(self, request: FetchRequest) -> _Session | None:
        if not request.partitions:
            return None
        is_follower = request.replica_id > CONSUMER
        if len(self._sessions) >= self._max and not self._evicted(is_follower=is_follower):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = _Session(session_id, is_follower, self._clock.monotonic_ms())
        session.partitions = {(row.topic, row.index): row for row in request.partitions}
        self._sessions[session_id] = session
        return session

    def _evicted(self, *, is_follower: bool) -> bool:
        """Make room for a new session; return whether there is."""
        now_ms = self._clock.monotonic_ms()
        for session in self._sessions.values():
            unused = now_ms - session.used_ms > EVICTED_AFTER_MS
            if unused or (is_follower and not session.is_follower):
                del self._sessions[session.id]
                return True
        return False


def _named_alike(session: _Session, request: FetchRequest) -> bool:
    """Whether a request names topics as its session does: by name, or by id."""
    named = [topic for topic, _ in session.partitions]
    named += [row.topic for row in request.partitions]
    named += [topic for topic, _ in request.forgotten]
    return len({isinstance(topic, str) for topic in named}) <= 1
