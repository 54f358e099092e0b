"""Metadata and DescribeCluster, answered from a committed state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from cluster.node.controller.metadata.registrations import ClusterInfo, client_endpoints, is_offline
from cluster.node.controller.metadata.state import (
    INTERNAL_TOPICS,
    BrokerRegistration,
    MetadataState,
    TopicImage,
    invalid_name_reason,
)
from cluster.node.errors import ErrorCode
from cluster.node.ports import Endpoint
from cluster.node.protocol import messages
from cluster.node.protocol.messages import BrokerId, TopicName, i32

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = range(3, 9)
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = range(9, 13)
_OF_ANYTHING: Final = (_CREATE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)


def _bits(*operations: int) -> i32:
    return i32(sum(1 << operation for operation in operations))


OPERATIONS_ON_TOPIC: Final = _bits(*_OF_ANYTHING, _READ, _WRITE, _DELETE)
OPERATIONS_ON_CLUSTER: Final = _bits(*_OF_ANYTHING, _CLUSTER_ACTION, _IDEMPOTENT_WRITE)
"""KIP-430: all of them, for everybody, as a node has no authorizer; a bit for each AclOperation."""
OPERATIONS_NOT_ASKED_FOR: Final = i32(-(2**31))
"""MetadataResponse.AUTHORIZED_OPERATIONS_OMITTED"""


_PARTITIONS_REMEMBERED = 4096
ENDPOINTS_OF_BROKERS = 1
ENDPOINTS_OF_CONTROLLERS = 2


def describe_metadata(
    request: messages.MetadataRequest,
    state: MetadataState,
    cluster: ClusterInfo,
    listener: str,
    controller_id: int,
) -> messages.MetadataResponse:
    """Return the brokers and the topics asked for by name or id, all when `topics` is null.

    Brokers are described by their address on `listener`; fenced brokers are left out.
    Nothing is created, whatever `allow_auto_topic_creation` says.
    """
    if request.topics is None:
        ids = list(state.topics.keys())
        topics = [_topic_metadata(topic, state) for topic in map(state.topics.get, ids) if topic]
    else:
        # As in Kafka a request that has any topic id is about ids alone, whatever names it has, and
        # what it has twice is described once.
        by_id = [replace(each, name=None) for each in request.topics if each.topic_id is not None]
        asked = dict.fromkeys(by_id or request.topics)
        topics = [_requested_topic(item, state) for item in asked]
    if request.include_topic_authorized_operations:
        topics = [
            topic
            if topic.error_code is ErrorCode.unknown_topic_id
            else replace(topic, topic_authorized_operations=OPERATIONS_ON_TOPIC)
            for topic in topics
        ]
    return messages.MetadataResponse(
        throttle_time=messages.NO_THROTTLE,
        brokers=tuple(
            messages.MetadataResponseBroker(
                node_id=BrokerId(endpoint.node_id),
                host=endpoint.host,
                port=i32(endpoint.port),
                rack=None if broker is None else broker.rack,
            )
            for endpoint, broker in client_endpoints(state, cluster, listener)
        ),
        cluster_id=cluster.cluster_id,
        controller_id=BrokerId(controller_id),
        topics=tuple(topics),
        error_code=ErrorCode.none,
    )


def _requested_topic(
    item: messages.MetadataRequestTopic, state: MetadataState
) -> messages.MetadataResponseTopic:
    name = item.name
    if name is None:
        topic = None if item.topic_id is None else state.topics.get(item.topic_id)
        error = ErrorCode.unknown_topic_id
    elif invalid_name_reason(name) is not None:
        topic = None
        error = ErrorCode.invalid_topic_exception
    else:
        topic = state.topic_by_name(name)
        error = ErrorCode.unknown_topic_or_partition
    if topic is not None:
        return _topic_metadata(topic, state)
    return messages.MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=item.topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
    )


def _topic_metadata(topic: TopicImage, state: MetadataState) -> messages.MetadataResponseTopic:
    return messages.MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(topic.name),
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(
            _partition_metadata(topic, index, state) for index in range(topic.partition_count)
        ),
    )


def _partition_metadata(
    topic: TopicImage, index: int, state: MetadataState
) -> messages.MetadataResponsePartition:
    partition = state.partition(topic.id, index)
    error = ErrorCode.none if partition.leader >= 0 else ErrorCode.leader_not_available
    offline = (each for each in partition.replicas if is_offline(state, partition, each))
    return _partition_response(
        error,
        index,
        partition.leader,
        partition.leader_epoch,
        partition.replicas,
        partition.isr,
        tuple(offline),
    )


@lru_cache(_PARTITIONS_REMEMBERED)
def _partition_response(
    error: ErrorCode,
    index: int,
    leader: int,
    leader_epoch: int,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    offline: tuple[int, ...],
) -> messages.MetadataResponsePartition:
    """Describe a partition; clients ask far more often than it changes."""
    return messages.MetadataResponsePartition(
        error_code=error,
        partition_index=i32(index),
        leader_id=BrokerId(leader),
        leader_epoch=i32(leader_epoch),
        replica_nodes=tuple(map(BrokerId, replicas)),
        isr_nodes=tuple(map(BrokerId, isr)),
        offline_replicas=tuple(map(BrokerId, offline)),
    )


def describe_cluster(
    request: messages.DescribeClusterRequest,
    cluster_id: str,
    endpoints: Sequence[tuple[Endpoint, BrokerRegistration | None]],
    controller_id: int,
    *,
    to_controller: bool,
) -> messages.DescribeClusterResponse:
    """Return brokers, or on the controller listener controllers (KIP-919).

    `endpoints`: where they are, and how those that are brokers are registered.
    """
    wanted = ENDPOINTS_OF_CONTROLLERS if to_controller else ENDPOINTS_OF_BROKERS
    if request.endpoint_type == wanted:
        response = _cluster_response(request, cluster_id, controller_id, endpoints)
        if not request.include_cluster_authorized_operations:
            return response
        return replace(response, cluster_authorized_operations=OPERATIONS_ON_CLUSTER)
    if request.endpoint_type in {ENDPOINTS_OF_BROKERS, ENDPOINTS_OF_CONTROLLERS}:
        error = ErrorCode.mismatched_endpoint_type
        message = "The request was sent to an endpoint of the other type."
    else:
        error = ErrorCode.unsupported_endpoint_type
        message = f"Unsupported endpoint type {request.endpoint_type}."
    return _cluster_response(request, cluster_id, -1, (), error, message)


def _cluster_response(
    request: messages.DescribeClusterRequest,
    cluster_id: str,
    controller_id: int,
    endpoints: Sequence[tuple[Endpoint, BrokerRegistration | None]],
    error: ErrorCode = ErrorCode.none,
    message: str | None = None,
) -> messages.DescribeClusterResponse:
    return messages.DescribeClusterResponse(
        throttle_time=messages.NO_THROTTLE,
        error_code=error,
        error_message=message,
        endpoint_type=request.endpoint_type,
        cluster_id=cluster_id,
        controller_id=BrokerId(controller_id),
        brokers=tuple(
            messages.DescribeClusterBroker(
                broker_id=BrokerId(endpoint.node_id),
                host=endpoint.host,
                port=i32(endpoint.port),
                rack=None if broker is None else broker.rack,
                is_fenced=broker is not None and broker.fenced,
            )
            for endpoint, broker in endpoints
        ),
        cluster_authorized_operations=OPERATIONS_NOT_ASKED_FOR,
    )
