"""Features of the cluster, and what their levels mean (MetadataVersion, Feature of Kafka 4.3)."""

from __future__ import annotations

from typing import Final

from cluster.node.controller.metadata.state import MetadataState

METADATA_VERSION = "metadata.version"
METADATA_VERSION_MIN = 25
"""4.0-IV3, the level of Kafka 4.0. Those below it write versions of records that we do not."""
METADATA_VERSION_LEVEL = 30
"""4.3-IV0, the level of Kafka 4.3, at which a new cluster begins."""
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"
"""1: partitions keep eligible leader replicas (KIP-966). A new cluster begins with them."""
ELIGIBLE_LEADER_REPLICAS_MAX = 1

RELEASES: Final = {"4.0": 25, "4.1": 27, "4.2": 29, "4.3": 30}
"""The metadata.version that each release of Kafka formats a cluster with."""
_CHANGED_METADATA: Final = (23, 30)
"""The levels that brought records, or fields of theirs, which lower levels would lose."""

_DEFAULTS: Final = {
    ELIGIBLE_LEADER_REPLICAS: (26, ELIGIBLE_LEADER_REPLICAS_MAX),
    "group.version": (22, 1),
    "share.version": (28, 1),
    "streams.version": (29, 1),
    "transaction.version": (24, 2),
}
"""By feature, the metadata.version from which on a new cluster has it, and at which level."""

READABLE = {
    METADATA_VERSION: range(7, METADATA_VERSION_LEVEL + 1),
    **{name: range(level + 1) for name, (_, level) in _DEFAULTS.items()},
}
"""By feature, the levels at which we understand every record: those of Kafka 4.3.

More than what this node offers to finalize: a lower metadata.version writes older versions of
records, which are all read.
"""
OFFERED = {**READABLE, METADATA_VERSION: range(METADATA_VERSION_MIN, METADATA_VERSION_LEVEL + 1)}
"""By feature, the levels that this node can be asked to finalize."""


def default_levels(metadata_version: int) -> dict[str, int]:
    """Return the other features that a cluster begins with, by name (Feature.defaultLevel)."""
    return {name: level for name, (since, level) in _DEFAULTS.items() if metadata_version >= since}


def metadata_changed(lower: int, higher: int) -> bool:
    """Return whether the way down from a metadata.version might lose metadata."""
    return any(lower < level <= higher for level in _CHANGED_METADATA)


def metadata_version(state: MetadataState) -> int:
    """Return the level in force; before there is any, the one that a new cluster begins at."""
    return state.features.get(METADATA_VERSION) or METADATA_VERSION_LEVEL


def is_elr_enabled(state: MetadataState) -> bool:
    """Return whether partitions keep eligible leader replicas."""
    return (state.features.get(ELIGIBLE_LEADER_REPLICAS) or 0) >= ELIGIBLE_LEADER_REPLICAS_MAX
