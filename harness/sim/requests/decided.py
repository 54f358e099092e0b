"""Requests whose answers the state of a controller decides, and the functions that decide them.

Each is right, or right but for one thing. They are about one partition, its topic, the node that is
asked, as it has registered, and features.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final

from kio.schema.describe_topic_partitions.v0.request import TopicRequest

from cluster.node.assembly import Node
from cluster.node.broker.serving.config_admin import preprocess
from cluster.node.broker.serving.offsets import offsets_for_leader_epochs
from cluster.node.controller.apis.describe import describe_metadata
from cluster.node.controller.apis.topic_partitions import describe_topic_partitions
from cluster.node.controller.apis.write_apis import allocate_producer_ids, error_response
from cluster.node.controller.brokers.cluster_control import (
    register_broker,
    register_controller,
    unregister_broker,
)
from cluster.node.controller.configs.configuration_control import incremental_alter_configs
from cluster.node.controller.configs.definitions import BROKER
from cluster.node.controller.configs.describe import describe_configs, list_config_resources
from cluster.node.controller.configs.sources import SOURCE_DEFAULT
from cluster.node.controller.core.feature_control import update_features
from cluster.node.controller.metadata.registrations import registered_brokers
from cluster.node.controller.metadata.result import ControllerResult, RequestError
from cluster.node.controller.metadata.state import (
    BrokerRegistration,
    MetadataState,
    PartitionKey,
    PartitionRegistration,
)
from cluster.node.controller.partitions.alter_partition import (
    alter_partition,
    assign_replicas_to_dirs,
)
from cluster.node.controller.partitions.elections import elect_leaders
from cluster.node.controller.partitions.reassignment import alter_partition_reassignments
from cluster.node.controller.topics.topic_changes import create_partitions, delete_topics
from cluster.node.controller.topics.topic_creation import create_topics
from cluster.node.kraft.messages import NO_NODE
from cluster.node.protocol import messages as m
from cluster.node.protocol.data_messages import OffsetForLeaderEpochRequest
from harness.sim.requests.plain_metadata import TOPIC
from harness.sim.requests.settings import SETTINGS

Decision = tuple[str, Any, tuple[tuple[str, ...], ...]]
"""What is asked, the request, and the right errors of each thing that it is about."""

_RANDOM: Final = Random(0)
_NOWHERE: Final = uuid.UUID("00000000-0000-4000-8000-00000000d1e5")
_RESERVED: Final = uuid.UUID(int=7)
_BEYOND: Final = 1_000_000
"""The index of no partition."""
TIMEOUT: Final = m.milliseconds(1_000)
_RECOVERING: Final = 1
_UNKNOWN: Final = ("unknown_topic_or_partition",)

_WRITES: Final[dict[type, Callable[[Any, Node, MetadataState], ControllerResult[Any]]]] = {
    m.CreateTopicsRequest: lambda r, n, s: create_topics(r, s, n._cluster, _RANDOM),
    m.DeleteTopicsRequest: lambda r, _, s: delete_topics(r, s),
    m.CreatePartitionsRequest: lambda r, n, s: create_partitions(r, s, n._cluster, _RANDOM),
    m.IncrementalAlterConfigsRequest: lambda r, n, s: incremental_alter_configs(r, s, n._cluster),
    m.ElectLeadersRequest: lambda r, _, s: elect_leaders(r, s),
    m.AlterPartitionReassignmentsRequest: lambda r, n, s: alter_partition_reassignments(
        r, s, n._cluster
    ),
    m.BrokerRegistrationRequest: lambda r, n, s: register_broker(
        r, s, n._cluster, n.controller.heartbeats
    ),
    m.UnregisterBrokerRequest: lambda r, n, s: unregister_broker(r, s, n.controller.heartbeats),
    m.ControllerRegistrationRequest: lambda r, _, s: register_controller(r, s),
    m.AlterPartitionRequest: lambda r, _, s: alter_partition(r, s),
    m.AssignReplicasToDirsRequest: lambda r, _, s: assign_replicas_to_dirs(r, s),
    m.AllocateProducerIdsRequest: lambda r, _, s: allocate_producer_ids(r, s),
    m.UpdateFeaturesRequest: lambda r, n, s: update_features(r, s, n._cluster),
}
_READS: Final[dict[type, Callable[[Any, Node, MetadataState], Any]]] = {
    m.DescribeConfigsRequest: lambda r, n, s: describe_configs(r, s, n._cluster),
    m.ListConfigResourcesRequest: lambda r, n, s: list_config_resources(r, s, n._cluster),
    m.MetadataRequest: lambda r, n, s: describe_metadata(r, s, n._cluster, "CLIENT", NO_NODE),
    m.DescribeTopicPartitionsRequest: lambda r, _, s: describe_topic_partitions(r, s),
    OffsetForLeaderEpochRequest: lambda r, n, _: offsets_for_leader_epochs(_manager(n), r),
}


def _manager(node: Node) -> Any:
    assert node.replicas is not None, "each node here has a broker"
    return node.replicas


def answer(
    request: Any, node: Node, state: MetadataState, *, is_of_broker: bool = False
) -> tuple[Any, int]:
    """Return what a node answers in a state, and how many records it would append.

    `is_of_broker`: a broker looks at the request, before it hands it on.
    """
    read = _READS.get(type(request))
    if read is not None:
        return read(request, node, state), 0
    if is_of_broker and isinstance(request, m.IncrementalAlterConfigsRequest):
        answers: list[Any] = []
        left = preprocess(request, answers.append, state, node._cluster)
        count = 0
        if left is not None:
            response, count = answer(left[0], node, state)
            left[1](response)
        return answers[0], count
    try:
        result = result_of(request, node, state)
    except RequestError as refusal:
        return error_response(request, refusal.error, refusal.message), 0
    return result.response, len(list(result.records))


def result_of(request: Any, node: Node, state: MetadataState) -> ControllerResult[Any]:
    """Return what a node makes of a request that changes metadata. Raises RequestError."""
    return _WRITES[type(request)](request, node, state)


def decisions(node: Node, state: MetadataState, random: Random) -> Iterator[Decision]:
    """Yield what is about one thing: a partition, its topic, the node, or features."""
    groups: list[Callable[[], Iterator[Decision]]] = [
        partial(_registrations, node, state),
    ]
    keys = list(state.partitions.keys())
    if keys:
        groups += _groups_of(state, random.choice(keys))
    yield from random.choice(groups)()


def _groups_of(
    state: MetadataState, key: PartitionKey
) -> Iterator[Callable[[], Iterator[Decision]]]:
    found, topic = state.partitions.get(key), state.topics.get(key[0])
    assert found is not None, "it has this key"
    assert topic is not None, "valid-brokers"
    leader = state.brokers.get(found.leader)
    yield partial(_assignments, state, key, found)
    yield partial(_of_topic, state, topic, key, found)
    if not (found.adding_replicas or found.removing_replicas):
        yield partial(_reassignments, state, topic.name, key[1], found)
        if leader is not None:
            yield partial(_isr_changes, state, key, found, leader)


def _one(error: str) -> tuple[tuple[str, ...], ...]:
    return ((error,),)


def _is_active(state: MetadataState, number: int) -> bool:
    broker = state.brokers.get(number)
    return broker is not None and not (broker.fenced or broker.in_controlled_shutdown)


def isr_change(
    brokers: Any,
    key: PartitionKey,
    found: PartitionRegistration,
    leader: BrokerRegistration,
    isr: Iterable[int] | None = None,
    *,
    later: int = 0,
    **given: Any,
) -> m.AlterPartitionRequest:
    """Make a leader's request for another ISR, or for the one that there is, with what is given.

    `later`: how much later the epochs of its members are than those that have registered.
    """
    members = []
    for each in found.isr if isr is None else isr:
        broker = brokers.get(each)
        epoch: Any = 0 if broker is None else broker.epoch + later
        members.append(m.AlterPartitionBrokerState(broker_id=m.BrokerId(each), broker_epoch=epoch))
    of_partition: Any = {
        "partition_index": key[1],
        "leader_epoch": found.leader_epoch,
        "new_isr_with_epochs": tuple(members),
        "leader_recovery_state": 0,
        "partition_epoch": found.partition_epoch,
    }
    of_partition |= {name: given.pop(name) for name in of_partition if name in given}
    item = m.AlterPartitionRequestPartition(**of_partition)
    topic = m.AlterPartitionRequestTopic(topic_id=key[0], partitions=(item,))
    every: dict[str, Any] = {"broker_id": leader.id, "broker_epoch": leader.epoch}
    return m.AlterPartitionRequest(**{**every, "topics": (topic,), **given})


def _are_known(state: MetadataState, numbers: Iterable[int]) -> bool:
    return all(state.brokers.get(each) is not None for each in numbers)


def _isr_changes(
    state: MetadataState,
    key: PartitionKey,
    found: PartitionRegistration,
    leader: BrokerRegistration,
) -> Iterator[Decision]:
    """Yield changes of an ISR to what it is: by its leader, and right but for one thing."""
    ask = partial(isr_change, state.brokers, key, found, leader)
    isr, (leads, has) = found.isr, (found.leader_epoch, found.partition_epoch)
    away = [each for each in found.replicas if each not in isr and not _is_active(state, each)]
    right = ask()
    (topic,) = right.topics
    nowhere = replace(topic, topic_id=_NOWHERE)
    twice = replace(topic, partitions=topic.partitions * 2)
    others: dict[str, tuple[m.AlterPartitionRequest, str]] = {
        "as it is": (right, "none"),
        "of a later leader epoch": (ask(leader_epoch=leads + 1), "not_controller"),
        "of a later partition epoch": (ask(partition_epoch=has + 1), "not_controller"),
        "of an earlier leader epoch": (ask(leader_epoch=leads - 1), "fenced_leader_epoch"),
        "of an earlier partition epoch": (
            ask(partition_epoch=has - 1),
            "invalid_update_version",
        ),
        "without its leader": (ask({*isr} - {leader.id}), "invalid_request"),
        "with no replica": (ask((*isr, _BEYOND)), "invalid_request"),
        "with a member twice": (ask((*isr, leader.id)), "invalid_request"),
        "with a later incarnation": (ask(later=1), "ineligible_replica"),
        "in no state of recovery": (ask(leader_recovery_state=7), "invalid_request"),
        "by an earlier incarnation": (ask(broker_epoch=leader.epoch - 1), "stale_broker_epoch"),
        "of no topic": (ask(topics=(nowhere,)), "unknown_topic_id"),
        "of no partition": (ask(partition_index=_BEYOND), "unknown_topic_or_partition"),
    }
    for each in away[:1]:
        others["with a replica that is away"] = (ask((*isr, each)), "ineligible_replica")
    for broker in registered_brokers(state):
        if broker.id != leader.id:
            by_other = ask(broker_id=broker.id, broker_epoch=broker.epoch)
            others["by another broker"] = (by_other, "invalid_request")
    if found.leader_recovery_state != _RECOVERING:
        recovers = ask(leader_recovery_state=_RECOVERING)
        others["and recovers"] = (recovers, "invalid_request")
    for what, (request, error) in others.items():
        yield f"change an ISR {what}", request, _one(error)
    yield "change an ISR twice", ask(topics=(twice,)), (("none",), ("invalid_request",))


def _assignments(
    state: MetadataState, key: PartitionKey, found: PartitionRegistration
) -> Iterator[Decision]:
    """Yield reports of where a broker has a replica."""

    def ask(
        by: BrokerRegistration,
        topic: Any = key[0],
        index: Any = key[1],
        times: int = 1,
        later: int = 0,
    ) -> m.AssignReplicasToDirsRequest:
        item = m.AssignReplicasToDirsRequestPartition(partition_index=index)
        of_topic = m.AssignReplicasToDirsRequestTopic(topic_id=topic, partitions=(item,) * times)
        of = m.AssignReplicasToDirsRequestDirectory(id_=by.log_dirs[0], topics=(of_topic,))
        epoch: Any = by.epoch + later
        return m.AssignReplicasToDirsRequest(
            broker_id=m.BrokerId(by.id), broker_epoch=epoch, directories=(of,)
        )

    for broker in registered_brokers(state):
        if not broker.log_dirs:
            continue
        if broker.id not in found.replicas:
            yield "assign no replica", ask(broker), _one("not_leader_or_follower")
            continue
        yield "assign a replica twice", ask(broker, times=2), (("none",), ("invalid_request",))
        yield "assign of no topic", ask(broker, topic=_NOWHERE), _one("unknown_topic_id")
        beyond = ask(broker, index=_BEYOND)
        yield "assign of no partition", beyond, _one("unknown_topic_or_partition")
        yield "assign in no epoch", ask(broker, later=1), _one("stale_broker_epoch")


def _topic(name: str, *configs: m.CreatableTopicConfig) -> m.CreatableTopic:
    one: Any = 1
    return m.CreatableTopic(
        name=m.TopicName(name),
        num_partitions=one,
        replication_factor=one,
        assignments=(),
        configs=configs,
    )


def _create(*topics: m.CreatableTopic) -> m.CreateTopicsRequest:
    return m.CreateTopicsRequest(topics=topics, timeout=TIMEOUT, validate_only=True)


def _set(kind: int, of: str, name: str, value: str) -> Any:
    """Return a request to set something, of a topic that is made with it."""
    if kind == TOPIC:
        return _create(_topic(of, m.CreatableTopicConfig(name=name, value=value)))
    change = m.AlterableConfig(name=name, config_operation=m.i8(0), value=value)
    resource = m.AlterConfigsResource(resource_type=m.i8(kind), resource_name=of, configs=(change,))
    return m.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True)


def _of_topic(
    state: MetadataState, topic: Any, key: PartitionKey, found: PartitionRegistration
) -> Iterator[Decision]:
    """Yield what is asked of a topic that is there."""
    name, count = m.TopicName(topic.name), topic.partition_count
    is_alive = any(_is_active(state, broker.id) for broker in registered_brokers(state))
    made = _topic(name)

    def grow(to: Any, *placed: Any) -> m.CreatePartitionsRequest:
        chosen = tuple(m.CreatePartitionsAssignment(broker_ids=each) for each in placed)
        item = m.CreatePartitionsTopic(name=name, count=to, assignments=chosen or None)
        return m.CreatePartitionsRequest(topics=(item,), timeout=TIMEOUT, validate_only=True)

    yield "create what is there", _create(made), _one("topic_already_exists")
    yield "grow to what it has", grow(count), _one("invalid_partitions")
    yield "grow to less", grow(count - 1), _one("invalid_partitions")
    both = m.DeleteTopicState(name=name, topic_id=topic.id)
    yield (
        "delete by name and id",
        m.DeleteTopicsRequest(topics=(both,), timeout=TIMEOUT),
        _one("invalid_request"),
    )
    if is_alive:
        like = [replace(made, name=m.TopicName(each)) for each in ("k.p", "k_p")]
        rights = (("none",), ("invalid_topic_exception",))
        yield "create two that are alike", _create(*like), rights
        long = replace(made, name=m.TopicName("k" * 249))
        yield "create with the longest name", _create(long), _one("none")
    if key[1] == 0 and _are_known(state, found.replicas):
        lives = any(_is_active(state, each) for each in found.replicas)
        right = _one("none" if lives else "invalid_replica_assignment")
        yield "grow by one, placed", grow(count + 1, found.replicas), right
        for what, to, placed in (
            ("one, placed on too many", count + 1, (*found.replicas, found.replicas[0])),
            ("two, placed for one", count + 2, found.replicas),
        ):
            yield f"grow by {what}", grow(to, placed), _one("invalid_replica_assignment")


def _reassignments(
    state: MetadataState, topic: str, index: int, found: PartitionRegistration
) -> Iterator[Decision]:
    """Yield reassignments of what is where it is to be."""

    def ask(target: Any, *, may_resize: bool = True) -> m.AlterPartitionReassignmentsRequest:
        item = m.ReassignablePartition(partition_index=m.i32(index), replicas=target)
        of = m.ReassignableTopic(name=m.TopicName(topic), partitions=(item,))
        return m.AlterPartitionReassignmentsRequest(
            timeout=TIMEOUT, topics=(of,), allow_replication_factor_change=may_resize
        )

    yield "cancel no reassignment", ask(None), _one("no_reassignment_in_progress")
    if len(found.replicas) > 1 and _are_known(state, found.replicas):
        fewer = ask(found.replicas[1:], may_resize=False)
        yield "reassign to fewer", fewer, _one("invalid_replication_factor")


def _registrations(node: Node, state: MetadataState) -> Iterator[Decision]:
    """Yield registrations of the node that is asked, as it has registered."""
    if node.lifecycle is not None:
        own: Any = node.lifecycle._registration
        known = state.brokers.get(own.broker_id)
        if known is not None and known.incarnation_id == own.incarnation_id:
            yield from _registrations_of_brokers(own, state)
    if node.registration is not None:
        asked: Any = node.registration._request
        changes: dict[str, tuple[dict[str, Any], str]] = {
            "": ({}, "none"),
            " as 0": ({"controller_id": 0}, "none"),
            " below 0": ({"controller_id": -1}, "invalid_request"),
            " of ZooKeeper": ({"zk_migration_ready": True}, "invalid_request"),
            " with a listener twice": ({"listeners": asked.listeners * 2}, "invalid_registration"),
            " without features": ({"features": ()}, "invalid_registration"),
        }
        for what, (given, error) in changes.items():
            yield f"register a controller{what}", replace(asked, **given), _one(error)


def _registrations_of_brokers(own: Any, state: MetadataState) -> Iterator[Decision]:
    others = [each for each in registered_brokers(state) if each.id != own.broker_id]
    held = next((each.log_dirs[0] for each in others if each.log_dirs), None)
    old = tuple(
        replace(each, min_supported_version=0, max_supported_version=0) for each in own.features
    )
    changes: dict[str, tuple[dict[str, Any], str]] = {
        "of another cluster": ({"cluster_id": "other"}, "inconsistent_cluster_id"),
        "as 0": ({"broker_id": 0, "log_dirs": (_NOWHERE,)}, "none"),
        "below 0": ({"broker_id": -1}, "invalid_request"),
        "of ZooKeeper": ({"is_migrating_zk_broker": True}, "broker_id_not_registered"),
        "without a directory": ({"log_dirs": ()}, "invalid_registration"),
        "with a directory twice": ({"log_dirs": own.log_dirs * 2}, "invalid_registration"),
        "with a reserved directory": ({"log_dirs": (_RESERVED,)}, "invalid_registration"),
        "with a listener twice": ({"listeners": own.listeners * 2}, "invalid_registration"),
        "without features": ({"features": ()}, "invalid_registration"),
        "with old features": ({"features": old}, "unsupported_version"),
    }
    if held is not None:
        changes["with another's directory"] = ({"log_dirs": (held,)}, "invalid_registration")
    for what, (given, error) in changes.items():
        yield f"register a broker {what}", replace(own, **given), _one(error)


_BROKER, _METRICS, _GROUP = 4, 16, 32
_POOLS: Final = (("num.io.threads", 8), ("num.recovery.threads.per.data.dir", 2))
"""Threads of a broker, and how many it has unless it is given others."""
_MIB: Final = 1 << 20
_BOUNDS: Final = (
    *((_BROKER, name, default // 2, 2 * default, "invalid_request") for name, default in _POOLS),
    (_BROKER, "log.cleaner.dedupe.buffer.size", _MIB + 1, None, "invalid_request"),
    (_METRICS, "interval.ms", 100, 3_600_000, "invalid_request"),
    (_GROUP, "consumer.session.timeout.ms", 45_000, 60_000, "invalid_config"),
    (_GROUP, "consumer.heartbeat.interval.ms", 5_000, 15_000, "invalid_config"),
    (_GROUP, "share.session.timeout.ms", 45_000, 60_000, "invalid_config"),
    (_GROUP, "streams.num.standby.replicas", 0, 2, "invalid_config"),
)
"""Kinds of resources, settings, the least and the largest that each may be, and the error else."""


def settings(node: Node) -> Iterator[Decision]:
    """Yield settings that are as small or as large as they may be, or just beyond."""
    own = str(node.raft.node_id)
    for kind, name, least, most, error in _BOUNDS:
        for value in (least - 1, least, *(() if most is None else (most, most + 1))):
            is_right = least <= value and (most is None or value <= most)
            request = _set(kind, own, name, str(value))
            yield f"set {name} to {value}", request, _one("none" if is_right else error)
    for kind, name, text, shown in SETTINGS:
        rights = "invalid_config" if shown is None else "none", "invalid_replication_factor"
        yield f"have {name} {text}", _set(kind, "k", name, text), (rights,)  # may lack brokers
    yield "set the level of a logger", _set(8, own, "root", "INFO"), _one("none")
    names = ("a/b", "no-such-topic")
    pages = m.DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=m.TopicName(name)) for name in names)
    )
    yield "describe what is nowhere", pages, (("invalid_topic_exception",), _UNKNOWN)


def described_settings(node: Node, state: MetadataState) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings that a broker says are Kafka's defaults, and those defaults."""
    asked = m.DescribeConfigsResource(
        resource_type=m.i8(_BROKER), resource_name=str(node.raft.node_id), configuration_keys=None
    )
    request = m.DescribeConfigsRequest(resources=(asked,))
    (result,) = describe_configs(request, state, node._cluster).results
    rows = {c.name: f" {c.value}" for c in result.configs if c.config_source == SOURCE_DEFAULT}
    keys = ((name, BROKER[name]) for name in rows)
    known = {name: f" {None if key.is_sensitive else key.default}" for name, key in keys}
    return rows, known if result.configs else {"node.id": ""}
