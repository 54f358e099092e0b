"""Requests to other replicas, and what their responses mean.

Every send passes the request manager: one request in flight to a node. A response that is not the
expected one (late, repeated, or of an earlier role) is ignored.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.node.errors import ErrorCode
from cluster.node.kraft import messages
from cluster.node.kraft.begin_quorum_epoch import BeginQuorumEpochs
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.messages import UpdateVoterResponse
from cluster.node.kraft.quorum.states import NEVER_MS, Candidate, Follower, Prospective, Resigned
from cluster.node.kraft.snapshot_fetch import START_OVER, SnapshotFetch
from cluster.node.kraft.types import ContradictionError, IllegalStateError, Response
from cluster.node.kraft.voter_updates import VoterUpdates
from cluster.node.log.batch.records import CorruptBatchError
from cluster.node.log.metadata.log import MisplacedBatchError
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint, Failure


class OutboundRequests:
    """Sends what the current role asks for."""

    def __init__(self, core: RaftCore) -> None:
        self._core = core
        self._snapshots = SnapshotFetch(core, self._send)
        self._updates = VoterUpdates(core, self._send)
        self.begins = BeginQuorumEpochs(core, self._send)

    # -- sending ---------------------------------------------------------------------------------

    def _send(
        self,
        destination: Endpoint,
        request: messages.RaftRequest,
        kind: type[Response],
        on_response: Callable[[Response], None],
        on_failure: Callable[[Failure], None] | None = None,
    ) -> None:
        """Send, and pass the expected response on; failures start a back-off."""
        core = self._core
        correlation_id = core.requests.on_request_sent(
            destination.node_id, core.clock.monotonic_ms()
        )

        def handle(response: object) -> None:
            if not core.requests.is_response_expected(destination.node_id, correlation_id):
                return
            if isinstance(response, kind) and _is_success(response):
                core.requests.on_success(destination.node_id)
            else:
                core.requests.on_failure(destination.node_id, core.clock.monotonic_ms())
            if isinstance(response, kind):
                if response.top_level_error is ErrorCode.none:
                    guard(response, lambda: self._handle_common(response, take))
            elif isinstance(response, Failure) and on_failure is not None:
                on_failure(response)

        def take(response: Response) -> None:
            guard(response, lambda: on_response(response))

        def guard(response: Response, handle: Callable[[], None]) -> None:
            """Drop a response that contradicts what this replica knows."""
            try:
                handle()
            except ContradictionError as error:
                core.requests.on_failure(destination.node_id, core.clock.monotonic_ms())
                leader_id, epoch = response.leader_id, response.leader_epoch
                core.report_contradiction(response, leader_id, epoch, str(error))

        core.network.request(
            destination,
            request,
            core.config.request_timeout_ms,
            lambda response: core.submit(lambda: handle(response)),
        )

    def _handle_common(self, response: Response, on_response: Callable[[Response], None]) -> None:
        """Take up what a response says of epoch and leader. Raises ContradictionError."""
        core = self._core
        quorum = core.quorum
        state = quorum.state
        if response.leader_epoch < state.epoch:
            return  # of an epoch that we have left
        if response.error is ErrorCode.invalid_request and not isinstance(
            response, UpdateVoterResponse
        ):
            raise ContradictionError("a peer called our request invalid")
        same_epoch = response.leader_epoch == state.epoch
        usable = same_epoch and (response.error is ErrorCode.none or response.error in START_OVER)
        if usable and response.leader_id == state.leader_id and quorum.is_settled:
            on_response(response)  # nothing in it can be news
            return
        reason = core.contradiction(response.leader_id, response.leader_epoch)
        if reason is not None:
            raise ContradictionError(reason)

        def proceed() -> None:
            if usable:
                on_response(response)

        core.maybe_transition(
            response.leader_id, response.leader_epoch, response.leader_endpoint, proceed
        )

    # -- elections -------------------------------------------------------------------------------

    def send_votes(self, state: Prospective | Candidate, now_ms: float) -> float:
        """Ask every voter that has not answered; returns when to try again."""
        core = self._core
        again_ms = state.election_deadline_ms
        if core.log.durable_end_offset < core.log.end_offset:
            # What is not fsynced must not win an election; its completion brings us back.
            return again_ms
        for voter_id in state.election.unrecorded:
            if core.requests.is_ready(voter_id, now_ms):
                endpoint = core.voters.endpoint(voter_id)
                assert endpoint is not None, "an election among others than the voters"
                self._send_vote(endpoint, pre_vote=isinstance(state, Prospective))
            again_ms = min(again_ms, core.requests.ready_at_ms(voter_id))
        return again_ms

    def _send_vote(self, endpoint: Endpoint, *, pre_vote: bool) -> None:
        core = self._core
        voter = core.voters.key(endpoint.node_id)
        end = core.log.end
        request = messages.VoteRequest(
            core.config.cluster_id,
            core.quorum.epoch,
            core.config.node_id,
            core.config.directory_id,
            endpoint.node_id,
            messages.NO_DIRECTORY if voter is None else voter.directory_id,
            end.epoch,
            end.offset,
            pre_vote,
        )
        self._send(
            endpoint,
            request,
            messages.VoteResponse,
            lambda response: self._vote_answered(endpoint.node_id, response, pre_vote=pre_vote),
            lambda failure: self._vote_failed(failure, pre_vote=pre_vote),
        )

    def _vote_answered(
        self, voter_id: int, response: messages.VoteResponse, *, pre_vote: bool
    ) -> None:
        state = self._core.quorum.state
        wanted = Prospective if pre_vote else Candidate
        if not isinstance(state, Prospective | Candidate) or not isinstance(state, wanted):
            return
        if not state.election.is_voter(voter_id):
            return  # it was asked when it was a voter
        state.election.record(voter_id, granted=response.vote_granted)
        if isinstance(state, Prospective):
            if state.election.is_won:
                self._core.become_candidate()
            elif state.election.is_lost:
                self._core.after_prospective_loss()
        elif state.election.is_won:
            self._core.become_leader()
        # A candidate that lost waits for the rest of its time-out: to stand again at once is how
        # voters with equal time-outs keep each other from winning (KAFKA-18345).

    def _vote_failed(self, failure: Failure, *, pre_vote: bool) -> None:
        if pre_vote and failure is Failure.UNSUPPORTED_VERSION:
            # A voter from before KIP-996: without PreVote there is only the real election.
            if isinstance(self._core.quorum.state, Prospective):
                self._core.become_candidate()

    def send_end_quorum_epoch(self, state: Resigned, now_ms: float) -> float:
        """Notify voters that have not acknowledged the resignation; returns when to try again."""
        core = self._core
        again_ms = state.election_deadline_ms
        for voter_id in tuple(state.unacknowledged):
            if core.requests.is_ready(voter_id, now_ms):
                self._send_end(state, voter_id)
            again_ms = min(again_ms, core.requests.ready_at_ms(voter_id))
        return again_ms

    def _send_end(self, state: Resigned, voter_id: int) -> None:
        core = self._core
        endpoint = core.voters.endpoint(voter_id)
        if endpoint is None:
            state.unacknowledged.pop(voter_id)  # no voter any more, as a loaded snapshot says
            return

        def on_answer(_: messages.EndQuorumEpochResponse) -> None:
            if core.quorum.state is state:
                state.unacknowledged.pop(voter_id, None)

        request = messages.EndQuorumEpochRequest(
            core.config.cluster_id,
            core.config.node_id,
            state.epoch,
            state.preferred_successors,
            state.leader_endpoint,
        )
        self._send(endpoint, request, messages.EndQuorumEpochResponse, on_answer)

    # -- fetching --------------------------------------------------------------------------------

    def fetch_from_leader(self, state: Follower, now_ms: float) -> float:
        """Fetch from the leader, or ask around when it cannot be asked; returns when again."""
        core = self._core
        # Only a voter stands for election when its time is over; an observer asks around, also its
        # leader, which may lead for good and be none of the others that it asks (KAFKA-19354).
        is_lost = now_ms >= state.fetch_deadline_ms
        if is_lost:
            # The voters may count on it already, by a record that it has not fetched: an observer
            # that refused every PreVote for ever would leave them without a majority.
            state.has_fetched_from_leader = False
        deadline_ms = NEVER_MS if is_lost else state.fetch_deadline_ms
        if not self.may_fetch() or self._is_log_about_to_change():
            return deadline_ms
        awaited_until_ms = core.requests.awaited_until_ms(now_ms)
        if awaited_until_ms is not None:
            return min(deadline_ms, awaited_until_ms)
        if core.requests.is_ready(state.leader_id, now_ms):
            if self._updates.maybe_send(state, now_ms):
                pass  # a Fetch follows its answer
            elif core.download is None:
                self._send_fetch(state.leader_endpoint)
            else:
                self._snapshots.send(state)
            return min(deadline_ms, core.requests.ready_at_ms(state.leader_id))
        return min(deadline_ms, self.fetch_from_bootstrap(now_ms))

    def may_fetch(self) -> bool:
        """A voter's Fetch says that it holds all below its offset, so that must be durable."""
        return self._core.log.is_durable

    def _is_log_about_to_change(self) -> bool:
        """Whether a snapshot is loaded and will replace the log: no Fetch may be in flight then."""
        core = self._core
        if core.is_installing_snapshot:
            return True
        return core.download is not None and core.download.frozen

    def fetch_from_bootstrap(self, now_ms: float) -> float:
        """Ask any voter, to learn the leader; returns when to try again."""
        core = self._core
        if not self.may_fetch() or self._is_log_about_to_change():
            return NEVER_MS  # the completion of the fsync polls again
        endpoint = core.requests.find_ready_bootstrap(now_ms)
        if endpoint is not None:
            self._send_fetch(endpoint)
        return core.requests.bootstrap_ready_at_ms()

    def _send_fetch(self, destination: Endpoint) -> None:
        core = self._core
        config, state, log = core.config, core.quorum.state, core.log
        epoch, end_offset = state.epoch, log.end_offset
        core.trace(
            "fetch",
            epoch=epoch,
            leader_id=state.leader_id,
            asked_id=destination.node_id,
            offset=end_offset,
            durable_end_offset=log.durable_end_offset,
        )
        request = messages.FetchRequest(
            config.cluster_id,
            config.node_id,
            config.directory_id,
            epoch,
            end_offset,
            log.last_fetched_epoch,
            config.fetch_wait_ms,
            config.fetch_max_bytes,
            log.high_watermark,
        )
        self._send(
            destination, request, messages.FetchResponse, lambda r: self._take_fetch(request, r)
        )

    def _take_fetch(self, request: messages.FetchRequest, response: messages.FetchResponse) -> None:
        """Take up what the leader has. Raises ContradictionError."""
        core = self._core
        state = core.quorum.state
        if not isinstance(state, Follower) or response.leader_id != state.leader_id:
            return
        assert request.fetch_offset == core.log.end_offset, "the log moved under a fetch in flight"
        agrees = response.diverging_epoch is None and response.snapshot_id is None
        if agrees and 0 <= response.high_watermark < core.log.high_watermark:
            raise ContradictionError(
                f"high watermark {response.high_watermark} below the one already known, "
                f"{core.log.high_watermark}"
            )
        if response.snapshot_id is not None:
            self._snapshots.begin(state, response.snapshot_id)
        elif response.diverging_epoch is not None:
            self._truncate(response.diverging_epoch)
        elif response.records and not self._append(response.records, state):
            return
        state.fetch_deadline_ms = core.clock.monotonic_ms() + core.config.fetch_timeout_ms
        state.has_fetched_from_leader = True
        if agrees and response.high_watermark >= 0:
            # Only once the log agrees with the leader's: what lay above the divergence was never
            # committed (KAFKA-14704).
            core.hear_high_watermark(response.high_watermark)
            core.follower_high_watermark_moved(min(core.log.end_offset, response.high_watermark))

    def _truncate(self, diverging: OffsetAndEpoch) -> None:
        core = self._core
        try:
            end_offset = core.log.truncate_to_end_offset(diverging)
        except IllegalStateError as error:
            # Nothing was cut. What is committed stays, whichever leader has lost it.
            raise ContradictionError(str(error)) from error
        core.trace("truncate", end_offset=end_offset, epoch=diverging.epoch)
        core.take_up_voters()

    def _append(self, records: bytes, state: Follower) -> bool:
        core = self._core
        base_offset = core.log.end_offset
        try:
            appended = core.log.append_as_follower(records, state.epoch)
        except CorruptBatchError as error:
            core.trace("corrupt-fetch", epoch=state.epoch, reason=str(error))
            core.requests.on_failure(state.leader_id, core.clock.monotonic_ms())
            return False
        except MisplacedBatchError as error:
            raise ContradictionError(str(error)) from error
        if appended:
            core.trace(
                "append",
                epoch=core.log.last_fetched_epoch,
                base_offset=base_offset,
                last_offset=core.log.end_offset - 1,
                role="follower",
            )
            core.take_up_voters()
            core.flush_log()
        return True


def _is_success(response: Response) -> bool:
    """Whether the peer may be asked again at once.

    After any error it is left alone for a moment: two nodes that know nothing would ask each other
    as fast as the network carries it.
    """
    return response.top_level_error is ErrorCode.none and response.error is ErrorCode.none
