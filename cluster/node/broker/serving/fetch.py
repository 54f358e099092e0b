"""Fetch: what a partition holds from an offset on, for consumers and for followers.

A consumer is shown what lies below the high watermark, by the leader or, from version 11 on, by any
replica (KIP-392). A follower is shown everything, by the leader only; its Fetch says that it has
all below its offset, unless its log diverges: then it is answered where (KIP-595's form of
KIP-101), and nothing is concluded from its offset (KAFKA-13141).

An answer without news waits up to `max_wait_ms`: for `min_bytes` of records, for an error, or for a
high watermark that the follower does not know yet (KAFKA-14145). What wakes it is its session
(`fetch_sessions`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from cluster.node.broker.replication.fetch_sessions import Fetching
from cluster.node.broker.replication.partition import StaleReplicaError
from cluster.node.broker.replication.replica import Replica
from cluster.node.broker.replication.replica_manager import DELETE, ReplicaManager
from cluster.node.errors import ErrorCode
from cluster.node.log.data.data_config import OffsetOutOfRangeError, StorageError
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint
from cluster.node.protocol import data_messages

FETCH_MAX_BYTES: Final = 55 << 20
"""fetch.max.bytes"""

Reply = Callable[[Any], None]


class FetchHandler:
    """Answers Fetch requests, with or without a session."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    def handle(self, listener: str, request: data_messages.FetchRequest, reply: Reply) -> None:
        """Answer now, or when there is something to answer."""
        fetching = self._manager.fetch_sessions.begin(request)
        if isinstance(fetching, ErrorCode):
            reply(data_messages.FetchResponse(fetching))
            return
        delayed = _Delayed(self._manager, request, fetching, listener, reply)
        results = delayed.read(first=True)
        if request.max_wait_ms <= 0 or fetching.is_empty or delayed.suffices(results):
            delayed.answer(results)
            return
        fetching.wait(delayed.wake)
        self._manager.fetches.try_or_watch(delayed, [delayed], request.max_wait_ms)


class _Delayed:
    """A Fetch that waits for news (DelayedFetch)."""

    def __init__(
        self,
        manager: ReplicaManager,
        request: data_messages.FetchRequest,
        fetching: Fetching,
        listener: str,
        reply: Reply,
    ) -> None:
        self._manager = manager
        self._request = request
        self._fetching = fetching
        self._listener = listener
        self._reply = reply
        self._is_follower = request.replica_id > data_messages.CONSUMER
        self._min_bytes = min(request.min_bytes, request.max_bytes, FETCH_MAX_BYTES)
        self._has_news = False
        self._read_to: dict[tuple[Any, int], int] = {}
        """Up to which offset partitions were read that brought records."""
        self._gained: dict[tuple[Any, int], int] = {}
        self._bytes = 0
        """An estimate of what there is by now."""

    # --- waiting ---

    def try_complete(self) -> bool:
        if self._has_news:
            self.answer(self.read())
        return self._has_news

    def expire(self) -> None:
        self.answer(self.read())

    def wake(self, key: tuple[Any, int]) -> None:
        """Look at one partition that has changed: cheaply, as each append asks for it.

        Nothing is read. Else an append would cost a fetcher that waits for many bytes all that it
        has waited for so far.
        """
        row = self._fetching.partition(key)
        if row is not None and not self._has_news and self._is_worth_an_answer(key, row):
            self._has_news = True
            self._manager.fetches.check(self)

    def _is_worth_an_answer(self, key: tuple[Any, int], row: data_messages.FetchPartition) -> bool:
        replica = self._find(row)
        if isinstance(replica, ErrorCode):
            return True
        log, partition = replica.log, replica.partition
        if not log.start_offset <= row.fetch_offset <= log.end_offset:
            return True
        if partition.high_watermark > row.high_watermark:
            return True
        read_to = self._read_to.get(key, row.fetch_offset)
        gained = log.bytes_between(read_to, self._limit(replica))
        self._bytes += gained - self._gained.get(key, 0)
        self._gained[key] = gained
        return self._bytes >= self._min_bytes

    def _limit(self, replica: Replica) -> int:
        """Return up to where the asker is shown records."""
        return replica.log.end_offset if self._is_follower else replica.partition.high_watermark

    def suffices(self, results: list[data_messages.FetchResult]) -> bool:
        """Whether results are worth an answer before the time is over."""
        for result in results:
            if result.error is not ErrorCode.none or result.diverging is not None:
                return True
            key = (result.topic, result.index)
            row = self._fetching.partition(key)
            if row is None or result.high_watermark > row.high_watermark:
                return True
            self._bytes += len(result.records)
        return self._bytes >= self._min_bytes

    def answer(self, results: list[data_messages.FetchResult]) -> None:
        """Send the answer."""
        endpoints: dict[int, Endpoint] = {}
        named = [self._manager.with_leader(result, self._listener, endpoints) for result in results]
        response = self._fetching.answer(named)
        if endpoints:
            response = replace(response, endpoints=tuple(endpoints.values()))
        self._reply(response)

    # --- reading ---

    def read(self, *, first: bool = False) -> list[data_messages.FetchResult]:
        """Read what is to be read; the first time what a follower's offsets say is taken in.

        All together are bounded, but the first partition with records brings at least a batch.
        """
        left_bytes = min(self._request.max_bytes, FETCH_MAX_BYTES)
        is_any = False
        results = []
        for row in self._fetching.partitions:
            result = self._read(row, left_bytes, first=first, min_one=not is_any)
            left_bytes = max(0, left_bytes - len(result.records))
            is_any = is_any or bool(result.records)
            results.append(result)
        return results

    def _find(self, row: data_messages.FetchPartition) -> Replica | ErrorCode:
        if self._is_follower or self._request.rack is None:
            replica = self._manager.find_leader(row.topic, row.index, row.current_leader_epoch)
            if not self._is_follower or isinstance(replica, ErrorCode):
                return replica
            if self._request.replica_id in replica.partition.followers:
                return replica
            # Its metadata may be newer than this leader's: then it is a replica before long.
            named = row.current_leader_epoch != data_messages.NO_EPOCH
            return ErrorCode.unknown_leader_epoch if named else ErrorCode.not_leader_or_follower
        return self._manager.find_in_epoch(row.topic, row.index, row.current_leader_epoch)

    def _read(
        self, row: data_messages.FetchPartition, left_bytes: int, *, first: bool, min_one: bool
    ) -> data_messages.FetchResult:
        replica = self._find(row)
        if isinstance(replica, ErrorCode):
            return _error_result(row, replica)
        try:
            diverging = self._diverging(row, replica)
            if diverging is None and self._is_follower and first:
                self._take(row, replica)
            records = b""
            if diverging is None and row.fetch_offset != self._limit(replica):
                records = self._records(row, replica, left_bytes, min_one=min_one)
        except OffsetOutOfRangeError:
            return _error_result(row, ErrorCode.offset_out_of_range, replica)
        except StaleReplicaError:
            return _error_result(row, ErrorCode.not_leader_or_follower)
        except StorageError:
            return _error_result(row, ErrorCode.kafka_storage_error)
        high_watermark = replica.partition.high_watermark
        result = data_messages.FetchResult(
            topic=row.topic,
            index=row.index,
            error=ErrorCode.none,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=replica.log.start_offset,
            diverging=diverging,
            records=records,
        )
        if not first or self._request.max_wait_ms > 0 or self._request.session_epoch >= 0:
            self._watch(row, replica, result)
        return result

    def _records(
        self, row: data_messages.FetchPartition, replica: Replica, left_bytes: int, *, min_one: bool
    ) -> bytes:
        """Read records. Raises OffsetOutOfRangeError, StorageError."""
        log = replica.log
        if not left_bytes and not min_one and log.start_offset <= row.fetch_offset:
            return b""  # no look into a file for what cannot be sent
        return log.read(
            row.fetch_offset,
            min(row.max_bytes, left_bytes),
            min_one=min_one,
            end_offset=self._limit(replica),
        )

    def _watch(
        self, row: data_messages.FetchPartition, replica: Replica, result: data_messages.FetchResult
    ) -> None:
        """Look at the partition again when it changes; with the next Fetch if there is more.

        A follower that is not in sync is looked at each time: what keeps it out may be over. So is
        what has news that is not worth an answer yet, a log that begins later: a Fetch that comes
        just after that would wait with nothing to look at, and a DeleteRecords for ever.
        """
        key, limit = (row.topic, row.index), self._limit(replica)
        is_quiet = not result.records and result.diverging is None and row.fetch_offset >= limit
        is_quiet = is_quiet and not self._fetching.is_unseen(result)
        if self._is_follower:
            is_quiet = is_quiet and self._request.replica_id in replica.partition.isr
        self._fetching.watch(key, replica.key, is_quiet=is_quiet)
        if result.records:
            self._read_to[key] = limit

    def _diverging(
        self, row: data_messages.FetchPartition, replica: Replica
    ) -> OffsetAndEpoch | None:
        """Compare the epoch of the asker's last record. Raises OffsetOutOfRangeError."""
        if row.last_fetched_epoch == data_messages.NO_EPOCH:
            return None
        end = replica.log.end_offset_for_epoch(row.last_fetched_epoch)
        if end is None or row.fetch_offset < replica.log.start_offset:
            raise OffsetOutOfRangeError(f"epoch {row.last_fetched_epoch} at {row.fetch_offset}")
        if end.epoch < row.last_fetched_epoch or end.offset < row.fetch_offset:
            return end
        return None

    def _take(self, row: data_messages.FetchPartition, replica: Replica) -> None:
        """Take in what a follower's offsets say of its log; raises what `_read` catches."""
        if not replica.log.start_offset <= row.fetch_offset <= replica.log.end_offset:
            raise OffsetOutOfRangeError(f"{row.fetch_offset} is not in the log")
        replica.partition.on_fetch(
            self._request.replica_id,
            row.fetch_offset,
            row.log_start_offset,
            self._request.replica_epoch,
            self._fetching.times,
        )
        self._manager.delayed.check((DELETE, replica.key))


def _error_result(
    row: data_messages.FetchPartition, error: ErrorCode, replica: Replica | None = None
) -> data_messages.FetchResult:
    """Make the result of an error; one of the offset says where the log begins."""
    if replica is None:
        return data_messages.FetchResult(row.topic, row.index, error)
    return data_messages.FetchResult(
        row.topic,
        row.index,
        error,
        high_watermark=replica.partition.high_watermark,
        log_start_offset=replica.log.start_offset,
    )
