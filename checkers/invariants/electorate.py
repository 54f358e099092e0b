"""Voters, voter sets and votes, as the nodes' traces report them (KIP-853).

A voter is an id and the directory of its log. A node whose disk was wiped comes back with another
directory and is another replica: the votes and records of the former replica do not count for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from checkers.invariants.sight import Fields, node_name

ANY = "00000000-0000-0000-0000-000000000000"
"""Directory of a static voter: it matches every directory."""


@dataclass(frozen=True, slots=True)
class VotersInForce:
    """The newest voter set in one node's log."""

    directories: Mapping[str, str] = field(default_factory=dict)
    """Directory by the name of the node."""
    offset: int = -1
    """Of its VotersRecord; -1 for the configured set and that of a bootstrap checkpoint."""

    @property
    def majority(self) -> int:
        """How many voters are a majority."""
        return len(self.directories) // 2 + 1

    def __str__(self) -> str:
        return ", ".join(self.directories) or "none"


def voters_of(fields: Fields) -> dict[str, str]:
    """Read the voters that an event reports: directory by node name."""
    return {node_name(voter_id): directory for voter_id, directory in fields["voters"].items()}


_NO_VOTERS = VotersInForce()


class Electorate:
    """Follows directories, voter sets and votes."""

    def __init__(self) -> None:
        self.directories: dict[str, str] = {}
        """The directory that each node has now."""
        self.votes: dict[tuple[str, str, int], str] = {}
        """(voter, its directory, epoch) -> the candidate that it voted for first."""
        self.has_changed = False
        """Whether any log had other voters behind those that were there."""
        self._in_force: dict[str, VotersInForce] = {}
        """The newest voter set in each node's log."""
        self._offsets: dict[str, list[int]] = {}
        """Offsets of the voter sets that each node's process used and has in its log."""

    def is_replaced(self, node: str, directory: str) -> bool:
        """Whether a node that starts with a directory is another replica than before."""
        return self.directories.get(node, directory) != directory

    def start(self, node: str, directory: str) -> None:
        """Note that a process started with a directory."""
        self.directories[node] = directory
        self._offsets[node] = [-1]

    def vote_of(self, node: str, epoch: int) -> str | None:
        """Return the candidate that this replica voted for first in an epoch."""
        return self.votes.get((node, self.directories.get(node, ANY), epoch))

    def vote(self, node: str, epoch: int, candidate: str) -> None:
        """Note a vote."""
        self.votes.setdefault((node, self.directories.get(node, ANY), epoch), candidate)

    def forgotten_offset(self, node: str, offset: int, committed_end: int) -> int | None:
        """Return the offset of committed voters that are newer than those taken up now.

        `committed_end`: the high watermark that the node knows; a voter set above it may be
        truncated again.
        """
        known = self._offsets.setdefault(node, [-1])
        newest = max(entry for entry in known if entry < max(committed_end, 0))
        return newest if newest > offset else None

    def begin_anew(self, node: str, committed_end: int) -> None:
        """Note that a log gave way to a snapshot: what it held above may never be committed."""
        known = self._offsets.setdefault(node, [-1])
        self._offsets[node] = [entry for entry in known if entry < max(committed_end, 0)]

    def take_up(self, node: str, voters: VotersInForce) -> None:
        """Note the voters that a node uses from now on."""
        before = self.members(node).directories
        self.has_changed |= bool(before and difference(before, voters.directories))
        self._in_force[node] = voters
        known = self._offsets.setdefault(node, [-1])
        # Sets at this offset and above were truncated: other records may be committed there.
        self._offsets[node] = [entry for entry in known if entry < voters.offset] + [voters.offset]

    def lose(self, node: str) -> None:
        """Note that a log was cut and nothing says which voters that brings back."""
        if self.has_changed:
            self._in_force.pop(node, None)

    def members(self, node: str) -> VotersInForce:
        """The voters in force at a node."""
        return self._in_force.get(node, _NO_VOTERS)

    def is_voter(self, node: str) -> bool:
        """Whether a node is one of the voters in force there."""
        directory = self.members(node).directories.get(node)
        return directory is not None and directory in (ANY, self.directories.get(node))

    def granting(self, node: str, epoch: int) -> list[str]:
        """The members of a node's voter set that voted for it."""
        return [
            voter
            for voter, directory in self.members(node).directories.items()
            if self._voted_for(voter, directory, epoch, node)
        ]

    def _voted_for(self, voter: str, directory: str, epoch: int, candidate: str) -> bool:
        if directory != ANY:
            return self.votes.get((voter, directory, epoch)) == candidate
        return any(
            chosen == candidate
            for (name, _, at), chosen in self.votes.items()
            if (name, at) == (voter, epoch)
        )


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> int:
    """Count voters that were added or removed; one whose directory became known was neither."""
    changed = 0
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old != new and not (old == ANY and new is not None):
            changed += 1 if old is None or new is None else 2
    return changed
