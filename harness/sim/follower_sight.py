"""Shows what leaders of partitions in a simulated world know of their followers.

`FollowerWatch(world, watcher)` looks at the partitions that a broker leads whenever a Fetch or a
Produce is about to be served there, in the state that all before has left, and shows those of which
something may be wrong (`led`). It notes which followers fetch in a leader's epoch where logs agree.
"""

from __future__ import annotations

from checkers.invariants.followers import Lead
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.world import SimWorld
from cluster.node.broker.replication.partition import UNKNOWN
from cluster.node.broker.replication.replica import Replica
from cluster.node.protocol.data_messages import (
    NO_EPOCH,
    FetchPartition,
    FetchRequest,
    ProduceRequest,
)

_FOLLOWS = "replica-follower"

Process = tuple[str, int]
"""A node and the number of its incarnation."""


class FollowerWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._nodes = world.nodes
        self._watcher = watcher
        self._heard: dict[tuple[Process, str, int], set[int]] = {}
        """By process, topic and index: followers that fetched where the logs agree."""
        self._named: dict[tuple[Process, int], dict[tuple[object, int], FetchPartition]] = {}
        """By process and follower: what that asked for last; its session goes on with it."""
        world.observers.append(self._observe)
        world.mesh.on_serve.append(self._serve)

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        if event == _FOLLOWS:
            self._heard.pop((_id(process), fields["topic"], fields["partition"]), None)

    def _serve(self, name: str, message: object) -> None:
        if not isinstance(message, FetchRequest | ProduceRequest):
            return
        process = self._nodes[name].process
        if process is None or process.node is None or process.node.replicas is None:
            return
        rows: dict[tuple[object, int], FetchPartition] = {}
        follower = message.replica_id if isinstance(message, FetchRequest) else -1
        if isinstance(message, FetchRequest) and follower >= 0:
            rows = self._named.setdefault((_id(process), follower), {})
            rows |= {(row.topic, row.index): row for row in message.partitions}
        for replica in process.node.replicas.replicas():
            if replica.partition.leads:
                self._look(process, replica)
                row = rows.get(replica.key)
                if row is not None and _agrees(replica, row):
                    at = _id(process), replica.topic, replica.index
                    self._heard.setdefault(at, set()).add(follower)

    def _look(self, process: Incarnation, replica: Replica) -> None:
        partition, at = replica.partition, (_id(process), replica.topic, replica.index)
        lead = Lead(
            name=f"{replica.topic}-{replica.index}",
            leader_epoch=partition.leader_epoch,
            counted=frozenset(
                follower.broker_id
                for follower in partition.followers.values()
                if follower.end_offset != UNKNOWN
            ),
            heard=frozenset(self._heard.get(at, ())),
            has_epoch=_knows_epoch(replica, partition.leader_epoch),
        )
        if not lead.counted <= lead.heard or not lead.has_epoch:
            self._watcher.take(process.name, "led", {"lead": lead})


def _id(process: Incarnation) -> Process:
    return process.name, process.incarnation


def _agrees(replica: Replica, row: FetchPartition) -> bool:
    """Whether a follower fetches in the leader's epoch, and holds what the leader does."""
    if row.current_leader_epoch != replica.partition.leader_epoch:
        return False
    if row.last_fetched_epoch == NO_EPOCH:
        return True
    end = replica.log.end_offset_for_epoch(row.last_fetched_epoch)
    if end is None or end.epoch < row.last_fetched_epoch:
        return False
    return row.fetch_offset <= end.offset


def _knows_epoch(replica: Replica, leader_epoch: int) -> bool:
    end = replica.log.end_offset_for_epoch(leader_epoch)
    return end is not None and end.epoch == leader_epoch
