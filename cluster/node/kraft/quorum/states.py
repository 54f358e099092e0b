"""The six epoch states of a replica (KIP-595, KIP-996; EpochState and its subclasses in Kafka).

A state knows its epoch, whether it may grant a vote, and its timers as monotonic deadlines in
milliseconds. `QuorumState` owns the moves between them. The leader's state is in
`cluster.node.kraft.quorum.leader_state`.

Since KAFKA-17067 there is no "Voted" state: a vote is a field of Unattached, Prospective and
Follower, and no move within an epoch may lose it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from cluster.node.kraft.messages import NO_NODE, ReplicaKey
from cluster.node.ports import Endpoint


class EpochElection:
    """The voters that granted in one election, that rejected, and that have yet to answer.

    Won when a majority of the voters granted; lost when those that granted and those that may
    still grant are fewer than a majority.
    """

    __slots__ = ("_answers", "_majority")

    def __init__(self, voter_ids: Iterable[int]) -> None:
        self._answers: dict[int, bool | None] = dict.fromkeys(voter_ids)
        self._majority = len(self._answers) // 2 + 1

    def record(self, voter_id: int, *, granted: bool) -> None:
        """Record a voter's answer. A voter answers once: a changed answer is a broken invariant."""
        assert voter_id in self._answers, f"a vote of {voter_id}, which is no voter here"
        assert granted or not self._answers[voter_id], f"voter {voter_id} took back its vote"
        self._answers[voter_id] = granted

    def is_voter(self, voter_id: int) -> bool:
        """Whether this election asks that replica."""
        return voter_id in self._answers

    @property
    def unrecorded(self) -> tuple[int, ...]:
        """Voters that have yet to answer, ascending."""
        return tuple(voter for voter, answer in self._answers.items() if answer is None)

    @property
    def granting(self) -> tuple[int, ...]:
        """Voters that granted, ascending."""
        return tuple(voter for voter, answer in self._answers.items() if answer)

    @property
    def is_won(self) -> bool:
        """Whether a majority granted."""
        return len(self.granting) >= self._majority

    @property
    def is_lost(self) -> bool:
        """Whether a majority can no longer be reached."""
        return len(self.granting) + len(self.unrecorded) < self._majority


NEVER_MS = math.inf


@dataclass(slots=True)
class Unattached:
    """Knows its epoch but follows nobody; waits to hear of a leader, or to ask for votes."""

    name: ClassVar[str] = "Unattached"
    epoch: int
    election_deadline_ms: float
    """`NEVER_MS` for an observer, which never stands for election."""
    leader_id: int = NO_NODE
    """A leader that is known by id only."""
    voted_key: ReplicaKey | None = None
    leader_endpoint: ClassVar[Endpoint | None] = None

    def can_grant_vote(self, candidate: ReplicaKey, *, log_ok: bool, pre_vote: bool) -> bool:
        """Whether to grant, given whether the candidate's log is at least as up to date."""
        return _can_grant_uncommitted(self, candidate, log_ok=log_ok, pre_vote=pre_vote)


@dataclass(slots=True)
class Prospective:
    """Asks whether it would win before it raises the epoch (PreVote, KIP-996)."""

    name: ClassVar[str] = "Prospective"
    epoch: int
    election_deadline_ms: float
    election: EpochElection
    leader_id: int = NO_NODE
    leader_endpoint: Endpoint | None = None
    """The leader it followed, to which it returns when it does not win."""
    voted_key: ReplicaKey | None = None

    def can_grant_vote(self, candidate: ReplicaKey, *, log_ok: bool, pre_vote: bool) -> bool:
        """As Unattached."""
        return _can_grant_uncommitted(self, candidate, log_ok=log_ok, pre_vote=pre_vote)


@dataclass(slots=True)
class Candidate:
    """Has voted for itself in its epoch and asks the others."""

    name: ClassVar[str] = "Candidate"
    epoch: int
    election_deadline_ms: float
    election: EpochElection
    voted_key: ReplicaKey
    """Itself."""
    leader_id: ClassVar[int] = NO_NODE
    leader_endpoint: ClassVar[Endpoint | None] = None

    def can_grant_vote(self, candidate: ReplicaKey, *, log_ok: bool, pre_vote: bool) -> bool:  # noqa: ARG002  (one signature for all states)
        """A PreVote commits to nothing, so the log decides; the real vote is its own."""
        return pre_vote and log_ok


@dataclass(slots=True)
class Follower:
    """Fetches from the leader of its epoch."""

    name: ClassVar[str] = "Follower"
    epoch: int
    leader_id: int
    leader_endpoint: Endpoint
    fetch_deadline_ms: float
    """Without a successful Fetch until then the leader counts as lost. Not randomised."""
    voted_key: ReplicaKey | None = None
    has_fetched_from_leader: bool = False
    update_voter_due_ms: float = field(default=0.0, compare=False)
    """When to look next whether the voter set describes this replica rightly (KIP-853)."""
    has_updated_leader: bool = False
    """The leader of this epoch took this replica's UpdateRaftVoter."""

    def can_grant_vote(self, candidate: ReplicaKey, *, log_ok: bool, pre_vote: bool) -> bool:  # noqa: ARG002  (one signature for all states)
        """Grant nothing once the leader is heard from, else a disturbed server would depose it."""
        return pre_vote and not self.has_fetched_from_leader and log_ok


@dataclass(slots=True)
class Resigned:
    """Led this epoch and gave it up, or restarted as its leader; notifies the voters.

    It must neither vote in nor follow its own epoch again (KAFKA-10661), so it leaves it for the
    next one when its timer ends.
    """

    name: ClassVar[str] = "Resigned"
    epoch: int
    leader_id: int
    """Itself."""
    election_deadline_ms: float
    unacknowledged: dict[int, None] = field(default_factory=dict)
    """Voters that have not yet answered EndQuorumEpoch, in order."""
    preferred_successors: tuple[ReplicaKey, ...] = ()
    voted_key: ClassVar[ReplicaKey | None] = None
    leader_endpoint: Endpoint | None = None

    def can_grant_vote(self, candidate: ReplicaKey, *, log_ok: bool, pre_vote: bool) -> bool:  # noqa: ARG002  (one signature for all states)
        """It led this epoch, so its real vote in it is spent."""
        return pre_vote and log_ok


def _can_grant_uncommitted(
    state: Unattached | Prospective, candidate: ReplicaKey, *, log_ok: bool, pre_vote: bool
) -> bool:
    """One vote an epoch: a vote already given is given again to the same replica only."""
    if pre_vote:
        return log_ok
    if state.voted_key is not None:
        return state.voted_key in (candidate, ReplicaKey(candidate.id))
    if state.leader_id != NO_NODE:
        return False
    return log_ok
