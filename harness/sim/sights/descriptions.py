"""Asks simulated nodes to describe the cluster, as clients do, and compares it with their images.

`DescriptionPolls(world, watcher)` asks each node for its topics whenever its image has moved, with
nothing in it but those that have changed, or whose brokers may have, and at every `_SELDOM`-th
image for all that it answers from that image: pages of topics, brokers, what has configurations,
and those of topics. It is asked over no link, and nothing comes of it: see
`checkers.invariants.answers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from kio.schema.describe_topic_partitions.v0.request import Cursor

from checkers.invariants.sight import NO_NODE
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.world import SimWorld
from cluster.node.assembly import Node
from cluster.node.controller.apis.describe import describe_cluster, describe_metadata
from cluster.node.controller.apis.topic_partitions import describe_topic_partitions
from cluster.node.controller.configs.describe import describe_configs, list_config_resources
from cluster.node.controller.metadata.registrations import (
    client_endpoints,
    has_online_replica,
    is_static,
    registered_brokers,
)
from cluster.node.controller.metadata.state import (
    ConfigResource,
    MetadataState,
    PartitionRegistration,
    TopicImage,
)
from cluster.node.controller.metadata.timeline import CommittedMap
from cluster.node.controller.partitions.reassignment import list_partition_reassignments
from cluster.node.protocol import messages as m
from harness.sim.requests.settings import SOURCES
from harness.sim.sights.images import changed_keys

_EVERY_MS: Final = 20.0
_SELDOM: Final = 8
_PAGE: Final = m.i32(5)
"""Partitions of a page."""
_OF_ALL: Final = m.MetadataRequest(
    topics=None,
    allow_auto_topic_creation=False,
    include_topic_authorized_operations=True,
)
_ENDPOINTS: Final = {1: "none", 2: "mismatched_endpoint_type", 3: "unsupported_endpoint_type"}
"""By the type that a DescribeCluster names: what a broker answers."""
_TOPIC, _BROKER, _LOGGER = 2, 4, 8
_OF_TOPICS: Final = ("brokers", "topics", "partitions")
"""Maps of a state of which the answer to Metadata is made."""

Said = dict[Any, str]
"""What is said of each thing of a kind."""


class DescriptionPolls:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._world = world
        self._watcher = watcher
        self._described: dict[str, tuple[int, int]] = {}
        """By node: process and offset of the image that it described last."""
        self._known: dict[str, list[dict[Any, Any]]] = {}
        """By node: what it has described last, as of `_OF_TOPICS`."""
        self._images: Counter[str] = Counter()
        """By node: how many it has described."""
        self._ask_later = partial(world.scheduler.call_later, _EVERY_MS, self._ask_all)
        self._ask_later()

    def _ask_all(self) -> None:
        for host, process, node in self._world.running():
            at = process.incarnation, node.controller.image.offset
            state = node.controller.image.state
            if self._described.get(host.name) != at and not is_static(state):
                self._described[host.name] = at
                self._images[host.name] += 1
                self._ask(host.name, node, state)
        self._ask_later()

    def _ask(self, name: str, node: Node, state: MetadataState) -> None:
        news, is_whole = self._news(name, state), self._images[name] % _SELDOM == 0
        among = state if is_whole else news
        answer = describe_metadata(_OF_ALL, among, node._cluster, "CLIENT", NO_NODE)
        for shown in partition_rows(answer):
            self._watcher.take(name, "metadata-answer", shown)
        if not is_whole:
            return
        for of, rows, known in _descriptions(answer.topics, node, state):
            self._watcher.take(name, "cluster-answer", {"of": of, "rows": rows, "known": known})
        for kind, right in _ENDPOINTS.items():
            error = _describe_cluster(kind, node, state).error_code.name
            what = f"describe the cluster by endpoints of type {kind}"
            shown = {"what": what, "errors": [error], "right": [(right,)]}
            self._watcher.take(name, "refusal", shown)

    def _news(self, name: str, state: MetadataState) -> MetadataState:
        """Return a state without topics of which all is as it was when they were described."""
        now = [getattr(state, of).entries() for of in _OF_TOPICS]
        before, self._known[name] = self._known.get(name), now
        if before is None or before[0] != now[0]:
            return state
        changed = {key[0]: None for key in changed_keys(before[2], now[2])}
        changed |= dict.fromkeys(changed_keys(before[1], now[1]))
        topics: CommittedMap[UUID, TopicImage] = CommittedMap()
        for topic_id in changed:
            if topic_id in now[1]:
                topics.put(topic_id, now[1][topic_id])
        return replace(state, topics=topics)


def _descriptions(
    topics: Iterable[Any], node: Node, state: MetadataState
) -> Iterator[tuple[str, Said, Said]]:
    """Yield kinds of things, what a node says of each, and what it knows."""
    known = {at: _says_of(state, topic_id, found) for at, topic_id, found in _partitions(state)}
    yield "partitions", {at: says for topic in _pages(state) for at, says in _rows(topic)}, known
    in_short = {at: says.split(", eligible")[0] for at, says in known.items()}
    yield "partitions", {at: says for topic in topics for at, says in _rows(topic)}, in_short
    brokers = _describe_cluster(1, node, state).brokers
    yield "brokers", broker_rows(brokers), dict(known_brokers(state, fenced=True))
    every = m.ListConfigResourcesRequest(resource_types=())
    listed = list_config_resources(every, state, node._cluster).config_resources
    rows = {(int(row.resource_type), row.resource_name): "" for row in listed}
    yield "resources", rows, dict.fromkeys(_resources(state), "")
    question = m.ListPartitionReassignmentsRequest(timeout=m.milliseconds(1_000), topics=None)
    moving = {
        f"{topic.name}-{row.partition_index}": _moves(row)
        for topic in list_partition_reassignments(question, state).topics
        for row in topic.partitions
    }
    is_moving = (
        each
        for each in _partitions(state)
        if {*each[2].adding_replicas, *each[2].removing_replicas}
    )
    yield "reassignments", moving, {at: _moves(found) for at, _, found in is_moving}
    logger = ConfigResource(_LOGGER, str(node.raft.node_id))
    yield from _settings(node, state, logger, node._cluster.loggers.levels)
    for resource in state.config_names.keys():  # noqa: SIM118
        if resource.type != _BROKER or resource.name in ("", logger.name):
            yield from _settings(node, state, resource, state.resource_configs(resource))


def _settings(
    node: Node, state: MetadataState, of: ConfigResource, has: Mapping[str, str]
) -> Iterator[tuple[str, Said, Said]]:
    """Yield what a resource has of its own, which hides nothing that it shows."""
    asked = m.DescribeConfigsResource(
        resource_type=m.i8(of.type), resource_name=of.name, configuration_keys=None
    )
    request = m.DescribeConfigsRequest(resources=(asked,))
    (result,) = describe_configs(request, state, node._cluster).results
    source = SOURCES.get(of.type, 2 if of.name else 3)
    own = {
        row.name: f" {row.value}" + " (sensitive)" * row.is_sensitive
        for row in result.configs
        if row.config_source == source
    }
    yield f"configurations of {of.name}", own, {key: f" {value}" for key, value in has.items()}


def _describe_cluster(kind: int, node: Node, state: MetadataState) -> m.DescribeClusterResponse:
    request = m.DescribeClusterRequest(
        include_cluster_authorized_operations=True,
        endpoint_type=m.i8(kind),
        include_fenced_brokers=True,
    )
    endpoints = client_endpoints(state, node._cluster, "CLIENT", fenced=True)
    return describe_cluster(request, "", endpoints, NO_NODE, to_controller=False)


def _pages(state: MetadataState) -> Iterator[Any]:
    """Yield the topics of all pages, of which each has a partition at least."""
    cursor = None
    for _ in range(len(state.partitions) + 1):
        request = m.DescribeTopicPartitionsRequest(
            topics=(), response_partition_limit=_PAGE, cursor=cursor
        )
        answer = describe_topic_partitions(request, state)
        yield from answer.topics
        if answer.next_cursor is None:
            return
        cursor = Cursor(
            topic_name=answer.next_cursor.topic_name,
            partition_index=answer.next_cursor.partition_index,
        )


def _rows(topic: Any) -> Iterator[tuple[str, str]]:
    """Yield what an answer says of each partition of a topic."""
    for row in topic.partitions:
        by_page = hasattr(row, "last_known_elr")
        facts = row.leader_id, row.leader_epoch, row.replica_nodes, row.isr_nodes
        eligible = (row.eligible_leader_replicas, row.last_known_elr) if by_page else None
        says = _text(topic.topic_id, *facts, row.offline_replicas, eligible)
        yield f"{topic.name}-{row.partition_index}", says


def _partitions(state: MetadataState) -> Iterator[tuple[str, object, PartitionRegistration]]:
    """Yield each partition's name, its topic's id, and what the metadata have."""
    for key, found in state.partitions.entries().items():
        topic = state.topics.get(key[0])
        assert topic is not None, "valid-brokers"
        yield f"{topic.name}-{key[1]}", topic.id, found


def _says_of(state: MetadataState, topic_id: object, found: PartitionRegistration) -> str:
    facts = found.leader, found.leader_epoch, found.replicas, found.isr
    offline = [each for each in found.replicas if _is_offline(state, found, each)]
    return _text(topic_id, *facts, offline, (found.elr, found.last_known_elr))


def _moves(of: Any) -> str:
    """Return which replicas are given and taken, by an answer or by the metadata."""
    lists = of.replicas, of.adding_replicas, of.removing_replicas
    return " {}, adding {}, removing {}".format(*([*map(int, each)] for each in lists))


def _is_offline(state: MetadataState, found: PartitionRegistration, number: int) -> bool:
    broker = state.brokers.get(number)
    return broker is None or broker.fenced or not has_online_replica(state, found, number)


def _text(
    topic_id: object,
    leader: int,
    epoch: int,
    replicas: Iterable[int],
    isr: Iterable[int],
    offline: Iterable[int],
    eligible: tuple[Iterable[int], Iterable[int]] | None,
) -> str:
    lists = [("replicas", replicas), ("in sync", isr), ("offline", offline)]
    if eligible is not None:
        lists += [("eligible", eligible[0]), ("known last", eligible[1])]
    named = ", ".join(f"{name} {[*map(int, brokers)]}" for name, brokers in lists)
    return f" of topic {topic_id}: leader {leader} in epoch {epoch}, {named}"


def _resources(state: MetadataState) -> Iterator[tuple[int, str]]:
    """Yield what ListConfigResources names: topics and brokers, and what else is configured."""
    yield from ((_TOPIC, name) for name in state.topic_names.keys())  # noqa: SIM118
    for broker in registered_brokers(state):
        yield from ((kind, str(broker.id)) for kind in (_BROKER, _LOGGER))
    yield from (
        (each.type, each.name)
        for each in state.config_names.keys()  # noqa: SIM118
        if each.type not in (_TOPIC, _BROKER)
    )


def partition_rows(answer: Any) -> Iterator[Mapping[str, Any]]:
    """Yield what an answer to Metadata says of each partition."""
    brokers = [int(row.node_id) for row in answer.brokers]
    for topic in answer.topics:
        for row in topic.partitions:
            yield {
                "name": f"{topic.name}-{row.partition_index}",
                "topic_id": str(topic.topic_id),
                "index": int(row.partition_index),
                "leader": int(row.leader_id),
                "leader_epoch": int(row.leader_epoch),
                "replicas": [*map(int, row.replica_nodes)],
                "isr": [*map(int, row.isr_nodes)],
                "brokers": brokers,
            }


def broker_rows(rows: Iterable[Any]) -> Said:
    """Return what an answer to DescribeCluster says of each broker."""
    return {int(row.broker_id): _says(row.rack, is_fenced=row.is_fenced) for row in rows}


def known_brokers(state: MetadataState, *, fenced: bool) -> Iterator[tuple[int, str]]:
    """Yield the brokers that clients are shown, and what is said of each."""
    for broker in registered_brokers(state):
        if broker.listeners and (fenced or not broker.fenced):
            yield broker.id, _says(broker.rack, is_fenced=broker.fenced)


def _says(rack: str | None, *, is_fenced: bool) -> str:
    return (f" in rack {rack}" if rack is not None else "") + " (fenced)" * is_fenced
