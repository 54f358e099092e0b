"""What a leader says of its log's offsets, and DeleteRecords.

- ListOffsets: log start, the end that the asker may read up to, or the first record that is not
  earlier than a time.
- OffsetForLeaderEpoch: where the records of an epoch end, for consumers that check for truncation
  (KIP-320); followers learn it from Fetch.
- DeleteRecords: raises the log start; done when every live replica's has reached it.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from cluster.node.broker.replication.replica import Replica
from cluster.node.broker.replication.replica_manager import DELETE, ReplicaManager
from cluster.node.errors import ErrorCode
from cluster.node.log.data.data_config import OffsetOutOfRangeError, StorageError
from cluster.node.log.data.data_log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP
from cluster.node.log.data.data_times import TimestampAndOffset
from cluster.node.protocol import data_messages
from cluster.node.protocol.messages import NO_THROTTLE, i32, i64

EARLIEST_LOCAL_TIMESTAMP: Final = -4
"""The same as the earliest where nothing is kept elsewhere (KIP-405)."""
LATEST_TIERED_TIMESTAMP: Final = -5
HIGH_WATERMARK: Final = -1
"""In DeleteRecords: everything that is committed."""
_MILLISECOND: Final = dt.timedelta(milliseconds=1)
_KNOWN: Final = frozenset(
    {EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP}
)
_NOTHING: Final = TimestampAndOffset(data_messages.NO_TIMESTAMP, data_messages.NO_OFFSET, None)

Reply = Callable[[Any], None]


def list_offsets(
    manager: ReplicaManager, request: data_messages.ListOffsetsRequest
) -> data_messages.ListOffsetsResponse:
    """Answer ListOffsets.

    A partition that is named twice is INVALID_REQUEST, as in Kafka: each look at a time index
    reads the disk, and a request may name the same one a million times.
    """
    is_consumer = int(request.replica_id) <= data_messages.CONSUMER
    named = Counter(
        (topic.name, row.partition_index) for topic in request.topics for row in topic.partitions
    )
    return data_messages.ListOffsetsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            data_messages.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _list_offsets(manager, topic.name, row, is_consumer=is_consumer)
                    if named[topic.name, row.partition_index] == 1
                    else _list_result(row, ErrorCode.invalid_request)
                    for row in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _list_offsets(
    manager: ReplicaManager,
    topic: str,
    row: data_messages.ListOffsetsPartition,
    *,
    is_consumer: bool,
) -> data_messages.ListOffsetsPartitionResponse:
    replica = manager.find_leader(topic, int(row.partition_index), int(row.current_leader_epoch))
    if isinstance(replica, ErrorCode):
        return _list_result(row, replica)
    try:
        found = _find(replica, int(row.timestamp), is_consumer=is_consumer)
    except StorageError:
        return _list_result(row, ErrorCode.kafka_storage_error)
    if isinstance(found, ErrorCode):
        return _list_result(row, found)
    return _list_result(row, ErrorCode.none, found)


def _find(replica: Replica, timestamp: int, *, is_consumer: bool) -> TimestampAndOffset | ErrorCode:
    """Find an offset below what the asker may read (Partition.fetchOffsetForTimestamp)."""
    if timestamp < 0 and timestamp not in _KNOWN:
        tiered = timestamp == LATEST_TIERED_TIMESTAMP
        return _NOTHING if tiered else ErrorCode.unsupported_version
    log, partition = replica.log, replica.partition
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return log.offset_for_timestamp(EARLIEST_TIMESTAMP) or _NOTHING
    if not is_consumer:
        return log.offset_for_timestamp(timestamp) or _NOTHING
    high_watermark = partition.high_watermark
    # A new leader does not know yet how far its predecessor had come: the offset that a consumer
    # was shown there may lie above (KIP-207).
    is_known = high_watermark >= partition.epoch_start_offset
    if timestamp == LATEST_TIMESTAMP:
        found = TimestampAndOffset(
            data_messages.NO_TIMESTAMP, high_watermark, partition.leader_epoch
        )
        return found if is_known else ErrorCode.offset_not_available
    earliest = log.offset_for_timestamp(timestamp)
    if earliest is not None and earliest.offset < high_watermark:
        return earliest
    return _NOTHING if is_known else ErrorCode.offset_not_available


def _list_result(
    row: data_messages.ListOffsetsPartition, error: ErrorCode, found: TimestampAndOffset = _NOTHING
) -> data_messages.ListOffsetsPartitionResponse:
    return data_messages.ListOffsetsPartitionResponse(
        partition_index=row.partition_index,
        error_code=error,
        timestamp=i64(found.timestamp_ms),
        offset=i64(found.offset),
        leader_epoch=i32(data_messages.NO_EPOCH if found.epoch is None else found.epoch),
    )


def offsets_for_leader_epochs(
    manager: ReplicaManager, request: data_messages.OffsetForLeaderEpochRequest
) -> data_messages.OffsetForLeaderEpochResponse:
    """Answer OffsetForLeaderEpoch."""
    return data_messages.OffsetForLeaderEpochResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            data_messages.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_epoch_end(manager, topic.topic, row) for row in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _epoch_end(
    manager: ReplicaManager, topic: str, row: data_messages.OffsetForLeaderPartition
) -> data_messages.EpochEndOffset:
    replica = manager.find_leader(topic, int(row.partition), int(row.current_leader_epoch))
    found = None
    if not isinstance(replica, ErrorCode) and row.leader_epoch != data_messages.NO_EPOCH:
        found = replica.log.end_offset_for_epoch(int(row.leader_epoch))
    return data_messages.EpochEndOffset(
        error_code=replica if isinstance(replica, ErrorCode) else ErrorCode.none,
        partition=row.partition,
        leader_epoch=i32(data_messages.NO_EPOCH if found is None else found.epoch),
        end_offset=i64(data_messages.NO_OFFSET if found is None else found.offset),
    )


@dataclass(slots=True)
class _Deleting:
    """One partition's part of a DeleteRecords."""

    topic: Any
    index: Any
    replica: Replica | None
    offset: int
    error: ErrorCode
    low_watermark: int = data_messages.NO_OFFSET


def delete_records(
    manager: ReplicaManager, request: data_messages.DeleteRecordsRequest, reply: Reply
) -> None:
    """Raise log starts, and answer when all live replicas have."""
    rows = [
        _delete_records(manager, topic.name, row)
        for topic in request.topics
        for row in topic.partitions
    ]
    delayed = _DelayedDelete(manager, rows, reply)
    keys = [(DELETE, row.replica.key) for row in rows if row.replica is not None]
    manager.delayed.try_or_watch(delayed, keys, request.timeout / _MILLISECOND)


def _delete_records(
    manager: ReplicaManager, topic: Any, row: data_messages.DeleteRecordsPartition
) -> _Deleting:
    refused = _Deleting(topic, row.partition_index, None, data_messages.NO_OFFSET, ErrorCode.none)
    replica = manager.find_leader(topic, int(row.partition_index))
    if isinstance(replica, ErrorCode):
        refused.error = replica
        return refused
    config = replica.log.config
    if config.compact and "delete" not in config.cleanup_policy:
        refused.error = ErrorCode.policy_violation
        return refused
    high_watermark = replica.partition.high_watermark
    offset = high_watermark if int(row.offset) == HIGH_WATERMARK else int(row.offset)
    if offset < 0:
        refused.error = ErrorCode.offset_out_of_range
        return refused
    try:
        replica.log.increment_log_start_offset(offset)
    except OffsetOutOfRangeError:
        refused.error = ErrorCode.offset_out_of_range
        return refused
    except StorageError:
        refused.error = ErrorCode.kafka_storage_error
        return refused
    return _Deleting(topic, row.partition_index, replica, offset, ErrorCode.none)


class _DelayedDelete:
    """A DeleteRecords that waits for followers (DelayedDeleteRecords)."""

    def __init__(self, manager: ReplicaManager, rows: list[_Deleting], reply: Reply) -> None:
        self._manager = manager
        self._rows = rows
        self._reply = reply

    def try_complete(self) -> bool:
        for row in self._rows:
            if row.replica is not None:
                self._look(row, row.replica)
        if any(row.replica is not None for row in self._rows):
            return False
        self._answer()
        return True

    def expire(self) -> None:
        for row in self._rows:
            if row.replica is not None:
                row.error = ErrorCode.request_timed_out
        self._answer()

    def _look(self, row: _Deleting, replica: Replica) -> None:
        if replica.is_offline:
            row.replica, row.error = None, ErrorCode.kafka_storage_error
        elif not replica.is_hosted or not replica.partition.leads:
            row.replica, row.error = None, ErrorCode.not_leader_or_follower
        else:
            low_watermark = self._manager.low_watermark(replica)
            if low_watermark >= row.offset:
                row.replica, row.low_watermark = None, low_watermark

    def _answer(self) -> None:
        topics: dict[Any, list[_Deleting]] = {}
        for row in self._rows:
            topics.setdefault(row.topic, []).append(row)
        self._reply(
            data_messages.DeleteRecordsResponse(
                throttle_time=NO_THROTTLE,
                topics=tuple(
                    data_messages.DeleteRecordsTopicResult(
                        name=topic,
                        partitions=tuple(
                            data_messages.DeleteRecordsPartitionResult(
                                partition_index=row.index,
                                low_watermark=i64(row.low_watermark),
                                error_code=row.error,
                            )
                            for row in rows
                        ),
                    )
                    for topic, rows in topics.items()
                ),
            )
        )
