"""Where replicas and controllers of a simulated world are, and where the metadata have them.

A replica that an administrator moves to another log directory copies its log, has the controller
record the new one (KIP-858), and takes over (KIP-113); a controller that starts has its listeners
and features recorded (KIP-919). A partition that is given other replicas has them in the end, and
no others (KIP-455), and each that is alive is in the ISR again. Under whatever faults: once they
are over it is so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checkers.invariants.sight import NO_NODE
from cluster.backends.sim.world import SimWorld
from cluster.node.controller.metadata.feature_levels import METADATA_VERSION
from cluster.node.controller.metadata.registrations import (
    has_online_replica,
    is_active,
    replica_directory,
)

PLACEMENT: Final = "placement"
"""The property: clients do not see where a replica is, so it is not `liveness`."""


def misplacements(world: SimWorld) -> Iterator[str]:
    """Say which controllers the metadata do not have, and which replicas they have elsewhere.

    A replica is elsewhere as well while it is on its way. A broker with a single directory has
    nowhere else to put one.
    """
    for name, host in world.nodes.items():
        node = None if host.process is None or not host.process.alive else host.process.node
        if node is None or node.registration is None:
            continue
        has_features = node.controller.image.state.features.get(METADATA_VERSION) is not None
        if has_features and not node.registration.is_registered:
            yield f"the controller of {name} was not in the metadata"
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
                yield f"{replica.at} of {name} was not where the metadata have it"
    yield from _late_partitions(world)


def _late_partitions(world: SimWorld) -> Iterator[str]:
    """Say which partitions whose brokers are all alive lack a member of the ISR, or move still."""
    for _, _, node in world.running():
        state = node.controller.image.state
        if node.replicas is None or not node.controller.is_active:
            continue
        for key, held in state.partitions.entries().items():
            topic = state.topics.get(key[0])
            assert topic is not None, "valid-brokers"
            alive = (
                is_active(state, each) and has_online_replica(state, held, each)
                for each in held.replicas
            )
            if held.leader == NO_NODE or not all(alive):
                continue
            if held.adding_replicas or held.removing_replicas:
                yield f"{topic.name}-{key[1]} had not got the replicas that it was to have"
            elif set(held.isr) != set(held.replicas):
                yield f"{topic.name}-{key[1]} had not all replicas in sync"
