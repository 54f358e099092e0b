"""How what a broker of a simulated world goes by differs from the metadata that it was given.

That is the replicas that it holds, the leaders, epochs and ISRs that these know of, and the
settings of their logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from cluster.node.assembly import Node
from cluster.node.broker.replication.partition import Partition
from cluster.node.broker.replication.replica_manager import ReplicaManager
from cluster.node.broker.replication.topic_settings import TopicSettings
from cluster.node.controller.configs.definitions import MIN_INSYNC_REPLICAS
from cluster.node.controller.metadata.state import (
    ConfigResource,
    MetadataState,
    PartitionRegistration,
    ResourceType,
)
from cluster.node.log.data.data_config import DataLogConfig

_NUMBERS: Final = {
    field.name.replace("_", "."): field.name
    for field in fields(DataLogConfig)
    if field.type == "int"
}
"""Settings of a topic, if it has them, by their names."""


def differences(node: Node, state: MetadataState) -> str | None:
    """Return what the broker of a node has otherwise than a state, which was published to it."""
    manager = node.replicas
    if manager is None or not manager._is_started or manager._is_stopped:
        return None
    return next(_differences(manager, state), None)


def _differences(manager: ReplicaManager, state: MetadataState) -> Iterator[str]:
    own = manager.config.broker_id
    assigned = {
        key: found for key, found in state.partitions.entries().items() if own in found.replicas
    }
    held = {replica.key: replica for replica in manager.replicas()}
    for topic_id, index in assigned.keys() ^ {*held, *manager._offline}:
        does = "lacks" if (topic_id, index) in assigned else "holds"
        yield f"it {does} a replica of {topic_id}-{index}"
    settings = TopicSettings(manager.settings._cluster)
    settings.update(state, brokers_changed=True)
    for key, found in assigned.items():
        replica = held.get(key)
        if replica is None:
            continue
        partition = replica.partition
        knows, has = _belief(partition, found, own), partition.partition_epoch
        if has < found.partition_epoch or (has == found.partition_epoch and knows is not None):
            yield f"it knows {replica.at} in partition epoch {has} {knows or ''}"
        minimum = partition.min_insync_replicas
        if minimum != settings.min_insync_replicas(replica.topic):
            yield f"it goes by {MIN_INSYNC_REPLICAS} {minimum} for {replica.at}"
        wanted = settings.of_log(replica.topic)
        own_settings = state.resource_configs(ConfigResource(ResourceType.TOPIC, replica.topic))
        for name, field in _NUMBERS.items():
            value = getattr(replica.log.config, field)
            if value != int(own_settings.get(name, getattr(wanted, field))):
                yield f"it goes by {name} {value} for {replica.at}"


def _belief(partition: Partition, found: PartitionRegistration, own: int) -> str | None:
    """Say what a broker knows of a partition, if it is not what the metadata have."""
    believed = partition.leader, partition.leader_epoch, partition.replicas
    is_right = believed == (found.leader, found.leader_epoch, found.replicas)
    if is_right and (found.leader != own or {*partition.isr} == {*found.isr}):
        return None
    return f"with leader {believed[0]} in epoch {believed[1]}, in sync {[*partition.isr]}"
