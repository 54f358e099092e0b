"""The mutants of leaders and voters: what they begin, confirm, wait for and change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.mutants.mutations import always, mutant
from cluster.node.controller.core.controller import QuorumController
from cluster.node.controller.metadata.image import SpeculativeState
from cluster.node.controller.metadata.result import PendingReply
from cluster.node.controller.metadata.state import MetadataState
from cluster.node.errors import ErrorCode
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.inbound import InboundRequests, Reply
from cluster.node.kraft.messages import NO_NODE, ReplicaKey, VoteRequest
from cluster.node.kraft.outbound import OutboundRequests
from cluster.node.kraft.quorum.accumulator import BatchAccumulator
from cluster.node.kraft.quorum.control_state import ControlState, LogHistory, VoterSet
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.states import Follower
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.kraft.reconfiguration import Reconfiguration
from cluster.node.kraft.replicated_log import ReplicatedLog
from cluster.node.kraft.role_polls import RolePolls

_TAKE_UP_VOTERS = Leader._take_up_voters
_MS_UNTIL_DRAIN = BatchAccumulator.ms_until_drain
_VOTE = InboundRequests._vote
_READ = QuorumController._read


def _l02_all_others(self: Leader) -> None:
    _TAKE_UP_VOTERS(self)
    self.confirmations_needed = len(self._remote_voters)


def _l03_with_the_next(self: BatchAccumulator, now_ms: float) -> float | None:
    return _MS_UNTIL_DRAIN(self, now_ms) if self._completed or self._drain_forced else None


def _l04_no_leader_change(self: RaftCore) -> None:
    leader = self.leader
    assert leader is not None, "it begins what it leads"
    leader.update_local(self.log.durable_end_offset)
    self.trace("epoch-start", epoch=leader.epoch, offset=leader.epoch_start_offset)


def _l06_any_answer(
    self: OutboundRequests, response: Any, on_response: Callable[[Any], None]
) -> None:
    core, state = self._core, self._core.quorum.state
    if isinstance(state, Follower) and response.leader_epoch == state.epoch:
        state.fetch_deadline_ms = core.clock.monotonic_ms() + core.config.fetch_timeout_ms
    _HANDLE_COMMON(self, response, on_response)


_HANDLE_COMMON = OutboundRequests._handle_common


def _l07_known_candidates(self: InboundRequests, request: VoteRequest, reply: Reply) -> None:
    if request.replica_id in self._core.voters:
        _VOTE(self, request, reply)
    else:
        reply(self._vote_response(ErrorCode.none, granted=False))


def _m31l_own_is_enough(self: Leader, latest_read: int) -> int:
    del self
    return latest_read


def _m31u_newest(
    self: QuorumController,
    query: Callable[[MetadataState], Any],
    pending: PendingReply[Any],
    timeout_ms: float,
) -> None:
    _READ(self, lambda _: query(self.newest_state()), pending, timeout_ms)


# -- voters ------------------------------------------------------------------------------------


def _m16_half(self: Leader) -> int | None:
    # Half of the voters are a majority only of an odd number.
    offsets = sorted((state.end_offset for state in self.replicas.values()), reverse=True)
    offset = offsets[(len(offsets) + 1) // 2 - 1]
    return None if offset < 0 else offset


def _m29v_keeps_voters(self: ReplicatedLog, now_ms: float) -> bool:
    control, self.control = self.control, ControlState()
    try:
        return _TRUNCATE(self, now_ms)
    finally:
        self.control = control


_TRUNCATE = ReplicatedLog.truncate_to_latest_snapshot


def _m30_by_id(self: VoterSet, key: ReplicaKey) -> bool:
    return key.id in self


def _m30_addressed_by_id(self: InboundRequests, voter_id: int, directory_id: object) -> bool:
    del directory_id
    return voter_id in (NO_NODE, self._core.config.node_id)


def _m30u_as_configured(self: Reconfiguration, leader: Leader, level: int) -> VoterSet:
    known = {voter.key.id: voter for voter in self._core.voters}
    leader.updated_voters = {**known, **leader.updated_voters}
    return _REPORTED(self, leader, level)


_REPORTED = Reconfiguration._reported_voters


def _v01_at_the_start(self: LogHistory[object], start_offset: int) -> None:
    while len(self._entries) > 1 and self._entries[1][0] <= start_offset:
        self._entries.pop(0)


# -- wall clocks -------------------------------------------------------------------------------
#
# A mutant that believes wall clocks: as long as they are right, it is a correct node. A leader
# lease is a known way to save the question that a linearizable read asks of a majority: a voter
# that has fetched within a time-out will elect no other leader for the rest of it. It is sound by a
# monotonic clock, and by a wall clock until that jumps.

_POLL_LEADER = RolePolls._poll_leader


def _heard_wall_ms(leader: Leader) -> int | None:
    """When a majority, the leader included, had last fetched; None before that."""
    needed = leader.confirmations_needed
    fetched = sorted((state.last_fetch_wall_ms for state in leader.remote_voters()), reverse=True)
    if not 0 < needed <= len(fetched) or fetched[needed - 1] < 0:
        return None
    return fetched[needed - 1]


def _w01_poll_leader(self: RolePolls, state: Leader, now_ms: float) -> float:
    heard_ms = _heard_wall_ms(state)
    if heard_ms is not None:
        left_ms = heard_ms + state.check_quorum_timeout_ms - self._core.clock.wall_ms()
        state.check_quorum_deadline_ms = now_ms + left_ms
    return _POLL_LEADER(self, state, now_ms)


def _w01_must_confirm(self: QuorumController) -> bool:
    raft = self._raft
    assert isinstance(raft, RaftClient), "a real node's controller is fed by its raft client"
    leader = raft.state
    heard_ms = _heard_wall_ms(leader) if isinstance(leader, Leader) else None
    lease_ms = raft._core.config.fetch_timeout_ms / 2
    return heard_ms is None or self._clock.wall_ms() >= heard_ms + lease_ms


ALL = (
    mutant(
        "L02",
        "resigns unless all other voters fetch, not a majority",
        "leader progress: a quorum without a minority has no leader for long",
        (Leader, "_take_up_voters", _l02_all_others),
    ),
    mutant(
        "L03",
        "lets a batch go out with the next one only, however long it lingers (KAFKA-10826)",
        "progress: a write waits for another",
        (BatchAccumulator, "ms_until_drain", _l03_with_the_next),
    ),
    mutant(
        "L04",
        "begins its epoch without a LeaderChange",
        "progress: nothing is committed before somebody writes, and nobody may",
        (RaftCore, "_begin_epoch", _l04_no_leader_change),
    ),
    mutant(
        "L06",
        "takes an answer of any replica for one of its leader",
        "progress: voters that ask each other for a leader never elect one",
        (OutboundRequests, "_handle_common", _l06_any_answer),
    ),
    mutant(
        "L07",
        "votes for those alone that are voters by its own log",
        "progress: a voter that lags keeps the only one that can win from winning (KIP-853)",
        (InboundRequests, "_vote", _l07_known_candidates),
    ),
    mutant(
        "M29C",
        "takes a voter that does not hold the log",
        "availability: the new majority cannot commit before that has fetched all (KIP-853)",
        (Reconfiguration, "is_caught_up", always(True)),
    ),
    mutant(
        "M29S",
        "leaves the voters out of its snapshots",
        "election safety: who begins from one goes by the voters that are configured",
        (RaftClient, "_control_at", always(())),
    ),
    mutant(
        "M31L",
        "confirms its leadership by its own word",
        "linearizability: a deposed controller serves stale reads",
        (Leader, "confirmed_read", _m31l_own_is_enough),
    ),
    mutant(
        "M31U",
        "answers reads from what is appended, committed or not",
        "linearizability: what was read is gone with the leader",
        (QuorumController, "_read", _m31u_newest),
    ),
    mutant(
        "M35R",
        "keeps what it appended and never saw committed when it renounces",
        "state machine safety: it leads again with a state that the log does not hold",
        (SpeculativeState, "revert", always(None)),
    ),
    mutant(
        "M16",
        "takes half of an even number of voters for a majority",
        "durability: two halves of four voters commit different records",
        (Leader, "committed_candidate", _m16_half),
    ),
    mutant(
        "M29",
        "changes voters before the last change, or its own epoch's start, is committed",
        "election safety: Ongaro's bug of single-server changes (2015)",
        (Reconfiguration, "_check_may_begin", always(None)),
    ),
    mutant(
        "M29V",
        "does not take up the voters of a snapshot that it loads",
        "election safety: it goes by voters that were replaced long ago (KIP-853)",
        (ReplicatedLog, "truncate_to_latest_snapshot", _m29v_keeps_voters),
    ),
    mutant(
        "M30",
        "knows voters by their id alone, whatever disk they have",
        "durability: a voter with a new, empty disk votes for what was lost with the old one",
        (VoterSet, "is_voter", _m30_by_id),
        (InboundRequests, "_is_addressed", _m30_addressed_by_id),
    ),
    mutant(
        "M30U",
        "finalizes kraft.version 1 before all voters have described themselves",
        "durability: a voter with a new, empty disk votes as the one before (KIP-853)",
        (Reconfiguration, "_reported_voters", _m30u_as_configured),
    ),
    mutant(
        "V01",
        "forgets which voters were in force just before the beginning of its log",
        "election safety: when the change at that very offset is truncated, it goes by the first "
        "voters again (docs/bugs-found.md: this node did)",
        (LogHistory, "truncate_old", _v01_at_the_start),
    ),
    mutant(
        "W01",
        "measures its leader lease by the wall clock, and serves reads on it",
        "linearizability: a clock that is set back keeps a deposed leader in office",
        (RolePolls, "_poll_leader", _w01_poll_leader),
        (QuorumController, "must_confirm", _w01_must_confirm),
    ),
)
