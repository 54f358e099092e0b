"""The log directory of a broker: what it holds, and what is asked to move (KIP-113).

A broker has one directory. A replica is moved by naming the directory where it is to be, so the
only move that there is goes to where the replica is.
"""

from __future__ import annotations

from typing import Final

from cluster.node.broker.replica import Replica
from cluster.node.broker.replica_manager import ReplicaManager
from cluster.node.errors import ErrorCode
from cluster.node.protocol.data_messages import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    TopicName,
    i32,
    i64,
)

UNKNOWN_VOLUME_BYTES: Final = -1
_UNKNOWN: Final = (UNKNOWN_VOLUME_BYTES, UNKNOWN_VOLUME_BYTES)


def describe_log_dirs(
    manager: ReplicaManager, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Return the directory with the partitions asked for, with all of the broker's for null.

    A directory that is offline, or whose volume cannot be read, is KAFKA_STORAGE_ERROR.
    """
    cluster = manager.cluster
    try:
        total, usable = cluster.volume_bytes() or _UNKNOWN
    except OSError:
        return _response(cluster.log_dir, ErrorCode.kafka_storage_error, (), *_UNKNOWN)
    if manager.is_offline:
        return _response(cluster.log_dir, ErrorCode.kafka_storage_error, (), *_UNKNOWN)
    asked = None
    if request.topics is not None:
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    found: dict[str, list[Replica]] = {}
    for replica in manager.replicas():
        if asked is None or (replica.topic, replica.index) in asked:
            found.setdefault(replica.topic, []).append(replica)
    topics = tuple(_topic(name, found[name]) for name in sorted(found))
    return _response(cluster.log_dir, ErrorCode.none, topics, total, usable)


def _response(
    log_dir: str,
    error: ErrorCode,
    topics: tuple[DescribeLogDirsTopic, ...],
    total_bytes: int,
    usable_bytes: int,
) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        results=(
            DescribeLogDirsResult(
                error_code=error,
                log_dir=log_dir,
                topics=topics,
                total_bytes=i64(total_bytes),
                usable_bytes=i64(usable_bytes),
            ),
        ),
    )


def _topic(name: str, replicas: list[Replica]) -> DescribeLogDirsTopic:
    return DescribeLogDirsTopic(
        name=TopicName(name),
        partitions=tuple(
            DescribeLogDirsPartition(
                partition_index=i32(replica.index),
                partition_size=i64(replica.log.size_bytes),
                # How far it is known to be behind what is committed, not behind its leader's end.
                offset_lag=i64(max(0, replica.partition.high_watermark - replica.log.end_offset)),
                is_future_key=False,
            )
            for replica in sorted(replicas, key=lambda each: each.index)
        ),
    )


def alter_replica_log_dirs(
    manager: ReplicaManager, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Leave replicas where they are, if that is where they are to be; refuse any other place."""
    results: dict[TopicName, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            results.setdefault(topic.name, []).extend(
                AlterReplicaLogDirPartitionResult(
                    partition_index=index,
                    error_code=_moved(manager, topic.name, index, directory.path),
                )
                for index in topic.partitions
            )
    return AlterReplicaLogDirsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(partitions))
            for name, partitions in results.items()
        ),
    )


def _moved(manager: ReplicaManager, topic: str, index: int, path: str) -> ErrorCode:
    """Say what becomes of a move (ReplicaManager.alterReplicaLogDirs)."""
    if path != manager.cluster.log_dir:
        return ErrorCode.log_dir_not_found
    replica = manager.hosted(topic, index)
    if replica is ErrorCode.not_leader_or_follower:
        return ErrorCode.replica_not_available  # the name that it had when the API came
    return replica if isinstance(replica, ErrorCode) else ErrorCode.none
