"""Requests that the active controller carries out; every other node answers NOT_CONTROLLER."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cluster.node.controller.apis.error_responses import error_response
from cluster.node.controller.brokers.broker_lifecycle import broker_heartbeat
from cluster.node.controller.brokers.cluster_control import (
    register_broker,
    register_controller,
    unregister_broker,
)
from cluster.node.controller.configs.configuration_control import incremental_alter_configs
from cluster.node.controller.core.controller import QuorumController
from cluster.node.controller.core.feature_update import update_features
from cluster.node.controller.metadata.cluster_info import ClusterInfo
from cluster.node.controller.metadata.registrations import checked_epoch
from cluster.node.controller.metadata.result import ControllerResult, RequestError
from cluster.node.controller.metadata.state import NEXT_PRODUCER_ID, MetadataState
from cluster.node.controller.partitions.alter_partition import alter_partition
from cluster.node.controller.partitions.directory_assignment import assign_replicas_to_dirs
from cluster.node.controller.partitions.elections import elect_leaders
from cluster.node.controller.partitions.reassignment import alter_partition_reassignments
from cluster.node.controller.records.system import ProducerIdsRecord
from cluster.node.controller.topics.topic_changes import create_partitions, delete_topics
from cluster.node.controller.topics.topic_creation import create_topics
from cluster.node.errors import ErrorCode
from cluster.node.ports import Random
from cluster.node.protocol import messages
from cluster.node.protocol.messages import ProducerId, i32

PRODUCER_ID_BLOCK_SIZE = 1_000
"""ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE"""
PRODUCER_ID_MAX = 2**63 - 1


def allocate_producer_ids(
    request: messages.AllocateProducerIdsRequest, state: MetadataState
) -> ControllerResult[messages.AllocateProducerIdsResponse]:
    """Give the next block of ids, which no broker gets twice (KIP-730, ProducerIdControlManager).

    Raises RequestError: STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR when there is none left.
    """
    checked_epoch(state, request.broker_id, request.broker_epoch)
    first = state.producer_ids.get(NEXT_PRODUCER_ID) or 0
    if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
        message = f"Exhausted all producerIds as the next block's end would exceed {first}"
        raise RequestError(ErrorCode.unknown_server_error, message)
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
    )
    return ControllerResult(
        records=(record,),
        response=messages.AllocateProducerIdsResponse(
            throttle_time=messages.NO_THROTTLE,
            error_code=ErrorCode.none,
            producer_id_start=ProducerId(first),
            producer_id_len=i32(PRODUCER_ID_BLOCK_SIZE),
        ),
    )


DEFAULT_TIMEOUT_MS = 30_000.0
Generate = Callable[[Any, MetadataState], ControllerResult[Any]]
Handler = Callable[[str, Any, Callable[[Any], None]], None]


class WriteApis:
    """Handlers by request class, for `ControllerApis`."""

    def __init__(self, controller: QuorumController, cluster: ClusterInfo, random: Random) -> None:
        self._controller = controller
        self._cluster = cluster
        generators: dict[type, Generate] = {
            messages.CreateTopicsRequest: lambda r, state: create_topics(r, state, cluster, random),
            messages.DeleteTopicsRequest: delete_topics,
            messages.CreatePartitionsRequest: lambda r, state: create_partitions(
                r, state, cluster, random
            ),
            messages.IncrementalAlterConfigsRequest: lambda r, state: incremental_alter_configs(
                r, state, cluster
            ),
            messages.ElectLeadersRequest: elect_leaders,
            messages.AlterPartitionReassignmentsRequest: lambda r, state: (
                alter_partition_reassignments(r, state, cluster)
            ),
            messages.BrokerRegistrationRequest: self._register_broker,
            messages.BrokerHeartbeatRequest: self._heartbeat,
            messages.UnregisterBrokerRequest: lambda r, state: unregister_broker(
                r, state, controller.heartbeats
            ),
            messages.ControllerRegistrationRequest: register_controller,
            messages.AlterPartitionRequest: alter_partition,
            messages.AssignReplicasToDirsRequest: assign_replicas_to_dirs,
            messages.AllocateProducerIdsRequest: allocate_producer_ids,
            messages.UpdateFeaturesRequest: lambda r, state: update_features(r, state, cluster),
        }
        self.handlers: dict[type, Handler] = {
            request_type: self._handler(generate) for request_type, generate in generators.items()
        }

    def _handler(self, generate: Generate) -> Handler:
        def handle(_listener: str, request: Any, reply: Callable[[Any], None]) -> None:
            if isinstance(request, messages.BrokerHeartbeatRequest):
                self._controller.heartbeats.note_arrival(request.broker_id, request.broker_epoch)
            timeout = getattr(request, "timeout", None)
            self._controller.append_write_event(
                lambda state: generate(request, state),
                partial(error_response, request),
                DEFAULT_TIMEOUT_MS if timeout is None else timeout.total_seconds() * 1000,
                reply,
            )

        return handle

    def _register_broker(
        self, request: messages.BrokerRegistrationRequest, state: MetadataState
    ) -> ControllerResult[messages.BrokerRegistrationResponse]:
        controller = self._controller
        result = register_broker(request, state, self._cluster, controller.heartbeats)
        controller.periodic_tasks.start()
        return result

    def _heartbeat(
        self, request: messages.BrokerHeartbeatRequest, state: MetadataState
    ) -> ControllerResult[messages.BrokerHeartbeatResponse]:
        return broker_heartbeat(request, state, self._controller.heartbeats)
