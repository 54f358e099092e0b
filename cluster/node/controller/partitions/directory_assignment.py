"""AssignReplicasToDirs: a broker reports the log directories of its replicas (KIP-858).

Elections depend on it: a replica in an offline directory does not lead. Every partition has an
outcome of its own, in the request's order of directories, topics and partitions. An assignment to a
directory that the broker did not register, or reported offline, is taken too: the replica leaves
the ISR with it.
"""

from __future__ import annotations

import uuid

from cluster.node.controller.metadata.registrations import checked_epoch
from cluster.node.controller.metadata.result import ControllerResult
from cluster.node.controller.metadata.state import (
    UNASSIGNED_DIRECTORY,
    BrokerRegistration,
    MetadataState,
    PartitionKey,
)
from cluster.node.controller.partitions.leadership import replica_assigned
from cluster.node.controller.records import MetadataRecord
from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages
from cluster.node.protocol.messages import i32


def assign_replicas_to_dirs(
    request: messages.AssignReplicasToDirsRequest, state: MetadataState
) -> ControllerResult[messages.AssignReplicasToDirsResponse]:
    """Return the changes of directories, and the outcome of each partition.

    Raises RequestError, STALE_BROKER_EPOCH.
    """
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
