"""The view of a simulated world that faults act through (`nemeses.base.View`)."""

from __future__ import annotations

from random import Random

from cluster.backends.sim.sim_backend import SimBackend
from harness.run.world_standings import Watch
from nemeses.base import Injection


class SimView:
    """A view for one fault; all views of a run share the list of active injections."""

    bound_s = None
    """None: the time is virtual, and `harness.plan.plan.Bounds` holds the bounds of the world."""

    def __init__(
        self, backend: SimBackend, watch: Watch, active: list[Injection], random: Random
    ) -> None:
        self.backend = backend
        self.controllers = backend.nodes
        self.active = active
        self.random = random
        self._watch = watch

    async def leader(self) -> str | None:
        """Return the leader of the world's state, without asking the nodes."""
        return self._watch.leader()

    async def partition_leader(self) -> str | None:
        """Return None: no simulated fault targets topics."""
        return None
