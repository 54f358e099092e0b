"""Shows what leaders of partitions in a simulated world know of their followers.

`FollowerWatch(world, watcher)` looks at the partitions that a broker leads whenever a Fetch or a
Produce is about to be served there, in the state that all before has left, and shows those of which
something may be wrong (`led`). It notes which followers fetch in a leader's epoch where logs agree,
and which ISRs controllers are asked for; and it shows each change of an ISR by a request that was
older than what its controller knew as it came (`isr-changed`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from checkers.invariants.followers import Lead
from checkers.invariants.sight import node_name
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.world import SimWorld
from cluster.node.broker.replication.partition import UNKNOWN, Follower, Partition
from cluster.node.broker.replication.replica import Replica
from cluster.node.controller.metadata.state import PartitionKey
from cluster.node.errors import ErrorCode
from cluster.node.protocol.data_messages import (
    NO_EPOCH,
    FetchPartition,
    FetchRequest,
    ProduceRequest,
)
from cluster.node.protocol.messages import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionResponse,
)

_NOT_MADE = frozenset({ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica})
_FOLLOWS, _CHANGED = "replica-follower", "replica-isr"

Process = tuple[str, int]
"""A node and the number of its incarnation."""


class FollowerWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._nodes = world.nodes
        self._watcher = watcher
        self._heard: dict[tuple[Process, str, int], set[int]] = {}
        """By process, topic and index: followers that fetched where the logs agree."""
        self._changed_ms: dict[tuple[Process, str, int], float] = {}
        """By process, topic and index: when it heard of an ISR last, by its clock."""
        self._named: dict[tuple[Process, int], dict[tuple[object, int], FetchPartition]] = {}
        """By process and follower: what that asked for last; its session goes on with it."""
        self._proposed: dict[tuple[Process, PartitionKey, int, int], set[int]] = {}
        """Over the network, by leader, partition, leader and partition epoch."""
        self._active: set[str] = set()
        """Nodes that are the active controller: their brokers ask them without the network."""
        self._late: dict[str, tuple[object, str, dict[PartitionKey, int]]] = {}
        """By leader: its last AlterPartition, the controller that got it, and the partition epochs
        that are later than its."""
        self._due: set[tuple[Process, PartitionKey]] = set()
        """Partitions whose high watermark was behind at the last look."""
        world.observers.append(self._observe)
        world.mesh.on_serve.append(self._serve)
        world.mesh.on_answer.append(self._answer)

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        if event == _CHANGED:
            at = _id(process), fields["topic"], fields["partition"]
            self._changed_ms[at] = process.monotonic_ms()
        elif event == _FOLLOWS:
            self._heard.pop((_id(process), fields["topic"], fields["partition"]), None)
        elif event == "claim":
            self._active.add(process.name)
            for proposal in [key for key in self._proposed if key[0] == _id(process)]:
                del self._proposed[proposal]
        elif event in ("renounce", "start"):
            self._active.discard(process.name)

    def _serve(self, name: str, message: object) -> None:
        if isinstance(message, AlterPartitionRequest):
            self._note_proposals(name, message)
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

    # -- partitions ------------------------------------------------------------------------------

    def _look(self, process: Incarnation, replica: Replica) -> None:
        partition, at = replica.partition, _id(process)
        epochs = partition.leader_epoch, partition.partition_epoch
        lead = Lead(
            key=replica.key,
            name=f"{replica.topic}-{replica.index}",
            incarnation=process.incarnation,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=partition.maximal_isr,
            end_offset=replica.log.end_offset,
            high_watermark=partition.high_watermark,
            due=_due(
                partition, self._changed_ms.get((at, replica.topic, replica.index), -math.inf)
            ),
            counted=frozenset(
                follower.broker_id
                for follower in partition.followers.values()
                if follower.end_offset != UNKNOWN
            ),
            heard=frozenset(self._heard.get((at, replica.topic, replica.index), ())),
            proposed=frozenset(self._proposed.get((at, replica.key, *epochs), ())),
            has_epoch=_knows_epoch(replica, partition.leader_epoch),
        )
        is_due = lead.due > lead.high_watermark
        was_due = (at, replica.key) in self._due
        (self._due.add if is_due else self._due.discard)((at, replica.key))
        is_plain = lead.counted <= lead.heard and lead.proposed <= set(lead.isr)
        if not is_plain or is_due or was_due or not lead.has_epoch:
            self._watcher.take(process.name, "led", {"lead": lead})

    # -- ISRs ------------------------------------------------------------------------------------

    def _note_proposals(self, name: str, request: AlterPartitionRequest) -> None:
        leader = node_name(int(request.broker_id))
        process, controller = self._nodes[leader].process, self._nodes[name].process
        if process is None or controller is None or controller.node is None:
            return
        known, late = controller.node.controller.image.state.partitions, {}
        for key, item in _items(request):
            at = _id(process), key, int(item.leader_epoch), int(item.partition_epoch)
            if leader not in self._active:
                members = {int(member.broker_id) for member in item.new_isr_with_epochs}
                self._proposed.setdefault(at, set()).update(members)
            partition = known.get(key)
            if partition is not None and partition.partition_epoch > item.partition_epoch:
                late[key] = partition.partition_epoch
        self._late[leader] = request, name, late

    def _answer(self, name: str, message: object, response: object) -> None:
        if not isinstance(message, AlterPartitionRequest):
            return
        process = self._nodes[name].process
        if process is None or not isinstance(response, AlterPartitionResponse):
            return
        errors = {
            (topic.topic_id, int(row.partition_index)): row.error_code
            for topic in response.topics
            for row in topic.partitions
        }
        asked, controller, late = self._late.get(name, (None, name, {}))
        for key, item in _items(message):
            error = errors.get(key)
            epochs = int(item.leader_epoch), int(item.partition_epoch)
            if error in _NOT_MADE:
                self._proposed.pop((_id(process), key, *epochs), None)
            if error is ErrorCode.none and asked is message and key in late:
                shown = {"partition_epoch": epochs[1], "known_epoch": late[key]}
                named = {"name": f"partition {key[1]} of topic {key[0]}"}
                self._watcher.take(controller, "isr-changed", {**shown, **named})


def _id(process: Incarnation) -> Process:
    return process.name, process.incarnation


def _items(
    request: AlterPartitionRequest,
) -> Iterator[tuple[PartitionKey, AlterPartitionRequestPartition]]:
    for topic in request.topics:
        assert topic.topic_id is not None, "ours name topics by id"
        for item in topic.partitions:
            yield (topic.topic_id, int(item.partition_index)), item


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


def _due(partition: Partition, changed_ms: float) -> int:
    """Return how far a leader may commit, as far as it knew when it was last told of its ISR.

    It may wait for an active broker outside of the ISR that had not lagged for long by then: nobody
    looks at its high watermark just because time passes since, or because that one fetches as an
    incarnation that the metadata lack yet.
    """
    if partition.is_under_min_isr:
        return partition.high_watermark
    lag_max_ms = partition.limits.replica_lag_time_max_ms
    waited = (
        follower.end_offset
        for follower in partition.followers.values()
        if follower.broker_id in partition.maximal_isr
        or (_may_count(partition, follower) and changed_ms - follower.caught_up_ms <= lag_max_ms)
    )
    return min([partition.log.written_end_offset, *waited])


def _may_count(partition: Partition, follower: Follower) -> bool:
    registered = partition._eligibility.broker_epoch(follower.broker_id)
    return registered is not None and (
        follower.broker_epoch == UNKNOWN or follower.broker_epoch >= registered
    )
