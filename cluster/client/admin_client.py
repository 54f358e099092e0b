"""A client of the metadata: topics, placement, configurations, the quorum, and final reads.

Each call is one request to the node that the caller names, with the outcomes of
`cluster.client.caller`.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal

from cluster.client.caller import Caller, Outcome, Peer, WrongAnswerError, accept, metadata_of, only
from cluster.client.data_client import TopicPartition
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import DescribeQuorumRequest, DescribeQuorumResponse
from cluster.node.protocol import messages
from cluster.node.protocol.messages import BrokerId, TopicName, i8, i16, i32

TOPIC_RESOURCE: Final = i8(2)
BROKER_RESOURCE: Final = i8(4)
CLIENT_METRICS_RESOURCE: Final = i8(16)
BROKERS: Final = i8(1)
CONTROLLERS: Final = i8(2)
"""DescribeCluster's types of endpoints."""
_PREFERRED: Final = i8(0)
"""The type of an election that gives the lead to the first replica."""
CLUSTER_RESOURCE: Final = (BROKER_RESOURCE, "")
"""The cluster-wide default of all brokers, which holds the register keys."""
TOPICS_A_REQUEST: Final = 80
"""Whose configurations are described at a time: an answer is bounded (`describe.MAX_DESCRIBED`)."""

AlterOperation = Literal["set", "delete", "append", "subtract"]
_OPERATION_CODES: Final = {"set": i8(0), "delete": i8(1), "append": i8(2), "subtract": i8(3)}
_RESOURCE_NAMES: Final = {
    TOPIC_RESOURCE: "topic",
    BROKER_RESOURCE: "broker",
    CLIENT_METRICS_RESOURCE: "client-metrics",
}
_OWN_SOURCES: Final = {TOPIC_RESOURCE: 1, BROKER_RESOURCE: 2, CLIENT_METRICS_RESOURCE: 7}
_OF_ALL_BROKERS: Final = 3
"""Sources of configs that are set on the resource itself (`DescribeConfigsResponse.json`)."""
_NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})


Resource = tuple[i8, str]
"""A config resource: type (`TOPIC_RESOURCE`, `BROKER_RESOURCE`, ...) and name."""


def resource_name(resource: Resource) -> str:
    """Name a resource as final reads do: "topic:a", "broker:"."""
    return f"{_RESOURCE_NAMES[resource[0]]}:{resource[1]}"


class Client(Caller):
    """Reads and changes topics and configurations, and reads the quorum."""

    async def create_topic(
        self,
        peer: Peer,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str] = _NO_CONFIGS,
    ) -> Outcome:
        """Create a topic. The value is `{"id": uuid string, "partitions": n}`."""
        request = messages.CreateTopicsRequest(
            topics=(
                messages.CreatableTopic(
                    name=TopicName(name),
                    num_partitions=i32(partitions),
                    replication_factor=i16(replication_factor),
                    assignments=(),
                    configs=tuple(
                        messages.CreatableTopicConfig(name=key, value=value)
                        for key, value in configs.items()
                    ),
                ),
            ),
            timeout=messages.milliseconds(peer.timeout_ms),
        )

        def read(response: Any) -> Outcome:
            topic = _only(response.topics, name=name)
            self.accept(topic.error_code)
            return Outcome("ok", {"id": str(topic.topic_id), "partitions": partitions})

        return await self.attempt(peer, request, read)

    async def delete_topic(self, peer: Peer, name: str, *, topic_id: str | None = None) -> Outcome:
        """Delete a topic by name, or by its id if given. The value is `{"id": uuid string}`."""
        state = messages.DeleteTopicState(name=TopicName(name), topic_id=None)
        if topic_id is not None:
            state = messages.DeleteTopicState(name=None, topic_id=uuid.UUID(topic_id))
        request = messages.DeleteTopicsRequest(
            topics=(state,), timeout=messages.milliseconds(peer.timeout_ms)
        )

        def read(response: Any) -> Outcome:
            topic = _only(response.responses, name=name)
            self.accept(topic.error_code)
            return Outcome("ok", {"id": None if topic.topic_id is None else str(topic.topic_id)})

        return await self.attempt(peer, request, read)

    async def create_partition(
        self, peer: Peer, name: str, index: int, broker_ids: Sequence[int]
    ) -> Outcome:
        """Add the one partition `index` on brokers, if the topic has exactly `index` now.

        The assignment makes CreatePartitions compare: it must have as many entries as partitions
        are added. There are as many brokers as each partition of the topic has replicas.
        """
        assignment = messages.CreatePartitionsAssignment(
            broker_ids=tuple(map(BrokerId, broker_ids))
        )
        topic = messages.CreatePartitionsTopic(
            name=TopicName(name), count=i32(index + 1), assignments=(assignment,)
        )
        request = messages.CreatePartitionsRequest(
            topics=(topic,), timeout=messages.milliseconds(peer.timeout_ms), validate_only=False
        )

        def read(response: Any) -> Outcome:
            self.accept(_only(response.results, name=name).error_code)
            return Outcome("ok")

        return await self.attempt(peer, request, read)

    async def describe_topic(self, peer: Peer, name: str, *, lags: bool = False) -> Outcome:
        """Read a topic on a CLIENT listener: None, or `{"id": uuid string, "partitions": n}`.

        Only the active controller's answer is linearizable, and it names itself as controller;
        any other node's answer may be stale and is therefore a `fail` with `not_controller`,
        unless it may lag.
        """

        def read(response: Any) -> Outcome:
            if not lags and response.controller_id != peer.endpoint.node_id:
                return Outcome("fail", error=ErrorCode.not_controller.name)
            self.accept(response.error_code)
            topic = _only(response.topics, name=name)
            if topic.error_code is ErrorCode.unknown_topic_or_partition:
                return Outcome("ok", None)
            self.accept(topic.error_code)
            return Outcome("ok", _topic_value(topic))

        return await self.attempt(peer, metadata_of([name]), read)

    async def reassign(
        self, peer: Peer, partition: TopicPartition, replicas: Sequence[int]
    ) -> Outcome:
        """Ask for these replicas, the first of which is to lead. Ok: the change has begun."""
        target = messages.ReassignablePartition(
            partition_index=i32(partition.index), replicas=tuple(map(BrokerId, replicas))
        )
        topic = messages.ReassignableTopic(name=TopicName(partition.topic), partitions=(target,))
        request = messages.AlterPartitionReassignmentsRequest(
            timeout=messages.milliseconds(peer.timeout_ms), topics=(topic,)
        )

        def read(response: Any) -> Outcome:
            self.accept(response.error_code)
            topic = only(response.responses, name=partition.topic)
            self.accept(only(topic.partitions, partition_index=partition.index).error_code)
            return Outcome("ok", list(replicas))

        return await self.attempt(peer, request, read)

    async def elect_preferred(self, peer: Peer, partition: TopicPartition) -> Outcome:
        """Have the first replica lead."""
        asked = messages.ElectLeadersTopicPartitions(
            topic=TopicName(partition.topic), partitions=(i32(partition.index),)
        )
        request = messages.ElectLeadersRequest(
            election_type=_PREFERRED,
            topic_partitions=(asked,),
            timeout=messages.milliseconds(peer.timeout_ms),
        )

        def read(response: Any) -> Outcome:
            self.accept(response.error_code)
            topic = only(response.replica_election_results, topic=partition.topic)
            self.accept(only(topic.partition_result, partition_id=partition.index).error_code)
            return Outcome("ok")

        return await self.attempt(peer, request, read)

    async def alter_config(
        self, peer: Peer, resource: Resource, name: str, op: AlterOperation, value: str | None
    ) -> Outcome:
        """Change one config of a resource. `value` is None for `delete` only."""
        assert (value is None) == (op == "delete"), "delete takes no value, the others need one"
        config = messages.AlterableConfig(
            name=name, config_operation=_OPERATION_CODES[op], value=value
        )
        request = messages.IncrementalAlterConfigsRequest(
            resources=(
                messages.AlterConfigsResource(
                    resource_type=resource[0], resource_name=resource[1], configs=(config,)
                ),
            ),
            validate_only=False,
        )

        def read(response: Any) -> Outcome:
            result = _only(response.responses, resource_type=resource[0], resource_name=resource[1])
            self.accept(result.error_code)
            return Outcome("ok", value)

        return await self.attempt(peer, request, read)

    async def read_config(self, peer: Peer, resource: Resource, name: str) -> Outcome:
        """Read one config; the value is a string, or None when it is not set."""

        def read(response: Any) -> Outcome:
            result = _only(response.results, resource_type=resource[0], resource_name=resource[1])
            self.accept(result.error_code)
            return Outcome("ok", _set_on(result).get(name))

        return await self.attempt(peer, _question(resource, name), read)

    async def describe_cluster(self, peer: Peer, *, is_controller: bool) -> Outcome:
        """Ask a broker for all brokers, a controller for all controllers: the value is their ids.

        `is_controller`: what listens at the endpoint (KIP-919).
        """
        request = messages.DescribeClusterRequest(
            include_cluster_authorized_operations=False,
            endpoint_type=CONTROLLERS if is_controller else BROKERS,
            include_fenced_brokers=not is_controller,
        )

        def read(response: Any) -> Outcome:
            self.accept(response.error_code)
            return Outcome("ok", [int(broker.broker_id) for broker in response.brokers])

        return await self.attempt(peer, request, read)

    async def describe_quorum(self, peer: Peer) -> DescribeQuorumResponse:
        """Ask the leader what it knows of its quorum; others answer an error. Raises CallFailed."""

        def read(response: Any) -> DescribeQuorumResponse:
            if not isinstance(response, DescribeQuorumResponse):
                raise WrongAnswerError(f"it is {type(response).__name__}")
            return response

        return await self.ask(peer, DescribeQuorumRequest(), read)

    async def final_read(self, peer: Peer, *, also: Collection[Resource] = ()) -> dict[str, Any]:
        """All topics and configs that a node's image holds, read on its CLIENT listener.

        Returns `{"topics": {name: {"id", "partitions"}}, "configs": {"topic:a" or "broker:":
        {name: value}}}`, of the topics, the brokers' default and what is named `also`. Resources
        that have no configs are left out, and so is what was not set in the metadata. Kafka's
        protocol does not say up to which offset an image has replayed, and the requests are not
        one snapshot: the caller waits until nothing changes any more (DescribeQuorum at the
        leader shows all voters at its high watermark) and reads until two results in a row are
        equal.

        Raises CallFailed; RequestRefused when a response carries an error.
        """
        topics = await self.ask(peer, metadata_of(None), _all_topics)
        others = [*dict.fromkeys([CLUSTER_RESOURCE, *also])]
        of_topics = [(TOPIC_RESOURCE, name) for name in sorted(topics)]
        rest = [each for each in of_topics if each not in others]
        slices = (rest[at : at + TOPICS_A_REQUEST] for at in range(0, len(rest), TOPICS_A_REQUEST))
        configs: dict[str, dict[str, str]] = {}
        for resources in (others, *slices):
            question = messages.DescribeConfigsRequest(
                resources=tuple(
                    messages.DescribeConfigsResource(
                        resource_type=kind, resource_name=name, configuration_keys=None
                    )
                    for kind, name in resources
                )
            )
            configs |= await self.ask(peer, question, _all_configs)
        return {"topics": topics, "configs": configs}


@lru_cache(maxsize=1024)
def _question(resource: Resource, name: str) -> messages.DescribeConfigsRequest:
    """Ask for one config; a workload asks for the same few again and again."""
    return messages.DescribeConfigsRequest(
        resources=(
            messages.DescribeConfigsResource(
                resource_type=resource[0], resource_name=resource[1], configuration_keys=(name,)
            ),
        )
    )


def _only(results: Sequence[Any], **asked: object) -> Any:
    """Return the only result of an answer about one thing; an ok must be about what was asked.

    Raises WrongAnswerError.
    """
    result = only(results)
    return only(results, **asked) if result.error_code is ErrorCode.none else result


def _all_topics(metadata: Any) -> dict[str, Any]:
    accept(metadata.error_code)
    for topic in metadata.topics:
        accept(topic.error_code)
    return {topic.name: _topic_value(topic) for topic in metadata.topics}


def _all_configs(described: Any) -> dict[str, dict[str, str]]:
    configs: dict[str, dict[str, str]] = {}
    for result in described.results:
        accept(result.error_code)
        values = {name: value for name, value in _set_on(result).items() if value is not None}
        if values:
            configs[resource_name((result.resource_type, result.resource_name))] = values
    return configs


def _set_on(result: Any) -> dict[str, str | None]:
    """Return what is set on a resource itself; what it inherits is left out.

    Raises KeyError for a type of resource that was not asked for.
    """
    source = _OWN_SOURCES[result.resource_type]
    if (result.resource_type, result.resource_name) == CLUSTER_RESOURCE:
        source = _OF_ALL_BROKERS
    return {c.name: c.value for c in result.configs if c.config_source == source}


def _topic_value(topic: Any) -> dict[str, Any]:
    return {"id": str(topic.topic_id), "partitions": len(topic.partitions)}
