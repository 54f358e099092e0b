"""AlterPartitionReassignments and ListPartitionReassignments: replicas move (KIP-455).

    1 2 3 -> 2 3 4   replicas 2 3 4 1, adding 4, removing 1
    once the ISR is large enough: replicas 2 3 4, nothing added or removed

A reassignment is completed by whatever change makes the ISR large enough (`partition_change`), even
by its own. A new target replaces one that is under way: what was being added counts as not yet
there. Cancelling takes the adding replicas out again. When no other is in sync, that loses records:
it is refused unless the topic allows unclean elections.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from cluster.node.controller.metadata.registrations import (
    ClusterInfo,
    broker_ids,
    has_online_replica,
    is_acceptable,
)
from cluster.node.controller.metadata.result import NO_ERROR, ControllerResult, ItemError
from cluster.node.controller.metadata.state import REASSIGNING, MetadataState, PartitionRegistration
from cluster.node.controller.partitions.leadership import builder, is_unclean_election_enabled
from cluster.node.controller.partitions.partition_change import RECOVERING, Election
from cluster.node.controller.records import MetadataRecord
from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages
from cluster.node.protocol.messages import BrokerId, TopicName, i32


def alter_partition_reassignments(
    request: messages.AlterPartitionReassignmentsRequest, state: MetadataState, cluster: ClusterInfo
) -> ControllerResult[messages.AlterPartitionReassignmentsResponse]:
    """Begin, replace or cancel reassignments; each partition has its own outcome."""
    records: list[MetadataRecord] = []
    seen: set[tuple[str, int]] = set()
    responses = []
    for topic in request.topics:
        answers = []
        for item in topic.partitions:
            outcome = NO_ERROR
            try:
                _check_first(seen, (topic.name, int(item.partition_index)))
                record = _reassign(
                    topic.name,
                    item,
                    state,
                    cluster,
                    may_resize=request.allow_replication_factor_change,
                )
            except ItemError as refusal:
                outcome = refusal.api_error
            else:
                records += [] if record is None else [record]
            answers.append(
                messages.ReassignablePartitionResponse(
                    partition_index=item.partition_index,
                    error_code=outcome.error,
                    error_message=outcome.message,
                )
            )
        responses.append(
            messages.ReassignableTopicResponse(name=topic.name, partitions=tuple(answers))
        )
    return ControllerResult(
        records=tuple(records),
        response=messages.AlterPartitionReassignmentsResponse(
            throttle_time=messages.NO_THROTTLE,
            error_code=ErrorCode.none,
            error_message=None,
            responses=tuple(responses),
        ),
        is_atomic=False,
    )


def _check_first(seen: set[tuple[str, int]], key: tuple[str, int]) -> None:
    if key in seen:
        raise ItemError(ErrorCode.invalid_request, "A partition is named twice.")
    seen.add(key)


def _reassign(
    topic: str,
    item: messages.ReassignablePartition,
    state: MetadataState,
    cluster: ClusterInfo,
    *,
    may_resize: bool,
) -> MetadataRecord | None:
    index = int(item.partition_index)
    topic_id = state.topic_names.get(topic)
    if topic_id is None:
        message = f"Unable to find a topic named {topic}."
        raise ItemError(ErrorCode.unknown_topic_or_partition, message)
    partition = state.partitions.get((topic_id, index))
    if partition is None:
        message = f"Unable to find partition {topic}:{index}."
        raise ItemError(ErrorCode.unknown_topic_or_partition, message)
    if item.replicas is None:
        return _cancel(topic, topic_id, index, partition, state)
    target = tuple(map(int, item.replicas))
    check_replicas(target, state, cluster)
    if not may_resize and len(target) != len(
        set(partition.replicas).difference(partition.removing_replicas)
    ):
        message = "The replication factor is changed, which the request does not allow."
        raise ItemError(ErrorCode.invalid_replication_factor, message)
    left = tuple(r for r in partition.replicas if r not in partition.adding_replicas)
    removing = tuple(sorted(r for r in partition.replicas if r not in target))
    return builder(
        state,
        (topic_id, index),
        partition,
        lambda replica: is_acceptable(state, replica),
        replicas=(*target, *removing),
        adding=tuple(sorted(r for r in target if r not in left)),
        removing=removing,
    ).build()


def check_replicas(target: Sequence[int], state: MetadataState, cluster: ClusterInfo) -> None:
    """Check replicas that a client chose. Raises ItemError, INVALID_REPLICA_ASSIGNMENT."""
    known = broker_ids(state, cluster)
    unknown = [broker for broker in target if broker not in known]
    if not target:
        message = "The manual partition assignment includes an empty replica list."
    elif len(set(target)) != len(target):
        message = "The manual partition assignment includes a broker more than once."
    elif unknown:
        message = (
            f"The manual partition assignment includes broker {unknown[0]}, but no such broker is "
            "registered."
        )
    else:
        return
    raise ItemError(ErrorCode.invalid_replica_assignment, message)


def _cancel(
    topic: str,
    topic_id: uuid.UUID,
    index: int,
    partition: PartitionRegistration,
    state: MetadataState,
) -> MetadataRecord | None:
    if not partition.adding_replicas and not partition.removing_replicas:
        message = f"No partition reassignment is in progress for {topic}-{index}."
        raise ItemError(ErrorCode.no_reassignment_in_progress, message)
    replicas = tuple(r for r in partition.replicas if r not in partition.adding_replicas)
    isr = tuple(r for r in partition.isr if r in replicas)
    wanted: dict[str, object] = {}
    if not isr:
        if not is_unclean_election_enabled(state, topic):
            message = (
                f"Unable to revert the assignment of {topic}-{index}: only replicas that are being "
                "added are in sync, so that it would take an unclean leader election."
            )
            raise ItemError(ErrorCode.invalid_replica_assignment, message)
        wanted["election"] = Election.UNCLEAN
        if not any(
            is_acceptable(state, replica) and has_online_replica(state, partition, replica)
            for replica in replicas
        ):
            isr, wanted["recovery_state"] = replicas[:1], RECOVERING
    return builder(
        state,
        (topic_id, index),
        partition,
        lambda replica: replica in replicas and is_acceptable(state, replica),
        replicas=replicas,
        isr=isr,
        adding=(),
        removing=(),
        **wanted,
    ).build()


def list_partition_reassignments(
    request: messages.ListPartitionReassignmentsRequest, state: MetadataState
) -> messages.ListPartitionReassignmentsResponse:
    """Return what is under way of the partitions asked for, of all when `topics` is null."""
    found: dict[str, list[messages.OngoingPartitionReassignment]] = {}
    if request.topics is None:
        keys = state.partitions.keys_with(REASSIGNING)
    else:
        keys = [
            (topic_id, int(index))
            for topic in request.topics
            if (topic_id := state.topic_names.get(topic.name)) is not None
            for index in topic.partition_indexes
        ]
    for topic_id, index in dict.fromkeys(keys):
        partition = state.partitions.get((topic_id, index))
        if partition is None or not (partition.adding_replicas or partition.removing_replicas):
            continue
        topic = state.topics.get(topic_id)
        assert topic is not None
        found.setdefault(topic.name, []).append(
            messages.OngoingPartitionReassignment(
                partition_index=i32(index),
                replicas=tuple(map(BrokerId, partition.replicas)),
                adding_replicas=tuple(map(BrokerId, partition.adding_replicas)),
                removing_replicas=tuple(map(BrokerId, partition.removing_replicas)),
            )
        )
    return messages.ListPartitionReassignmentsResponse(
        throttle_time=messages.NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        topics=tuple(
            messages.OngoingTopicReassignment(name=TopicName(name), partitions=tuple(ongoing))
            for name, ongoing in found.items()
        ),
    )
