"""DescribeLogDirs: which replicas of a broker are in its log directory (KIP-113).

They are those that the metadata assign to the broker. It keeps no records of theirs, so every
replica is empty and as far as its leader.
"""

from __future__ import annotations

from typing import Final

from cluster.node.controller.cluster_info import ClusterInfo
from cluster.node.controller.registrations import partitions_marked
from cluster.node.controller.state import MetadataState
from cluster.node.errors import ErrorCode
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
    request: DescribeLogDirsRequest, state: MetadataState, cluster: ClusterInfo, broker_id: int
) -> DescribeLogDirsResponse:
    """Return the directory with the partitions asked for, with all of the broker's for null.

    A directory whose volume cannot be read is KAFKA_STORAGE_ERROR.
    """
    try:
        total, usable = cluster.volume_bytes() or _UNKNOWN
    except OSError:
        return _response(cluster.log_dir, ErrorCode.kafka_storage_error, (), *_UNKNOWN)
    asked = None
    if request.topics is not None:
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    indexes: dict[str, list[int]] = {}
    for (topic_id, index), partition in partitions_marked(state, broker_id):
        topic = state.topics.get(topic_id)
        assert topic is not None, f"partition {index} of unknown topic {topic_id}"
        if broker_id in partition.replicas and (asked is None or (topic.name, index) in asked):
            indexes.setdefault(topic.name, []).append(index)
    topics = tuple(_topic(name, found) for name, found in indexes.items())
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


def _topic(name: str, indexes: list[int]) -> DescribeLogDirsTopic:
    return DescribeLogDirsTopic(
        name=TopicName(name),
        partitions=tuple(
            DescribeLogDirsPartition(
                partition_index=i32(index),
                partition_size=i64(0),
                offset_lag=i64(0),
                is_future_key=False,
            )
            for index in sorted(indexes)
        ),
    )
