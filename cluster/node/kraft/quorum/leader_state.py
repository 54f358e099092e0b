"""What a leader knows of its replicas, and what follows: high watermark and check quorum.

Sources: LeaderState.java; KIP-595 "Leader Progress Timeout"; Raft section 5.4.2 for the rule that
only an offset of the leader's own epoch commits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from cluster.node.kraft.messages import NO_DIRECTORY, ReplicaKey
from cluster.node.kraft.quorum.accumulator import BatchAccumulator
from cluster.node.kraft.quorum.control_state import Voter, VoterSet
from cluster.node.kraft.quorum.states import NEVER_MS
from cluster.node.kraft.types import IllegalStateError
from cluster.node.ports import Endpoint

# Progress of replicas as a leader sees it, and the bounded number of observers that it remembers.
#
# Anybody who reaches the port can fetch under as many ids and directories as there are. So a
# leader remembers `OBSERVERS_MAX` observers, and forgets first one that fetched only once, then
# the one that has not fetched for longest. A broker fetches all the time, so it is among the last
# to go; and one that is forgotten is known again with its next Fetch. Each Fetch costs O(1).
#
# Source: LeaderState.java, whose observers are bounded by their session alone.


OBSERVER_SESSION_TIMEOUT_MS = 300_000
"""An observer that has not fetched for this long is forgotten (LeaderState.java)."""

OBSERVERS_MAX = 2_000
"""Twice as many as may be connected to a listener by default (`max.connections`)."""

NEVER_FETCHED_MS = -NEVER_MS


@dataclass(slots=True)
class ReplicaState:
    """Progress of one replica as its fetches show it. Times are the leader's monotonic ms."""

    key: ReplicaKey
    end_offset: int = -1
    """What it holds durably; -1 until it was heard of in this epoch."""
    last_fetch_ms: float = NEVER_FETCHED_MS
    last_fetch_leader_end_offset: int = -1
    last_caught_up_ms: float = NEVER_FETCHED_MS
    last_fetch_wall_ms: int = -1
    last_caught_up_wall_ms: int = -1
    begin_sent_ms: float = NEVER_FETCHED_MS
    asked_read: int = 0
    """The latest read that the last BeginQuorumEpoch to this voter may confirm."""
    confirmed_read: int = 0
    """The latest read with a leadership check that this voter answered; see `RaftClient`."""


class Observers:
    """What a leader knows of replicas that are no voters."""

    __slots__ = ("_once", "_steady")

    def __init__(self) -> None:
        self._once: OrderedDict[ReplicaKey, ReplicaState] = OrderedDict()
        """Those that fetched once, in that order."""
        self._steady: OrderedDict[ReplicaKey, ReplicaState] = OrderedDict()
        """Those that fetched again, the idlest first."""

    def __len__(self) -> int:
        return len(self._once) + len(self._steady)

    def __iter__(self) -> Iterator[ReplicaState]:
        yield from self._once.values()
        yield from self._steady.values()

    def get(self, key: ReplicaKey) -> ReplicaState | None:
        """What is known of an observer."""
        return self._steady.get(key) or self._once.get(key)

    def observe_fetch(self, key: ReplicaKey, now_ms: float) -> ReplicaState:
        """Return the state of an observer that fetches now, to be brought up to date."""
        state = self._steady.get(key)
        if state is not None:
            self._steady.move_to_end(key)
            return state
        state = self._once.pop(key, None)
        if state is not None:
            self._steady[key] = state
            return state
        self._make_room(now_ms)
        state = self._once[key] = ReplicaState(key)
        return state

    def add(self, state: ReplicaState) -> None:
        """Go on with what was known of a voter, which is an observer now."""
        self._steady[state.key] = state

    def pop(self, key: ReplicaKey) -> ReplicaState | None:
        """Take out what is known of an observer, which is a voter now."""
        return self._steady.pop(key, None) or self._once.pop(key, None)

    def live(self, now_ms: float) -> tuple[ReplicaState, ...]:
        """Those with a session that is not over, in order of their keys. Changes nothing."""
        live = (state for state in self if not _is_over(state, now_ms))
        return tuple(sorted(live, key=lambda s: (s.key.id, s.key.directory_id.int)))

    def _make_room(self, now_ms: float) -> None:
        for states in (self._once, self._steady):
            while states and _is_over(next(iter(states.values())), now_ms):
                states.popitem(last=False)
        if len(self) >= OBSERVERS_MAX:
            (self._once or self._steady).popitem(last=False)


def _is_over(state: ReplicaState, now_ms: float) -> bool:
    return now_ms - state.last_fetch_ms >= OBSERVER_SESSION_TIMEOUT_MS


CAUGHT_UP_WINDOW_MS = 3_600_000
"""A replica that is to become a voter must have fetched within this time (LeaderState.java)."""


@dataclass(slots=True)
class Leader:
    """The leader of an epoch. Never grants votes; starts without a high watermark."""

    name: ClassVar[str] = "Leader"
    epoch: int
    local: ReplicaKey
    leader_endpoint: Endpoint | None
    voters: VoterSet
    granting_voters: tuple[int, ...]
    epoch_start_offset: int
    accumulator: BatchAccumulator
    check_quorum_timeout_ms: float
    now_ms: float
    leader_id: int = field(init=False)
    """Its own id."""
    high_watermark: int | None = None
    """Exclusive; None until a record of this epoch is committed."""
    is_voter: bool = field(init=False)
    """Whether it is one of the voters; it leads on while its own removal is not committed."""
    confirmations_needed: int = field(init=False)
    """How many others make a majority with this leader, if it votes."""
    check_quorum_deadline_ms: float = field(init=False)
    resign_requested: bool = False
    observers: Observers = field(default_factory=Observers)
    replicas: dict[int, ReplicaState] = field(init=False)
    """Every voter, this node included when it is one."""
    _remote_voters: tuple[ReplicaState, ...] = field(init=False)
    _fetched_voters: dict[int, None] = field(default_factory=dict)
    last_change_offset: int = -1
    """The last VotersRecord that this leader gave to its accumulator."""
    updated_voters: dict[int, Voter] = field(default_factory=dict)
    """Under kraft.version 0: voters as they describe themselves (UpdateRaftVoter)."""
    voted_key: ClassVar[ReplicaKey | None] = None

    def __post_init__(self) -> None:
        self.leader_id = self.local.id
        self.replicas = {voter.key.id: ReplicaState(voter.key) for voter in self.voters}
        self._take_up_voters()
        self.check_quorum_deadline_ms = self._next_check_quorum_deadline(self.now_ms)

    def can_grant_vote(self, candidate: ReplicaKey, *, log_ok: bool, pre_vote: bool) -> bool:  # noqa: ARG002  (one signature for all states)
        """Never: a leader does not help to depose itself."""
        return False

    def _take_up_voters(self) -> None:
        """Note what follows from the voters in force."""
        self._remote_voters = tuple(
            state for id_, state in self.replicas.items() if id_ != self.local.id
        )
        self.is_voter = self.voters.is_voter(self.local)
        self.confirmations_needed = self.voters.majority - (1 if self.is_voter else 0)

    def update_voters(self, voters: VoterSet, now_ms: float) -> bool:
        """Lead another voter set from now on. Returns whether the high watermark moved.

        A replica that stays, or was an observer, keeps its progress: it is the same replica
        (LeaderState.updateVoterAndObserverStates). The high watermark never goes back, and
        advances only by what a majority of the new set holds.
        """
        before, self.voters = self.replicas, voters
        self.replicas = {voter.key.id: self._state_in(voter.key, before) for voter in voters}
        for state in before.values():
            if not voters.is_voter(state.key) and state.key.id != self.local.id:
                self.observers.add(state)
        self._take_up_voters()
        self._fetched_voters = {
            id_: None for id_ in self._fetched_voters if self.replicas.get(id_) is before.get(id_)
        }
        if self.check_quorum_deadline_ms == NEVER_MS or voters.is_only_voter(self.local):
            self.check_quorum_deadline_ms = self._next_check_quorum_deadline(now_ms)
        return self._maybe_advance_high_watermark()

    def _state_in(self, key: ReplicaKey, before: dict[int, ReplicaState]) -> ReplicaState:
        """What is known of a replica that is a voter now."""
        known = before.get(key.id)
        if known is not None and known.key.directory_id in (NO_DIRECTORY, key.directory_id):
            known.key = key
            return known
        return self.observers.pop(key) or ReplicaState(key)

    def is_caught_up(self, key: ReplicaKey, now_ms: float) -> bool:
        """Whether a replica fetches, and held all of the log once (isReplicaCaughtUp)."""
        state = self.observers.get(key)
        return (
            state is not None
            and state.last_caught_up_ms > NEVER_FETCHED_MS
            and now_ms - state.last_fetch_ms < CAUGHT_UP_WINDOW_MS
        )

    def remote_voters(self) -> tuple[ReplicaState, ...]:
        """The other voters, ascending by id."""
        return self._remote_voters

    # -- progress --------------------------------------------------------------------------------

    def update_local(self, durable_end_offset: int) -> bool:
        """Count what this node itself holds durably. Returns whether the high watermark moved."""
        mine = self.replicas.get(self.local.id)
        if mine is not None:
            mine.end_offset = durable_end_offset
        return self._maybe_advance_high_watermark()

    def update_replica(
        self,
        key: ReplicaKey,
        fetch_offset: int,
        leader_end_offset: int,
        now_ms: float,
        wall_ms: int,
    ) -> bool:
        """Count a replica's valid Fetch: it holds everything below `fetch_offset` durably.

        A lower offset than before is possible for a replica that lost its disk (KAFKA-12181): it
        is believed, but the high watermark stays. Returns whether the high watermark moved.
        """
        if key.id == self.local.id:
            raise IllegalStateError("a Fetch that claims to come from this leader itself")
        is_voter = self.voters.is_voter(key)
        state = self._voter(key) if is_voter else self.observers.observe_fetch(key, now_ms)
        if fetch_offset >= leader_end_offset:
            state.last_caught_up_ms, state.last_caught_up_wall_ms = now_ms, wall_ms
        elif fetch_offset >= state.last_fetch_leader_end_offset >= 0:
            # It now holds all that the leader had when it fetched before.
            state.last_caught_up_ms = max(state.last_caught_up_ms, state.last_fetch_ms)
            state.last_caught_up_wall_ms = state.last_fetch_wall_ms
        state.last_fetch_ms = max(state.last_fetch_ms, now_ms)
        state.last_fetch_wall_ms = wall_ms
        state.last_fetch_leader_end_offset = leader_end_offset
        progressed = state.end_offset != fetch_offset
        state.end_offset = fetch_offset
        if is_voter:
            self._count_for_check_quorum(key.id, now_ms)
            # A Fetch from where the last was proves nothing new: every second one is such.
            return progressed and self._maybe_advance_high_watermark()
        return False

    def _voter(self, key: ReplicaKey) -> ReplicaState:
        state = self.replicas[key.id]
        known = state.key.directory_id
        if known is NO_DIRECTORY or known == NO_DIRECTORY:
            state.key = key
        return state

    # -- high watermark --------------------------------------------------------------------------

    def committed_candidate(self) -> int | None:
        """The largest offset that a majority of the voters hold durably.

        Voters' end offsets in descending order, that of the last of a majority: so many hold it.
        A voter not heard of yet counts lowest. The leader counts once, and only as a voter.
        """
        offsets = sorted((state.end_offset for state in self.replicas.values()), reverse=True)
        offset = offsets[self.voters.majority - 1]
        return None if offset < 0 else offset

    def _maybe_advance_high_watermark(self) -> bool:
        candidate = self.committed_candidate()
        # A record of an earlier epoch on a majority may still be overwritten (Raft, figure 8), so
        # nothing commits before this epoch's own LeaderChange at epoch_start_offset does.
        if candidate is None or not self.may_commit(candidate):
            return False
        if self.high_watermark is not None and candidate <= self.high_watermark:
            return False
        self.high_watermark = candidate
        return True

    def may_commit(self, offset: int) -> bool:
        """Whether an exclusive offset covers at least one record of this leader's epoch."""
        return offset > self.epoch_start_offset

    def replica_offsets(self) -> dict[str, int]:
        """End offsets by voter id, for the trace; -1 for a voter not heard of."""
        return {str(id_): state.end_offset for id_, state in self.replicas.items()}

    # -- check quorum ----------------------------------------------------------------------------

    def _next_check_quorum_deadline(self, now_ms: float) -> float:
        if self.voters.is_only_voter(self.local):
            return NEVER_MS  # KAFKA-16144: a single voter has its majority always
        return now_ms + self.check_quorum_timeout_ms

    def count_alive(self, key: ReplicaKey, now_ms: float) -> None:
        """Count a FetchSnapshot or UpdateRaftVoter: its sender is alive and follows."""
        if key.id != self.local.id and self.voters.is_voter(key):
            self._count_for_check_quorum(key.id, now_ms)

    def _count_for_check_quorum(self, voter_id: int, now_ms: float) -> None:
        """Begin a new period once a majority, the leader included if it votes, was heard of."""
        self._fetched_voters[voter_id] = None
        if len(self._fetched_voters) >= self.confirmations_needed:
            self._fetched_voters.clear()
            self.check_quorum_deadline_ms = self._next_check_quorum_deadline(now_ms)

    # -- leadership checks for linearizable reads ------------------------------------------------

    def confirmed_read(self, latest_read: int) -> int:
        """The latest read for which a majority confirmed this leadership after it arrived."""
        confirmed = [state.confirmed_read for state in self._remote_voters]
        if self.local.id in self.replicas:
            confirmed.append(latest_read)
        confirmed.sort(reverse=True)
        return confirmed[self.voters.majority - 1]

    # -- resignation -----------------------------------------------------------------------------

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with the longest log first (for EndQuorumEpoch)."""
        ordered = sorted(self.remote_voters(), key=lambda s: (-s.end_offset, s.key.id))
        return tuple(state.key for state in ordered)
