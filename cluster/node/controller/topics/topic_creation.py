"""CreateTopics: which topics may be created, and the records that do it (ReplicationControl)."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cluster.node.controller.configs.sources import default_topic_configs, effective_topic_configs
from cluster.node.controller.configs.validation import check_lengths, validate_topic
from cluster.node.controller.metadata import registrations
from cluster.node.controller.metadata.registrations import ClusterInfo
from cluster.node.controller.metadata.result import (
    RECORDS_PER_BATCH_MAX,
    ApiError,
    ControllerResult,
    ItemError,
    RequestError,
)
from cluster.node.controller.metadata.state import (
    MetadataState,
    ResourceType,
    invalid_name_reason,
    similar_name,
)
from cluster.node.controller.metadata.timeline import StateMap
from cluster.node.controller.partitions.reassignment import check_replicas
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.kinds import ConfigRecord, PartitionRecord, TopicRecord
from cluster.node.controller.topics.placement import UsableBroker, place_replicas
from cluster.node.errors import ErrorCode
from cluster.node.log.types import METADATA_TOPIC
from cluster.node.ports import Random
from cluster.node.protocol import messages
from cluster.node.protocol.messages import TopicName, i16, i32


def create_topics(
    request: messages.CreateTopicsRequest,
    state: MetadataState,
    cluster: ClusterInfo,
    random: Random,
) -> ControllerResult[messages.CreateTopicsResponse]:
    """Return the records of all topics that may be created, for one batch, and the results."""
    counts = Counter(topic.name for topic in request.topics)
    results: list[messages.CreatableTopicResult] = []
    records: list[MetadataRecord] = []
    similar_in_request: dict[str, str] = {}
    defaults: Mapping[str, messages.CreatableTopicConfigs] = {}
    for name, topic in {topic.name: topic for topic in request.topics}.items():
        try:
            check_named_once(counts, name)
            _check_name(name, state, similar_in_request)
            configs = _configs(topic)
            placements = _placements(topic, state, cluster, random)
        except ItemError as refusal:
            results.append(_refusal(name, refusal.api_error))
            continue
        similar_in_request[similar_name(name)] = name
        topic_id = new_id(random, state.topics)
        records += _records(name, topic_id, placements, configs, state)
        check_count(len(records))
        created_id = None if request.validate_only else topic_id
        defaults = defaults or default_topic_configs(state, cluster)
        shown = effective_topic_configs(configs, defaults)
        results.append(_creation(name, created_id, placements, shown))
    return ControllerResult(
        records=() if request.validate_only else tuple(records),
        response=messages.CreateTopicsResponse(
            throttle_time=messages.NO_THROTTLE, topics=tuple(results)
        ),
    )


def check_count(count: int) -> None:
    """Refuse more records than one batch holds. Raises RequestError, POLICY_VIOLATION."""
    if count > RECORDS_PER_BATCH_MAX:
        message = "Excessively large number of partitions per request."
        raise RequestError(ErrorCode.policy_violation, message)


def check_named_once(counts: Mapping[TopicName, int], name: TopicName) -> None:
    """Refuse a name that one request has several times. Raises ItemError."""
    if counts[name] > 1:
        raise ItemError(ErrorCode.invalid_request, "Duplicate topic name.")


def _check_name(name: str, state: MetadataState, similar_in_request: dict[str, str]) -> None:
    reason = invalid_name_reason(name)
    if reason is not None:
        raise ItemError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {reason}")
    if name == METADATA_TOPIC:
        message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        raise ItemError(ErrorCode.invalid_request, message)
    if state.topic_names.get(name) is not None:
        raise ItemError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    similar = similar_name(name)
    other = state.similar_names.get(similar) or similar_in_request.get(similar)
    if other is not None:
        message = f"Topic '{name}' collides with existing topic: {other}"
        raise ItemError(ErrorCode.invalid_topic_exception, message)


def _placements(
    topic: messages.CreatableTopic, state: MetadataState, cluster: ClusterInfo, random: Random
) -> list[tuple[int, ...]]:
    if topic.assignments:
        return _manual_placements(topic, state, cluster)
    if topic.replication_factor == 0 or topic.replication_factor < -1:
        raise ItemError(
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions == 0 or topic.num_partitions < -1:
        raise ItemError(
            ErrorCode.invalid_partitions,
            "Number of partitions was set to an invalid non-positive value.",
        )
    count = cluster.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    check_count(count)
    factor = (
        cluster.default_replication_factor
        if topic.replication_factor == -1
        else topic.replication_factor
    )
    return new_placements(count, factor, state, cluster, random)


def new_placements(
    count: int, factor: int, state: MetadataState, cluster: ClusterInfo, random: Random
) -> list[tuple[int, ...]]:
    """Return replicas for `count` partitions. Raises ItemError when there are too few brokers."""
    brokers = _usable_brokers(state, cluster)
    problem = None
    if all(broker.fenced for broker in brokers):
        problem = "All brokers are currently fenced, or have all their log directories cordoned."
    elif factor > len(brokers):
        problem = (
            f"The target replication factor of {factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered."
        )
    if problem is not None:
        message = f"Unable to replicate the partition {factor} time(s): {problem}"
        raise ItemError(ErrorCode.invalid_replication_factor, message)
    return place_replicas(random, brokers, count, factor)


def _usable_brokers(state: MetadataState, cluster: ClusterInfo) -> list[UsableBroker]:
    """Return which brokers may get replicas (BrokerHeartbeatManager.usableBrokers)."""
    if registrations.is_static(state):
        return [UsableBroker(broker_id) for broker_id in cluster.broker_ids]
    return [
        UsableBroker(broker.id, broker.rack, broker.fenced)
        for broker in registrations.registered_brokers(state)
        if not broker.in_controlled_shutdown
    ]


def _manual_placements(
    topic: messages.CreatableTopic, state: MetadataState, cluster: ClusterInfo
) -> list[tuple[int, ...]]:
    if topic.replication_factor != -1:
        message = (
            "A manual partition assignment was specified, but replication factor was not set to -1."
        )
        raise ItemError(ErrorCode.invalid_request, message)
    if topic.num_partitions != -1:
        message = (
            "A manual partition assignment was specified, but numPartitions was not set to -1."
        )
        raise ItemError(ErrorCode.invalid_request, message)
    by_index: dict[int, messages.CreatableReplicaAssignment] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in by_index:
            message = (
                "Found multiple manual partition assignments for partition "
                f"{assignment.partition_index}"
            )
            raise ItemError(ErrorCode.invalid_replica_assignment, message)
        by_index[assignment.partition_index] = assignment
    if sorted(by_index) != list(range(len(by_index))):
        raise ItemError(
            ErrorCode.invalid_replica_assignment,
            "partitions should be a consecutive 0-based integer sequence",
        )
    placements = [tuple(map(int, by_index[index].broker_ids)) for index in range(len(by_index))]
    check_manual_placements(placements, len(placements[0]), state, cluster)
    return placements


def check_manual_placements(
    placements: Sequence[tuple[int, ...]], factor: int, state: MetadataState, cluster: ClusterInfo
) -> None:
    """Check replicas that the client chose. Raises ItemError."""
    for replicas in placements:
        check_replicas(replicas, state, cluster)
        message = None
        if len(replicas) != factor:
            message = (
                f"The manual partition assignment includes a partition with {len(replicas)} "
                f"replica(s), but this is not consistent with previous partitions, which have "
                f"{factor} replica(s)."
            )
        elif not in_sync_at_first(state, replicas):
            message = (
                "All brokers specified in the manual partition assignment are fenced or in "
                "controlled shutdown."
            )
        if message is not None:
            raise ItemError(ErrorCode.invalid_replica_assignment, message)


def in_sync_at_first(state: MetadataState, replicas: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first ISR: the replicas on brokers that are alive."""
    if registrations.is_static(state):
        return replicas
    return tuple(replica for replica in replicas if registrations.is_active(state, replica))


def _configs(topic: messages.CreatableTopic) -> dict[str, str]:
    """Return what a topic is created with. Raises ItemError."""
    configs = {config.name: config.value for config in topic.configs}
    missing = [name for name, value in configs.items() if value is None]
    if missing:
        message = f"Null value not supported for topic configs: {','.join(missing)}"
        raise ItemError(ErrorCode.invalid_config, message)
    given = {name: value for name, value in configs.items() if value is not None}
    check_lengths(given)
    validate_topic(given)
    return given


def partition_records(
    topic_id: uuid.UUID,
    placements: Iterable[tuple[int, ...]],
    state: MetadataState,
    first_index: int = 0,
) -> list[MetadataRecord]:
    """Return the records of new partitions: replicas alive are in sync, the first of them leads.

    What follows from the replicas alone is found once for each placement: there are few of them,
    and up to `RECORDS_PER_BATCH_MAX` partitions, made in one turn of the node's task.
    """
    known: dict[tuple[int, ...], tuple[tuple[int, ...], tuple[uuid.UUID, ...]]] = {}
    records: list[MetadataRecord] = []
    for index, replicas in enumerate(placements, first_index):
        if replicas not in known:
            known[replicas] = (
                in_sync_at_first(state, replicas),
                tuple(registrations.default_directory(state, replica) for replica in replicas),
            )
        isr, directories = known[replicas]
        record = PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=isr,
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=directories,
        )
        records.append(record)
    return records


def _records(
    name: str,
    topic_id: uuid.UUID,
    placements: list[tuple[int, ...]],
    configs: dict[str, str],
    state: MetadataState,
) -> list[MetadataRecord]:
    records: list[MetadataRecord] = [TopicRecord(name=name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=name, name=key, value=value)
        for key, value in configs.items()
    ]
    return records + partition_records(topic_id, placements, state)


def _refusal(name: str, error: ApiError) -> messages.CreatableTopicResult:
    return messages.CreatableTopicResult(
        name=TopicName(name),
        topic_id=None,
        error_code=error.error,
        error_message=error.message,
        configs=(),
    )


def _creation(
    name: str,
    topic_id: uuid.UUID | None,
    placements: list[tuple[int, ...]],
    configs: tuple[messages.CreatableTopicConfigs, ...],
) -> messages.CreatableTopicResult:
    return messages.CreatableTopicResult(
        name=TopicName(name),
        topic_id=topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=i32(len(placements)),
        replication_factor=i16(len(placements[0])),
        configs=configs,
    )


def new_id(random: Random, taken: StateMap[uuid.UUID, Any]) -> uuid.UUID:
    """Draw a random (version 4) id that is free and, as Kafka's, does not begin with a dash."""
    while True:
        found = _draw(random)
        if taken.get(found) is None:
            return found


def _draw(random: Random) -> uuid.UUID:
    while True:
        found = uuid.UUID(int=random.getrandbits(128), version=4)
        begins_with_dash = found.bytes[0] >> 2 == 62
        if not begins_with_dash:
            return found
