"""The mutants of leaders: what they begin, confirm and wait for (see `cluster.mutants`)."""

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
from cluster.node.kraft.messages import VoteRequest
from cluster.node.kraft.outbound import OutboundRequests
from cluster.node.kraft.quorum.accumulator import BatchAccumulator
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.states import Follower
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.kraft.reconfiguration import Reconfiguration

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
)
