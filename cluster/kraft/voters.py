"""The set of voters and where they listen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cluster.kraft.messages import NO_DIRECTORY, ReplicaKey
from cluster.ports import Endpoint


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter: who it is, and its controller listener."""

    key: ReplicaKey
    endpoint: Endpoint


class VoterSet:
    """Voters by id, in order of id. Immutable.

    Under kraft.version 0 the set comes from `controller.quorum.voters` and names no directories;
    then any directory of a listed id is that voter.
    """

    __slots__ = ("_voters", "ids")

    def __init__(self, voters: Iterable[Voter]) -> None:
        ordered = sorted(voters, key=lambda voter: voter.key.id)
        self._voters = {voter.key.id: voter for voter in ordered}
        self.ids: tuple[int, ...] = tuple(self._voters)
        """Ids, ascending."""
        if len(self._voters) != len(ordered):
            raise ValueError("a voter id is listed twice")

    @classmethod
    def of(cls, endpoints: Iterable[Endpoint]) -> VoterSet:
        """A static voter set."""
        return cls(Voter(ReplicaKey(endpoint.node_id), endpoint) for endpoint in endpoints)

    def __len__(self) -> int:
        return len(self._voters)

    def __contains__(self, voter_id: object) -> bool:
        return voter_id in self._voters

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    @property
    def majority(self) -> int:
        """The smallest number of voters of which any two such groups share one."""
        return len(self._voters) // 2 + 1

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether this replica is a voter; an unknown directory on either side is no objection."""
        voter = self._voters.get(key.id)
        if voter is None:
            return False
        known = voter.key.directory_id
        return (
            known is NO_DIRECTORY
            or known == key.directory_id
            or NO_DIRECTORY
            in (
                known,
                key.directory_id,
            )
        )

    def is_only_voter(self, key: ReplicaKey) -> bool:
        """Whether this replica decides alone."""
        return len(self._voters) == 1 and self.is_voter(key)

    def endpoint(self, voter_id: int) -> Endpoint | None:
        """Where a voter listens; None for who is not one."""
        voter = self._voters.get(voter_id)
        return None if voter is None else voter.endpoint

    def key(self, voter_id: int) -> ReplicaKey | None:
        """A voter's identity; None for who is not one."""
        voter = self._voters.get(voter_id)
        return None if voter is None else voter.key
