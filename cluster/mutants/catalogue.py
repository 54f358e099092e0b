"""The seeded bugs. Nothing in the node knows of them: faulty code lives here only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cluster.mutants.mutations import always, mutant
from cluster.node.controller.core.controller import QuorumController
from cluster.node.errors import ErrorCode
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.inbound import InboundRequests
from cluster.node.kraft.messages import FetchRequest, FetchResponse
from cluster.node.kraft.outbound import OutboundRequests
from cluster.node.kraft.quorum.accumulator import BatchAccumulator
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.quorum_state import QuorumState
from cluster.node.kraft.quorum.quorum_state_store import (
    ElectionState,
    QuorumStateError,
    QuorumStateStore,
)
from cluster.node.kraft.quorum.states import NEVER_MS, Follower, Prospective, Unattached
from cluster.node.kraft.replicated_log import ReplicatedLog, Validity
from cluster.node.kraft.request_manager import RequestManager
from cluster.node.kraft.role_polls import RolePolls
from cluster.node.log.batch.records import iter_batches, with_base_offset
from cluster.node.log.types import OffsetAndEpoch

# -- elections -----------------------------------------------------------------------------------


def _m02_offset_first(self: InboundRequests, position: OffsetAndEpoch) -> bool:
    mine = self._core.log.end
    return (position.offset, position.epoch) >= (mine.offset, mine.epoch)


def _m03_memory_only(
    self: QuorumState, epoch: int, candidate: Any, then: Callable[[], None]
) -> None:
    state = self.state
    deadline = self.election_deadline_ms()
    if isinstance(state, Unattached) and epoch == state.epoch:
        self._enter(Unattached(epoch, deadline, state.leader_id, candidate))
    then()


def _m04_forgiving_read(self: QuorumStateStore) -> ElectionState | None:
    try:
        return _STORE_READ(self)
    except QuorumStateError:
        return None


_STORE_READ = QuorumStateStore.read
_INITIALIZE = QuorumState.initialize


def _m06_forget_leadership(
    self: QuorumState, log_end: OffsetAndEpoch, then: Callable[[], None]
) -> None:
    persisted = self._store.read() or ElectionState()
    if persisted.leader_id == self._config.node_id and persisted.epoch >= log_end.epoch:
        deadline = self.election_deadline_ms()
        self._durably(Unattached(persisted.epoch, deadline), then)
    else:
        _INITIALIZE(self, log_end, then)


def _m09_same_epoch(
    self: RaftCore, epoch: int, then: Callable[[], None], leader_id: int = -1
) -> None:
    own = self.quorum.state
    if own.name == "Resigned" and epoch == own.epoch + 1:
        deadline = self.quorum.election_deadline_ms()
        self._move(lambda done: self.quorum._durably(Unattached(own.epoch, deadline), done), then)
    else:
        _BECOME_UNATTACHED(self, epoch, then, leader_id)


_BECOME_UNATTACHED = RaftCore.become_unattached


def _m10_follower_grants(self: Follower, candidate: Any, *, log_ok: bool, pre_vote: bool) -> bool:
    del self, candidate
    return pre_vote and log_ok


def _m10c_stands_anyway(self: RolePolls, state: Prospective, now_ms: float) -> float:
    if now_ms < state.election_deadline_ms or not self._core.quorum.is_voter:
        return _POLL_PROSPECTIVE(self, state, now_ms)
    self._core.become_candidate()
    return now_ms


_POLL_PROSPECTIVE = RolePolls._poll_prospective


def _m07_deaf_leader(
    self: RaftCore, leader_id: int, epoch: int, endpoint: Any, then: Callable[[], None]
) -> None:
    if self.leader is None:
        _MAYBE_TRANSITION(self, leader_id, epoch, endpoint, then)


_MAYBE_TRANSITION = RaftCore.maybe_transition


# -- log and commit ------------------------------------------------------------------------------


def _m13_count_unsynced(self: RaftCore) -> None:
    _FLUSH_LOG(self)
    leader = self.leader
    if leader is not None and leader.update_local(self.log.end_offset):
        self.leader_high_watermark_moved(leader)


_FLUSH_LOG = RaftCore.flush_log


def _m15_leader_twice(self: Leader) -> int | None:
    offsets = [state.end_offset for state in self.replicas.values()]
    offsets = sorted([*offsets, self.replicas[self.local.id].end_offset])
    offset = offsets[len(offsets) // 2]
    return None if offset < 0 else offset


def _m21_never_diverging(
    self: ReplicatedLog, offset: int, epoch: int
) -> tuple[Validity, OffsetAndEpoch]:
    return Validity.VALID, OffsetAndEpoch(min(offset, self.end_offset), epoch)


def _m18_keep_high_watermark(self: RaftCore) -> None:
    _BEGIN_EPOCH(self)
    leader, known = self.leader, self.log.high_watermark
    assert leader is not None
    if leader.high_watermark is None and known > 0:
        leader.high_watermark = known
        self.leader_high_watermark_moved(leader)


_BEGIN_EPOCH = RaftCore._begin_epoch


def _m22_at_the_end(self: ReplicatedLog, records: bytes, epoch: int) -> bool:
    # What arrives is taken for what was asked for last: it goes to the end of the log.
    end_offset, moved = self.end_offset, []
    for header, batch in iter_batches(records):
        moved.append(with_base_offset(batch, end_offset))
        end_offset += header.next_offset - header.base_offset
    return _APPEND_AS_FOLLOWER(self, b"".join(moved), epoch)


def _m22_unmatched(self: OutboundRequests, request: FetchRequest, response: FetchResponse) -> None:
    end_offset = self._core.log.end_offset
    _FETCHED(self, replace(request, fetch_offset=end_offset), response)


_APPEND_AS_FOLLOWER = ReplicatedLog.append_as_follower
_FETCHED = OutboundRequests._take_fetch


def _m23_former_leader(
    self: OutboundRequests, response: Any, on_response: Callable[[Any], None]
) -> None:
    quorum = self._core.quorum
    if isinstance(response, FetchResponse) and response.leader_epoch < quorum.epoch:
        if response.error is ErrorCode.none:
            on_response(replace(response, leader_id=quorum.leader_id, high_watermark=-1))
        return
    _HANDLE_COMMON(self, response, on_response)


def _m23_if_it_fits(self: OutboundRequests, request: FetchRequest, response: FetchResponse) -> None:
    if request.fetch_offset == self._core.log.end_offset:
        _FETCHED(self, request, response)


_HANDLE_COMMON = OutboundRequests._handle_common


def _m25_before_truncation(
    self: OutboundRequests, request: FetchRequest, response: FetchResponse
) -> None:
    core = self._core
    state = core.quorum.state
    if isinstance(state, Follower) and response.leader_id == state.leader_id:
        offset = min(core.log.end_offset, response.high_watermark)
        if offset > core.log.high_watermark:
            core.follower_high_watermark_moved(offset)
    _FETCHED(self, request, response)


# -- client and controller -----------------------------------------------------------------------


def _m35_batch_each(
    self: BatchAccumulator, epoch: int, values: Sequence[bytes], now_ms: float, wall_ms: int
) -> int:
    last_offset = _ACCUMULATE(self, epoch, values[:1], now_ms, wall_ms)
    for value in values[1:]:
        self._complete(wall_ms)
        last_offset = _ACCUMULATE(self, epoch, (value,), now_ms, wall_ms)
    return last_offset


_ACCUMULATE = BatchAccumulator.append


ALL = (
    # The seed compares the candidate's epoch with that of the voter's last record. No record is of
    # a later epoch than a candidate's, so every log wins.
    mutant(
        "M01",
        "grants votes whatever the candidate's log holds",
        "leader completeness: a leader without committed records is elected",
        (InboundRequests, "is_log_up_to_date", always(True)),
    ),
    mutant(
        "M02",
        "compares logs by length before epoch",
        "leader completeness: a longer, older log wins",
        (InboundRequests, "is_log_up_to_date", _m02_offset_first),
    ),
    mutant(
        "M03",
        "answers a Vote without writing it to quorum-state",
        "election safety: a restarted voter votes again in the same epoch",
        (QuorumState, "add_vote", _m03_memory_only),
    ),
    mutant(
        "M04",
        "takes an unreadable quorum-state for a missing one",
        "election safety: the vote is forgotten",
        (QuorumStateStore, "read", _m04_forgiving_read),
    ),
    mutant(
        "M06",
        "restarts as Unattached in an epoch that it led",
        "election safety: it votes for another in its own epoch (KAFKA-10661)",
        (QuorumState, "initialize", _m06_forget_leadership),
    ),
    mutant(
        "M07",
        "a leader ignores higher epochs in responses and BeginQuorumEpoch",
        "progress, linearizable reads: a deposed leader stays",
        (RaftCore, "maybe_transition", _m07_deaf_leader),
    ),
    mutant(
        "M09",
        "leaves Resigned without raising the epoch",
        "election safety: it votes in, or follows, the epoch that it led",
        (RaftCore, "become_unattached", _m09_same_epoch),
    ),
    mutant(
        "M10",
        "grants PreVote although it hears from its leader",
        "stable leadership: a server with a broken link deposes leaders",
        (Follower, "can_grant_vote", _m10_follower_grants),
    ),
    mutant(
        "M10C",
        "stands for election when its pre-election is not won in time",
        "stable leadership: a server with a broken link deposes leaders (KIP-996)",
        (RolePolls, "_poll_prospective", _m10c_stands_anyway),
    ),
    mutant(
        "M11",
        "never resigns for want of a quorum",
        "leader progress: an isolated leader leads for ever (KAFKA-15489)",
        (Leader, "_next_check_quorum_deadline", always(NEVER_MS)),
    ),
    mutant(
        "M13",
        "the leader counts itself before its fsync",
        "durability: an acknowledged write is lost with the power",
        (RaftCore, "flush_log", _m13_count_unsynced),
    ),
    mutant(
        "M15",
        "counts the leader twice for the high watermark",
        "durability: the leader commits alone",
        (Leader, "committed_candidate", _m15_leader_twice),
    ),
    mutant(
        "M17",
        "commits records of earlier epochs by counting replicas",
        "durability: Raft's figure 8",
        (Leader, "may_commit", always(True)),
    ),
    mutant(
        "M18",
        "a new leader goes on with the high watermark that it knew as a follower",
        "monotonic high watermark: one that lags takes it back",
        (RaftCore, "_begin_epoch", _m18_keep_high_watermark),
    ),
    mutant(
        "M19",
        "a voter fetches on before what it appended is fsynced",
        "durability: an acknowledged write is lost with the power",
        (OutboundRequests, "may_fetch", always(True)),
    ),
    mutant(
        "M21",
        "does not check whether a replica's log diverges",
        "log matching: different records at one offset",
        (ReplicatedLog, "validate", _m21_never_diverging),
    ),
    mutant(
        "M22",
        "does not match a Fetch response with the Fetch in flight",
        "log matching: records are appended twice, or where others belong",
        (RequestManager, "is_response_expected", always(True)),
        (OutboundRequests, "_take_fetch", _m22_unmatched),
        (ReplicatedLog, "append_as_follower", _m22_at_the_end),
    ),
    mutant(
        "M23",
        "appends what the leader of an earlier epoch answered",
        "log matching",
        (RequestManager, "is_response_expected", always(True)),
        (OutboundRequests, "_handle_common", _m23_former_leader),
        (OutboundRequests, "_take_fetch", _m23_if_it_fits),
    ),
    mutant(
        "M25",
        "a follower moves its high watermark before it truncates (KAFKA-14704)",
        "committed prefix: records that were never committed are read as if they were",
        (OutboundRequests, "_take_fetch", _m25_before_truncation),
    ),
    mutant(
        "M31",
        "answers reads on the belief that it leads",
        "linearizability: a deposed controller serves stale reads",
        (QuorumController, "must_confirm", always(False)),
    ),
    mutant(
        "M32",
        "acknowledges a write when it is appended",
        "durability: an acknowledged write is lost with its leader",
        (QuorumController, "is_committed", always(True)),
    ),
    mutant(
        "M35",
        "appends each record of a change as a batch of its own",
        "atomicity: half of a change is committed when the leader dies in between",
        (BatchAccumulator, "append", _m35_batch_each),
    ),
)
"""Every mutant, in the order of the ids."""
