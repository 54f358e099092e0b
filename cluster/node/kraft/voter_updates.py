"""What a follower does so that the voter set describes it rightly (KIP-853, KAFKA-19078).

A voter with other listeners or another range of kraft.version than the set has for it reports them
to its leader by UpdateRaftVoter. Under kraft.version 0 every voter does once an epoch: the leader
keeps them for the upgrade. An observer with the controller role asks to become a voter when
`controller.quorum.auto.join.enable` says so; if the set names it with another directory, it first
asks that this one, which is lost, be removed.

All of it happens at most once in twice the fetch time-out, instead of a Fetch.
"""

from __future__ import annotations

from cluster.node.errors import ErrorCode
from cluster.node.kraft import messages
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.quorum.control_state import MAX_KRAFT_VERSION, MIN_KRAFT_VERSION, Voter
from cluster.node.kraft.quorum.states import Follower
from cluster.node.kraft.types import Send
from cluster.node.ports import Failure


class VoterUpdates:
    """The follower's side of UpdateRaftVoter, and of joining by itself."""

    def __init__(self, core: RaftCore, send: Send) -> None:
        self._core = core
        self._send = send

    def maybe_send(self, state: Follower, now_ms: float) -> bool:
        """Send what is due to the leader, which is ready for it; whether anything was sent."""
        core = self._core
        if now_ms < state.update_voter_due_ms:
            return False
        state.update_voter_due_ms = now_ms + core.config.update_voter_period_ms
        local = core.config.local_voter
        if local is None:
            return False
        if core.quorum.is_voter:
            if self._needs_update(state, local):
                self._update(state)
                return True
        elif self._wants_to_join():
            self._join(state, now_ms)
            return True
        return False

    # -- as a voter ------------------------------------------------------------------------------

    def _needs_update(self, state: Follower, local: Voter) -> bool:
        core = self._core
        if core.log.control.kraft_version == 0:
            return not state.has_updated_leader
        return core.voters.get(local.key.id) != local

    def _update(self, state: Follower) -> None:
        core = self._core
        request = messages.UpdateVoterRequest(
            core.config.cluster_id,
            state.epoch,
            core.config.node_id,
            core.config.directory_id,
            core.config.local_listeners,
            MIN_KRAFT_VERSION,
            MAX_KRAFT_VERSION,
        )

        def on_answer(response: messages.UpdateVoterResponse) -> None:
            if core.quorum.state is state and response.error is ErrorCode.none:
                state.has_updated_leader = True
                # The leader answered, and counts this replica for its own check of the quorum.
                state.fetch_deadline_ms = core.clock.monotonic_ms() + core.config.fetch_timeout_ms

        def on_failure(failure: Failure) -> None:
            if failure is Failure.UNSUPPORTED_VERSION:
                state.has_updated_leader = True  # a leader from before KIP-853 wants none

        response = messages.UpdateVoterResponse
        self._send(state.leader_endpoint, request, response, on_answer, on_failure)

    # -- as an observer --------------------------------------------------------------------------

    def _wants_to_join(self) -> bool:
        core = self._core
        return (
            core.config.auto_join
            and core.config.can_become_voter
            and core.log.control.kraft_version >= 1
        )

    def _join(self, state: Follower, now_ms: float) -> None:
        core = self._core
        lost = core.voters.key(core.config.node_id)
        request: messages.AddVoterRequest | messages.RemoveVoterRequest
        if lost is None:
            request = messages.AddVoterRequest(
                core.config.cluster_id,
                core.config.request_timeout_ms,
                core.config.node_id,
                core.config.directory_id,
                core.config.local_listeners,
                ack_when_committed=False,
            )
        else:
            request = messages.RemoveVoterRequest(
                core.config.cluster_id, lost.id, lost.directory_id
            )
        leader_id = state.leader_id
        correlation_id = core.requests.on_request_sent(leader_id, now_ms)

        def on_answer(response: object) -> None:
            if not core.requests.is_response_expected(leader_id, correlation_id):
                return
            if getattr(response, "error", None) is ErrorCode.none:
                core.requests.on_success(leader_id)
            else:
                core.requests.on_failure(leader_id, core.clock.monotonic_ms())

        core.network.request(
            state.leader_endpoint,
            request,
            core.config.request_timeout_ms,
            lambda response: core.submit(lambda: on_answer(response)),
        )
