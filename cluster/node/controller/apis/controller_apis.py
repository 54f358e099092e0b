"""Requests for the controller and for the metadata, by type (ControllerApis, partly KafkaApis).

- Writes of administrators, brokers and controllers (`write_apis`): by the active controller, on
  whichever listener; every other node answers NOT_CONTROLLER. ListPartitionReassignments is a
  confirmed read there.
- DescribeConfigs: on the controller listener a confirmed read, or NOT_CONTROLLER, but of this node
  itself, and on the client listener, this node's image. ListConfigResources: this node's image.
- Metadata: on the controller listener a confirmed read, or NOT_CONTROLLER; on the client listener a
  confirmed read that names this node as the controller, or else this node's image.
- DescribeCluster: every node names the controllers on the controller listener, the brokers on the
  client listener.
- DescribeTopicPartitions: by every node, from its image.

A node's image may be stale. A Metadata answer that names its own sender as the controller is not:
it was confirmed. Answers from an image never name their sender, so a client can distinguish them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cluster.node.controller.apis.describe import describe_cluster, describe_metadata
from cluster.node.controller.apis.topic_partitions import describe_topic_partitions
from cluster.node.controller.apis.write_apis import WriteApis, error_response
from cluster.node.controller.configs.describe import describe_configs, list_config_resources
from cluster.node.controller.core.controller import QuorumController
from cluster.node.controller.metadata.registrations import (
    ClusterInfo,
    client_endpoints,
    controller_endpoints,
)
from cluster.node.controller.metadata.state import BrokerRegistration, MetadataState, ResourceType
from cluster.node.controller.partitions.reassignment import list_partition_reassignments
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import NO_NODE
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.ports import Endpoint, Random
from cluster.node.protocol import messages

DEFAULT_API_TIMEOUT_MS = 30_000
"""For requests that carry no timeout of their own."""
METADATA_CONFIRMATION_MS = 1_500
"""How long Metadata waits for a confirmation before it is answered from the image."""

Reply = Callable[[Any], None]
Handler = Callable[[str, Any, Reply], None]


class ControllerApis:
    """Dispatches requests; answers each at most once, maybe much later."""

    def __init__(
        self, controller: QuorumController, raft: RaftClient, cluster: ClusterInfo, random: Random
    ) -> None:
        self._controller = controller
        self._raft = raft
        self._cluster = cluster
        self._random = random
        self._handlers: dict[type, Handler] = {
            messages.ListPartitionReassignmentsRequest: self._list_reassignments,
            messages.DescribeConfigsRequest: self._describe_configs,
            messages.ListConfigResourcesRequest: self._list_config_resources,
            messages.MetadataRequest: self._metadata,
            messages.DescribeClusterRequest: self._describe_cluster,
            **WriteApis(controller, cluster, random).handlers,
            messages.DescribeTopicPartitionsRequest: self._describe_topic_partitions,
        }

    def handle(self, listener: str, message: object, reply: Reply) -> None:
        """Handle a request that arrived on a listener. Raises KeyError when it is not ours."""
        self._handlers[type(message)](listener, message, reply)

    def _list_reassignments(
        self, _listener: str, request: messages.ListPartitionReassignmentsRequest, reply: Reply
    ) -> None:
        self._controller.append_read_event(
            lambda state: list_partition_reassignments(request, state),
            partial(error_response, request),
            request.timeout.total_seconds() * 1000,
            reply,
        )

    def _describe_configs(
        self, listener: str, request: messages.DescribeConfigsRequest, reply: Reply
    ) -> None:
        def describe(state: MetadataState) -> messages.DescribeConfigsResponse:
            return describe_configs(request, state, self._cluster)

        if listener != self._cluster.controller_listener or self._is_of_this_node(request):
            reply(describe(self._controller.image.state))
            return
        self._controller.append_read_event(
            describe, partial(error_response, request), DEFAULT_API_TIMEOUT_MS, reply
        )

    def _is_of_this_node(self, request: messages.DescribeConfigsRequest) -> bool:
        """Return whether nobody but this node can answer."""
        nodes = {ResourceType.BROKER, ResourceType.BROKER_LOGGER}
        return all(
            int(item.resource_type) in nodes and item.resource_name for item in request.resources
        )

    def _list_config_resources(
        self, _listener: str, request: messages.ListConfigResourcesRequest, reply: Reply
    ) -> None:
        reply(list_config_resources(request, self._controller.image.state, self._cluster))

    def _describe_topic_partitions(
        self, _listener: str, request: messages.DescribeTopicPartitionsRequest, reply: Reply
    ) -> None:
        reply(describe_topic_partitions(request, self._controller.image.state))

    def _metadata(self, listener: str, request: messages.MetadataRequest, reply: Reply) -> None:
        to_controller = listener == self._cluster.controller_listener
        if to_controller:
            on_error: Callable[[ErrorCode, str | None], messages.MetadataResponse]
            on_error = partial(error_response, request)
        elif self._controller.is_active:
            on_error = partial(self._metadata_of_image, listener, request)
        else:
            reply(self._metadata_of_image(listener, request, ErrorCode.none, None))
            return

        def answer(state: MetadataState) -> messages.MetadataResponse:
            own_id = self._raft.node_id
            named = own_id
            if not to_controller and self._cluster.registration:
                named = self._live(listener, state, own_id)
            return describe_metadata(request, state, self._cluster, listener, named)

        self._controller.append_read_event(answer, on_error, METADATA_CONFIRMATION_MS, reply)

    def _metadata_of_image(
        self,
        listener: str,
        request: messages.MetadataRequest,
        _error: ErrorCode,
        _message: str | None,
    ) -> messages.MetadataResponse:
        state = self._controller.image.state
        controller_id = self._controller_to_name(listener)
        return describe_metadata(request, state, self._cluster, listener, controller_id)

    def _controller_to_name(self, listener: str) -> int:
        """Return the node to name as the controller: never this node where it is a controller.

        The leader that this node knows, if clients can see it; else another live broker, which
        forwards. A broker that is alone names itself, which no controller does without a
        confirmation. Where no leader is known a broker that is no controller names a live one all
        the same, as Kafka's do: clients ask it, and it holds the request until there is a leader.
        """
        own_id = self._raft.node_id
        leader_id = self._raft.leader_and_epoch.leader_id
        if leader_id in {own_id, NO_NODE} and self._cluster.is_controller:
            return NO_NODE
        never = own_id if self._cluster.is_controller else NO_NODE
        return self._live(listener, self._controller.image.state, leader_id, never)

    def _live(self, listener: str, state: MetadataState, wanted: int, never: int = NO_NODE) -> int:
        """Return the broker `wanted` if clients can see it, else any other but `never`.

        As in Kafka none when there is none (-1): clients that got a controller's id without its
        address keep it, and ask for it for ever.
        """
        endpoints = client_endpoints(state, self._cluster, listener)
        visible = [endpoint.node_id for endpoint, _ in endpoints if endpoint.node_id != never]
        if wanted in visible:
            return wanted
        others = [broker for broker in visible if broker != self._raft.node_id]
        return self._random.choice(others or visible) if visible else NO_NODE

    def _describe_cluster(
        self, listener: str, request: messages.DescribeClusterRequest, reply: Reply
    ) -> None:
        to_controller = listener == self._cluster.controller_listener
        leader_id = self._raft.leader_and_epoch.leader_id
        if to_controller:
            state = self._controller.image.state
            endpoints: Sequence[tuple[Endpoint, BrokerRegistration | None]] = [
                (endpoint, None) for endpoint in controller_endpoints(state, self._cluster)
            ]
        else:
            if leader_id != self._raft.node_id:
                leader_id = self._controller_to_name(listener)
            elif self._cluster.registration:
                leader_id = self._live(listener, self._controller.image.state, leader_id)
            endpoints = client_endpoints(
                self._controller.image.state,
                self._cluster,
                listener,
                fenced=request.include_fenced_brokers,
            )
        reply(
            describe_cluster(
                request, self._cluster.cluster_id, endpoints, leader_id, to_controller=to_controller
            )
        )
