"""The set of voters: their identity, where they listen, which kraft.version each can work with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cluster.node.kraft.messages import NO_DIRECTORY, ReplicaKey
from cluster.node.log.batch import control
from cluster.node.log.batch.control import VoterListener
from cluster.node.ports import Endpoint
from cluster.values import valueclass

DEFAULT_LISTENER = "CONTROLLER"
"""The name of controllers' listeners by Kafka's custom, for voters that do not name it."""

LISTENERS_MAX = 64
NAME_MAX_CHARACTERS = 255
"""Bounds of what a voter may say of itself: it goes into the log of every node."""

MIN_KRAFT_VERSION = 0
MAX_KRAFT_VERSION = 1
"""What this node supports: static voters, and voters in the log (KIP-853)."""


@valueclass
class Voter:
    """A voter: its identity, and its controller listener."""

    key: ReplicaKey
    endpoint: Endpoint
    min_kraft_version: int = MIN_KRAFT_VERSION
    max_kraft_version: int = MAX_KRAFT_VERSION
    listeners: tuple[VoterListener, ...] = ()
    """All its controller listeners; `endpoint` is one of them. Empty: that one alone."""

    def supports(self, kraft_version: int) -> bool:
        """Whether it can work at this level."""
        return self.min_kraft_version <= kraft_version <= self.max_kraft_version


def select_endpoint(
    voter_id: int, listeners: Iterable[VoterListener], listener_name: str
) -> Endpoint | None:
    """Where to reach a voter: its listener of our name; None when it has none of that name."""
    for listener in listeners:
        if listener.name == listener_name:
            return Endpoint(voter_id, listener.host, listener.port)
    return None


class VoterSet:
    """Voters by id, in order of id. Immutable.

    Under kraft.version 0 the set comes from `controller.quorum.voters` and names no directories;
    then any directory of a listed id is that voter. Under kraft.version 1 it comes from the log,
    and only the directory that is named is.
    """

    __slots__ = ("_voters", "ids", "majority")

    def __init__(self, voters: Iterable[Voter]) -> None:
        ordered = sorted(voters, key=lambda voter: voter.key.id)
        self._voters = {voter.key.id: voter for voter in ordered}
        self.ids: tuple[int, ...] = tuple(self._voters)
        """Ids, ascending."""
        self.majority = len(self._voters) // 2 + 1
        """The smallest number of voters of which any two such groups share one."""
        if len(self._voters) != len(ordered):
            raise ValueError("a voter id is listed twice")

    @classmethod
    def of(cls, endpoints: Iterable[Endpoint]) -> VoterSet:
        """A static voter set."""
        return cls(Voter(ReplicaKey(endpoint.node_id), endpoint) for endpoint in endpoints)

    @classmethod
    def from_record(cls, record: control.Voters, listener_name: str) -> VoterSet:
        """The set that a VotersRecord holds; raises ValueError for one that cannot be meant."""
        found = []
        for voter in record.voters:
            if not voter.listeners:
                raise ValueError(f"voter {voter.voter_id} has no listener")
            endpoint = select_endpoint(voter.voter_id, voter.listeners, listener_name)
            if endpoint is None:
                first = voter.listeners[0]
                endpoint = Endpoint(voter.voter_id, first.host, first.port)
            found.append(
                Voter(
                    ReplicaKey(voter.voter_id, voter.directory_id),
                    endpoint,
                    voter.min_kraft_version,
                    voter.max_kraft_version,
                    voter.listeners,
                )
            )
        return cls(found)

    def to_record(self) -> control.Voters:
        """The VotersRecord of this set."""
        return control.Voters(
            tuple(
                control.Voter(
                    voter.key.id,
                    voter.key.directory_id,
                    voter.listeners
                    or (VoterListener(DEFAULT_LISTENER, voter.endpoint.host, voter.endpoint.port),),
                    voter.min_kraft_version,
                    voter.max_kraft_version,
                )
                for voter in self
            )
        )

    def __len__(self) -> int:
        return len(self._voters)

    def __contains__(self, voter_id: object) -> bool:
        return voter_id in self._voters

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether this replica is a voter: the id, and the directory too where the set names it."""
        voter = self._voters.get(key.id)
        if voter is None:
            return False
        known = voter.key.directory_id
        # What it mostly is comes first: ids are compared in Python.
        return known is NO_DIRECTORY or known in (key.directory_id, NO_DIRECTORY)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        """Whether this replica decides alone."""
        return len(self._voters) == 1 and self.is_voter(key)

    def get(self, voter_id: int) -> Voter | None:
        """A voter by its id."""
        return self._voters.get(voter_id)

    def endpoint(self, voter_id: int) -> Endpoint | None:
        """Where a voter listens; None for another id."""
        voter = self._voters.get(voter_id)
        return None if voter is None else voter.endpoint

    def key(self, voter_id: int) -> ReplicaKey | None:
        """A voter's identity; None for another id."""
        voter = self._voters.get(voter_id)
        return None if voter is None else voter.key

    def with_voter(self, voter: Voter) -> VoterSet:
        """This set with one voter more, or with a new description of the one of its id."""
        return VoterSet({**self._voters, voter.key.id: voter}.values())

    def without(self, voter_id: int) -> VoterSet:
        """This set without one of its voters."""
        assert voter_id in self._voters
        return VoterSet(voter for voter in self if voter.key.id != voter_id)
