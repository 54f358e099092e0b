"""What is known of nodes: the fields of their events, and logs and disks where they can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

NO_NODE = -1
"""Kafka's id of no node."""

PERSISTED = frozenset({"Unattached", "Candidate", "Follower", "Leader"})
"""States whose epoch, leader and vote are in the quorum-state file before they are entered."""

Fields = Mapping[str, Any]
"""The fields of one event, as docs/evidence.md describes them."""

Batch = tuple[int, int, int, int]
"""(base offset, next offset, epoch, checksum)."""


@dataclass(frozen=True, slots=True)
class Election:
    """What a quorum-state file holds; -1: no node."""

    epoch: int
    leader_id: int
    voted_id: int

    @classmethod
    def of(cls, fields: Fields) -> Election:
        """Return what a file holds of the state that an event names."""
        return cls(fields["epoch"], fields["leader_id"], fields["voted_id"])

    def __str__(self) -> str:
        leader, vote = (
            f"n{i}" if i != NO_NODE else "none" for i in (self.leader_id, self.voted_id)
        )
        return f"epoch {self.epoch} (leader {leader}, vote {vote})"


@dataclass(frozen=True, slots=True)
class Term:
    """What a node that leads knows of the others, beside what it concludes from that."""

    fetched_ms: Mapping[str, float]
    """By voter: when its last Fetch counted, by the leader's clock."""
    confirmed: Mapping[str, int]
    """By voter: the number of the latest read for which it confirmed the leadership."""
    released: int
    """The number of the latest read that waits for that no more."""


class Sight(Protocol):
    """Access to nodes' logs and disks while they run, which a simulated world gives."""

    def is_open(self, node: str) -> bool:
        """Whether the node has opened its log; the other methods need that."""

    def start_offset(self, node: str) -> int:
        """First offset of the node's log."""

    def batches(self, node: str, offset: int) -> list[Batch]:
        """All batches of the node's log from `offset` on, which begins a batch or is the end."""

    def durable_end(self, node: str) -> int | None:
        """Offset below which all is durable, by the node's log; None: it does not run."""

    def quorum_state(self, node: str) -> Election | str | None:
        """What a power loss would leave of the quorum-state file; a string: its fault."""

    def monotonic_ms(self, node: str) -> float:
        """What the node's monotonic clock shows."""

    def waits_for_disk(self, node: str) -> bool:
        """Whether the node does nothing else while it syncs, as Kafka's raft thread."""

    def is_written(self, node: str) -> bool:
        """Whether the node waits for nothing that it asked of its disk."""

    def snapshot(self, node: str, offset: int, epoch: int) -> int | str:
        """Checksum of the durable bytes of a snapshot; a string: its fault."""

    def term(self, node: str) -> Term | None:
        """What it knows as the leader; None: it does not lead, or does not show it."""

    def latest_ready_read(self, node: str) -> int:
        """The number of the latest read that waits no more for it to be confirmed as the leader."""

    def may_resign(self, node: str) -> bool:
        """Whether the node that `term` showed may have another reason to resign than no quorum."""

    def must_resign(self, node: str) -> bool:
        """Whether the node leads others, and shuts down or was asked to resign or removed."""


def node_name(node_id: int) -> str:
    """Name a node by its id, as all events do here."""
    return f"n{node_id}"
