"""Where replicas and controllers of a simulated world are, and where the metadata have them.

A replica that an administrator moves to another log directory copies its log, has the controller
record the new one (KIP-858), and takes over (KIP-113); a controller that starts has its listeners
and features recorded (KIP-919). Under whatever faults: once they are over it is so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cluster.backends.sim.world import SimWorld
from cluster.node.controller.metadata.feature_levels import METADATA_VERSION
from cluster.node.controller.metadata.registrations import replica_directory

PLACEMENT: Final = "placement"
"""The property: clients do not see where a replica is, so it is not `liveness`."""


def misplacements(world: SimWorld) -> Iterator[str]:
    """Name controllers that the metadata do not have, and replicas that they have elsewhere.

    A replica is elsewhere as well while it is on its way. A broker with a single directory has
    nowhere else to put one.
    """
    for name, host in world.nodes.items():
        node = None if host.process is None or not host.process.alive else host.process.node
        if node is None or node.registration is None:
            continue
        has_features = node.controller.image.state.features.get(METADATA_VERSION) is not None
        if has_features and not node.registration.is_registered:
            yield f"the controller of {name}"
    for name, host in world.nodes.items():
        process = host.process
        if len(host.disks) < 2 or process is None or not process.alive or process.node is None:
            continue
        manager, state = process.node.replicas, process.node.controller.image.state
        if manager is None:
            continue
        for replica in manager.replicas():
            held, holder = state.partitions.get(replica.key), manager.logs.holder(replica.at)
            if held is None or holder is None:
                continue
            assigned = replica_directory(held, replica.partition.broker_id)
            if manager.moves.target(replica.key) is not None or assigned != holder.directory_id:
                yield f"{replica.at} of {name}"
