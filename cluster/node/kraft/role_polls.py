"""What each role has to do when it is polled, and when it wants to be polled again."""

from __future__ import annotations

import math

from cluster.node.errors import ErrorCode
from cluster.node.kraft.core import PendingChange, RaftCore
from cluster.node.kraft.outbound import OutboundRequests
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.purgatory import Outcome
from cluster.node.kraft.quorum.states import (
    NEVER_MS,
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from cluster.node.ports import nothing


class RolePolls:
    """The role's part of `poll` (KafkaRaftClient.pollCurrentState). Times are monotonic ms."""

    def __init__(self, core: RaftCore, outbound: OutboundRequests) -> None:
        self._core = core
        self._outbound = outbound

    def poll(self, now_ms: float) -> float:
        """Poll the current role; returns when it wants to be polled again."""
        match self._core.quorum.state:
            case Leader() as state:
                return self._poll_leader(state, now_ms)
            case Follower() as state:
                return self._poll_follower(state, now_ms)
            case Candidate() as state:
                return self._poll_candidate(state, now_ms)
            case Prospective() as state:
                return self._poll_prospective(state, now_ms)
            case Unattached() as state:
                return self._poll_unattached(state, now_ms)
            case Resigned() as state:
                return self._poll_resigned(state, now_ms)

    def _poll_leader(self, state: Leader, now_ms: float) -> float:
        core = self._core
        if core.shutting_down or state.resign_requested or now_ms >= state.check_quorum_deadline_ms:
            core.become_resigned()
            return now_ms
        pending = core.pending_change
        change_ms = NEVER_MS if pending is None else self._maybe_expire_change(pending, now_ms)
        drain_ms = self._maybe_append_batches(state, now_ms)
        begin_ms = self._outbound.begins.poll(state, now_ms)
        return min(change_ms, drain_ms, begin_ms, state.check_quorum_deadline_ms)

    def _maybe_expire_change(self, pending: PendingChange, now_ms: float) -> float:
        """End a change of the voters that takes too long; returns when it will."""
        if now_ms < pending.deadline_ms:
            return pending.deadline_ms
        pending.finish(ErrorCode.request_timed_out, "The change is not finished in time.")
        return NEVER_MS

    def _maybe_append_batches(self, state: Leader, now_ms: float) -> float:
        """Append what has lingered long enough; returns when more is due."""
        core = self._core
        wait_ms = state.accumulator.ms_until_drain(now_ms)
        if wait_ms is None:
            return NEVER_MS
        if wait_ms > 0:
            return now_ms + wait_ms
        for batch in state.accumulator.drain(core.clock.wall_ms()):
            core.log.append_as_leader(batch.data)
            core.trace(
                "append",
                epoch=state.epoch,
                base_offset=batch.base_offset,
                last_offset=batch.last_offset,
                role="leader",
            )
            self._watch_commit(batch.base_offset, batch.last_offset, now_ms)
        core.take_up_voters()
        core.flush_log()
        core.fetch_purgatory.reach(core.log.end_offset)
        return NEVER_MS

    def _watch_commit(self, base_offset: int, last_offset: int, now_ms: float) -> None:
        """Trace how long a batch took to be committed, for the latency evidence."""

        def on_commit(outcome: Outcome) -> None:
            if outcome is Outcome.REACHED:
                latency_ms = self._core.clock.monotonic_ms() - now_ms
                self._core.trace(
                    "commit",
                    base_offset=base_offset,
                    last_offset=last_offset,
                    latency_ms=round(latency_ms, 3),
                )

        # The high watermark is exclusive: the batch is committed once it is above its last offset.
        self._core.append_purgatory.wait(last_offset + 1, math.inf, on_commit)

    def _poll_follower(self, state: Follower, now_ms: float) -> float:
        if now_ms >= state.fetch_deadline_ms and self._core.quorum.is_voter:
            self._core.become_prospective()
            return now_ms
        return self._outbound.fetch_from_leader(state, now_ms)

    def _poll_candidate(self, state: Candidate, now_ms: float) -> float:
        if not self._core.quorum.is_voter:
            # The snapshot that was being loaded shows that others elect the leader now.
            self._core.become_unattached(state.epoch + 1, nothing)
            return now_ms
        if now_ms >= state.election_deadline_ms:
            self._core.become_prospective()
            return now_ms
        return self._outbound.send_votes(state, now_ms)

    def _poll_prospective(self, state: Prospective, now_ms: float) -> float:
        if now_ms >= state.election_deadline_ms or not self._core.quorum.is_voter:
            self._core.after_prospective_loss()
            return now_ms
        return self._outbound.send_votes(state, now_ms)

    def _poll_unattached(self, state: Unattached, now_ms: float) -> float:
        if self._core.quorum.is_voter and now_ms >= state.election_deadline_ms:
            self._core.become_prospective()
            return now_ms
        again_ms = self._outbound.fetch_from_bootstrap(now_ms)
        return min(again_ms, state.election_deadline_ms if self._core.quorum.is_voter else NEVER_MS)

    def _poll_resigned(self, state: Resigned, now_ms: float) -> float:
        if now_ms >= state.election_deadline_ms:
            # Never in its own epoch again: it led that one.
            self._core.become_unattached(state.epoch + 1, nothing)
            return now_ms
        return self._outbound.send_end_quorum_epoch(state, now_ms)
