"""The worlds in which a plan of this suite runs: simulated, real processes, and containers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from cluster.backends.base import Backend
from cluster.backends.docker.docker_backend import DockerBackend
from cluster.backends.local.local_backend import LocalBackend
from cluster.backends.sim import loop
from cluster.backends.sim.scheduler import Scheduler
from cluster.backends.sim.settings import SimSettings
from cluster.backends.sim.sim_backend import SimBackend
from cluster.backends.sim.world import SimWorld
from cluster.node.ports import Clock
from cluster.node.runtime.clock import LoopClock
from cluster.systems.kraft import KraftSystem
from harness.sim.sights.images import ImageWatch
from harness.sim.sights.world import watch

STEADY = {"controller.quorum.fetch.timeout.ms": 5_000, "broker.session.timeout.ms": 60_000}
"""No stall of a busy machine deposes a leader of real processes, or fences a broker."""

Work = Callable[[Backend, Clock], Awaitable[None]]


class LocalArm:
    """Processes, TCP, files, real time."""

    name = "local"

    def play(self, work: Work, folder: Path, nodes: int, settings: Mapping[str, int]):
        async def whole() -> None:
            backend = LocalBackend(KraftSystem(settings), folder, nodes, folder.name)
            await work(backend, LoopClock(asyncio.get_running_loop()))

        asyncio.run(whole())


class DockerArm:
    """Containers on a network of their own."""

    name = "docker"

    def play(self, work: Work, folder: Path, nodes: int, settings: Mapping[str, int]):
        async def whole() -> None:
            backend = DockerBackend(KraftSystem(settings), folder, nodes, folder.name)
            await work(backend, LoopClock(asyncio.get_running_loop()))

        asyncio.run(whole())


class SimArm:
    """One process, virtual time, every invariant watched."""

    name = "sim"

    def __init__(self, **settings: object) -> None:
        self._settings = SimSettings(**settings)  # type: ignore[arg-type]

    def play(self, work: Work, folder: Path, nodes: int, settings: Mapping[str, int]):
        scheduler = Scheduler()
        world = SimWorld(
            nodes,
            1,
            run_id=folder.name,
            settings=self._settings,
            node_settings=settings,
            scheduler=scheduler,
        )
        backend = SimBackend(world, folder)
        monitor = watch(backend.world)
        ImageWatch(backend.world, monitor)
        loop.run(work(backend, backend.clock), scheduler)
        assert monitor.violations == []
