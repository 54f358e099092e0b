"""Shows high watermarks, ISRs and followers of simulated brokers to the invariants of replicas.

`ReplicaWatch(world, watcher)` makes the events of `checkers.invariants.replicas`. It looks at the
partitions that a broker leads whenever a Fetch or a Produce is about to be served there, in the
state that all before has left, and shows what may break something: a high watermark that has moved,
a replica that lags, a follower that is counted and has not fetched or does not know its own epoch,
a change of the ISR that its leader waits for no more.

For how long a member of the ISR has lagged goes by the clock of a leader that has asked for nothing
meanwhile, if its timer has had the time to find that. A process whose clock has run at two rates is
left out there: a timer that it set at the slower one comes late by the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from checkers.invariants.replicas import Lead, Led, Proposal
from checkers.invariants.sight import node_name
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.incarnation import Incarnation, TraceFields
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
from cluster.node.protocol.data_messages import (
    NO_EPOCH,
    FetchPartition,
    FetchRequest,
    ProduceRequest,
)
from cluster.node.protocol.messages import AlterPartitionRequest

_FOLLOWS = "replica-follower"

Process = tuple[str, int]
"""A node and the number of its incarnation."""
Changes = dict[PartitionKey, tuple[int, int]]
"""Leader and partition epoch of the partitions whose ISR is to change."""


@dataclass(slots=True)
class _Behind:
    """A member of an ISR that has not reached what its leader had for a while."""

    partition_epoch: int
    """In which it is a member: one that left the ISR since, and came again, began anew."""
    end_offset: int
    """Of the leader's log when that began."""
    since_ms: float
    seen_ms: float
    """At the last look. What was due while a process was stopped may come after a first one."""


class ReplicaWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._nodes = world.nodes
        self._watcher = watcher
        self._marks: dict[tuple[Process, PartitionKey], int] = {}
        """High watermarks as last shown."""
        self._caught_up_ms: dict[tuple[Process, PartitionKey, int], dict[int, float]] = {}
        """By process, partition and leader epoch: when followers were, by its clock."""
        self._reached: dict[tuple[Process, PartitionKey, int], dict[int, int]] = {}
        """By process, partition and leader epoch: from where followers fetched at most."""
        self._heard: dict[tuple[Process, str, int], set[int]] = {}
        """By process, topic and index: followers that fetched where the logs agree."""
        self._named: dict[tuple[Process, int], dict[tuple[object, int], FetchPartition]] = {}
        """By process and follower: what that asked for last; its session goes on with it."""
        self._asked: dict[Process, tuple[AlterPartitionRequest, Changes]] = {}
        """What brokers have asked controllers for last, and have no answer to."""
        self._behind: dict[tuple[Process, PartitionKey, int], dict[int, _Behind]] = {}
        """By process, partition and leader epoch."""
        world.observe(self._observe, _FOLLOWS)
        world.mesh.on_ask[AlterPartitionRequest].append(self._ask)
        world.mesh.on_answer[AlterPartitionRequest].append(self._answer)
        for kind in (AlterPartitionRequest, FetchRequest, ProduceRequest):
            world.mesh.on_serve[kind].append(self._serve)

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        del event
        self._heard.pop((_id(process), fields["topic"], fields["partition"]), None)

    def _ask(self, name: str, message: object) -> None:
        process = self._nodes[name].process
        if process is not None and isinstance(message, AlterPartitionRequest):
            changes = _changes(message)
            self._asked[_id(process)] = message, changes
            for key, (leader_epoch, _) in changes.items():
                self._behind.pop((_id(process), key, leader_epoch), None)

    def _answer(self, name: str, request: object, response: object) -> None:
        del response
        process = self._nodes[name].process
        if process is None or not isinstance(request, AlterPartitionRequest):
            return
        asked, _ = self._asked.get(_id(process), (None, {}))
        if asked is request:
            del self._asked[_id(process)]

    def _serve(self, name: str, message: object) -> None:
        if isinstance(message, AlterPartitionRequest):
            self._show_proposals(message)
            return
        process = self._nodes[name].process
        if process is None or process.node is None or process.node.replicas is None:
            return
        if not isinstance(message, FetchRequest | ProduceRequest):
            return
        led = [each for each in process.node.replicas.replicas() if each.partition.leads]
        _, changes = self._asked.get(_id(process), (None, {}))
        for replica in led:
            if replica.key in changes:
                self._look_at_change(process, replica, changes[replica.key])
            if replica.partition.followers:
                self._look_at(process, replica, self._holding(replica.key))
            self._look_at_followers(process, replica)
            if not process.node.replicas._is_stopped:
                self._look_at_lag(process, replica)
        if isinstance(message, FetchRequest) and message.replica_id >= 0:
            self._note_fetch(process, led, message)

    def _note_fetch(
        self, process: Incarnation, led: Iterable[Replica], fetch: FetchRequest
    ) -> None:
        rows: dict[tuple[object, int], FetchPartition] = {
            (row.topic, row.index): row for row in fetch.partitions
        }
        session = self._named.setdefault((_id(process), fetch.replica_id), {})
        # A Fetch that was late is of an earlier session: the one that goes on names a later epoch.
        for key, named in rows.items():
            if (
                key not in session
                or named.current_leader_epoch >= session[key].current_leader_epoch
            ):
                session[key] = named
        for replica in led:
            row = session.get(replica.key)
            if row is not None:
                led_in = _id(process), replica.key, row.current_leader_epoch
                reached = self._reached.setdefault(led_in, {})
                before = reached.get(fetch.replica_id, UNKNOWN)
                reached[fetch.replica_id] = max(before, row.fetch_offset)
            if row is not None and _agrees(replica, row):
                at = _id(process), replica.topic, replica.index
                self._heard.setdefault(at, set()).add(fetch.replica_id)
            if replica.key in rows:
                self._note_end(process, replica, fetch, rows[replica.key])

    def _note_end(
        self, process: Incarnation, replica: Replica, fetch: FetchRequest, row: FetchPartition
    ) -> None:
        """Note a follower that has all, unless a change of the ISR is on its way.

        Only one that has fetched before in this leader's time: its log agrees with the leader's.
        """
        partition = replica.partition
        follower = partition.followers.get(fetch.replica_id)
        if follower is None or partition.change_in_flight:
            return
        accepted = follower.end_offset != UNKNOWN
        accepted &= follower.broker_epoch == fetch.replica_epoch
        accepted &= row.current_leader_epoch == partition.leader_epoch
        if accepted and row.fetch_offset == replica.log.end_offset:
            at = _id(process), replica.key, partition.leader_epoch
            self._caught_up_ms.setdefault(at, {})[fetch.replica_id] = process.monotonic_ms()

    def _show_proposals(self, request: AlterPartitionRequest) -> None:
        """Show whom a leader takes in, and out that it holds to lag still: requests may be late."""
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
            at = _id(process), replica.key, partition.leader_epoch
            lag_max_ms = partition.lag_time_max_ms
            ago_ms = {
                member: now_ms - seen_ms
                for member, seen_ms in self._caught_up_ms.get(at, {}).items()
                if member in partition.isr
                and member not in kept
                and not partition.followers[member].is_caught_up(
                    replica.log.end_offset, now_ms, lag_max_ms
                )
            }
            reached = self._reached.get(at, {})
            joining = kept - {partition.broker_id, *partition.isr} if partition.leads else set()
            proposal = Proposal(
                name=f"{replica.topic}-{replica.index}",
                leader_epoch=partition.leader_epoch,
                ago_ms=ago_ms,
                lag_max_ms=lag_max_ms,
                epoch_start=partition.epoch_start_offset,
                reached={member: reached.get(member, UNKNOWN) for member in joining},
            )
            self._watcher.take(name, "isr-proposal", {"proposal": proposal})

    def _look_at_change(
        self, process: Incarnation, replica: Replica, asked: tuple[int, int]
    ) -> None:
        """Show a change of an ISR that its leader asked for, unless it waits for it."""
        partition = replica.partition
        if not partition.change_in_flight:
            shown = {
                "name": str(replica.at),
                "asked": asked,
                "known": (partition.leader_epoch, partition.partition_epoch),
            }
            self._watcher.take(process.name, "isr-change", shown)

    def _look_at(
        self, process: Incarnation, replica: Replica, held: Iterable[tuple[Replica, int]]
    ) -> None:
        at, partition = (_id(process), replica.key), replica.partition
        mark = partition.high_watermark
        others = {
            other.partition.broker_id: (epoch, other.log.end_offset)
            for other, epoch in held
            if other is not replica
        }
        lags = any(log_end < mark for _, log_end in others.values())
        if mark == self._marks.get(at, 0) and not lags:
            return
        self._marks[at] = mark
        newest = self._newest(replica.key)
        if newest is None:
            return
        state, registration = newest
        known = {broker.id: broker.epoch for broker in registered_brokers(state)}
        assert process.node is not None, "it has replicas"
        # Its leader may know of the ISR, and not yet of a minimum that was raised.
        in_force = (state, process.node.controller.image.state)
        isr_min = min(min_insync_replicas(each, replica.topic) for each in in_force)
        led = Led(
            key=replica.key,
            name=f"{replica.topic}-{replica.index}",
            incarnation=process.incarnation,
            high_watermark=mark,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            decided=(registration.leader_epoch, registration.partition_epoch),
            isr=tuple(registration.isr),
            isr_min=min(isr_min, len(registration.replicas)),
            ends={
                number: log_end
                for number, (epoch, log_end) in others.items()
                if known.get(number) == epoch
            },
        )
        self._watcher.take(process.name, "high-watermark", {"partition": led})

    def _look_at_followers(self, process: Incarnation, replica: Replica) -> None:
        partition, at = replica.partition, (_id(process), replica.topic, replica.index)
        counted = {
            follower.broker_id
            for follower in partition.followers.values()
            if follower.end_offset != UNKNOWN
        }
        heard = self._heard.get(at, set())
        if not counted <= heard:
            # What waited, in its session, until the leader knew the epoch that it names, is heard.
            heard = heard | {
                number
                for number in counted
                if (row := self._named.get((_id(process), number), {}).get(replica.key)) is not None
                and _agrees(replica, row)
            }
        has_epoch = _knows_epoch(replica, partition.leader_epoch)
        if counted <= heard and has_epoch:
            return
        lead = Lead(
            name=f"{replica.topic}-{replica.index}",
            leader_epoch=partition.leader_epoch,
            counted=frozenset(counted),
            heard=frozenset(heard),
            has_epoch=has_epoch,
        )
        self._watcher.take(process.name, "led", {"lead": lead})

    def _look_at_lag(self, process: Incarnation, replica: Replica) -> None:
        """Show members of the ISR that lag at this look, and for how long they did at the last."""
        partition, now_ms = replica.partition, process.monotonic_ms()
        at = _id(process), replica.key, partition.leader_epoch
        if partition.change_in_flight or not (process.keeps_time and partition.followers):
            self._behind.pop(at, None)
            return
        before = self._behind.get(at, {})
        behind = self._behind[at] = {}
        for number, follower in partition.followers.items():
            if number not in partition.isr:
                continue
            seen, epoch = before.get(number), partition.partition_epoch
            if (
                seen is None
                or seen.partition_epoch != epoch
                or follower.end_offset >= seen.end_offset
            ):
                behind[number] = _Behind(epoch, replica.log.end_offset, now_ms, now_ms)
                continue
            behind[number] = seen
            if partition.lag_time_max_ms < seen.seen_ms - seen.since_ms and seen.seen_ms < now_ms:
                shown = {
                    "name": str(replica.at),
                    "leader_epoch": partition.leader_epoch,
                    "follower": number,
                    "for_ms": seen.seen_ms - seen.since_ms,
                    "lag_max_ms": partition.lag_time_max_ms,
                }
                self._watcher.take(process.name, "isr-lag", shown)
            seen.seen_ms = now_ms

    def _running(self) -> Iterator[Node]:
        for host in self._nodes.values():
            if host.process is not None and host.process.alive and host.process.node is not None:
                yield host.process.node

    def _holding(self, key: PartitionKey) -> Iterator[tuple[Replica, int]]:
        """Yield what brokers that run hold of a partition, with their epochs."""
        for node in self._running():
            if node.replicas is not None and node.lifecycle is not None:
                replica = node.replicas._replicas.get(key)
                if replica is not None:
                    yield replica, node.lifecycle.broker_epoch

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


def _changes(request: AlterPartitionRequest) -> Changes:
    return {
        (topic.topic_id, int(item.partition_index)): (
            int(item.leader_epoch),
            int(item.partition_epoch),
        )
        for topic in request.topics
        if topic.topic_id is not None
        for item in topic.partitions
    }


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
    """Whether a leader's log knows the leader's epoch, from where its leader has it begin."""
    end = replica.log.end_offset_for_epoch(leader_epoch)
    if end is None or end.epoch != leader_epoch:
        return False
    begins = (
        entry.start_offset
        for entry in reversed(replica.log.epochs.entries)
        if entry.epoch == leader_epoch
    )
    return next(begins) == max(replica.partition.epoch_start_offset, replica.log.start_offset)
