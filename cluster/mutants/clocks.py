"""A mutant that believes wall clocks: as long as they are right, it is a correct node.

A leader lease is a known way to save the question that a linearizable read asks of a majority:
a voter that has fetched within a time-out will elect no other leader for the rest of it. It is
sound by a monotonic clock, and by a wall clock until that jumps.
"""

from __future__ import annotations

from cluster.mutants.mutations import mutant
from cluster.node.controller.core.controller import QuorumController
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.kraft.role_polls import RolePolls

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
        "W01",
        "measures its leader lease by the wall clock, and serves reads on it",
        "linearizability: a clock that is set back keeps a deposed leader in office",
        (RolePolls, "_poll_leader", _w01_poll_leader),
        (QuorumController, "must_confirm", _w01_must_confirm),
    ),
)
