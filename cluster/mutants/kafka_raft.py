"""Bugs that the raft layers of Kafka had and fixed: the number in an id is that of JIRA's issue."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from cluster.mutants.mutations import Mutant, Replacement, always, mutant
from cluster.node.controller.core.controller import QuorumController
from cluster.node.controller.metadata.loader import MetadataLoader
from cluster.node.controller.metadata.timeline import CommittedMap
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.kinds import BeginTransactionRecord
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.inbound import InboundRequests
from cluster.node.kraft.log_cleaner import LogCleaner
from cluster.node.kraft.messages import FetchRequest, FetchResponse, ReplicaKey
from cluster.node.kraft.outbound import OutboundRequests
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.purgatory import ThresholdPurgatory
from cluster.node.kraft.quorum.quorum_state import QuorumState
from cluster.node.kraft.replicated_log import Validity
from cluster.node.kraft.types import IllegalStateError
from cluster.node.log.storage.epoch_cache import LeaderEpochCache
from cluster.node.log.types import OffsetAndEpoch

# -- what a leader counts ------------------------------------------------------------------------

_UPDATE_REPLICA = Leader.update_replica
_UPDATE_LOCAL = Leader.update_local
_TAKE_UP_VOTERS = Leader._take_up_voters
_HIGH_WATERMARK_MOVED = RaftCore.leader_high_watermark_moved
_READ_FOR = InboundRequests._read_for


def _k12619_at_the_start(self: Leader, offset: int) -> bool:
    return offset >= self.epoch_start_offset


def _k12181_never_back(self: Leader, key: ReplicaKey, fetch_offset: int, *rest: Any) -> bool:
    known = self.replicas.get(key.id)
    if known is not None and fetch_offset < known.end_offset:
        raise IllegalStateError(f"replica {key.id} fetches from {fetch_offset} on again")
    return _UPDATE_REPLICA(self, key, fetch_offset, *rest)


def _k16144_also_alone(self: Leader, now_ms: float) -> float:
    return now_ms + self.check_quorum_timeout_ms


def _k16530_counts_itself(self: Leader, durable_end_offset: int) -> bool:
    moved = _UPDATE_LOCAL(self, durable_end_offset)
    if self.is_voter:
        return moved
    others = [state.end_offset for state in self.replicas.values()]
    offset = sorted([durable_end_offset, *others], reverse=True)[self.voters.majority - 1]
    if not self.may_commit(offset) or offset <= (self.high_watermark or 0):
        return moved
    self.high_watermark = offset
    return True


def _k16531_counts_itself(self: Leader) -> None:
    _TAKE_UP_VOTERS(self)
    self.confirmations_needed = self.voters.majority - 1


def _k17608_leads_on(self: RaftCore, leader: Leader) -> None:
    _HIGH_WATERMARK_MOVED(self, leader)
    leader.resign_requested = False


def _k13141_counts_diverging(
    self: InboundRequests,
    leader: Leader,
    request: FetchRequest,
    validity: Validity,
    position: OffsetAndEpoch,
) -> FetchResponse:
    if validity is Validity.DIVERGING and request.replica_id >= 0:
        self._count_fetch(leader, request)
    return _READ_FOR(self, leader, request, validity, position)


# -- voters and observers ------------------------------------------------------------------------

_FLUSH_LOG = RaftCore.flush_log


def _k13884_voters_flush(self: RaftCore) -> None:
    if self.leader is not None or self.quorum.is_voter:
        _FLUSH_LOG(self)


def _k13884_observers_fetch(self: OutboundRequests) -> bool:
    return self._core.log.is_durable or not self._core.quorum.is_voter


def _k18345_fixed(self: QuorumState) -> float:
    return self._config.election_timeout_ms


# -- log and snapshots ---------------------------------------------------------------------------

_CLEAN = LogCleaner.clean
_REPLACE_BY = CommittedMap.replace_by
_ACTIVATE = QuorumController._activate
_bootstrapped: WeakSet[QuorumController] = WeakSet()


def _k10706_later_ones(self: LeaderEpochCache, offset: int) -> bool:
    before = len(self._entries)
    while self._entries and self._entries[-1].start_offset > offset:
        self._entries.pop()
    return len(self._entries) != before


def _k14238_by_size(self: LogCleaner, now_ms: float) -> None:
    _CLEAN(self, now_ms)
    log = self._log
    if self._is_too_large() and log.high_watermark > log.start_offset:
        log._log.delete_before(log.high_watermark)


def _k14894_adds(self: CommittedMap[Any, Any], other: CommittedMap[Any, Any]) -> None:
    other._entries = {**self._entries, **other._entries}
    _REPLACE_BY(self, other)


def _k14857_at_once(self: MetadataLoader) -> bool:
    self.has_caught_up = True
    return False


def _k20839_once(self: QuorumController, records: tuple[MetadataRecord, ...]) -> None:
    begins = [record for record in records if isinstance(record, BeginTransactionRecord)]
    if begins and self in _bootstrapped:
        records = ()
    elif begins:
        _bootstrapped.add(self)
    _ACTIVATE(self, records)


def _bug(number: int, title: str, breaks: str, *patches: Replacement) -> Mutant:
    return mutant(f"K{number}", f"{title} (KAFKA-{number})", breaks, *patches)


ALL = (
    _bug(
        10706,
        "keeps the epoch that began where its log is cut",
        "leader completeness: it stands with an epoch of which it has no record",
        (LeaderEpochCache, "truncate_from_end", _k10706_later_ones),
    ),
    _bug(
        12181,
        "ends itself when a replica fetches from an earlier offset than before",
        "availability: a voter that lost its disk stops its leader",
        (Leader, "update_replica", _k12181_never_back),
    ),
    _bug(
        12619,
        "takes all below the start of its epoch for committed, before its LeaderChange is",
        "durability: Raft's figure 8",
        (Leader, "may_commit", _k12619_at_the_start),
    ),
    _bug(
        13141,
        "counts what a replica has although it is just told that its log diverges",
        "durability: what nobody else has counts as replicated",
        (InboundRequests, "_read_for", _k13141_counts_diverging),
    ),
    _bug(
        13884,
        "fsyncs as a voter only, and counts what it had before it became one",
        "durability: a new voter loses with the power what it is counted for",
        (RaftCore, "flush_log", _k13884_voters_flush),
        (OutboundRequests, "may_fetch", _k13884_observers_fetch),
    ),
    _bug(
        14145,
        "lets a Fetch wait on when only the high watermark is news",
        "progress: voters know late what is committed",
        (ThresholdPurgatory, "reach_all", always(None)),
    ),
    _bug(
        14238,
        "deletes what no snapshot holds when its log is too large",
        "durability: it cannot start again, and nobody can fetch from it",
        (LogCleaner, "clean", _k14238_by_size),
    ),
    _bug(
        14857,
        "publishes metadata before it has reached the high watermark",
        "monotonic reads: a broker that starts acts on what was true long ago",
        (MetadataLoader, "_must_catch_up", _k14857_at_once),
    ),
    _bug(
        14894,
        "keeps what a snapshot lacks when it loads one",
        "image agreement: topics that were deleted live on",
        (CommittedMap, "replace_by", _k14894_adds),
    ),
    _bug(
        16144,
        "resigns for want of a quorum though it is the only voter",
        "leader progress: no leader stays",
        (Leader, "_next_check_quorum_deadline", _k16144_also_alone),
    ),
    _bug(
        16530,
        "counts itself for the high watermark though it is no voter any more",
        "durability: a majority of the voters may lack what is committed",
        (Leader, "update_local", _k16530_counts_itself),
    ),
    _bug(
        16531,
        "counts itself for its check of the quorum though it is no voter any more",
        "leader progress: it leads on without a majority of the voters",
        (Leader, "_take_up_voters", _k16531_counts_itself),
    ),
    _bug(
        17608,
        "leads on when its own removal is committed",
        "one quorum: a leader that is no voter",
        (RaftCore, "leader_high_watermark_moved", _k17608_leads_on),
    ),
    _bug(
        18345,
        "waits for the same time before each election",
        "progress: voters keep each other from winning",
        (QuorumState, "_random_timeout_ms", _k18345_fixed),
    ),
    _bug(
        20839,
        "writes the metadata that a cluster begins with once in a process, committed or not",
        "progress: a cluster without a metadata.version answers nothing",
        (QuorumController, "_activate", _k20839_once),
    ),
)
