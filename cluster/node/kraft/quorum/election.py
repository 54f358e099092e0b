"""Counting the votes of one election, or of one pre-election (EpochElection)."""

from __future__ import annotations

from collections.abc import Iterable

from cluster.node.kraft.types import IllegalStateError


class EpochElection:
    """The voters that granted, that rejected, and that have yet to answer.

    Won when a majority of the voters granted; lost when those that granted and those that may
    still grant are fewer than a majority.
    """

    __slots__ = ("_answers", "_majority")

    def __init__(self, voter_ids: Iterable[int]) -> None:
        self._answers: dict[int, bool | None] = dict.fromkeys(voter_ids)
        self._majority = len(self._answers) // 2 + 1

    def record(self, voter_id: int, *, granted: bool) -> None:
        """Record a voter's answer. A voter answers once: a changed answer is a broken invariant."""
        if voter_id not in self._answers:
            raise IllegalStateError(f"a vote of {voter_id}, which is no voter of this election")
        before = self._answers[voter_id]
        if before is True and not granted:
            raise IllegalStateError(f"voter {voter_id} took back its vote")
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
