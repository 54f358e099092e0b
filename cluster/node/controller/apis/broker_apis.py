"""Requests of brokers and controllers to the active controller (the rest of ControllerApis).

All are writes; every other node answers NOT_CONTROLLER.
"""

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
from cluster.node.controller.brokers.producer_ids import allocate_producer_ids
from cluster.node.controller.core.controller import QuorumController
from cluster.node.controller.core.feature_update import update_features
from cluster.node.controller.metadata.cluster_info import ClusterInfo
from cluster.node.controller.metadata.result import ControllerResult
from cluster.node.controller.metadata.state import MetadataState
from cluster.node.controller.partitions.alter_partition import alter_partition
from cluster.node.controller.partitions.directory_assignment import assign_replicas_to_dirs
from cluster.node.protocol.messages import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdateFeaturesRequest,
)

DEFAULT_TIMEOUT_MS = 30_000.0
Generate = Callable[[Any, MetadataState], ControllerResult[Any]]
Handler = Callable[[str, Any, Callable[[Any], None]], None]


class BrokerApis:
    """Handlers by request class, for `ControllerApis`."""

    def __init__(self, controller: QuorumController, cluster: ClusterInfo) -> None:
        self._controller = controller
        self._cluster = cluster
        generators: dict[type, Generate] = {
            BrokerRegistrationRequest: self._register_broker,
            BrokerHeartbeatRequest: self._heartbeat,
            UnregisterBrokerRequest: self._unregister_broker,
            ControllerRegistrationRequest: register_controller,
            AlterPartitionRequest: alter_partition,
            AssignReplicasToDirsRequest: assign_replicas_to_dirs,
            AllocateProducerIdsRequest: allocate_producer_ids,
            UpdateFeaturesRequest: update_features,
        }
        self.handlers: dict[type, Handler] = {
            request_type: self._handler(generate) for request_type, generate in generators.items()
        }

    def _handler(self, generate: Generate) -> Handler:
        def handle(_listener: str, request: Any, reply: Callable[[Any], None]) -> None:
            if isinstance(request, BrokerHeartbeatRequest):
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
        self, request: BrokerRegistrationRequest, state: MetadataState
    ) -> ControllerResult[BrokerRegistrationResponse]:
        controller = self._controller
        result = register_broker(request, state, self._cluster, controller.heartbeats)
        controller.periodic_tasks.start()
        return result

    def _heartbeat(
        self, request: BrokerHeartbeatRequest, state: MetadataState
    ) -> ControllerResult[BrokerHeartbeatResponse]:
        return broker_heartbeat(request, state, self._controller.heartbeats)

    def _unregister_broker(
        self, request: UnregisterBrokerRequest, state: MetadataState
    ) -> ControllerResult[UnregisterBrokerResponse]:
        return unregister_broker(request, state, self._controller.heartbeats)
