"""Which voters and which kraft.version are in force at any offset (KRaftControlRecordStateMachine).

A VotersRecord is in force from the moment it is in the log, committed or not (KIP-853; Raft's
single-server changes): so this is read to the log end, goes back with it when it is truncated, and
is carried by the snapshots that replace its beginning. While no record holds voters, those of
`controller.quorum.voters` are in force.

The log calls `append`, `truncate` and `load` itself: what is here can never lag behind it.
Source: KRaftControlRecordStateMachine.java, VoterSetHistory.java, TreeMapLogHistory.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from cluster.node.kraft.messages import NO_DIRECTORY, ReplicaKey
from cluster.node.kraft.types import IllegalStateError
from cluster.node.log.batch import control
from cluster.node.log.batch.control import (
    ControlMessage,
    KRaftVersion,
    VoterListener,
    Voters,
    decode_control,
)
from cluster.node.log.batch.records import BatchHeader, CorruptBatchError, decode_records
from cluster.node.log.metadata.snapshot import Snapshot
from cluster.node.ports import Endpoint
from cluster.values import valueclass

# The set of voters: their identity, where they listen, which kraft.version each can work with.


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


STATIC_OFFSET = -1
"""The offset of what no record of the log holds: the configuration, or a bootstrap checkpoint."""

T = TypeVar("T")


class LogHistory(Generic[T]):
    """Values by the offset of the record that holds them, ascending (TreeMapLogHistory)."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[int, T]] = []

    def add(self, offset: int, value: T) -> None:
        """Add the newest value."""
        assert not self._entries or self._entries[-1][0] <= offset, "history goes forward"
        self._entries.append((offset, value))

    def last(self) -> tuple[int, T] | None:
        """The newest value and its offset."""
        return self._entries[-1] if self._entries else None

    def at(self, offset: int) -> T | None:
        """The newest value at or below an offset."""
        for known, value in reversed(self._entries):
            if known <= offset:
                return value
        return None

    def truncate_new(self, end_offset: int) -> None:
        """Forget what the log no longer holds, which ends at `end_offset` now."""
        while self._entries and self._entries[-1][0] >= end_offset:
            self._entries.pop()

    def truncate_old(self, start_offset: int) -> None:
        """Forget what was in force below `start_offset` only.

        Not what was in force just before it: a record at `start_offset` itself may be truncated
        yet. TreeMapLogHistory.java keeps the last entry at or below it and forgets that one.
        """
        while len(self._entries) > 1 and self._entries[1][0] < start_offset:
            self._entries.pop(0)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()


class ControlState:
    """Owned by the log; see the module."""

    def __init__(
        self, static_voters: VoterSet | None = None, listener_name: str = DEFAULT_LISTENER
    ) -> None:
        self._static = VoterSet(()) if static_voters is None else static_voters
        self._listener_name = listener_name
        self._voters: LogHistory[VoterSet] = LogHistory()
        self._versions: LogHistory[int] = LogHistory()
        self.voters = self._static
        """The newest voter set, committed or not."""
        self.voters_offset = STATIC_OFFSET
        """The offset of its VotersRecord."""
        self.kraft_version = 0
        """The newest finalized kraft.version, committed or not."""

    def voters_at(self, offset: int) -> VoterSet:
        """The voter set that was in force once everything up to `offset` was in the log."""
        found = self._voters.at(offset)
        return self._static if found is None else found

    def kraft_version_at(self, offset: int) -> int:
        """The kraft.version, likewise."""
        return self._versions.at(offset) or 0

    # -- what the log holds ----------------------------------------------------------------------

    def append(self, batches: Iterable[tuple[BatchHeader, bytes]]) -> None:
        """Take up batches that are now at the end of the log.

        Raises IllegalStateError for a control record that cannot be understood: it is in the log.
        """
        for header, batch in batches:
            if header.is_control:
                try:
                    messages = [decode_control(record) for record in decode_records(batch)]
                except CorruptBatchError as error:
                    raise IllegalStateError(f"offset {header.base_offset}: {error}") from error
                for delta, message in enumerate(messages):
                    self._take(header.base_offset + delta, message)
                self._refresh()

    def truncate(self, end_offset: int) -> None:
        """Take up that the log ends at `end_offset` now."""
        self._voters.truncate_new(end_offset)
        self._versions.truncate_new(end_offset)
        self._refresh()

    def forget_before(self, start_offset: int) -> None:
        """Take up that the log begins at `start_offset` now."""
        self._voters.truncate_old(start_offset)
        self._versions.truncate_old(start_offset)

    def load(self, snapshot: Snapshot | None) -> None:
        """Begin anew from what a snapshot holds, or from the configuration alone."""
        self._voters.clear()
        self._versions.clear()
        if snapshot is not None:
            for message in snapshot.control:
                self._take(snapshot.id.offset - 1, message)
        self._refresh()

    def _take(self, offset: int, message: ControlMessage | None) -> None:
        """Note what one control record holds; most hold nothing."""
        match message:
            case Voters():
                try:
                    voters = VoterSet.from_record(message, self._listener_name)
                except ValueError as error:
                    raise IllegalStateError(f"VotersRecord at offset {offset}: {error}") from None
                self._voters.add(offset, voters)
            case KRaftVersion(kraft_version):
                if not 0 <= kraft_version <= MAX_KRAFT_VERSION:
                    raise IllegalStateError(
                        f"kraft.version {kraft_version} at offset {offset} is not supported"
                    )
                self._versions.add(offset, kraft_version)

    def _refresh(self) -> None:
        last = self._voters.last()
        self.voters_offset, self.voters = (STATIC_OFFSET, self._static) if last is None else last
        version = self._versions.last()
        self.kraft_version = 0 if version is None else version[1]
