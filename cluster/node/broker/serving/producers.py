"""DescribeProducers: the producers that a leader remembers of a partition (KIP-664)."""

from __future__ import annotations

from typing import Final

from cluster.node.broker.replication.replica_manager import ReplicaManager
from cluster.node.errors import ErrorCode
from cluster.node.protocol.data_messages import (
    ActiveProducer,
    DescribeProducersPartitionResult,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResult,
)
from cluster.node.protocol.messages import NO_THROTTLE, ProducerId, i32, i64

NO_COORDINATOR_EPOCH: Final = -1
NO_TRANSACTION: Final = -1


def describe_producers(
    manager: ReplicaManager, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Describe the producers of partitions that this broker leads; none has a transaction."""
    return DescribeProducersResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            DescribeProducersTopicResult(
                name=topic.name,
                partitions=tuple(
                    _partition(manager, topic.name, index) for index in topic.partition_indexes
                ),
            )
            for topic in request.topics
        ),
    )


def _partition(manager: ReplicaManager, topic: str, index: i32) -> DescribeProducersPartitionResult:
    replica = manager.find_leader(topic, int(index))
    if isinstance(replica, ErrorCode):
        return DescribeProducersPartitionResult(
            partition_index=index, error_code=replica, active_producers=()
        )
    return DescribeProducersPartitionResult(
        partition_index=index,
        error_code=ErrorCode.none,
        active_producers=tuple(
            ActiveProducer(
                producer_id=ProducerId(producer_id),
                producer_epoch=i32(entry.epoch),
                last_sequence=i32(entry.last_sequence),
                last_timestamp=i64(entry.last_timestamp_ms),
                coordinator_epoch=i32(NO_COORDINATOR_EPOCH),
                current_txn_start_offset=i64(NO_TRANSACTION),
            )
            for producer_id, entry in sorted(replica.log.producers.producers.items())
        ),
    )
