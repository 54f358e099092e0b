"""What the nodes of a run are and do right now, known from their traces alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DEAD = "Dead"
STARTING = "Starting"

Listener = Callable[[str, str, Mapping[str, Any]], None]
"""(node, event, fields)"""


@dataclass(slots=True)
class Standing:
    """One node, as its trace shows it."""

    state: str = DEAD
    epoch: int = 0
    leader_id: int = -1
    established: bool = False
    """It leads, and has committed a record of its epoch."""
    end_offset: int = 0
    durable_offset: int = 0


class Standings:
    """Follows all nodes; listeners hear of each trace event after it is accounted for."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = {name: Standing() for name in nodes}
        self.listeners: list[Listener] = []
        self.changes_of_leader = 0
        self._last_leader: str | None = None

    def leader(self) -> str | None:
        """Name the running leader of the highest epoch."""
        leading = [
            (standing.epoch, name)
            for name, standing in self.nodes.items()
            if standing.state == "Leader"
        ]
        return max(leading)[1] if leading else None

    def running(self) -> tuple[str, ...]:
        """Name the nodes that live (a paused one lives)."""
        return tuple(name for name, at in self.nodes.items() if at.state != DEAD)

    def highest_epoch(self) -> int:
        """Highest epoch that any node has reached."""
        return max(standing.epoch for standing in self.nodes.values())

    def role(self, name: str) -> str:
        """Role of a node in coverage: leader, follower, voter (none of these), dead."""
        state = self.nodes[name].state
        if state == DEAD:
            return "dead"
        return {"Leader": "leader", "Follower": "follower"}.get(state, "voter")

    def phase(self) -> str:
        """Phase of the protocol: electing, establishing, catching-up, steady."""
        leader = self.leader()
        if leader is None:
            return "electing"
        at = self.nodes[leader]
        if not at.established:
            return "establishing"
        followers = [other for other in self.nodes.values() if other.state == "Follower"]
        if any(other.end_offset < at.end_offset - 1 for other in followers):
            return "catching-up"
        return "steady"

    def note_start(self, name: str) -> None:
        """Note that a node's process was started."""
        self.nodes[name] = Standing(state=STARTING, epoch=self.nodes[name].epoch)

    def note_end(self, name: str) -> None:
        """Note that it ended."""
        standing = self.nodes[name]
        standing.state, standing.established = DEAD, False

    def take_event(self, name: str, event: str, fields: Mapping[str, Any]) -> None:
        """Take one trace event, and call the listeners."""
        standing = self.nodes[name]
        if event == "state":
            standing.state, standing.epoch = fields["state"], fields["epoch"]
            standing.leader_id, standing.established = fields["leader_id"], False
        elif event == "hw":
            if fields["role"] == "leader":
                standing.established = True
        elif event == "append":
            standing.end_offset = fields["last_offset"] + 1
        elif event == "flush":
            standing.durable_offset = fields["end_offset"]
        elif event == "truncate":
            standing.end_offset = fields["end_offset"]
            standing.durable_offset = min(standing.durable_offset, standing.end_offset)
        elif event == "recovered":
            standing.end_offset = standing.durable_offset = fields["end_offset"]
        elif event == "claim" and name != self._last_leader:
            self.changes_of_leader += self._last_leader is not None
            self._last_leader = name
        for listener in self.listeners:
            listener(name, event, fields)
