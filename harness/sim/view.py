"""What faults see of a simulated world (`nemeses.base.View`)."""

from __future__ import annotations

from random import Random

from cluster.backends.sim.sim_backend import SimBackend
from harness.sim.watch import Watch
from nemeses.base import Injection


class SimView:
    """One moment's view; all views of a run share the list of active injections."""

    def __init__(
        self, backend: SimBackend, watch: Watch, active: list[Injection], random: Random
    ) -> None:
        self.backend = backend
        self.active = active
        self.random = random
        self._watch = watch

    async def leader(self) -> str | None:
        """Know it, without a question."""
        return self._watch.leader()

    async def partition_leader(self) -> str | None:
        """Know of none: the swarm aims at no topics."""
        return None
