"""Shows what leaders, followers and controllers of a simulated world owe partitions at once.

`PartitionWatch(world, watcher)` makes the events of `checkers.invariants.partitions`. It looks at
what a broker leads, and at the Fetches that wait there, whenever a Fetch or a Produce is about to
be served, in the state that all before has left: what is wrong there is shown; all else, when it
happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from checkers.invariants.sight import node_name
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.world import SimWorld
from cluster.node.broker.replication.partition import Partition
from cluster.node.broker.replication.replica import Replica
from cluster.node.broker.replication.replica_manager import ReplicaManager
from cluster.node.broker.serving.fetch import _Delayed
from cluster.node.controller.metadata.state import PartitionKey
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import parse_header
from cluster.node.log.data.data_log import DataLog
from cluster.node.log.data.producer_state import ProducerEntry
from cluster.node.log.storage.checkpoint import TopicPartition
from cluster.node.protocol.data_messages import (
    CONSUMER,
    DeleteRecordsRequest,
    FetchPartition,
    FetchRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProduceRequest,
    ProduceResponse,
)
from cluster.node.protocol.messages import AlterPartitionRequest, AlterPartitionResponse
from harness.sim.sights.folders import headers, replicas_of

_AT_LEADERS = (FetchRequest, ListOffsetsRequest, ProduceRequest)
_SELDOM = 4
"""At every so manieth Fetch that is sent, also what its sessions hold."""
_FOLLOWS = "replica-follower"
_MOVING = "replica-moving"
_MOVED = "replica-moved"
_ISR = "replica-isr"
_OF_LOGS = (_FOLLOWS, "replica-leader", "replica-truncated")
_OF_REPLICAS = (*_OF_LOGS, _MOVING, _MOVED, _ISR)

Process = tuple[str, int]
"""A node and the number of its incarnation."""


class PartitionWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._nodes = world.nodes
        self._watcher = watcher
        self._changed: dict[tuple[Process, str, int], tuple[float, int]] = {}
        """By process, topic and index: when it heard last of an ISR within its leader epoch, and
        the min.insync.replicas then."""
        self._moving: dict[tuple[Process, str, int], int | None] = {}
        """The same: the partition epoch in which its replica began to move."""
        self._asked: dict[int, tuple[AlterPartitionRequest, dict[PartitionKey, int]]] = {}
        """By broker: its last request, and the partition epochs that were committed by then."""
        self._proposed: dict[str, AlterPartitionRequest] = {}
        """By broker: its last request for other ISRs."""
        self._agreed: dict[tuple[Process, PartitionKey], int] = {}
        """By process and partition: the last partition epoch of which it heard that a change was
        made, by the answer to its request."""
        self._sent: dict[tuple[str, int], tuple[object, list[tuple[Replica, int]]]] = {}
        """By node and identity: a request that only leaders answer, what the node led when it
        came, and in which leader epochs."""
        self._fetches = 0
        world.mesh.on_ask[FetchRequest].append(self._look_at_fetch_sent)
        world.observe(self._observe, *_OF_REPLICAS)
        world.mesh.on_ask[AlterPartitionRequest].append(self._look_at_request)
        world.mesh.on_answer[AlterPartitionRequest].append(self._note_answer)
        for kind in (AlterPartitionRequest, *_AT_LEADERS):
            world.mesh.on_serve[kind].append(self._serve)
        for asked in _AT_LEADERS:
            world.mesh.on_reply[asked].append(self._look_at_refusals)
        for judged in (AlterPartitionRequest, DeleteRecordsRequest, ProduceRequest):
            world.mesh.on_reply[judged].append(self._judge_reply)

    # -- changes of ISRs -------------------------------------------------------------------------

    def _note_request(self, process: Incarnation, request: AlterPartitionRequest) -> None:
        assert process.node is not None, "it is asked before"
        partitions = process.node.controller.image.state.partitions
        known = {
            key: registration.partition_epoch
            for key in _epochs(request)
            if (registration := partitions.get(key)) is not None
        }
        self._asked[int(request.broker_id)] = request, known

    def _look_at_request(self, name: str, request: Any) -> None:
        """Show which changes a leader asks for that it has heard to be made."""
        process = self._nodes[name].process
        if process is None:
            return
        self._proposed[name] = request
        for key, epoch in _epochs(request).items():
            agreed = self._agreed.get(((name, process.incarnation), key))
            if agreed is not None:
                shown = {"name": f"{key[0]}-{key[1]}", "asked": epoch, "agreed": agreed}
                self._watcher.take(name, "isr-asked", shown)

    def _note_answer(self, name: str, request: Any, response: object) -> None:
        """Note the changes that are made, unless the leader has given up waiting for the answer."""
        process = self._nodes[name].process
        manager = replicas_of(process)
        if process is None or manager is None or not manager._isr._exchange.in_flight:
            return
        if self._proposed[name] is not request:
            return
        if not isinstance(response, AlterPartitionResponse):
            return
        asked = _epochs(request)
        for key, row in _rows(response):
            epoch = asked.get(key, row.partition_epoch)
            is_news = row.partition_epoch > epoch and key not in manager._isr._unsent
            if row.error_code is ErrorCode.none and is_news:  # else it has decided again
                self._agreed[(name, process.incarnation), key] = epoch

    def _judge_reply(self, name: str, request: object, response: object) -> None:
        """Show what a leader remembers of who sent a batch, and what a controller agrees to."""
        if isinstance(request, ProduceRequest) and isinstance(response, ProduceResponse):
            self._look_at_producer(name, request, response)
        if isinstance(request, DeleteRecordsRequest):
            self._look_at_deletion(name, request, response)
        if not isinstance(request, AlterPartitionRequest):
            return
        if not isinstance(response, AlterPartitionResponse):
            return
        asked, known = self._asked.get(int(request.broker_id), (None, {}))
        if asked is not request:
            return
        agreed = {key for key, row in _rows(response) if row.error_code is ErrorCode.none}
        for key, epoch in _epochs(request).items():
            if key in agreed and key in known:
                shown = {
                    "leader": node_name(int(request.broker_id)),
                    "name": f"{key[0]}-{key[1]}",
                    "asked": epoch,
                    "known": known[key],
                }
                self._watcher.take(name, "isr-answer", shown)

    # -- logs ------------------------------------------------------------------------------------

    def _find(self, name: str, topic: Any, index: int) -> Replica | None:
        manager = replicas_of(self._nodes[name].process)
        found = None if manager is None else manager.find_replica(topic, index)
        return found if isinstance(found, Replica) else None

    def _look_at_fetch_sent(self, name: str, request: Any) -> None:
        """Show from where a follower fetches, and up to where a kill of it keeps its log."""
        for row in request.partitions if request.replica_id >= 0 else ():
            replica = self._find(name, row.topic, row.index)
            if replica is not None:
                shown = {"offset": row.fetch_offset, "kept": _kept_end(replica.log)}
                shown["name"] = str(replica.at)
                self._watcher.take(name, "fetch-sent", shown)
        self._fetches += 1
        manager = replicas_of(self._nodes[name].process)
        if manager is not None and self._fetches % _SELDOM == 0:
            self._look_at_sessions(name, manager)

    def _look_at_sessions(self, name: str, manager: ReplicaManager) -> None:
        """Show what leaders know of a follower by its sessions, as it has just asked for more."""
        for fetcher in manager._fetchers._fetchers.values():
            if fetcher._moved or not fetcher._exchange.in_flight:
                continue
            for fetched, at in fetcher._session.values():
                replica = fetched.partition
                if isinstance(replica, Replica) and replica.is_hosted:
                    shown = {
                        "name": str(replica.at),
                        "session": _position(at),
                        "log": _position(replica.position()),
                        "rests_ms": fetched.ready_ms - fetcher._clock.monotonic_ms(),
                    }
                    self._watcher.take(name, "session-sent", shown)

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        topic, index = fields["topic"], fields["partition"]
        self._look_at_registration(process, TopicPartition(topic, index))
        at = (process.name, process.incarnation), topic, index
        if event == _ISR:
            manager = replicas_of(process)
            assert manager is not None, "it has replicas"
            replica = manager.find_replica(topic, index)
            if isinstance(replica, Replica):
                changed = process.monotonic_ms(), replica.partition.min_insync_replicas
                self._changed[at] = changed
        elif event in (_FOLLOWS, _MOVED):
            self._changed.pop(at, None)
        if event in (_MOVING, _MOVED):
            self._look_at_move(process, at, fields["to_dir"], event)
        if event in _OF_LOGS:
            self._look_at_log(process, TopicPartition(topic, index))

    def _look_at_registration(self, process: Incarnation, at: TopicPartition) -> None:
        """Show what a broker that uses a replica knows of its own registration."""
        assert process.node is not None, "it traced"
        assert process.node.lifecycle is not None, "it registers"
        shown = {
            "name": str(at),
            "offset": process.node.controller.image.offset,
            "broker_epoch": process.node.lifecycle.broker_epoch,
        }
        self._watcher.take(process.name, "replica-used", shown)

    def _look_at_move(
        self, process: Incarnation, at: tuple[Process, str, int], to_dir: str, event: str
    ) -> None:
        """Show where the metadata have a replica that has moved, as far as its broker knows them.

        Another partition epoch is another state of the metadata, which may have had it there.
        """
        manager, (_, topic, index) = replicas_of(process), at
        assert manager is not None, "it has replicas"
        topic_id = manager.state.topic_names.get(topic)
        held = None if topic_id is None else manager.state.partitions.get((topic_id, index))
        if event == _MOVING:
            self._moving[at] = None if held is None else held.partition_epoch
        elif held is not None and self._moving.get(at) == held.partition_epoch:
            target = manager.logs.at_path(to_dir)
            shown = {
                "name": f"{topic}-{index}",
                "to_dir": to_dir,
                "to": str(None if target is None else target.directory_id),
                "assigned": str(manager._assigned_directory(TopicPartition(topic, index))),
            }
            self._watcher.take(process.name, "replica-placed", shown)

    def _look_at_log(self, process: Incarnation, at: TopicPartition) -> None:
        manager = replicas_of(process)
        assert manager is not None, "it has replicas"
        for replica in manager.replicas():
            if replica.at != at:
                continue
            producers, tail = replica.log.producers.producers.values(), replica.log._tail
            batches = (entry.batches[-1] for entry in producers if entry.batches)
            shown = {
                "name": str(at),
                "log_end": replica.log.end_offset,
                "high_watermark": replica.partition.high_watermark,
                "remembered_end": max((batch.last_offset + 1 for batch in batches), default=0),
                "counted_bytes": tail.bytes_between(tail.start_offset, tail.end_offset),
                "held_bytes": sum(map(len, tail._batches)),
            }
            self._watcher.take(process.name, "remembered", shown)
            for number, entry in replica.log.producers.producers.items():
                self._show_batches(process.name, at, number, entry)
            holder = manager.logs.holder(at)
            held = None if holder is None else holder.topic_ids.get(at)
            shown = {"name": str(at), "topic": str(replica.key[0]), "held": str(held)}
            if held is not None:
                self._watcher.take(process.name, "log-topic", shown)

    def _look_at_refusals(self, name: str, request: object, response: Any) -> None:
        """Show what a broker refuses of what it leads, as it has since it was asked."""
        _, led = self._sent.pop((name, id(request)), (None, []))
        for topic, index, error in _errors(response) if led else ():
            replica = None if error is ErrorCode.none else self._find(name, topic, index)
            if replica is None:
                continue
            epoch = replica.partition.leader_epoch if replica.partition.leads else None
            if any(replica is one and epoch == reign for one, reign in led):
                asked = type(request).__name__.removesuffix("Request")
                answer = {"partition": str(replica.at), "error": error.name, "epoch": epoch}
                self._watcher.take(name, "lead-answer", answer | {"request": asked})

    def _look_at_producer(
        self, name: str, request: ProduceRequest, response: ProduceResponse
    ) -> None:
        for asked, row in zip(request.partitions, response.partitions, strict=False):
            replica = self._find(name, asked.topic, asked.index)
            if replica is None:
                continue
            config, size_bytes = replica.log.config, len(asked.records)
            header = parse_header(asked.records)
            late_ms = self._nodes[name].clock.wall_ms() - header.max_timestamp_ms
            last_ms = config.message_timestamp_before_max_ms
            is_timely = -config.message_timestamp_after_max_ms <= late_ms <= last_ms
            if is_timely and size_bytes <= min(config.max_message_bytes, config.segment_bytes):
                answer = {"partition": str(replica.at), "error": row.error.name}
                self._watcher.take(name, "batch-answer", answer)
            is_one = len(request.partitions) == 1  # else it may have waited for others
            if is_one and row.error is ErrorCode.none and replica.partition.leads:
                shown = {
                    "name": str(replica.at),
                    "acks": request.acks,
                    "end": row.base_offset + header.last_offset_delta + 1,
                    "high_watermark": replica.partition.high_watermark,
                    "written_end": min(replica.log.written_end_offset, _kept_end(replica.log)),
                }
                self._watcher.take(name, "acknowledged", shown)
            entry = replica.log.producers.producers.get(header.producer_id)
            if entry is None or entry.epoch != header.producer_epoch:
                continue
            shown = {
                "name": str(replica.at),
                "producer": header.producer_id,
                "asked": [header.base_sequence, header.last_sequence],
                "error": row.error.name,
                "held": [[batch.first_sequence, batch.last_sequence] for batch in entry.batches],
            }
            self._show_batches(name, replica.at, header.producer_id, entry)
            self._watcher.take(name, "producer-answer", shown)

    def _look_at_deletion(self, name: str, request: DeleteRecordsRequest, response: Any) -> None:
        """Show what a leader makes of a DeleteRecords of one partition."""
        ((topic, (asked,)),) = ((each.name, each.partitions) for each in request.topics)
        replica = self._find(name, topic, int(asked.partition_index))
        if replica is None or not replica.partition.leads:
            return
        rows = [row for each in response.topics for row in each.partitions]
        shown = {
            "name": str(replica.at),
            "asked": int(asked.offset),
            "answer": next(((row.error_code.name, int(row.low_watermark)) for row in rows), None),
            "log": (replica.log.start_offset, replica.partition.high_watermark),
        }
        self._watcher.take(name, "deletion", shown)

    def _show_batches(
        self, name: str, at: TopicPartition, producer: int, entry: ProducerEntry
    ) -> None:
        shown = {
            "name": str(at),
            "producer": producer,
            "epoch": entry.epoch,
            "batches": [(b.first_sequence, b.last_sequence, b.last_offset) for b in entry.batches],
        }
        self._watcher.take(name, "producer-batches", shown)

    # -- leaders ---------------------------------------------------------------------------------

    def _serve(self, name: str, message: object) -> None:
        process = self._nodes[name].process
        if process is None or process.node is None:
            return
        if isinstance(message, AlterPartitionRequest):
            self._note_request(process, message)
        manager = process.node.replicas
        if manager is None or isinstance(message, AlterPartitionRequest):
            return
        for waiting in manager.fetches._waiting:
            assert isinstance(waiting.operation, _Delayed), "nothing else waits there"
            self._look_at_fetch(process, manager, waiting.operation)
        led = [replica for replica in manager.replicas() if replica.partition.leads]
        for replica in led:
            self._look_at_mark(process, replica)
        # Followers are refused for more reasons: they may be no replicas, or registered anew.
        if not isinstance(message, FetchRequest) or message.replica_id == CONSUMER:
            reigns = [(replica, replica.partition.leader_epoch) for replica in led]
            self._sent[name, id(message)] = message, reigns

    def _look_at_fetch(
        self, process: Incarnation, manager: ReplicaManager, delayed: _Delayed
    ) -> None:
        """Show the Fetch of a follower that waits with news, unless a later one took its place."""
        fetching = delayed._fetching
        session = fetching._session
        if not delayed._is_follower or session.is_over:
            return
        if session.on_stirred is not fetching._on_stirred:
            return
        for row in session.partitions.values():
            replica = manager.find_leader(row.topic, row.index, row.current_leader_epoch)
            if not isinstance(replica, Replica):
                continue
            has = replica.log.end_offset, replica.partition.high_watermark
            asked = row.fetch_offset, row.high_watermark
            if has[0] > asked[0] or has[1] > asked[1]:
                shown = {
                    "name": str(replica.at),
                    "follower": delayed._request.replica_id,
                    "has": has,
                    "asked": asked,
                }
                self._watcher.take(process.name, "fetch-waits", shown)

    def _look_at_mark(self, process: Incarnation, replica: Replica) -> None:
        at = (process.name, process.incarnation), replica.topic, replica.index
        mark = replica.partition.high_watermark
        held = _common_end(replica.partition, *self._changed.get(at, (None, 0)))
        if mark < held:
            shown = {"name": str(replica.at), "high_watermark": mark, "held": held}
            self._watcher.take(process.name, "held", shown)


def _position(row: FetchPartition) -> tuple[int, int, int]:
    return row.log_start_offset, row.fetch_offset, row.high_watermark


def _errors(response: Any) -> Iterator[tuple[Any, int, ErrorCode]]:
    """Yield the errors of partitions by topic and index."""
    if isinstance(response, ListOffsetsResponse):
        for topic in response.topics:
            for row in topic.partitions:
                yield topic.name, int(row.partition_index), row.error_code
    else:
        yield from ((row.topic, row.index, row.error) for row in response.partitions)


def _kept_end(log: DataLog) -> int:
    """Return up to where a kill of its process keeps a log, if its disk is asked for nothing more.

    What has yet to be cut off is not looked for: behind it this may be too much.
    """
    disk = log._disk
    assert isinstance(disk, MemoryDisk), "a simulated node's"
    if disk.detached:
        return log.end_offset
    for segment in reversed(log._segments):
        left_bytes = disk.size(segment.path) if disk.exists(segment.path) else 0
        if left_bytes >= segment.size_bytes > 0:
            return log.end_of(segment)
        if left_bytes and segment.size_bytes:
            ends = [header.next_offset for header in headers(disk.read(segment.path))]
            return max(ends, default=segment.base_offset)
    return log.start_offset


def _epochs(request: AlterPartitionRequest) -> dict[PartitionKey, int]:
    return {
        (topic.topic_id, int(item.partition_index)): int(item.partition_epoch)
        for topic in request.topics
        if topic.topic_id is not None
        for item in topic.partitions
    }


def _rows(response: AlterPartitionResponse) -> Iterator[tuple[PartitionKey, Any]]:
    for topic in response.topics:
        if topic.topic_id is not None:
            for row in topic.partitions:
                yield (topic.topic_id, int(row.partition_index)), row


def _common_end(partition: Partition, changed_ms: float | None, isr_min: int) -> int:
    """Return up to where all have the log that a leader waits for since its ISR changed.

    Where min.insync.replicas is less since then, nobody looks before the next Fetch or append.
    Outside of the ISR it waits for who had caught up not long before, as that may join: when it
    looked last is not known, so whoever may have been so close then counts.
    """
    is_settled = not (partition.change_in_flight or partition.is_under_min_isr)
    if changed_ms is None or not is_settled or partition.min_insync_replicas < isr_min:
        return partition.high_watermark
    end, since_ms = partition.log.end_offset, changed_ms - partition.lag_time_max_ms
    waited_for = (
        follower.end_offset
        for follower in partition.followers.values()
        if follower.broker_id in partition.isr
        or follower.end_offset == end
        or follower.caught_up_ms >= since_ms
    )
    return min((partition.log.written_end_offset, *waited_for))
