"""The log directories of a broker: what they hold, and what is asked to move (KIP-113)."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from cluster.node.broker.replication.replica_manager import ReplicaManager
from cluster.node.errors import ErrorCode
from cluster.node.log.data.data_config import StorageError
from cluster.node.log.data.log_directory import LogDirectory
from cluster.node.log.data.partition_folder import fits
from cluster.node.log.storage.checkpoint import TopicPartition
from cluster.node.protocol import data_messages, messages
from cluster.node.protocol.messages import TopicName, i32, i64

UNKNOWN_BYTES: Final = -1
UNKNOWN_LAG: Final = -1
_UNKNOWN: Final = (UNKNOWN_BYTES, UNKNOWN_BYTES)


def describe_log_dirs(
    manager: ReplicaManager, request: messages.DescribeLogDirsRequest
) -> messages.DescribeLogDirsResponse:
    """Return every directory with the partitions asked for, with all that it has for null.

    A directory that is offline, or whose volume cannot be read, is KAFKA_STORAGE_ERROR.
    """
    asked = None
    if request.topics is not None:
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    logs = manager.logs
    online = [_describe(manager, directory, asked) for directory in logs.directories]
    return messages.DescribeLogDirsResponse(
        throttle_time=messages.NO_THROTTLE,
        error_code=ErrorCode.none,
        results=(*online, *map(_offline, logs.offline_paths)),
    )


def _offline(path: str) -> messages.DescribeLogDirsResult:
    return _result(path, ErrorCode.kafka_storage_error, (), *_UNKNOWN)


def _describe(
    manager: ReplicaManager, directory: LogDirectory, asked: Container[tuple[str, int]] | None
) -> messages.DescribeLogDirsResult:
    try:
        total, usable = directory.disk.volume_bytes() or _UNKNOWN
    except OSError:
        return _offline(directory.path)
    if directory.is_offline:
        return _offline(directory.path)
    found: dict[str, list[messages.DescribeLogDirsPartition]] = {}
    for at in sorted((*directory.logs, *directory.future_logs)):
        if asked is None or (at.topic, at.partition) in asked:
            found.setdefault(at.topic, []).append(_partition(manager, directory, at))
    topics = tuple(
        messages.DescribeLogDirsTopic(name=TopicName(name), partitions=tuple(rows))
        for name, rows in found.items()
    )
    return _result(directory.path, ErrorCode.none, topics, total, usable)


def _result(
    log_dir: str,
    error: ErrorCode,
    topics: tuple[messages.DescribeLogDirsTopic, ...],
    total_bytes: int,
    usable_bytes: int,
) -> messages.DescribeLogDirsResult:
    return messages.DescribeLogDirsResult(
        error_code=error,
        log_dir=log_dir,
        topics=topics,
        total_bytes=i64(total_bytes),
        usable_bytes=i64(usable_bytes),
    )


def _partition(
    manager: ReplicaManager, directory: LogDirectory, at: TopicPartition
) -> messages.DescribeLogDirsPartition:
    """Describe a log; of a future one the lag is that behind the log that it copies."""
    is_future = at in directory.future_logs
    log = directory.future_logs[at] if is_future else directory.logs[at]
    replica = manager.find_replica(at.topic, at.partition)
    if isinstance(replica, ErrorCode):
        lag = UNKNOWN_LAG
    elif is_future:
        lag = replica.log.end_offset - log.end_offset
    else:
        # How far it is known to be behind what is committed, not behind its leader's end.
        lag = max(0, replica.partition.high_watermark - log.end_offset)
    return messages.DescribeLogDirsPartition(
        partition_index=i32(at.partition),
        partition_size=i64(log.size_bytes),
        offset_lag=i64(lag),
        is_future_key=is_future,
    )


def alter_replica_log_dirs(
    manager: ReplicaManager, request: data_messages.AlterReplicaLogDirsRequest
) -> data_messages.AlterReplicaLogDirsResponse:
    """Begin the moves that are asked for; each has its own outcome."""
    results: dict[TopicName, list[data_messages.AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            results.setdefault(topic.name, []).extend(
                data_messages.AlterReplicaLogDirPartitionResult(
                    partition_index=index,
                    error_code=_move(manager, topic.name, index, directory.path),
                )
                for index in topic.partitions
            )
    return data_messages.AlterReplicaLogDirsResponse(
        throttle_time=messages.NO_THROTTLE,
        results=tuple(
            data_messages.AlterReplicaLogDirTopicResult(
                topic_name=name, partitions=tuple(partitions)
            )
            for name, partitions in results.items()
        ),
    )


def _move(manager: ReplicaManager, topic: str, index: int, path: str) -> ErrorCode:
    """Say what becomes of a move (ReplicaManager.alterReplicaLogDirs).

    A move to where the replica is ends the one that is under way. As in Kafka nothing is moved
    while any directory is offline: a copy of the replica may be there.
    """
    at, logs = TopicPartition(topic, index), manager.logs
    if not fits(at):
        return ErrorCode.invalid_topic_exception
    target = logs.at_path(path)
    if target is None and path not in logs.offline_paths:
        return ErrorCode.log_dir_not_found
    if target is None or target.is_offline:
        return ErrorCode.kafka_storage_error
    replica = manager.find_replica(topic, index)
    if replica is ErrorCode.not_leader_or_follower:
        logs.prefer(at, path)  # it may come to this broker later
        return ErrorCode.replica_not_available  # the name that it had when the API came
    if isinstance(replica, ErrorCode):
        return replica
    try:
        if manager.moves.target(replica.key) not in (None, target):
            manager.moves.cancel(replica.key)
        if logs.holder(at) is target or manager.moves.target(replica.key) is target:
            return ErrorCode.none
        if logs.has_offline:
            return ErrorCode.kafka_storage_error
        manager.moves.begin(replica, target)
    except StorageError:
        return ErrorCode.kafka_storage_error
    return ErrorCode.none
