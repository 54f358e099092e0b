"""Shows high watermarks and ISRs of simulated brokers to the invariants of replicas.

`ReplicaWatch(world, watcher)` looks at the partitions that a broker leads whenever a Fetch or a
Produce is about to be served there, in the state that all before has left. It shows those whose
high watermark has moved, and those that another replica lags behind; the rest breaks nothing.

It notes as well which followers fetch at the end of their leader's log, and shows what a leader
asks of a controller beside that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from checkers.invariants.replicas import Led, Proposal
from checkers.invariants.sight import node_name
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.incarnation import Incarnation
from cluster.backends.sim.world import SimWorld
from cluster.node.assembly import Node
from cluster.node.broker.replication.partition import UNKNOWN
from cluster.node.broker.replication.replica import Replica
from cluster.node.controller.metadata.registrations import registered_brokers
from cluster.node.controller.metadata.state import (
    MetadataState,
    PartitionKey,
    PartitionRegistration,
)
from cluster.node.controller.partitions.leadership import min_insync_replicas
from cluster.node.protocol.data_messages import FetchRequest, ProduceRequest
from cluster.node.protocol.messages import AlterPartitionRequest


class ReplicaWatch:
    """Shows the partitions of a world to a watcher."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._nodes = world.nodes
        self._watcher = watcher
        self._marks: dict[tuple[str, int, PartitionKey], int] = {}
        """High watermarks as last shown, by node, incarnation and partition."""
        self._caught_up_ms: dict[tuple[str, int, PartitionKey, int], dict[int, float]] = {}
        """By node, incarnation, partition and leader epoch: when followers were, by its clock."""
        world.mesh.on_serve.append(self._look)

    def _look(self, name: str, message: object) -> None:
        if isinstance(message, AlterPartitionRequest):
            self._show_proposals(message)
            return
        process = self._nodes[name].process
        if process is None or process.node is None or process.node.replicas is None:
            return
        if not isinstance(message, FetchRequest | ProduceRequest):
            return
        if isinstance(message, FetchRequest) and message.replica_id >= 0:
            self._note_fetch(process, process.node.replicas.replicas(), message)
        for replica in process.node.replicas.replicas():
            if replica.partition.leads and len(replica.partition.replicas) > 1:
                self._look_at(process, replica)

    def _note_fetch(
        self, process: Incarnation, replicas: Iterable[Replica], fetch: FetchRequest
    ) -> None:
        """Note a follower that has all, unless a change of the ISR is on its way.

        Only one that has fetched before in this leader's time: its log agrees with the leader's.
        """
        rows = {(row.topic, row.index): row for row in fetch.partitions}
        for replica in replicas:
            partition, row = replica.partition, rows.get(replica.key)
            follower = partition.followers.get(fetch.replica_id)
            if row is None or follower is None or not partition.leads:
                continue
            accepted = follower.end_offset != UNKNOWN
            accepted &= follower.broker_epoch == fetch.replica_epoch
            accepted &= row.current_leader_epoch == partition.leader_epoch
            at_end = row.fetch_offset == replica.log.end_offset
            if accepted and at_end and not partition.change_in_flight:
                at = (process.name, process.incarnation, replica.key, partition.leader_epoch)
                seen = self._caught_up_ms.setdefault(at, {})
                seen[fetch.replica_id] = process.monotonic_ms()

    def _show_proposals(self, request: AlterPartitionRequest) -> None:
        """Show whom a leader takes out that it holds to lag still, as the request may be late."""
        name = node_name(int(request.broker_id))
        process = self._nodes[name].process
        if process is None or process.node is None or process.node.replicas is None:
            return
        items = {
            (topic.topic_id, int(item.partition_index)): item
            for topic in request.topics
            for item in topic.partitions
        }
        now_ms = process.monotonic_ms()
        for replica in process.node.replicas.replicas():
            item, partition = items.get(replica.key), replica.partition
            known = partition.leader_epoch, partition.partition_epoch
            if item is None or (item.leader_epoch, item.partition_epoch) != known:
                continue
            kept = {int(member.broker_id) for member in item.new_isr_with_epochs}
            at = (name, process.incarnation, replica.key, partition.leader_epoch)
            lag_max_ms = partition.limits.replica_lag_time_max_ms
            ago_ms = {
                member: now_ms - seen_ms
                for member, seen_ms in self._caught_up_ms.get(at, {}).items()
                if member in partition.isr
                and member not in kept
                and not partition.followers[member].is_caught_up(
                    replica.log.end_offset, now_ms, lag_max_ms
                )
            }
            led = f"{replica.topic}-{replica.index}"
            proposal = Proposal(led, partition.leader_epoch, ago_ms, lag_max_ms)
            self._watcher.take(name, "isr-proposal", {"proposal": proposal})

    def _look_at(self, process: Incarnation, replica: Replica) -> None:
        at, partition = (process.name, process.incarnation, replica.key), replica.partition
        mark = partition.high_watermark
        others = dict(self._others(replica))
        lags = any(log_end < mark for _, log_end in others.values())
        if mark == self._marks.get(at, 0) and not lags:
            return
        self._marks[at] = mark
        newest = self._newest(replica.key)
        if newest is None:
            return
        state, registration = newest
        known = {broker.id: broker.epoch for broker in registered_brokers(state)}
        led = Led(
            key=replica.key,
            name=f"{replica.topic}-{replica.index}",
            incarnation=process.incarnation,
            high_watermark=mark,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            decided=(registration.leader_epoch, registration.partition_epoch),
            isr=tuple(registration.isr),
            isr_min=min(min_insync_replicas(state, replica.topic), len(registration.replicas)),
            ends={
                number: log_end
                for number, (epoch, log_end) in others.items()
                if known.get(number) == epoch
            },
        )
        self._watcher.take(process.name, "high-watermark", {"partition": led})

    def _running(self) -> Iterator[Node]:
        for host in self._nodes.values():
            if host.process is not None and host.process.alive and host.process.node is not None:
                yield host.process.node

    def _others(self, replica: Replica) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the epochs of other brokers that have a replica, and its log end, by id."""
        for node in self._running():
            if node.replicas is None or node.lifecycle is None:
                continue
            for other in node.replicas.replicas():
                if other.key == replica.key and other is not replica:
                    number = other.partition.broker_id
                    yield number, (node.lifecycle.broker_epoch, other.log.end_offset)

    def _newest(self, key: PartitionKey) -> tuple[MetadataState, PartitionRegistration] | None:
        """Return the newest committed metadata of a partition that any node has."""
        found: tuple[MetadataState, PartitionRegistration] | None = None
        for node in self._running():
            state = node.controller.image.state
            registration = state.partitions.get(key)
            if registration is None:
                continue
            if found is None or registration.partition_epoch > found[1].partition_epoch:
                found = state, registration
        return found
