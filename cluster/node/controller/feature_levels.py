"""Features of the cluster that steer the controller by their level."""

from __future__ import annotations

from cluster.node.controller.state import MetadataState

METADATA_VERSION = "metadata.version"
METADATA_VERSION_LEVEL = 30
"""4.3-IV0, the level of Kafka 4.3: the lowest that allows every record version that we write."""
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"
"""1: partitions keep eligible leader replicas (KIP-966). A new cluster begins with them."""
ELIGIBLE_LEADER_REPLICAS_MAX = 1

COORDINATOR_FEATURES = (
    "group.version",
    "share.version",
    "streams.version",
    "transaction.version",
)
READABLE = {
    METADATA_VERSION: range(7, METADATA_VERSION_LEVEL + 1),
    ELIGIBLE_LEADER_REPLICAS: range(ELIGIBLE_LEADER_REPLICAS_MAX + 1),
    "group.version": range(2),
    "share.version": range(2),
    "streams.version": range(2),
    "transaction.version": range(3),
}
"""By feature, the levels at which we understand every record: those of Kafka 4.3.

More than what this node offers to finalize: a lower metadata.version writes older versions of
records, which are all read.
"""


def is_elr_enabled(state: MetadataState) -> bool:
    """Return whether partitions keep eligible leader replicas."""
    return (state.features.get(ELIGIBLE_LEADER_REPLICAS) or 0) >= ELIGIBLE_LEADER_REPLICAS_MAX
