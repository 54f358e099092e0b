"""More bugs of partitions' replicas: `K` with the number of JIRA's issue, others as elsewhere."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from cluster.mutants.mutations import always, mutant
from cluster.node.broker.replication import replica as replica_module
from cluster.node.broker.replication.partition import (
    UNKNOWN,
    Acknowledged,
    Follower,
    IsrAnswer,
    Partition,
    _Pending,
)
from cluster.node.broker.replication.replica import Replica
from cluster.node.broker.replication.replica_fetcher import FollowedPartition, Key, ReplicaFetcher
from cluster.node.broker.replication.replica_manager import ReplicaManager
from cluster.node.broker.serving.fetch import _Delayed
from cluster.node.controller.metadata.state import MetadataState, PartitionRegistration
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import BatchHeader
from cluster.node.log.data import log_directory
from cluster.node.log.data.data_config import OffsetOutOfRangeError
from cluster.node.log.data.data_files import DataFiles
from cluster.node.log.data.data_log import DataLog
from cluster.node.log.data.directory_checkpoints import read_clean_shutdown
from cluster.node.log.data.producer_state import ProducerBatch, ProducerState
from cluster.node.log.storage.epoch_cache import LeaderEpochCache
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Disk
from cluster.node.protocol.data_messages import FetchPartition

# -- leaders -------------------------------------------------------------------------------------

_ON_ANSWER = Partition._on_answer
_DIVERGING = _Delayed._diverging
_IS_WORTH_AN_ANSWER = _Delayed._is_worth_an_answer
_MAKE_FOLLOWER = Partition.make_follower
_RESET = Follower.reset


def _k13091_no_look(self: Partition, pending: _Pending, answer: IsrAnswer | ErrorCode) -> None:
    if self._pending is pending and isinstance(answer, IsrAnswer):
        if answer.partition_epoch >= self.partition_epoch:
            self._pending = None
            self.isr, self.partition_epoch = answer.isr, answer.partition_epoch
    else:
        _ON_ANSWER(self, pending, answer)


def _k13141_counts_diverging(
    self: _Delayed, row: FetchPartition, replica: Replica
) -> OffsetAndEpoch | None:
    end = _DIVERGING(self, row, replica)
    if end is not None and self._is_follower and row.fetch_offset <= replica.log.end_offset:
        self._take(row, replica)
    return end


def _m36d_not_made(self: Partition, pending: _Pending, answer: IsrAnswer | ErrorCode) -> None:
    if self._pending is pending and not isinstance(answer, IsrAnswer):
        self._pending = None
    else:
        _ON_ANSWER(self, pending, answer)


def _m36e_in_any_epoch(self: Partition, required_offset: int, leader_epoch: int) -> Acknowledged:
    del leader_epoch
    if self.high_watermark >= required_offset:
        return Acknowledged.DONE
    return Acknowledged.NOT_YET if self.leads else Acknowledged.NOT_LEADER


def _m36f_proposed(self: Partition) -> bool:
    return self.leads and len(self.maximal_isr) < self.least_in_sync


def _m18p_keep_followers(self: Partition, state: PartitionRegistration) -> bool:
    kept = self.followers
    is_new_epoch = _MAKE_FOLLOWER(self, state)
    self.followers = kept
    return is_new_epoch


def _m18p_keep_ends(
    self: Follower, now_ms: float, leader_end_offset: int, *, anew: bool, in_sync: bool
) -> None:
    del anew
    _RESET(self, now_ms, leader_end_offset, anew=False, in_sync=in_sync)


def _k14145_records_alone(self: _Delayed, key: tuple[Any, int], row: FetchPartition) -> bool:
    if self._is_follower:
        row = replace(row, high_watermark=sys.maxsize)
    return _IS_WORTH_AN_ANSWER(self, key, row)


def _m21p_never_diverging(
    self: _Delayed, row: FetchPartition, replica: Replica
) -> OffsetAndEpoch | None:
    if row.fetch_offset < replica.log.start_offset:
        raise OffsetOutOfRangeError(f"{row.fetch_offset} is not in the log")
    del self
    return None


def _m25c_to_the_end(self: _Delayed, replica: Replica) -> int:
    del self
    return replica.log.end_offset


def _k7128_as_committed(self: Partition, follower: Follower) -> None:
    started, self.epoch_start_offset = self.epoch_start_offset, UNKNOWN
    try:
        _EXPAND(self, follower)
    finally:
        self.epoch_start_offset = started


_EXPAND = Partition._expand_if_due


# -- followers -----------------------------------------------------------------------------------

_ADD = ReplicaFetcher.add


def _k18991_goes_on(self: ReplicaFetcher, key: Key, partition: FollowedPartition) -> None:
    _ADD(self, key, partition)
    if key in self._session:
        self._session[key] = (self._partitions[key], self._session[key][1])


def _m25f_as_the_leader(self: Partition, leader_high_watermark: int) -> None:
    if leader_high_watermark > self.high_watermark:
        self.high_watermark = leader_high_watermark
        self._on_progress()


def _k6361_as_the_leader(log: DataLog, source_end: OffsetAndEpoch) -> int:
    return min(log.end_offset, source_end.offset)


def _k20961_no_epoch(self: Replica, log: DataLog) -> None:
    self.log = self.partition.log = log
    log.high_watermark = self.partition.high_watermark


def _k14616_by_name(self: ReplicaManager, state: MetadataState) -> None:
    del state
    for directory in self.logs.online:
        for at in sorted((*directory.logs, *directory.future_logs)):
            if self._assigned_directory(at) is None:
                with self._storage():
                    directory.delete(at)


# -- logs ----------------------------------------------------------------------------------------

_ASSIGN = LeaderEpochCache.assign


def _k10432_from_one_on(self: LeaderEpochCache, epoch: int, start_offset: int) -> bool:
    return epoch > 0 and _ASSIGN(self, epoch, start_offset)


def _k15375_always_clean(disk: Disk) -> int | None:
    return read_clean_shutdown(disk) or 0


def _m34o_the_last_one(self: ProducerState, header: BatchHeader) -> ProducerBatch | None:
    entry = self.producers.get(header.producer_id)
    if entry is None or not entry.batches or entry.epoch != header.producer_epoch:
        return None
    last = entry.batches[-1]
    same = (last.first_sequence, last.last_sequence) == (header.base_sequence, header.last_sequence)
    return last if same else None


ALL = (
    mutant(
        "K10432",
        "knows of no leader epoch 0 (KAFKA-10432)",
        "log matching: a follower with a tail of the first epoch keeps it",
        (LeaderEpochCache, "assign", _k10432_from_one_on),
    ),
    mutant(
        "K13091",
        "does not look at its high watermark again when its ISR has changed (KAFKA-13091)",
        "progress: a write waits for the next one",
        (Partition, "_on_answer", _k13091_no_look),
    ),
    mutant(
        "K13141P",
        "counts what a follower has although it is just told that its log diverges (KAFKA-13141)",
        "durability: what nobody else has counts as replicated",
        (_Delayed, "_diverging", _k13141_counts_diverging),
    ),
    mutant(
        "K14145P",
        "lets a follower's Fetch wait when only the high watermark is news (KAFKA-14145)",
        "progress: a follower knows late what is committed, and as a leader less than it",
        (_Delayed, "_is_worth_an_answer", _k14145_records_alone),
    ),
    mutant(
        "K14616",
        "knows a log by the name of its topic alone (KAFKA-14616)",
        "durability: a topic that was made anew begins with what the old one held",
        (ReplicaManager, "_delete_strays", _k14616_by_name),
    ),
    mutant(
        "K15375",
        "takes each end of its process for a clean one, and recovers nothing (KAFKA-15375)",
        "durability: a torn tail stays, and is read",
        (log_directory, "read_clean_shutdown", _k15375_always_clean),
    ),
    mutant(
        "K18991",
        "takes the answer to a Fetch of an earlier leader epoch (KAFKA-18991)",
        "durability: a follower cuts off what is committed",
        (ReplicaFetcher, "add", _k18991_goes_on),
    ),
    mutant(
        "K20961",
        "forgets, as it moves a log to another directory, the epoch that it leads (KAFKA-20961)",
        "progress: followers of an idle partition are out of range for ever",
        (Replica, "replace_log", _k20961_no_epoch),
    ),
    mutant(
        "K6361",
        "cuts a log that diverges by its leader's epochs alone, not by its own (KAFKA-6361)",
        "log matching: after two elections in a row it keeps what its leader never had",
        (replica_module, "agreed_end", _k6361_as_the_leader),
    ),
    mutant(
        "K7128",
        "lets a replica into the ISR that has not reached the start of its epoch (KAFKA-7128)",
        "durability: a member lacks what was committed before, and may lead",
        (Partition, "_expand_if_due", _k7128_as_committed),
    ),
    mutant(
        "M18P",
        "a new leader goes on with the offsets that its followers had when it led before",
        "durability: a high watermark that a member of the ISR has not reached",
        (Partition, "make_follower", _m18p_keep_followers),
        (Follower, "reset", _m18p_keep_ends),
    ),
    mutant(
        "M21P",
        "does not check whether a follower's log diverges from a partition's",
        "log matching: different records at one offset",
        (_Delayed, "_diverging", _m21p_never_diverging),
    ),
    mutant(
        "M25C",
        "shows consumers what is appended, committed or not",
        "committed reads: what a consumer was shown is lost with the leader",
        (_Delayed, "_limit", _m25c_to_the_end),
    ),
    mutant(
        "M25F",
        "a follower of a partition calls committed what its leader does, beyond its own log",
        "committed reads: as the next leader it shows what has yet to be committed",
        (Partition, "follow_high_watermark", _m25f_as_the_leader),
    ),
    mutant(
        "M34G",
        "takes any sequence of an idempotent producer",
        "order: a batch that is sent again comes behind one that was sent later (KIP-98)",
        (ProducerState, "check", always(None)),
    ),
    mutant(
        "M34K",
        "keeps, when a partition's log is cut, the sequences of what is cut off",
        "durability: a retry is answered as a duplicate of what is gone",
        (DataFiles, "_reload_producers", always(None)),
    ),
    mutant(
        "M34O",
        "remembers the last batch of each producer alone",
        "idempotence: of several batches in flight one that is sent again is refused (KIP-98)",
        (ProducerState, "duplicate_of", _m34o_the_last_one),
    ),
    mutant(
        "M36D",
        "takes a change of its ISR for not made when it was not answered in time",
        "durability: the controller may elect a member that is not waited for (KIP-497)",
        (Partition, "_on_answer", _m36d_not_made),
    ),
    mutant(
        "M36E",
        "acknowledges a write of an earlier leader epoch by the offsets of a later one",
        "durability: what was acknowledged is not what lies there",
        (Partition, "acknowledgement", _m36e_in_any_epoch),
    ),
    mutant(
        "M36F",
        "counts those that it asks to be in sync for min.insync.replicas",
        "committed reads: the high watermark moves before the ISR is large enough (KIP-966)",
        (Partition, "is_under_min_isr", property(_m36f_proposed)),
    ),
    mutant(
        "V02",
        "ends a change of its ISR that is on its way when it hears what it knows of the partition",
        "durability: a high watermark that a member of the ISR has not reached",
        (Partition, "_knows", always(False)),
    ),
)
