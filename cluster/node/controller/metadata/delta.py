"""What changed between two published images (MetadataDelta), and what that asks of one broker.

Kafka replays a batch into a delta and makes the next image from it. Here the image's maps note what
they held before, so a delta costs what was written; after a snapshot it costs a comparison of both
contents, for the maps that are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from cluster.node.controller.metadata.state import (
    BrokerRegistration,
    ConfigKey,
    MetadataState,
    PartitionKey,
    PartitionRegistration,
)
from cluster.node.controller.metadata.timeline import MapDelta, take_deltas
from cluster.values import valueclass


@valueclass
class MetadataDelta:
    """What publishers look at, map by map: during their notification, not later."""

    partitions: MapDelta[PartitionKey, PartitionRegistration]
    configs: MapDelta[ConfigKey, str]
    brokers: MapDelta[int, BrokerRegistration]


_MAPS = tuple(field.name for field in fields(MetadataDelta))


def take_delta(state: MetadataState) -> MetadataDelta:
    """Return what changed in a committed state since the last call; at first, all there is."""
    return MetadataDelta(*take_deltas([getattr(state, name) for name in _MAPS]))


@valueclass
class LocalReplicaChanges:
    """What a delta asks of one broker (TopicsDelta.localChanges); all in the delta's order."""

    deletes: tuple[PartitionKey, ...]
    """It held them and does so no longer: removed with their topic, or reassigned."""
    leaders: dict[PartitionKey, PartitionRegistration]
    """It leads them, and something about them is new."""
    followers: dict[PartitionKey, PartitionRegistration]
    """It holds them, another broker or none leads, and something about them is new."""


NO_LOCAL_CHANGES = LocalReplicaChanges((), {}, {})
"""What most deltas ask."""


def local_changes(
    delta: MetadataDelta, broker_id: int, among: Iterable[PartitionKey]
) -> LocalReplicaChanges:
    """Sort partitions of a delta by what their changes mean to a broker."""
    deletes: list[PartitionKey] = []
    leaders: dict[PartitionKey, PartitionRegistration] = {}
    followers: dict[PartitionKey, PartitionRegistration] = {}
    for key in among:
        before, after = delta.partitions.before(key), delta.partitions.after(key)
        if before == after:
            continue
        if after is None or broker_id not in after.replicas:
            if before is not None and broker_id in before.replicas:
                deletes.append(key)
        elif after.leader == broker_id:
            leaders[key] = after
        else:
            followers[key] = after
    return LocalReplicaChanges(tuple(deletes), leaders, followers)
