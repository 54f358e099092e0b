"""DescribeTopicPartitions: topics in pages, with their eligible leader replicas (KIP-966).

Topics come in the order of their names, however they were asked for. A page ends after a number of
partitions; its cursor names the partition that the next page begins with.
"""

from __future__ import annotations

from typing import Final

from cluster.node.controller.apis.describe import OPERATIONS_ON_TOPIC
from cluster.node.controller.metadata.registrations import is_offline
from cluster.node.controller.metadata.state import (
    INTERNAL_TOPICS,
    MetadataState,
    TopicImage,
    invalid_name_reason,
)
from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages
from cluster.node.protocol.messages import BrokerId, TopicName, i32

PARTITIONS_PER_PAGE_MAX: Final = 2_000
"""max.request.partition.size.limit"""


def describe_topic_partitions(
    request: messages.DescribeTopicPartitionsRequest, state: MetadataState
) -> messages.DescribeTopicPartitionsResponse:
    """Return a page of the topics asked for, of all topics when none is named.

    The response has no place for an error of the whole request: a cursor outside the topics asked
    for is INVALID_REQUEST for each of them, as in Kafka.
    """
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    asked = [topic.name for topic in request.topics]
    names = sorted({name for name in asked or state.topic_names.keys() if name >= first})
    if cursor is not None and ((asked and first not in names) or cursor.partition_index < 0):
        return _refusal(request)
    remaining = max(min(PARTITIONS_PER_PAGE_MAX, int(request.response_partition_limit)), 1)
    topics: list[messages.DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if not remaining:
            return _page(topics, (name, 0))
        topic = state.topic_by_name(name)
        if topic is None:
            if asked:
                topics.append(_unknown(name))
            continue
        start = 0 if cursor is None or name != first else int(cursor.partition_index)
        end = min(topic.partition_count, start + remaining)
        topics.append(_topic(topic, range(start, end), state))
        if end < topic.partition_count:
            return _page(topics, (name, end))
        remaining -= max(end - start, 0)
    return _page(topics, None)


def _page(
    topics: list[messages.DescribeTopicPartitionsResponseTopic], cursor: tuple[str, int] | None
) -> messages.DescribeTopicPartitionsResponse:
    return messages.DescribeTopicPartitionsResponse(
        throttle_time=messages.NO_THROTTLE,
        topics=tuple(topics),
        next_cursor=cursor
        and messages.DescribeTopicPartitionsResponseCursor(
            topic_name=TopicName(cursor[0]), partition_index=i32(cursor[1])
        ),
    )


def _unknown(name: str) -> messages.DescribeTopicPartitionsResponseTopic:
    is_invalid = invalid_name_reason(name) is not None
    return messages.DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.invalid_topic_exception
        if is_invalid
        else ErrorCode.unknown_topic_or_partition,
        name=TopicName(name),
        topic_id=None,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=OPERATIONS_ON_TOPIC,
    )


def _topic(
    topic: TopicImage, indexes: range, state: MetadataState
) -> messages.DescribeTopicPartitionsResponseTopic:
    return messages.DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(topic.name),
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(_partition(topic, index, state) for index in indexes),
        topic_authorized_operations=OPERATIONS_ON_TOPIC,
    )


def _partition(
    topic: TopicImage, index: int, state: MetadataState
) -> messages.DescribeTopicPartitionsResponsePartition:
    partition = state.partition(topic.id, index)
    return messages.DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.none,
        partition_index=i32(index),
        leader_id=BrokerId(partition.leader),
        leader_epoch=i32(partition.leader_epoch),
        replica_nodes=tuple(map(BrokerId, partition.replicas)),
        isr_nodes=tuple(map(BrokerId, partition.isr)),
        eligible_leader_replicas=tuple(map(BrokerId, partition.elr)),
        last_known_elr=tuple(map(BrokerId, partition.last_known_elr)),
        offline_replicas=tuple(
            BrokerId(replica)
            for replica in partition.replicas
            if is_offline(state, partition, replica)
        ),
    )


def _refusal(
    request: messages.DescribeTopicPartitionsRequest,
) -> messages.DescribeTopicPartitionsResponse:
    return messages.DescribeTopicPartitionsResponse(
        throttle_time=messages.NO_THROTTLE,
        topics=tuple(
            messages.DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.invalid_request, name=topic.name, topic_id=None, partitions=()
            )
            for topic in request.topics
        ),
    )
