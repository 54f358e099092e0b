"""The standings of a simulated world's nodes, and the trace events of its story."""

from __future__ import annotations

from typing import Any

from cluster.backends.sim.incarnation import Incarnation
from cluster.backends.sim.world import SimWorld
from harness.run.trace_tail import Followed

Noted = tuple[float, int, str, dict[str, Any]]
"""(world's ms, incarnation, event, fields)"""

_EVERYDAY = frozenset({"fetch", "flush", "commit", "read", "start"})


class Watch(Followed):
    """Follows the nodes' trace events, each at the instruction that writes it."""

    def __init__(self, world: SimWorld) -> None:
        super().__init__(world.names)
        self.world = world
        self.noted: dict[str, list[Noted]] = {name: [] for name in world.names}
        """Node -> its trace events except the everyday ones."""
        world.on_start.append(lambda process: self.note_start(process.name))
        world.on_end.append(lambda process: self.note_end(process.name))
        world.observers.append(self._on_event)

    async def follow(self) -> None:
        """Do nothing: the world calls the observers."""

    def _on_event(self, process: Incarnation, event: str, fields: dict[str, Any]) -> None:
        if event not in _EVERYDAY:
            now_ms = self.world.scheduler.now_ms
            self.noted[process.name].append((now_ms, process.incarnation, event, fields))
        self.take_event(process.name, event, fields)
