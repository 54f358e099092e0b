"""AlterPartition: a partition's leader changes its ISR (KIP-497, KIP-704, KIP-903).

The checks are in Kafka's order, because the code says what the leader does next: NOT_CONTROLLER has
it look for another controller, FENCED_LEADER_EPOCH and INVALID_UPDATE_VERSION wait for metadata,
INELIGIBLE_REPLICA keep the replica out. A replica that is fenced, shutting down, or registered anew
since its leader saw it fetch does not come into the ISR: it may have lost what it had (KAFKA-13916,
KAFKA-14617, KAFKA-15221).
"""

from __future__ import annotations

import uuid

from cluster.node.controller.metadata.registrations import checked_epoch, is_active
from cluster.node.controller.metadata.replay import changed_partition
from cluster.node.controller.metadata.result import ControllerResult
from cluster.node.controller.metadata.state import (
    UNASSIGNED_DIRECTORY,
    BrokerRegistration,
    MetadataState,
    PartitionKey,
    PartitionRegistration,
)
from cluster.node.controller.partitions.leadership import builder, replica_assigned
from cluster.node.controller.partitions.partition_change import RECOVERED, RECOVERING
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.kinds import NO_LEADER_CHANGE, PartitionChangeRecord
from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages
from cluster.node.protocol.messages import BrokerId, i8, i32

ANY_EPOCH = -1


def alter_partition(
    request: messages.AlterPartitionRequest, state: MetadataState
) -> ControllerResult[messages.AlterPartitionResponse]:
    """Return the legal changes and the outcome of each partition. Raises RequestError."""
    checked_epoch(state, request.broker_id, request.broker_epoch)
    records: list[MetadataRecord] = []
    topics: list[messages.AlterPartitionResponseTopic] = []
    seen: set[tuple[uuid.UUID | None, int]] = set()
    for topic in request.topics:
        answers = []
        for item in topic.partitions:
            key = (topic.topic_id, item.partition_index)
            if key in seen:
                answers.append(_error(item.partition_index, ErrorCode.invalid_request))
                continue
            seen.add(key)
            record, answer = _alter(request.broker_id, topic.topic_id, item, state)
            answers.append(answer)
            if record is not None:
                records.append(record)
        topics.append(
            messages.AlterPartitionResponseTopic(topic_id=topic.topic_id, partitions=tuple(answers))
        )
    return ControllerResult(
        records=tuple(records),
        response=messages.AlterPartitionResponse(
            throttle_time=messages.NO_THROTTLE, error_code=ErrorCode.none, topics=tuple(topics)
        ),
        is_atomic=False,
    )


def _alter(
    broker_id: int,
    topic_id: uuid.UUID | None,
    item: messages.AlterPartitionRequestPartition,
    state: MetadataState,
) -> tuple[PartitionChangeRecord | None, messages.AlterPartitionResponsePartition]:
    index = item.partition_index
    if topic_id is None or state.topics.get(topic_id) is None:
        return None, _error(index, ErrorCode.unknown_topic_id)
    partition = state.partitions.get((topic_id, index))
    if partition is None:
        return None, _error(index, ErrorCode.unknown_topic_or_partition)
    error = validate(broker_id, item, partition, state)
    if error is not ErrorCode.none:
        return None, _error(index, error)
    record = builder(
        state,
        (topic_id, index),
        partition,
        lambda replica: is_active(state, replica),
        isr=tuple(int(member.broker_id) for member in item.new_isr_with_epochs),
        recovery_state=int(item.leader_recovery_state),
    ).build()
    if record is None:
        return None, _answer(index, partition)
    changed = changed_partition(partition, record)
    if record.leader != NO_LEADER_CHANGE and changed.leader != broker_id:
        # The ISR completed a reassignment that takes leadership away: an error, and a change.
        return record, _error(index, ErrorCode.new_leader_elected)
    return record, _answer(index, changed)


def validate(
    broker_id: int,
    item: messages.AlterPartitionRequestPartition,
    partition: PartitionRegistration,
    state: MetadataState,
) -> ErrorCode:
    """Return what is wrong with a change of a partition that exists, `none` when nothing is."""
    isr = [int(member.broker_id) for member in item.new_isr_with_epochs]
    recovery = item.leader_recovery_state
    # The leader knows more than this controller: it is not the controller any more.
    if item.leader_epoch > partition.leader_epoch:
        return ErrorCode.not_controller
    if item.partition_epoch > partition.partition_epoch:
        return ErrorCode.not_controller
    if item.leader_epoch < partition.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    if broker_id != partition.leader:
        return ErrorCode.invalid_request
    if item.partition_epoch < partition.partition_epoch:
        return ErrorCode.invalid_update_version
    if not _is_legal_isr(isr, partition) or not _is_legal_recovery(recovery, isr, partition):
        return ErrorCode.invalid_request
    for member in item.new_isr_with_epochs:
        broker = state.brokers.get(member.broker_id)
        stale = broker is not None and member.broker_epoch not in (ANY_EPOCH, broker.epoch)
        if stale or not is_active(state, member.broker_id):
            return ErrorCode.ineligible_replica
    return ErrorCode.none


def _is_legal_isr(isr: list[int], partition: PartitionRegistration) -> bool:
    distinct = set(isr)
    is_subset = len(distinct) == len(isr) and distinct <= set(partition.replicas)
    return is_subset and partition.leader in distinct


def _is_legal_recovery(recovery: int, isr: list[int], partition: PartitionRegistration) -> bool:
    if recovery == RECOVERING:
        return len(isr) == 1 and partition.leader_recovery_state == RECOVERING
    return recovery == RECOVERED


def _error(index: int, error: ErrorCode) -> messages.AlterPartitionResponsePartition:
    return messages.AlterPartitionResponsePartition(
        partition_index=i32(index),
        error_code=error,
        leader_id=BrokerId(0),
        leader_epoch=i32(0),
        partition_epoch=i32(0),
    )


def _answer(
    index: int, partition: PartitionRegistration
) -> messages.AlterPartitionResponsePartition:
    return messages.AlterPartitionResponsePartition(
        partition_index=i32(index),
        error_code=ErrorCode.none,
        leader_id=BrokerId(partition.leader),
        leader_epoch=i32(partition.leader_epoch),
        isr=tuple(map(BrokerId, partition.isr)),
        leader_recovery_state=i8(partition.leader_recovery_state),
        partition_epoch=i32(partition.partition_epoch),
    )


# AssignReplicasToDirs: a broker reports the log directories of its replicas (KIP-858).
#
# Elections depend on it: a replica in an offline directory does not lead. Every partition has an
# outcome of its own, in the request's order of directories, topics and partitions. An assignment
# to a directory that the broker did not register, or reported offline, is taken too: the replica
# leaves the ISR with it.


def assign_replicas_to_dirs(
    request: messages.AssignReplicasToDirsRequest, state: MetadataState
) -> ControllerResult[messages.AssignReplicasToDirsResponse]:
    """Return the changes of directories, and each outcome. Raises RequestError."""
    broker = checked_epoch(state, request.broker_id, request.broker_epoch)
    records: list[MetadataRecord] = []
    seen: set[PartitionKey] = set()

    def answer(
        directory: uuid.UUID, topic_id: uuid.UUID | None, index: int
    ) -> messages.AssignReplicasToDirsResponsePartition:
        error, record = _assign(state, broker, directory, topic_id, index, seen)
        if record is not None:
            records.append(record)
        return messages.AssignReplicasToDirsResponsePartition(
            partition_index=i32(index), error_code=error
        )

    directories = tuple(
        messages.AssignReplicasToDirsResponseDirectory(
            id_=directory.id_,
            topics=tuple(
                messages.AssignReplicasToDirsResponseTopic(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        answer(
                            directory.id_ or UNASSIGNED_DIRECTORY,
                            topic.topic_id,
                            item.partition_index,
                        )
                        for item in topic.partitions
                    ),
                )
                for topic in directory.topics
            ),
        )
        for directory in request.directories
    )
    return ControllerResult(
        records=tuple(records),
        response=messages.AssignReplicasToDirsResponse(
            throttle_time=messages.NO_THROTTLE, error_code=ErrorCode.none, directories=directories
        ),
        is_atomic=False,
    )


def _assign(
    state: MetadataState,
    broker: BrokerRegistration,
    directory: uuid.UUID,
    topic_id: uuid.UUID | None,
    index: int,
    seen: set[PartitionKey],
) -> tuple[ErrorCode, MetadataRecord | None]:
    if topic_id is None or state.topics.get(topic_id) is None:
        return ErrorCode.unknown_topic_id, None
    partition = state.partitions.get((topic_id, index))
    if partition is None:
        return ErrorCode.unknown_topic_or_partition, None
    if broker.id not in partition.replicas:
        return ErrorCode.not_leader_or_follower, None
    if (topic_id, index) in seen:  # both changes would be computed from the same state
        return ErrorCode.invalid_request, None
    seen.add((topic_id, index))
    return ErrorCode.none, replica_assigned(state, (topic_id, index), partition, broker, directory)
