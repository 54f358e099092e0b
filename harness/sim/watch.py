"""The standings of a simulated world's nodes, and what its story is made of."""

from __future__ import annotations

from typing import Any

from cluster.backends.sim.process import Process
from cluster.backends.sim.world import SimWorld
from harness.trace_tail import Followed

Noted = tuple[float, int, str, dict[str, Any]]
"""(world's ms, incarnation, event, fields)"""

_EVERYDAY = frozenset({"fetch", "flush", "commit", "read", "start"})


class Watch(Followed):
    """Hears of each trace event at the instruction at which it is written."""

    def __init__(self, world: SimWorld) -> None:
        super().__init__(world.names)
        self.world = world
        self.told: dict[str, list[Noted]] = {name: [] for name in world.names}
        """What is worth a line in a story, of each node, with the world's time."""
        world.on_start.append(lambda process: self.started(process.name))
        world.on_end.append(lambda process: self.ended(process.name))
        world.observers.append(self._heard)

    async def follow(self) -> None:
        """Nothing is left to do: the world calls."""

    def _heard(self, process: Process, event: str, fields: dict[str, Any]) -> None:
        if event not in _EVERYDAY:
            now_ms = self.world.scheduler.now_ms
            self.told[process.name].append((now_ms, process.incarnation, event, fields))
        self.traced(process.name, event, fields)
