"""Shows when simulated nodes stand for election, what they ask of each other, and their votes.

`StandingWatch(world, take)` shows that to `checkers.invariants.standing`, of nodes of ours alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.invariants.sight import Fields, node_name
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.world import SimWorld
from cluster.node.errors import ErrorCode
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.messages import (
    NO_NODE,
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    ReplicaKey,
    UpdateVoterRequest,
    VoteRequest,
    VoteResponse,
)
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.states import Follower, Prospective, Unattached

_ASKED = (VoteRequest, BeginQuorumEpochRequest, FetchRequest, FetchSnapshotRequest)
"""What a node sends in its role, each to a node that it or its trace names."""
_KINDS: dict[type, str] = {
    kind: kind.__name__.removesuffix("Request") for kind in (*_ASKED, UpdateVoterRequest)
}


class StandingWatch:
    """See the module."""

    def __init__(self, world: SimWorld, take: Callable[[str, str, Fields], None]) -> None:
        """Call it before what takes the nodes' own events."""
        self._nodes = world.nodes
        self._take = take
        self._fetched: dict[str, int] = {}
        """By node: whom it has just traced to fetch from."""
        self._asked: dict[str, dict[str, object]] = {name: {} for name in world.nodes}
        """By node and peer: the last request."""
        for kind in _ASKED:
            world.mesh.on_ask[kind].append(self._note_ask)
            world.mesh.on_answer[kind].append(self._note_answer)
        world.mesh.on_answer[UpdateVoterRequest].append(self._note_answer)
        world.mesh.on_serve[VoteRequest].append(self._hear_vote)
        world.mesh.on_reply[VoteRequest].append(self._look_at_vote)
        world.observe(self._observe, "fetch", "fetch-snapshot", "state")

    def _core(self, name: str) -> RaftCore | None:
        """Return a node's raft layer; None: it does no more, or is another program."""
        process = self._nodes[name].process
        own = None if process is None else process.node
        return None if own is None or own.raft._halted else own.raft._core

    def _hear_vote(self, name: str, _: object) -> None:
        if self._core(name) is not None:
            self._take(name, "vote-asked", {})

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        if event != "state":
            self._fetched[process.name] = fields["asked_id"]
        elif (core := self._core(process.name)) is not None:
            shown = {
                **fields,
                "election_ms": core.config.election_timeout_ms,
                "fetch_ms": core.config.fetch_timeout_ms,
                "backoff_ms": core.config.election_backoff_max_ms,
                "is_alone": core.quorum.is_only_voter,
            }
            self._take(process.name, "role", shown)

    def _note_ask(self, name: str, message: Any) -> None:
        core = self._core(name)
        if core is None:
            return
        is_fetch = isinstance(message, FetchRequest | FetchSnapshotRequest)
        peer = node_name(self._fetched.get(name, NO_NODE) if is_fetch else message.voter_id)
        self._asked[name][peer] = message
        is_vote = isinstance(message, VoteRequest)
        shown = {
            "peer": peer,
            "kind": _kind(message),
            "position": (message.last_offset_epoch, message.last_offset) if is_vote else None,
            "timeout_ms": core.config.request_timeout_ms,
        }
        self._take(name, "peer-asked", shown)

    def _note_answer(self, name: str, message: object, response: Any) -> None:
        """Show an answer that the node may wait for: to the last that it asked of that peer."""
        core, peer = self._core(name), None
        for other, last in self._asked[name].items():
            if last is message:
                peer = other
        if core is None or (peer is None and not isinstance(message, UpdateVoterRequest)):
            return
        none, error = ErrorCode.none, getattr(response, "error", None)
        is_error = error is not none or getattr(response, "top_level_error", None) is not none
        shown = {
            "peer": peer,
            "kind": _kind(message),
            "is_error": is_error,
            "epoch": getattr(response, "leader_epoch", -1),
            "leader": node_name(getattr(response, "leader_id", NO_NODE)),
            "backoff_ms": core.config.retry_backoff_ms,
        }
        self._take(name, "peer-answered", shown)

    def _look_at_vote(self, name: str, request: object, response: object) -> None:
        assert isinstance(request, VoteRequest), "nothing else is heard"
        core = self._core(name)
        if core is None or not isinstance(response, VoteResponse):
            return
        if {response.error, response.top_level_error} != {ErrorCode.none}:
            return
        own = core.log.end
        shown = {
            "candidate": node_name(request.replica_id),
            "epoch": response.leader_epoch,
            "kind": "PreVote" if request.pre_vote else "Vote",
            "granted": response.vote_granted,
            "position": (request.last_offset_epoch, request.last_offset),
            "own": (own.epoch, own.offset),
            "is_free": _is_free(core, request),
        }
        self._take(name, "vote-answered", shown)


def _is_free(core: RaftCore, request: VoteRequest) -> bool:
    """Whether nothing but its log speaks against a candidate."""
    state = core.quorum.state
    if request.pre_vote:
        hears = isinstance(state, Follower) and state.has_fetched_from_leader
        return not hears and not isinstance(state, Leader)
    if not isinstance(state, Unattached | Prospective) or state.leader_id != NO_NODE:
        return False
    key = ReplicaKey(request.replica_id, request.replica_directory_id)
    return state.voted_key in (None, key)


def _kind(message: object) -> str:
    return _KINDS[type(message)]
