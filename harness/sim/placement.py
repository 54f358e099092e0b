"""Where replicas of a simulated world are, and where the metadata have them (KIP-858).

A replica that an administrator moves to another log directory copies its log, has the controller
record the new one, and takes over (KIP-113): under whatever faults, once they are over it arrives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cluster.backends.sim.world import SimWorld
from cluster.node.controller.metadata.registrations import replica_directory

PLACEMENT: Final = "placement"
"""The property: clients do not see where a replica is, so it is not `liveness`."""


def misplacements(world: SimWorld) -> Iterator[str]:
    """Name the replicas that are on their way, or not in the directory that the metadata name.

    A broker with a single directory has nowhere else to put one.
    """
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
