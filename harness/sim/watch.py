"""What the nodes of a world are and do right now, told from their traces alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster.backends.sim.process import Process
from cluster.backends.sim.world import SimWorld

DEAD = "Dead"
STARTING = "Starting"

Heard = Callable[[str, str, dict[str, Any]], None]
"""(node, event, fields)"""

Told = tuple[float, int, str, dict[str, Any]]
"""(world's ms, incarnation, event, fields)"""

_EVERYDAY = frozenset({"fetch", "flush", "commit", "read", "start"})


@dataclass(slots=True)
class Standing:
    """One node, as its trace tells it."""

    state: str = DEAD
    epoch: int = 0
    leader_id: int = -1
    established: bool = False
    """It leads, and has committed a record of its epoch."""
    end_offset: int = 0
    durable_offset: int = 0
    refuses: bool = False
    """What is left on its disk is damaged: it will not start again."""


class Watch:
    """Follows all nodes; listeners hear of each trace event after it is accounted for."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.nodes = {name: Standing() for name in world.names}
        self.listeners: list[Heard] = []
        self.changes_of_leader = 0
        self.told: dict[str, list[Told]] = {name: [] for name in world.names}
        """What is worth telling of each node, with the world's time."""
        self._last_leader: str | None = None
        world.on_start.append(self._started)
        world.on_end.append(self._ended)
        world.observers.append(self._heard)

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

    def _started(self, process: Process) -> None:
        self.nodes[process.name] = Standing(state=STARTING, epoch=self.nodes[process.name].epoch)

    def _ended(self, process: Process) -> None:
        standing = self.nodes[process.name]
        standing.state, standing.established = DEAD, False

    def _heard(self, process: Process, event: str, fields: dict[str, Any]) -> None:  # noqa: C901  (a table)
        standing = self.nodes[process.name]
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
        elif event == "claim" and process.name != self._last_leader:
            self.changes_of_leader += self._last_leader is not None
            self._last_leader = process.name
        if event not in _EVERYDAY:
            now_ms = self.world.scheduler.now_ms
            self.told[process.name].append((now_ms, process.incarnation, event, fields))
        for listener in self.listeners:
            listener(process.name, event, fields)
