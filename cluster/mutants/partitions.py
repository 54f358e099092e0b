"""The mutants of the data path, which lose, repeat or show what they must not, and of brokers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cluster.mutants.mutations import always, mutant
from cluster.node.broker.lifecycle.registration import BrokerLifecycleManager
from cluster.node.broker.replication.partition import Acknowledged, Follower, Partition
from cluster.node.broker.replication.replica import Replica
from cluster.node.broker.replication.replica_fetcher import Outcome
from cluster.node.broker.replication.replica_manager import ReplicaManager
from cluster.node.controller.apis.write_apis import WriteApis
from cluster.node.controller.core.controller import QuorumController
from cluster.node.controller.metadata.state import (
    MetadataState,
    PartitionKey,
    PartitionRegistration,
)
from cluster.node.controller.partitions.partition_change import PartitionChangeBuilder, _Target
from cluster.node.errors import ErrorCode
from cluster.node.log.data import log_directory
from cluster.node.log.data.data_log import DataLog, LogAppendInfo
from cluster.node.log.data.data_recovery import RecoveredData, _Opening
from cluster.node.log.data.data_segment import DataSegment
from cluster.node.log.data.producer_state import ProducerState
from cluster.node.ports import Completion, Disk
from cluster.node.protocol.data_messages import NO_EPOCH, FetchPartition, FetchResult
from cluster.node.protocol.messages import BrokerHeartbeatResponse

# -- idempotent producers ------------------------------------------------------------------------

_APPEND_AS_FOLLOWER = DataLog.append_as_follower
_OPEN = _Opening.open


def _m34_leader_only(
    self: DataLog, records: bytes, leader_epoch: int | None = None
) -> LogAppendInfo | None:
    info = _APPEND_AS_FOLLOWER(self, records, leader_epoch)
    self.producers.clear(self.end_offset)
    return info


def _m34_in_memory_only(
    self: _Opening, start_offset: int | None, *, is_clean: bool
) -> RecoveredData:
    found = _OPEN(self, start_offset, is_clean=is_clean)
    found.producers.clear(found.end_offset)
    return found


def _m34b_one_record_each(self: ProducerState, data: bytes, end_offset: int, now_ms: int) -> None:
    _LOAD(self, data, end_offset, now_ms)
    for entry in self.producers.values():
        for number, batch in enumerate(entry.batches):
            entry.batches[number] = replace(batch, offset_delta=0)


_LOAD = ProducerState.load


# -- in-sync replicas ----------------------------------------------------------------------------


def _reached_by(self: Partition, followers: list[Follower]) -> int:
    ends = (follower.end_offset for follower in followers)
    return min((self.log.written_end_offset, *ends))


def _raise_to(self: Partition, reached: int) -> None:
    if reached > self.high_watermark:
        self.high_watermark = reached
        self._on_progress()


def _m36a_whoever_is_left(self: Partition, required_offset: int, leader_epoch: int) -> Acknowledged:
    if not self.leads or leader_epoch != self.leader_epoch:
        return Acknowledged.NOT_LEADER
    members = [each for each in self.followers.values() if each.broker_id in self.isr]
    reached = _reached_by(self, members) >= required_offset
    return Acknowledged.DONE if reached else Acknowledged.NOT_YET


def _m36b_committed_isr(self: Partition) -> None:
    if self.leads and not self.is_under_min_isr:
        members = [each for each in self.followers.values() if each.broker_id in self.isr]
        _raise_to(self, _reached_by(self, members))


def _m36c_under_min_isr(self: Partition) -> None:
    if self.leads:
        maximal = self.maximal_isr
        counted = [
            follower
            for follower in self.followers.values()
            if follower.broker_id in maximal or self._is_joining(follower)
        ]
        _raise_to(self, _reached_by(self, counted))


def _m39b_majority(self: Partition) -> None:
    if self.leads and not self.is_under_min_isr:
        ends = [follower.end_offset for follower in self.followers.values()]
        ends = sorted([*ends, self.log.written_end_offset], reverse=True)
        _raise_to(self, ends[len(ends) // 2])


_CANDIDATES = PartitionChangeBuilder._unclean_candidates


def _m39a_any_replica(
    self: PartitionChangeBuilder, target: _Target, elr: tuple[int, ...]
) -> tuple[int, ...]:
    return (*_CANDIDATES(self, target, elr), *target.replicas)


# -- followers -----------------------------------------------------------------------------------

_FETCHED = Replica.take_fetch
_FOLLOW = ReplicaManager._follow
_POSITION = Replica.position


def _m25p_before_truncation(self: Replica, result: FetchResult) -> Outcome:
    if result.error is ErrorCode.none and result.diverging is not None:
        self.partition.follow_high_watermark(result.high_watermark)
        self.log.high_watermark = self.partition.high_watermark
        self.partition._on_progress()
    return _FETCHED(self, result)


def _m37_to_high_watermark(
    self: ReplicaManager, key: PartitionKey, registration: PartitionRegistration
) -> None:
    replica = self._host(key, registration)
    if replica is None:
        return
    partition, before = replica.partition, replica.partition.leader_epoch
    _FOLLOW(self, key, registration)
    if partition.leader_epoch > before and partition.high_watermark < partition.log.end_offset:
        replica.truncate(partition.high_watermark)


def _m37_without_epoch(self: Replica) -> FetchPartition:
    return replace(_POSITION(self), last_fetched_epoch=NO_EPOCH)


# -- recovery ------------------------------------------------------------------------------------

_SCAN = _Opening._scan


def _m40t_keep_tail(self: _Opening, segment: DataSegment, found: RecoveredData) -> int:
    _SCAN(self, segment, found)
    return 0


def _m40c_leaves_mark(disk: Disk, done: Completion) -> None:
    del disk
    done(None)


# -- brokers ---------------------------------------------------------------------------------------

_HEARTBEAT = WriteApis._heartbeat


def _m41_any_epoch(self: WriteApis, request: Any, state: MetadataState) -> Any:
    broker = state.brokers.get(request.broker_id)
    if broker is not None:
        request = replace(request, broker_epoch=broker.epoch)
    return _HEARTBEAT(self, request, state)


def _m42_committed_state(self: QuorumController) -> MetadataState:
    return self.image.state


def _m41f_at_once(self: BrokerLifecycleManager, reply: Any) -> None:
    if isinstance(reply, BrokerHeartbeatResponse):
        reply = replace(reply, is_caught_up=True)
    _ON_REPLY(self, reply)


_ON_REPLY = BrokerLifecycleManager._on_reply


ALL = (
    mutant(
        "M41",
        "takes heartbeats of any broker epoch",
        "broker fencing: a replaced incarnation is kept alive, or fences its successor",
        (WriteApis, "_heartbeat", _m41_any_epoch),
    ),
    mutant(
        "M41F",
        "opens its logs before it has replayed its own registration",
        "durability: the log of a topic that was created since is deleted (KIP-631)",
        (BrokerLifecycleManager, "_on_reply", _m41f_at_once),
    ),
    mutant(
        "M42",
        "generates records from committed state instead of the newest",
        "linearizability: of two appends to a list that overlap one is lost",
        (QuorumController, "newest_state", _m42_committed_state),
    ),
    mutant(
        "M25P",
        "a follower of a partition moves its high watermark before it truncates (KAFKA-14704)",
        "committed reads: a consumer is shown records that are about to be cut off",
        (Replica, "take_fetch", _m25p_before_truncation),
    ),
    mutant(
        "M34",
        "keeps the sequences of producers in the memory of the leader alone",
        "idempotence: a retry is appended again by the next leader (KIP-98)",
        (DataLog, "append_as_follower", _m34_leader_only),
        (_Opening, "open", _m34_in_memory_only),
    ),
    mutant(
        "M34B",
        "forgets how many records a batch had as it loads what it knows of producers",
        "idempotence: after a restart a retry of several records is refused (KIP-98)",
        (ProducerState, "load", _m34b_one_record_each),
    ),
    mutant(
        "M36A",
        "acknowledges with acks=all what the ISR has, however small that has become",
        "durability: a replica that may still lead lacks an acknowledged record (KIP-966)",
        (Partition, "acknowledgement", _m36a_whoever_is_left),
    ),
    mutant(
        "M36B",
        "counts the committed ISR for the high watermark, not the maximal one",
        "durability: the controller may elect a member that the leader does not know of (KIP-497)",
        (Partition, "advance", _m36b_committed_isr),
    ),
    mutant(
        "M36C",
        "moves the high watermark while the ISR is below min.insync.replicas",
        "committed reads: what a consumer was shown is lost with the leader (KIP-966)",
        (Partition, "advance", _m36c_under_min_isr),
    ),
    mutant(
        "M37",
        "cuts its log to its own high watermark when it begins to follow, and compares no epochs",
        "durability: an acknowledged record is cut off before it is elected (KIP-101)",
        (ReplicaManager, "_follow", _m37_to_high_watermark),
        (Replica, "position", _m37_without_epoch),
    ),
    mutant(
        "M39A",
        "elects any live replica where none is in sync, though that is disabled",
        "durability: an unclean election loses acknowledged records",
        (PartitionChangeBuilder, "_unclean_candidates", _m39a_any_replica),
    ),
    mutant(
        "M39B",
        "takes a majority of the replicas for enough, as if a partition were a quorum",
        "durability: a member of the ISR that lacks an acknowledged record is elected",
        (Partition, "advance", _m39b_majority),
    ),
    mutant(
        "M40C",
        "leaves the mark of a clean shutdown in its folders when it starts",
        "durability: after a crash it recovers nothing, and a torn tail stays (KIP-966)",
        (log_directory, "remove_clean_shutdown", _m40c_leaves_mark),
    ),
    mutant(
        "M40T",
        "keeps the torn tail of a partition's log when it starts, and appends behind it",
        "durability: what it appends from then on is lost with its next start",
        (_Opening, "_scan", _m40t_keep_tail),
    ),
    mutant(
        "M40I",
        "reads a partition where its offset index says, and does not look what lies there",
        "committed reads: a consumer is shown a later batch, and nothing of those before",
        (DataSegment, "_check_entry", always(None)),
    ),
)
