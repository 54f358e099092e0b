"""DeleteTopics and CreatePartitions (ReplicationControlManager)."""

from __future__ import annotations

import uuid
from collections import Counter

from cluster.node.controller.metadata.registrations import ClusterInfo
from cluster.node.controller.metadata.result import NO_ERROR, ApiError, ControllerResult, ItemError
from cluster.node.controller.metadata.state import MetadataState, TopicImage
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.kinds import RemoveTopicRecord
from cluster.node.controller.topics.topic_creation import (
    check_count,
    check_manual_placements,
    check_named_once,
    new_placements,
    partition_records,
)
from cluster.node.errors import ErrorCode
from cluster.node.ports import Random
from cluster.node.protocol import messages
from cluster.node.protocol.messages import TopicName


def delete_topics(
    request: messages.DeleteTopicsRequest, state: MetadataState
) -> ControllerResult[messages.DeleteTopicsResponse]:
    """Return a RemoveTopicRecord for each topic that is named once and exists."""
    names = Counter(topic.name for topic in request.topics if topic.name is not None)
    ids = Counter(topic.topic_id for topic in request.topics if topic.topic_id is not None)
    results: list[messages.DeletableTopicResult] = []
    records: list[MetadataRecord] = []
    answered: set[str | uuid.UUID | None] = set()
    for item in request.topics:
        target = item.name if item.name is not None else item.topic_id
        if target in answered and target is not None:
            continue
        answered.add(target)
        name, topic_id = item.name, item.topic_id
        try:
            topic = _topic_to_delete(item, names, ids, state)
        except ItemError as refusal:
            error = refusal.api_error
        else:
            error = NO_ERROR
            name, topic_id = TopicName(topic.name), topic.id
            records.append(RemoveTopicRecord(topic_id=topic.id))
        results.append(
            messages.DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=error.error, error_message=error.message
            )
        )
    return ControllerResult(
        records=tuple(records),
        response=messages.DeleteTopicsResponse(
            throttle_time=messages.NO_THROTTLE, responses=tuple(results)
        ),
    )


def _topic_to_delete(
    item: messages.DeleteTopicState,
    names: Counter[TopicName],
    ids: Counter[uuid.UUID],
    state: MetadataState,
) -> TopicImage:
    message = None
    if item.name is not None and item.topic_id is not None:
        message = "You may not specify both topic name and topic id."
    elif item.name is not None and names[item.name] > 1:
        message = "Duplicate topic name."
    elif item.topic_id is not None and ids[item.topic_id] > 1:
        message = "Duplicate topic id."
    elif item.name is None and item.topic_id is None:
        message = "Neither topic name nor id were specified."
    if message is not None:
        raise ItemError(ErrorCode.invalid_request, message)
    if item.topic_id is not None:
        topic = state.topics.get(item.topic_id)
        if topic is None:
            raise ItemError(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
        return topic
    assert item.name is not None
    topic = state.topic_by_name(item.name)
    if topic is None:
        raise ItemError(
            ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
        )
    if topic.id in ids:
        raise ItemError(
            ErrorCode.invalid_request,
            "The provided topic name maps to an ID that was already supplied.",
        )
    return topic


def create_partitions(
    request: messages.CreatePartitionsRequest,
    state: MetadataState,
    cluster: ClusterInfo,
    random: Random,
) -> ControllerResult[messages.CreatePartitionsResponse]:
    """Return the records of the additional partitions of every topic that may grow."""
    counts = Counter(topic.name for topic in request.topics)
    results: list[messages.CreatePartitionsTopicResult] = []
    records: list[MetadataRecord] = []
    for name, item in {topic.name: topic for topic in request.topics}.items():
        error = NO_ERROR
        try:
            check_named_once(counts, name)
            records += _partitions(item, state, cluster, random)
        except ItemError as refusal:
            error = refusal.api_error
        check_count(len(records))
        results.append(_result(name, error))
    return ControllerResult(
        records=() if request.validate_only else tuple(records),
        response=messages.CreatePartitionsResponse(
            throttle_time=messages.NO_THROTTLE, results=tuple(results)
        ),
    )


def _result(name: TopicName, error: ApiError) -> messages.CreatePartitionsTopicResult:
    return messages.CreatePartitionsTopicResult(
        name=name, error_code=error.error, error_message=error.message
    )


def _partitions(
    item: messages.CreatePartitionsTopic, state: MetadataState, cluster: ClusterInfo, random: Random
) -> list[MetadataRecord]:
    topic = state.topic_by_name(item.name)
    if topic is None:
        raise ItemError(
            ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
        )
    additional = item.count - topic.partition_count
    if additional == 0:
        message = f"Topic already has {topic.partition_count} partition(s)."
        raise ItemError(ErrorCode.invalid_partitions, message)
    if additional < 0:
        message = (
            f"The topic {item.name} currently has {topic.partition_count} partition(s); "
            f"{item.count} would not be an increase."
        )
        raise ItemError(ErrorCode.invalid_partitions, message)
    check_count(additional)
    factor = len(state.partition(topic.id, 0).replicas)
    if item.assignments is None:
        placements = new_placements(additional, factor, state, cluster, random)
    else:
        if len(item.assignments) != additional:
            message = (
                f"Attempted to add {additional} additional partition(s), but only "
                f"{len(item.assignments)} assignment(s) were specified."
            )
            raise ItemError(ErrorCode.invalid_replica_assignment, message)
        placements = [tuple(map(int, chosen.broker_ids)) for chosen in item.assignments]
        check_manual_placements(placements, factor, state, cluster)
    return partition_records(topic.id, placements, state, topic.partition_count)
