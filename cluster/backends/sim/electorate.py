"""Who may vote, as the nodes' traces tell: the monitor's view of reconfiguration (KIP-853).

A voter is an id and the directory of its log. A node whose disk was wiped comes back with another
directory and is another replica: what it promised and held before, it promised and held no more.
"""

from __future__ import annotations

from dataclasses import field

from cluster.backends.sim.hooks import TraceFields
from cluster.node.kraft.messages import NO_DIRECTORY
from cluster.values import valueclass

_ANY = str(NO_DIRECTORY)


@valueclass
class VotersInForce:
    """The newest voter set in one node's log."""

    directories: dict[str, str] = field(default_factory=dict)
    """Directory by the name of the node; all zero bits: whichever it has (static voters)."""
    offset: int = -1
    """Of its VotersRecord; -1 for the configured set and that of a bootstrap checkpoint."""

    @property
    def majority(self) -> int:
        """How many of them decide."""
        return len(self.directories) // 2 + 1


def voters_of(fields: TraceFields) -> dict[str, str]:
    """Read the voters that a trace event tells: directory by node name."""
    return {f"n{voter_id}": directory for voter_id, directory in fields["voters"].items()}


_NOBODY = VotersInForce()


class Electorate:
    """Follows directories, voter sets and votes."""

    def __init__(self) -> None:
        self.directories: dict[str, str] = {}
        """The directory that each node has now."""
        self.in_force: dict[str, VotersInForce] = {}
        """What each node's log says."""
        self._told: dict[str, list[int]] = {}
        """Offsets of the voter sets that each node's process went by and has in its log."""
        self.votes: dict[tuple[str, str, int], str] = {}
        """(voter, its directory, epoch) -> whom it voted for."""

    def started(self, name: str, directory: str) -> bool:
        """Note a node's directory; whether it is another replica than before."""
        known = self.directories.get(name)
        self.directories[name] = directory
        self._told[name] = [-1]
        return known not in (None, directory)

    def voted(self, name: str, epoch: int, candidate: str) -> str:
        """Note a vote; returns whom this replica voted for first in this epoch."""
        return self.votes.setdefault((name, self.directories[name], epoch), candidate)

    def take_up(self, name: str, voters: VotersInForce, committed_end: int) -> int | None:
        """Note the voters that a node goes by now.

        Returns the offset of newer ones that it went by before and knows to be committed, as its
        high watermark is `committed_end`.
        """
        self.in_force[name] = voters
        told = self._told.setdefault(name, [-1])
        newest = max(offset for offset in told if offset < max(committed_end, 0))
        # What it goes back behind was cut off: other records will be committed at those offsets.
        self._told[name] = [offset for offset in told if offset < voters.offset] + [voters.offset]
        return newest if newest > voters.offset else None

    def members(self, name: str) -> VotersInForce:
        """The voters in force at a node."""
        return self.in_force.get(name, _NOBODY)

    def granting(self, name: str, epoch: int) -> list[str]:
        """The members of a node's voter set that voted for it."""
        return [
            voter
            for voter, directory in self.members(name).directories.items()
            if self._voted_for(voter, directory, epoch, name)
        ]

    def _voted_for(self, voter: str, directory: str, epoch: int, candidate: str) -> bool:
        if directory != _ANY:
            return self.votes.get((voter, directory, epoch)) == candidate
        return any(
            chosen == candidate
            for (name, _, at), chosen in self.votes.items()
            if (name, at) == (voter, epoch)
        )

    def is_member(self, leader: str, voter: str) -> bool:
        """Whether the replica that a node is now is one of the voters in force at a leader."""
        directory = self.members(leader).directories.get(voter)
        return directory in (_ANY, self.directories.get(voter)) and directory is not None


def difference(before: dict[str, str], after: dict[str, str]) -> int:
    """How many voters came or went between two sets; one that was named only now did not."""
    changed = 0
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old != new and not (old == _ANY and new is not None):
            changed += 1 if old is None or new is None else 2
    return changed


__all__ = ["Electorate", "VotersInForce", "difference", "voters_of"]
