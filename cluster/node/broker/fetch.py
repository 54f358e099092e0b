"""Fetch: what a partition holds from an offset on, for consumers and for followers.

A consumer is shown what lies below the high watermark, by the leader or, from version 11 on, by any
replica (KIP-392). A follower is shown everything, by the leader only; its Fetch says that it has
all below its offset, unless its log diverges: then it is answered where (KIP-595's form of
KIP-101), and nothing is concluded from its offset (KAFKA-13141).

An answer without news waits up to `max_wait_ms`: for `min_bytes` of records, for an error, or for a
high watermark that the follower does not know yet (KAFKA-14145).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from cluster.node.broker.fetch_sessions import Fetching, FetchSessions
from cluster.node.broker.partition import StaleReplicaError
from cluster.node.broker.replica import Replica
from cluster.node.broker.replica_manager import DELETE, FETCH, ReplicaManager
from cluster.node.errors import ErrorCode
from cluster.node.log.data_config import OffsetOutOfRangeError, StorageError
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint
from cluster.node.protocol.data_messages import (
    CONSUMER,
    NO_EPOCH,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResult,
)

FETCH_MAX_BYTES: Final = 55 << 20
"""fetch.max.bytes"""
_NAMES_LEADER: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})

Reply = Callable[[Any], None]


class FetchHandler:
    """Answers Fetch requests, with or without a session."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager
        self._sessions = FetchSessions(manager.clock, manager.random)

    def handle(self, listener: str, request: FetchRequest, reply: Reply) -> None:
        """Answer now, or when there is something to answer."""
        fetching = self._sessions.begin(request)
        if isinstance(fetching, ErrorCode):
            reply(FetchResponse(fetching))
            return
        delayed = _Delayed(self._manager, request, fetching, listener, reply)
        results = delayed.read(first=True)
        if request.max_wait_ms <= 0 or not fetching.partitions or delayed.suffices(results):
            delayed.answer(results)
            return
        keys = [(FETCH, key) for key in delayed.keys]
        self._manager.delayed.try_or_watch(delayed, keys, request.max_wait_ms)


class _Delayed:
    """A Fetch that waits for news (DelayedFetch)."""

    def __init__(
        self,
        manager: ReplicaManager,
        request: FetchRequest,
        fetching: Fetching,
        listener: str,
        reply: Reply,
    ) -> None:
        self._manager = manager
        self._request = request
        self._fetching = fetching
        self._listener = listener
        self._reply = reply
        self._is_follower = request.replica_id > CONSUMER
        self._is_new = True
        self._replicas: list[tuple[FetchPartition, Replica]] = []

    @property
    def keys(self) -> list[tuple[Any, int]]:
        """The partitions that it waits for."""
        return [replica.key for _, replica in self._replicas]

    # --- waiting ---

    def try_complete(self) -> bool:
        """See `DelayedOperation`."""
        if self._is_new:
            self._is_new = False
            return False  # it was just read
        if not any(self._may_have_news(row, replica) for row, replica in self._replicas):
            return False
        results = self.read()
        if not self.suffices(results):
            return False
        self.answer(results)
        return True

    def expire(self) -> None:
        """See `DelayedOperation`."""
        self.answer(self.read())

    def _may_have_news(self, row: FetchPartition, replica: Replica) -> bool:
        """Whether a partition is worth a look: cheap, as it is asked at each append."""
        if not replica.is_hosted or self._manager.is_offline:
            return True
        partition = replica.partition
        if self._is_follower:
            if not partition.leads or partition.leader_epoch != row.current_leader_epoch:
                return True
            return (
                replica.log.end_offset > row.fetch_offset
                or partition.high_watermark > row.high_watermark
            )
        if row.current_leader_epoch not in (NO_EPOCH, partition.leader_epoch):
            return True
        if self._request.rack is None and not partition.leads:
            return True
        return partition.high_watermark > row.fetch_offset

    def suffices(self, results: list[FetchResult]) -> bool:
        """Whether results are worth an answer before the time is over."""
        size_bytes = 0
        rows = {(row.topic, row.index): row for row in self._fetching.partitions}
        for result in results:
            if result.error is not ErrorCode.none or result.diverging is not None:
                return True
            if result.high_watermark > rows[result.topic, result.index].high_watermark:
                return True
            size_bytes += len(result.records)
        return size_bytes >= self._request.min_bytes

    def answer(self, results: list[FetchResult]) -> None:
        """Send the answer."""
        endpoints: dict[int, Endpoint] = {}
        named = [self._with_leader(result, endpoints) for result in results]
        response = self._fetching.answer(named)
        if endpoints:
            response = replace(response, endpoints=tuple(endpoints.values()))
        self._reply(response)

    def _with_leader(self, result: FetchResult, endpoints: dict[int, Endpoint]) -> FetchResult:
        """Name the leader where this broker is not (KIP-951)."""
        if result.error not in _NAMES_LEADER:
            return result
        leader, epoch, endpoint = self._manager.leader_of(
            result.topic, result.index, self._listener
        )
        if endpoint is not None:
            endpoints[leader] = endpoint
        return replace(result, leader_id=leader, leader_epoch=epoch)

    # --- reading ---

    def read(self, *, first: bool = False) -> list[FetchResult]:
        """Read all partitions; the first time what a follower's offsets say is taken in.

        All together are bounded, but the first partition with records brings at least a batch.
        """
        left_bytes = min(self._request.max_bytes, FETCH_MAX_BYTES)
        is_any = False
        results = []
        self._replicas = []
        for row in self._fetching.partitions:
            result = self._read(row, left_bytes, first=first, min_one=not is_any)
            left_bytes = max(0, left_bytes - len(result.records))
            is_any = is_any or bool(result.records)
            results.append(result)
        return results

    def _find(self, row: FetchPartition) -> Replica | ErrorCode:
        if self._is_follower or self._request.rack is None:
            return self._manager.led(row.topic, row.index, row.current_leader_epoch)
        return self._manager.held(row.topic, row.index, row.current_leader_epoch)

    def _read(
        self, row: FetchPartition, left_bytes: int, *, first: bool, min_one: bool
    ) -> FetchResult:
        replica = self._find(row)
        if isinstance(replica, ErrorCode):
            return _failed(row, replica)
        self._replicas.append((row, replica))
        try:
            diverging = self._diverging(row, replica)
            if diverging is None and self._is_follower and first:
                self._take(row, replica)
            records = b""
            if diverging is None:
                records = replica.log.read(
                    row.fetch_offset,
                    min(row.max_bytes, left_bytes),
                    min_one=min_one,
                    end_offset=None if self._is_follower else replica.partition.high_watermark,
                )
        except OffsetOutOfRangeError:
            return _failed(row, ErrorCode.offset_out_of_range, replica)
        except StaleReplicaError:
            return _failed(row, ErrorCode.not_leader_or_follower)
        except StorageError:
            return _failed(row, ErrorCode.kafka_storage_error)
        high_watermark = replica.partition.high_watermark
        return FetchResult(
            topic=row.topic,
            index=row.index,
            error=ErrorCode.none,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=replica.log.start_offset,
            diverging=diverging,
            records=records,
        )

    def _diverging(self, row: FetchPartition, replica: Replica) -> OffsetAndEpoch | None:
        """Compare the epoch of the asker's last record. Raises OffsetOutOfRangeError."""
        if row.last_fetched_epoch == NO_EPOCH:
            return None
        end = replica.log.end_offset_for_epoch(row.last_fetched_epoch)
        if end is None or row.fetch_offset < replica.log.start_offset:
            raise OffsetOutOfRangeError(f"epoch {row.last_fetched_epoch} at {row.fetch_offset}")
        if end.epoch < row.last_fetched_epoch or end.offset < row.fetch_offset:
            return end
        return None

    def _take(self, row: FetchPartition, replica: Replica) -> None:
        """Take in what a follower's offsets say of its log; raises what `_read` catches."""
        if not replica.log.start_offset <= row.fetch_offset <= replica.log.end_offset:
            raise OffsetOutOfRangeError(f"{row.fetch_offset} is not in the log")
        replica.partition.fetched(
            self._request.replica_id,
            row.fetch_offset,
            row.log_start_offset,
            self._request.replica_epoch,
        )
        self._manager.delayed.check((DELETE, replica.key))


def _failed(row: FetchPartition, error: ErrorCode, replica: Replica | None = None) -> FetchResult:
    """Make the result of an error; one of the offset says where the log begins."""
    if replica is None:
        return FetchResult(row.topic, row.index, error)
    return FetchResult(
        row.topic,
        row.index,
        error,
        high_watermark=replica.partition.high_watermark,
        log_start_offset=replica.log.start_offset,
    )
