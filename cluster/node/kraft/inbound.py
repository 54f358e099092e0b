"""Requests of other replicas: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, DescribeQuorum.

A request of a higher epoch first moves this replica to that epoch, durably, and is then handled
again; so every handler below sees a request of its own epoch or an older one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cluster.node.errors import ErrorCode
from cluster.node.kraft import messages
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.messages import AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest
from cluster.node.kraft.quorum.config import MAX_BATCH_SIZE_BYTES
from cluster.node.kraft.quorum.leader_state import Leader, ReplicaState
from cluster.node.kraft.quorum.purgatory import Outcome
from cluster.node.kraft.quorum.states import Follower, Prospective, Unattached
from cluster.node.kraft.reconfiguration import Reconfiguration
from cluster.node.kraft.replicated_log import Validity
from cluster.node.log.metadata.snapshot import BOOTSTRAP_ID
from cluster.node.log.types import OffsetAndEpoch

Reply = Callable[[messages.RaftResponse], None]

FOREIGN = ErrorCode.inconsistent_cluster_id
"""Top-level error of a request that means another cluster."""


class InboundRequests:
    """Answers each request once, now or later; never when this node dies first."""

    def __init__(self, core: RaftCore, voters: Reconfiguration) -> None:
        self._core = core
        self._voters = voters

    def handle(self, request: messages.RaftRequest, reply: Reply) -> None:
        """Handle one request of another replica or of a client."""
        match request:
            case messages.FetchRequest():
                self._fetch(request, reply)
            case messages.VoteRequest():
                self._vote(request, reply)
            case messages.BeginQuorumEpochRequest() | messages.EndQuorumEpochRequest():
                self._hear_leader(request, reply)
            case messages.DescribeQuorumRequest():
                reply(self._describe_quorum())
            case messages.FetchSnapshotRequest():
                reply(self._fetch_snapshot(request))
            case AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest():
                self._voters.handle(request, reply)

    # -- elections -------------------------------------------------------------------------------

    def _vote(self, request: messages.VoteRequest, reply: Reply) -> None:
        core, quorum = self._core, self._core.quorum
        if self._is_foreign(request.cluster_id):
            response = self._vote_response(ErrorCode.none, granted=False)
            reply(replace(response, top_level_error=FOREIGN))
            return
        error = self._invalid_vote(request)
        if error is not ErrorCode.none:
            reply(self._vote_response(error, granted=False))
            return
        if request.replica_epoch > quorum.epoch:
            # Even a PreVote proves a later epoch; this replica has no business in its old one.
            core.become_unattached(request.replica_epoch, lambda: self._vote(request, reply))
            return
        if not self._is_addressed(request.voter_id, request.voter_directory_id):
            reply(self._vote_response(ErrorCode.invalid_voter_key, granted=False))
            return
        candidate = messages.ReplicaKey(request.replica_id, request.replica_directory_id)
        # Not compared with the voter set: ours may be stale, and the candidate in the newest set
        # may be the only one that can win (KIP-853).
        position = OffsetAndEpoch(request.last_offset, request.last_offset_epoch)
        granted = quorum.state.can_grant_vote(
            candidate, log_ok=self.is_log_up_to_date(position), pre_vote=request.pre_vote
        )
        state = quorum.state
        if granted and not request.pre_vote and isinstance(state, Unattached | Prospective):
            if state.voted_key is None:
                # The vote must survive a crash before the candidate may count it.
                quorum.add_vote(
                    quorum.epoch, candidate, lambda: self._answer_vote(request, reply, granted=True)
                )
                return
        self._answer_vote(request, reply, granted=granted)

    def is_log_up_to_date(self, position: OffsetAndEpoch) -> bool:
        """Whether a log that ends there is at least as up to date as ours: epoch, then length."""
        mine = self._core.log.end
        return (position.epoch, position.offset) >= (mine.epoch, mine.offset)

    def _invalid_vote(self, request: messages.VoteRequest) -> ErrorCode:
        last_epoch, epoch = request.last_offset_epoch, request.replica_epoch
        # A PreVote comes from a replica that is still in the epoch of its last records.
        epoch_is_wrong = last_epoch > epoch if request.pre_vote else last_epoch >= epoch
        if request.last_offset < 0 or last_epoch < 0 or epoch_is_wrong:
            return ErrorCode.invalid_request
        if epoch < self._core.quorum.epoch:
            return ErrorCode.fenced_leader_epoch
        if (
            request.replica_id < 0
            or not self._core.is_epoch_in_reach(epoch)
            or request.replica_id == self._core.config.node_id
        ):
            return ErrorCode.invalid_request  # nobody else can ask in this replica's name
        return ErrorCode.none

    def _answer_vote(self, request: messages.VoteRequest, reply: Reply, *, granted: bool) -> None:
        self._core.trace(
            "vote",
            epoch=request.replica_epoch,
            candidate_id=request.replica_id,
            candidate_directory_id=str(request.replica_directory_id),
            pre_vote=request.pre_vote,
            granted=granted,
        )
        reply(self._vote_response(ErrorCode.none, granted=granted))

    def _vote_response(self, error: ErrorCode, *, granted: bool) -> messages.VoteResponse:
        quorum = self._core.quorum
        return messages.VoteResponse(
            error, quorum.leader_id, quorum.epoch, granted, self._core.known_leader_endpoint
        )

    def _hear_leader(
        self,
        request: messages.BeginQuorumEpochRequest | messages.EndQuorumEpochRequest,
        reply: Reply,
    ) -> None:
        """Follow the leader in whose name a request comes, and answer."""
        core, quorum = self._core, self._core.quorum
        is_end = isinstance(request, messages.EndQuorumEpochRequest)
        kind = messages.EndQuorumEpochResponse if is_end else messages.BeginQuorumEpochResponse

        def answer(error: ErrorCode, top_level_error: ErrorCode = ErrorCode.none) -> None:
            endpoint = core.known_leader_endpoint
            reply(kind(error, quorum.leader_id, quorum.epoch, endpoint, top_level_error))

        def on_follow() -> None:
            error = ErrorCode.none
            if isinstance(request, messages.EndQuorumEpochRequest):
                self._end_quorum_epoch(request)
            elif not self._is_addressed(request.voter_id, request.voter_directory_id):
                error = ErrorCode.invalid_voter_key
            answer(error)

        if self._is_foreign(request.cluster_id):
            answer(ErrorCode.none, FOREIGN)
            return
        error, endpoint = self._epoch_error(request), request.leader_endpoint
        state = quorum.state
        if error is not ErrorCode.none:
            answer(error)
        elif isinstance(state, Follower) and request.leader_epoch == state.epoch:
            # A leadership check, mostly. Only where it listens can be news: the voters by which
            # this replica knows that since its restart may be out of date.
            state.leader_endpoint = endpoint or state.leader_endpoint
            on_follow()
        else:
            core.maybe_transition(request.leader_id, request.leader_epoch, endpoint, on_follow)

    def _end_quorum_epoch(self, request: messages.EndQuorumEpochRequest) -> None:
        state = self._core.quorum.state
        if isinstance(state, Follower) and state.leader_id == request.leader_id:
            backoff_ms = self._election_backoff_ms(request.preferred_candidates)
            state.fetch_deadline_ms = self._core.clock.monotonic_ms() + backoff_ms

    def _election_backoff_ms(self, candidates: tuple[messages.ReplicaKey, ...]) -> int:
        """Wait before standing after a resignation: the better the successor, the shorter."""
        most = self._core.config.election_backoff_max_ms
        ids = [key.id for key in candidates]
        if self._core.config.node_id not in ids:
            return most
        position, count = ids.index(self._core.config.node_id), len(ids)
        if position == 0:
            return 0
        if position == count - 1:
            return most
        return min(most, (most >> (count - 1)) << (position - 1))

    def _epoch_error(
        self, request: messages.BeginQuorumEpochRequest | messages.EndQuorumEpochRequest
    ) -> ErrorCode:
        """Why a request in a leader's name is refused.

        A second leader of the epoch gets INVALID_REQUEST, as Kafka answers what no request may
        say. FENCED_LEADER_EPOCH would say that its epoch is over, and UNKNOWN_LEADER_EPOCH that
        ours is older: a sender that was right would believe either, and try again for ever.
        """
        core, leader_id, epoch = self._core, request.leader_id, request.leader_epoch
        if epoch < core.quorum.epoch:
            return ErrorCode.fenced_leader_epoch
        reason = None if leader_id < 0 else core.contradiction(leader_id, epoch)
        if reason is not None:
            core.report_contradiction(request, leader_id, epoch, reason)
        # No peer can declare this replica the leader of its own epoch either.
        wrong = reason is not None or leader_id < 0 or leader_id == core.config.node_id
        return ErrorCode.invalid_request if wrong else ErrorCode.none

    def _is_foreign(self, cluster_id: str | None) -> bool:
        return cluster_id is not None and cluster_id != self._core.config.cluster_id

    def _is_addressed(self, voter_id: int, directory_id: object) -> bool:
        """Whether a request that names its receiver means this replica."""
        config = self._core.config
        return voter_id in (messages.NO_NODE, config.node_id) and (
            directory_id in (messages.NO_DIRECTORY, config.directory_id)
        )

    # -- replication -----------------------------------------------------------------------------

    def _fetch(self, request: messages.FetchRequest, reply: Reply) -> None:
        if self._is_foreign(request.cluster_id):
            reply(replace(self._fetch_error(ErrorCode.none), top_level_error=FOREIGN))
            return
        error = self._fetch_error_code(request)
        leader = self._core.quorum.leader
        if error is not ErrorCode.none or leader is None:
            reply(self._fetch_error(error))
            return
        validity, position = self._validate(request)
        if validity is Validity.VALID and request.replica_id >= 0:
            # A diverging log is no prefix of ours: its end offset says nothing (KAFKA-13141).
            self._count_fetch(leader, request)
        response = self._read_for(leader, request, validity, position)
        if request.max_wait_ms == 0 or _is_complete(request, response):
            reply(response)
            return
        core = self._core
        # A stranger may ask for weeks, and hang up; a replica would take its leader for lost.
        wait_ms = min(request.max_wait_ms, core.config.fetch_timeout_ms)
        core.fetch_purgatory.wait(
            request.fetch_offset + 1,
            core.clock.monotonic_ms() + wait_ms,
            lambda outcome: reply(self._fetch_after_wait(request, response, outcome)),
        )

    def _fetch_after_wait(
        self, request: messages.FetchRequest, parked: messages.FetchResponse, outcome: Outcome
    ) -> messages.FetchResponse:
        leader = self._core.leader
        if outcome is Outcome.LOST or leader is None:
            return self._fetch_error(ErrorCode.not_leader_or_follower)
        if outcome is Outcome.EXPIRED:
            return parked  # as it was decided when it was parked (KAFKA-15100)
        # Not counted again: it was sent when it arrived, and that its sender is alive still is
        # just what check quorum must not assume.
        validity, position = self._validate(request)
        return self._read_for(leader, request, validity, position)

    def _validate(self, request: messages.FetchRequest) -> tuple[Validity, OffsetAndEpoch]:
        """Whether the log goes on from where a replica's ends; an empty replica gets a snapshot."""
        latest = self._core.log.latest_snapshot_id
        if request.fetch_offset == 0 and latest is not None:
            return Validity.SNAPSHOT, latest
        return self._core.log.validate(request.fetch_offset, request.last_fetched_epoch)

    def _count_fetch(self, leader: Leader, request: messages.FetchRequest) -> None:
        """Note what a replica's valid Fetch says: it is there, and how much it holds."""
        core = self._core
        moved = leader.update_replica(
            messages.ReplicaKey(request.replica_id, request.replica_directory_id),
            request.fetch_offset,
            core.log.end_offset,
            core.clock.monotonic_ms(),
            core.clock.wall_ms(),
        )
        if moved:
            core.leader_high_watermark_moved(leader)

    def _read_for(
        self,
        leader: Leader,
        request: messages.FetchRequest,
        validity: Validity,
        position: OffsetAndEpoch,
    ) -> messages.FetchResponse:
        """Answer a Fetch from the log as it is now."""
        if validity is Validity.DIVERGING:
            return self._fetch_response(leader, diverging=position)
        if validity is Validity.SNAPSHOT:
            return replace(self._fetch_response(leader), snapshot_id=position)
        # What a request may cost is not for its sender to say.
        max_bytes = min(request.max_bytes, MAX_BATCH_SIZE_BYTES)
        records = self._core.log.read(request.fetch_offset, max_bytes)
        return self._fetch_response(leader, records=records)

    def _fetch_error_code(self, request: messages.FetchRequest) -> ErrorCode:
        if (
            request.max_wait_ms < 0
            or request.fetch_offset < 0
            or request.last_fetched_epoch < 0
            or request.last_fetched_epoch > request.current_leader_epoch
            or request.replica_id == self._core.config.node_id
        ):
            return ErrorCode.invalid_request
        return self._core.leader_only_error(request.current_leader_epoch)

    def _fetch_error(self, error: ErrorCode) -> messages.FetchResponse:
        core = self._core
        return messages.FetchResponse(
            error,
            core.quorum.leader_id,
            core.quorum.epoch,
            high_watermark=-1,
            log_start_offset=core.log.start_offset,
            leader_endpoint=core.known_leader_endpoint,
        )

    def _fetch_response(
        self, leader: Leader, *, records: bytes = b"", diverging: OffsetAndEpoch | None = None
    ) -> messages.FetchResponse:
        return messages.FetchResponse(
            ErrorCode.none,
            leader.leader_id,
            leader.epoch,
            high_watermark=-1 if leader.high_watermark is None else leader.high_watermark,
            log_start_offset=self._core.log.start_offset,
            records=records,
            diverging_epoch=diverging,
            leader_endpoint=leader.leader_endpoint,
        )

    def _fetch_snapshot(
        self, request: messages.FetchSnapshotRequest
    ) -> messages.FetchSnapshotResponse:
        """Send a piece of a snapshot. The replica that asks is alive: check quorum counts it."""
        core = self._core
        snapshot_id = request.snapshot_id
        response = messages.FetchSnapshotResponse(
            ErrorCode.none,
            core.quorum.leader_id,
            core.quorum.epoch,
            snapshot_id,
            leader_endpoint=core.known_leader_endpoint,
        )
        if self._is_foreign(request.cluster_id):
            return replace(response, top_level_error=FOREIGN)
        error = self._core.leader_only_error(request.current_leader_epoch)
        leader = core.leader
        if error is not ErrorCode.none or leader is None:
            return replace(response, error=error)
        if request.max_bytes <= 0:
            return replace(response, error=ErrorCode.invalid_request)
        snapshots = core.log.snapshots
        if snapshot_id == BOOTSTRAP_ID or snapshot_id not in snapshots:
            return replace(response, error=ErrorCode.snapshot_not_found)
        size_bytes, position = snapshots.size_bytes(snapshot_id), request.position
        if not 0 <= position < size_bytes:
            return replace(response, error=ErrorCode.position_out_of_range)
        leader.count_alive(
            messages.ReplicaKey(request.replica_id, request.replica_directory_id),
            core.clock.monotonic_ms(),
        )
        wanted = min(request.max_bytes, core.config.fetch_snapshot_max_bytes)
        records = snapshots.read_slice(snapshot_id, position, wanted)
        return replace(response, size=size_bytes, position=position, records=records)

    # -- description -----------------------------------------------------------------------------

    def _describe_quorum(self) -> messages.DescribeQuorumResponse:
        """Say what this replica knows; it changes nothing, as it is asked between events, too."""
        core, leader = self._core, self._core.leader
        if leader is None:
            return messages.DescribeQuorumResponse(
                ErrorCode.not_leader_or_follower, core.quorum.leader_id, core.quorum.epoch, -1
            )
        now_ms, wall_ms = core.clock.monotonic_ms(), core.clock.wall_ms()
        voters = [
            _describe(s, wall_ms if id_ == leader.leader_id else None)
            for id_, s in leader.replicas.items()
        ]
        return messages.DescribeQuorumResponse(
            ErrorCode.none,
            leader.leader_id,
            leader.epoch,
            -1 if leader.high_watermark is None else leader.high_watermark,
            tuple(voters),
            tuple(_describe(state, None) for state in leader.observers.live(now_ms)),
            tuple(voter.endpoint for voter in core.quorum.voters),
        )


def _is_complete(request: messages.FetchRequest, response: messages.FetchResponse) -> bool:
    """Whether a Fetch response has news; one without may wait for some."""
    return (
        response.error is not ErrorCode.none
        or bool(response.records)
        or response.diverging_epoch is not None
        or response.snapshot_id is not None
        or response.high_watermark > request.high_watermark  # KAFKA-14145
    )


def _describe(state: ReplicaState, now_wall_ms: int | None) -> messages.ReplicaDescription:
    """A replica's line; the leader itself is always caught up, now."""
    return messages.ReplicaDescription(
        state.key.id,
        state.key.directory_id,
        state.end_offset,
        state.last_fetch_wall_ms if now_wall_ms is None else now_wall_ms,
        state.last_caught_up_wall_ms if now_wall_ms is None else now_wall_ms,
    )
