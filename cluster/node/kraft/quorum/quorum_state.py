"""The epoch state of this replica, and every legal move between the six states.

A move that changes what must never be forgotten (epoch, leader, vote) is written and fsynced
first, and only then happens in memory: a continuation `then` runs after it. `busy` is true in
between, and the raft client handles nothing else meanwhile, so the order of events is kept.
Entering Prospective and Resigned changes nothing that is persisted.

Source: QuorumState.java; spec rows S0 "QuorumState", "Transitions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from cluster.node.kraft.messages import NO_NODE, ReplicaKey
from cluster.node.kraft.quorum.accumulator import BatchAccumulator
from cluster.node.kraft.quorum.config import RaftConfig
from cluster.node.kraft.quorum.control_state import ControlState, VoterSet
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.quorum_state_store import ElectionState, QuorumStateStore, encode
from cluster.node.kraft.quorum.states import (
    NEVER_MS,
    Candidate,
    EpochElection,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from cluster.node.kraft.types import IllegalStateError, LeaderAndEpoch
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Clock, Endpoint, Random, Trace

EpochState = Unattached | Prospective | Candidate | Leader | Follower | Resigned

Then = Callable[[], None]


class QuorumState:
    """Owns the current epoch state. All methods are called on the node's task."""

    def __init__(
        self,
        config: RaftConfig,
        store: QuorumStateStore,
        clock: Clock,
        random: Random,
        trace: Trace,
        resume: Callable[[Then], None],
        control: ControlState,
    ) -> None:
        """`resume` continues the event that began the move; `control` has the voters in force."""
        self._control = control
        self._resume = resume
        self._config = config
        self._store = store
        self._clock = clock
        self._random = random
        self._trace = trace
        self._persisted: bytes | None = None
        self.busy = False
        self._be(Unattached(0, NEVER_MS))

    def _be(self, state: EpochState) -> None:
        """Change the state, and what is derived from it, as all of it is asked for all the time."""
        self.state: EpochState = state
        self.leader: Leader | None = state if isinstance(state, Leader) else None
        """The state, while this replica leads."""
        self.is_settled = isinstance(state, Leader | Follower)
        """Whether this node leads its epoch, or follows its leader: no response moves it."""
        leader_id = NO_NODE if isinstance(state, Resigned) else state.leader_id
        self.leader_and_epoch = LeaderAndEpoch(leader_id, state.epoch)
        """Leader and epoch for the listeners. A replica that resigned is no leader."""

    # -- what it is ------------------------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        """The newest voter set in the log, else the configured one."""
        return self._control.voters

    @property
    def is_voter(self) -> bool:
        """Whether this replica is one of the voters, as far as its log says."""
        return self.voters.is_voter(self._config.replica_key)

    @property
    def is_only_voter(self) -> bool:
        """Whether this replica decides alone."""
        return self.voters.is_only_voter(self._config.replica_key)

    @property
    def epoch(self) -> int:
        """The current epoch; never decreases."""
        return self.state.epoch

    @property
    def leader_id(self) -> int:
        """The known leader of the current epoch, or -1."""
        return self.state.leader_id

    def election_deadline_ms(self) -> float:
        """In T + rand(0..T); never for an observer."""
        timeout_ms = self._random_timeout_ms() if self.is_voter else NEVER_MS
        return self._clock.monotonic_ms() + timeout_ms

    def _election(self) -> EpochElection:
        """An election among the voters, in which this replica has voted for itself."""
        election = EpochElection(self.voters.ids)
        if self.is_voter:
            election.record(self._config.node_id, granted=True)
        return election

    def _random_timeout_ms(self) -> float:
        timeout_ms = self._config.election_timeout_ms
        return timeout_ms + self._random.randrange(0, timeout_ms + 1)

    # -- start -----------------------------------------------------------------------------------

    def initialize(self, log_end: OffsetAndEpoch, then: Then) -> None:
        """Take up the persisted state (QuorumState.initialize). Raises QuorumStateError."""
        persisted = self._store.read() or ElectionState()
        now, deadline = self._clock.monotonic_ms(), self.election_deadline_ms()
        me = self._config.replica_key
        voted = persisted.voted_key
        state: EpochState
        leader = self.voters.endpoint(persisted.leader_id)
        if persisted.epoch < log_end.epoch:
            # The file was lost or is older than the log: records of that epoch prove that it began,
            # but not its vote in it, and it may have led it.
            state = Unattached(log_end.epoch, deadline)
        elif persisted.leader_id == me.id:
            state = self._resigned_state(persisted.epoch, ())
        elif persisted.leader_id == NO_NODE and self.is_voter and voted in (me, ReplicaKey(me.id)):
            # Without a known leader only: a candidate that then followed another keeps its vote in
            # the file, and must not stand again in an epoch with a leader that it knows.
            state = Candidate(persisted.epoch, deadline, self._election(), me)
        elif persisted.leader_id != NO_NODE and leader is not None:
            fetch_deadline = now + self._config.fetch_timeout_ms
            state = Follower(
                persisted.epoch, persisted.leader_id, leader, fetch_deadline, persisted.voted_key
            )
            state.update_voter_due_ms = now + self._config.update_voter_period_ms
        else:
            state = Unattached(persisted.epoch, deadline, persisted.leader_id, voted)
        self._durably(state, then)

    # -- moves -----------------------------------------------------------------------------------

    def to_unattached(self, epoch: int, then: Then, leader_id: int = NO_NODE) -> None:
        """Follow nobody in a higher epoch, or in the same after a pre-election was not won."""
        state = self.state
        if leader_id == self._config.node_id:
            raise IllegalStateError(
                f"a message makes this replica the leader of epoch {epoch}, which it does not lead"
            )
        voted: ReplicaKey | None = None
        if epoch == state.epoch:
            if not isinstance(state, Prospective):
                self._refuse("Unattached", epoch)
            leader_id = leader_id if leader_id != NO_NODE else state.leader_id
            voted = state.voted_key
        self._check_epoch("Unattached", epoch)
        self._durably(Unattached(epoch, self._kept_deadline(), leader_id, voted), then)

    def add_vote(self, epoch: int, candidate: ReplicaKey, then: Then) -> None:
        """Vote for a candidate in the current epoch; from Unattached and Prospective only."""
        state = self.state
        if epoch != state.epoch or not isinstance(state, Unattached | Prospective):
            self._refuse("a vote", epoch)
        if state.leader_id != NO_NODE or candidate.id == self._config.node_id:
            self._refuse(f"a vote for {candidate.id}", epoch)
        if state.voted_key not in (None, candidate, ReplicaKey(candidate.id)):
            raise IllegalStateError(f"a second vote in epoch {epoch}")
        deadline = self.election_deadline_ms()
        if isinstance(state, Unattached):
            moved: EpochState = Unattached(epoch, deadline, NO_NODE, candidate)
        else:
            moved = Prospective(
                epoch, deadline, state.election, NO_NODE, state.leader_endpoint, candidate
            )
        self._durably(moved, then)

    def to_prospective(self, then: Then) -> None:
        """Ask the voters whether this replica could win."""
        state = self.state
        if not isinstance(state, Unattached | Candidate | Follower | Resigned):
            self._refuse("Prospective", state.epoch)
        if isinstance(state, Resigned):
            # Only a single voter goes this way, at its start, and it votes for nobody else.
            if not self.is_only_voter:
                self._refuse("Prospective", state.epoch)
        if not self.is_voter:
            self._refuse("Prospective as an observer", state.epoch)
        leader_id = NO_NODE if isinstance(state, Resigned) else state.leader_id
        self._enter(
            Prospective(
                state.epoch,
                self.election_deadline_ms(),
                self._election(),
                leader_id,
                state.leader_endpoint,
                state.voted_key,
            )
        )
        then()

    def after_prospective_loss(self, then: Then) -> None:
        """Back to the leader that it followed, if it knew one, else Unattached; same epoch."""
        state = self.state
        if not isinstance(state, Prospective):
            self._refuse("a lost pre-election", state.epoch)
        if state.leader_id != NO_NODE and state.leader_endpoint is not None:
            self.to_follower(state.epoch, state.leader_id, state.leader_endpoint, then)
        else:
            self.to_unattached(state.epoch, then)

    def to_candidate(self, then: Then) -> None:
        """Raise the epoch and vote for itself."""
        if not isinstance(self.state, Prospective):
            self._refuse("Candidate", self.state.epoch + 1)
        deadline, me = self.election_deadline_ms(), self._config.replica_key
        self._durably(Candidate(self.epoch + 1, deadline, self._election(), me), then)

    def to_leader(self, epoch_start_offset: int, accumulator: BatchAccumulator, then: Then) -> None:
        """Lead the epoch in which a majority voted for this candidate."""
        state = self.state
        if not (isinstance(state, Candidate) and state.election.is_won and self.is_voter):
            self._refuse("Leader", state.epoch)
        leader = Leader(
            epoch=state.epoch,
            local=self._config.replica_key,
            leader_endpoint=self._config.local_endpoint,
            voters=self.voters,
            granting_voters=state.election.granting,
            epoch_start_offset=epoch_start_offset,
            accumulator=accumulator,
            check_quorum_timeout_ms=self._config.check_quorum_timeout_ms,
            now_ms=self._clock.monotonic_ms(),
        )
        self._durably(leader, then)

    def to_follower(self, epoch: int, leader_id: int, endpoint: Endpoint, then: Then) -> None:
        """Follow the leader of a higher epoch, or the newly known leader of this one."""
        state = self.state
        if leader_id in (NO_NODE, self._config.node_id):
            raise IllegalStateError(f"cannot follow {leader_id} in epoch {epoch}")
        voted: ReplicaKey | None = None
        if epoch == state.epoch:
            if isinstance(state, Leader | Resigned):
                self._refuse(f"Follower of {leader_id}", epoch)
            if isinstance(state, Follower) and state.leader_endpoint == endpoint:
                self._refuse(f"Follower of {leader_id} again", epoch)
            if state.leader_id not in (NO_NODE, leader_id):
                raise IllegalStateError(
                    f"two leaders in epoch {epoch}: {state.leader_id} and {leader_id}"
                )
            voted = state.voted_key
        self._check_epoch("Follower", epoch)
        now = self._clock.monotonic_ms()
        follower = Follower(epoch, leader_id, endpoint, now + self._config.fetch_timeout_ms, voted)
        follower.update_voter_due_ms = now + self._config.update_voter_period_ms
        self._durably(follower, then)

    def to_resigned(self, then: Then) -> None:
        """Give up the leadership of the current epoch."""
        state = self.state
        if not isinstance(state, Leader):
            self._refuse("Resigned", state.epoch)
        self._enter(self._resigned_state(state.epoch, state.successors()))
        then()

    def _resigned_state(self, epoch: int, successors: tuple[ReplicaKey, ...]) -> Resigned:
        me = self._config.node_id
        others = {id_: None for id_ in self.voters.ids if id_ != me}
        # Also a replica that is no voter any more leaves the epoch that it led.
        deadline = self._clock.monotonic_ms() + self._random_timeout_ms()
        endpoint = self._config.local_endpoint
        return Resigned(epoch, me, deadline, others, successors, endpoint)

    def take_up_voters(self) -> None:
        """The voter set changed: let the current state fit the new one.

        Only a follower or a leader changes its log, but a snapshot that was being installed may
        arrive in the midst of an election: that one is counted anew, among the new voters.
        """
        state = self.state
        if isinstance(state, Prospective | Candidate):
            state.election = self._election()
        elif isinstance(state, Unattached):
            state.election_deadline_ms = self._kept_deadline()

    # -- how a move happens ----------------------------------------------------------------------

    def _kept_deadline(self) -> float:
        """The election deadline is kept on moves to Unattached.

        A new one for every higher epoch that comes along would let a stream of candidates that
        cannot win keep this replica from ever standing itself.
        """
        state = self.state
        if self.is_voter and isinstance(state, Unattached | Prospective | Candidate | Resigned):
            if self._clock.monotonic_ms() < state.election_deadline_ms < NEVER_MS:
                return state.election_deadline_ms
        return self.election_deadline_ms()

    def _check_epoch(self, target: str, epoch: int) -> None:
        if epoch < self.state.epoch:
            self._refuse(target, epoch)

    def _refuse(self, target: str, epoch: int) -> NoReturn:
        raise IllegalStateError(
            f"no move from {self.state.name} in epoch {self.state.epoch} to {target} in {epoch}"
        )

    def _durably(self, state: EpochState, then: Then) -> None:
        assert not self.busy, "a move while another is being persisted"
        content = encode(
            ElectionState(state.epoch, state.leader_id, state.voted_key),
            self.voters.ids,
            version=self._control.kraft_version,
        )
        if content == self._persisted:
            self._enter(state)
            then()
            return
        self.busy = True

        def on_persist() -> None:
            self._persisted = content
            self._enter(state)
            then()

        def on_write() -> None:
            self.busy = False
            self._resume(on_persist)

        self._store.write(content, on_write)

    def _enter(self, state: EpochState) -> None:
        self._be(state)
        self._trace(
            "state",
            state=state.name,
            epoch=state.epoch,
            leader_id=state.leader_id,
            voted_id=NO_NODE if state.voted_key is None else state.voted_key.id,
        )
