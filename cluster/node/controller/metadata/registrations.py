"""What the metadata say of brokers, and of brokers and partitions together.

As long as no broker is registered a cluster is *static*: the brokers are those of the configuration
(`ClusterInfo.brokers`), all of them alive. From the first registration on only registrations count.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from cluster.node.controller.metadata.result import RequestError
from cluster.node.controller.metadata.state import (
    UNASSIGNED_DIRECTORY,
    BrokerRegistration,
    MetadataState,
    PartitionKey,
    PartitionRegistration,
)
from cluster.node.controller.records.kinds import RecordEndpoint
from cluster.node.errors import ErrorCode
from cluster.node.loggers import Loggers
from cluster.node.ports import Endpoint
from cluster.values import valueclass


@valueclass
class ClusterInfo:
    """Identity and endpoints. Until brokers register, every configured broker counts as alive."""

    cluster_id: str
    node_id: int
    """Of this node."""
    brokers: tuple[Endpoint, ...]
    """Every node with the broker role, at its advertised client listener."""
    registration: bool = False
    """Whether each node's broker registers itself, so that `brokers` is empty."""
    is_controller: bool = True
    """Whether this node has the controller role."""
    controllers: tuple[Endpoint, ...] = ()
    """Every configured voter, at its controller listener."""
    voters: Callable[[], tuple[Endpoint, ...]] | None = None
    """The voters in force, where raft is there to name them."""
    controller_listener: str = "CONTROLLER"
    static_configs: Mapping[str, str] = field(default_factory=dict)
    """This node's own file: Kafka's keys in it, and their values as they were written."""
    min_insync_replicas: int = 1
    """min.insync.replicas"""
    num_partitions: int = 1
    """num.partitions"""
    default_replication_factor: int = 1
    """default.replication.factor"""
    loggers: Loggers = field(default_factory=Loggers, compare=False)
    """What of this node's lines is said; the one thing here that requests change."""

    @property
    def live_controllers(self) -> tuple[Endpoint, ...]:
        """Every voter, at its controller listener."""
        return self.controllers if self.voters is None else self.voters()

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """Ids of the brokers, ascending."""
        return tuple(sorted(broker.node_id for broker in self.brokers))


LOST_DIRECTORY = uuid.UUID(int=1)
"""DirectoryId.LOST: a replica in a directory that is gone; its broker does not say which it was."""
MIGRATING_DIRECTORY = uuid.UUID(int=2)
"""DirectoryId.MIGRATING: a replica on a broker that never reported its directories."""
_UNKNOWN_DIRECTORIES = frozenset({UNASSIGNED_DIRECTORY.int, MIGRATING_DIRECTORY.int})


def is_static(state: MetadataState) -> bool:
    """Return whether the configured brokers count, because none is registered."""
    return next(iter(state.brokers.keys()), None) is None


def registered_brokers(state: MetadataState) -> list[BrokerRegistration]:
    """Return all registrations by id."""
    found = (state.brokers.get(broker_id) for broker_id in sorted(state.brokers.keys()))
    return [broker for broker in found if broker is not None]


def broker_ids(state: MetadataState, cluster: ClusterInfo) -> tuple[int, ...]:
    """Return every broker that replicas may be on, fenced or not, ascending."""
    if is_static(state):
        return cluster.broker_ids
    return tuple(broker.id for broker in registered_brokers(state))


def is_active(state: MetadataState, broker_id: int) -> bool:
    """Return whether a broker may lead and be in sync: registered, unfenced, not shutting down."""
    broker = state.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def is_acceptable(state: MetadataState, broker_id: int) -> bool:
    """Return whether a broker may lead: an active one, or any of a static cluster."""
    return is_static(state) or is_active(state, broker_id)


def is_online_directory(broker: BrokerRegistration, directory: uuid.UUID) -> bool:
    """Return whether a replica in this directory of a broker can be used (DirectoryId.isOnline).

    What is unknown counts as online: a replica not assigned yet, a broker that never reported
    its directories (KAFKA-16162).
    """
    if directory.int in _UNKNOWN_DIRECTORIES:
        return True
    if directory.int == LOST_DIRECTORY.int:
        return False
    return not broker.log_dirs or directory in broker.log_dirs


def replica_directory(partition: PartitionRegistration, broker_id: int) -> uuid.UUID:
    """Return where a broker holds its replica, MIGRATING when the partition does not say."""
    if len(partition.directories) != len(partition.replicas):
        return MIGRATING_DIRECTORY
    return partition.directories[partition.replicas.index(broker_id)]


def has_online_replica(
    state: MetadataState, partition: PartitionRegistration, broker_id: int
) -> bool:
    """Return whether nothing is known against the directory of a broker's replica (KIP-858)."""
    broker = state.brokers.get(broker_id)
    if broker is None or broker_id not in partition.replicas:
        return True
    return is_online_directory(broker, replica_directory(partition, broker_id))


def is_offline(state: MetadataState, partition: PartitionRegistration, broker_id: int) -> bool:
    """Return whether clients learn that a replica on this broker cannot be reached."""
    broker = state.brokers.get(broker_id)
    if broker is None:
        return not is_static(state)
    return broker.fenced or not has_online_replica(state, partition, broker_id)


def checked_epoch(state: MetadataState, broker_id: int, epoch: int) -> BrokerRegistration:
    """Return a registration. Raises RequestError with STALE_BROKER_EPOCH for any other epoch."""
    broker = state.brokers.get(broker_id)
    if broker is None:
        message = f"No broker registration found for broker id {broker_id}"
        raise RequestError(ErrorCode.stale_broker_epoch, message)
    if broker.epoch != epoch:
        message = f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
        raise RequestError(ErrorCode.stale_broker_epoch, message)
    return broker


def default_directory(state: MetadataState, broker_id: int) -> uuid.UUID:
    """Return where a broker's new replica goes: its only directory, or one that it will report."""
    broker = state.brokers.get(broker_id)
    if broker is None or len(broker.log_dirs) > 1:
        return UNASSIGNED_DIRECTORY
    return broker.log_dirs[0] if broker.log_dirs else MIGRATING_DIRECTORY


def partitions(state: MetadataState) -> Iterator[tuple[PartitionKey, PartitionRegistration]]:
    """Yield every partition, in the order of the log."""
    yield from state.partitions.entries().items()


def partitions_marked(
    state: MetadataState, mark: int | str
) -> Iterator[tuple[PartitionKey, PartitionRegistration]]:
    """Yield the partitions that a broker holds, or that bear another mark (`partition_marks`)."""
    for key in state.partitions.keys_with(mark):
        partition = state.partitions.get(key)
        assert partition is not None
        yield key, partition


def has_leaderships(state: MetadataState, broker_id: int) -> bool:
    """Return whether a broker leads any partition."""
    return any(held.leader == broker_id for _, held in partitions_marked(state, broker_id))


def client_endpoints(
    state: MetadataState, cluster: ClusterInfo, listener: str, *, fenced: bool = False
) -> tuple[tuple[Endpoint, BrokerRegistration | None], ...]:
    """Return where brokers are reached: on the listener of this name, else on their first.

    Those that are fenced only when asked for; those without any listener never.
    """
    if is_static(state):
        return tuple((endpoint, None) for endpoint in cluster.brokers)
    found = []
    for broker in registered_brokers(state):
        endpoint = _endpoint(broker.listeners, listener)
        if endpoint is not None and (fenced or not broker.fenced):
            found.append((Endpoint(broker.id, endpoint.host, endpoint.port), broker))
    return tuple(found)


def broker_endpoint(state: MetadataState, broker_id: int, listener: str) -> Endpoint | None:
    """Return where a registered broker is reached: on the listener of this name, or its first."""
    broker = state.brokers.get(broker_id)
    endpoint = None if broker is None else _endpoint(broker.listeners, listener)
    return None if endpoint is None else Endpoint(broker_id, endpoint.host, endpoint.port)


def controller_endpoints(state: MetadataState, cluster: ClusterInfo) -> tuple[Endpoint, ...]:
    """Return where controllers are reached: as they registered, else as the voters are configured.

    A controller that registered with no listener of the right name is described as configured, too.
    """
    found = {endpoint.node_id: endpoint for endpoint in cluster.live_controllers}
    for controller_id in sorted(state.controllers.keys()):
        record = state.controllers.get(controller_id)
        assert record is not None
        for endpoint in record.end_points:
            if endpoint.name == cluster.controller_listener:
                found[controller_id] = Endpoint(controller_id, endpoint.host, endpoint.port)
    return tuple(found[controller_id] for controller_id in sorted(found))


def _endpoint(listeners: tuple[RecordEndpoint, ...], name: str) -> RecordEndpoint | None:
    named = [endpoint for endpoint in listeners if endpoint.name == name]
    return next(iter(named or listeners), None)
