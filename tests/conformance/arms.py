"""The two worlds in which every body of this suite runs: simulated, and real processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from checkers.invariants.watcher import Watcher
from cluster.backends.base import Backend
from cluster.backends.docker.docker_backend import DockerBackend
from cluster.backends.local.local_backend import LocalBackend
from cluster.backends.sim import loop
from cluster.backends.sim.scheduler import Scheduler
from cluster.backends.sim.settings import SimSettings
from cluster.backends.sim.sim_backend import SimBackend
from cluster.client.admin_client import CLUSTER_RESOURCE, Client
from cluster.client.caller import CallFailed, FinalReadRefused, Outcome, Peer
from cluster.node.ports import Clock
from cluster.node.runtime.clock import LoopClock
from cluster.systems.base import Listener
from cluster.systems.kraft import KraftSystem
from harness.sim.image_sight import ImageWatch
from harness.sim.world_sight import watch
from tests.running import running

KEY = "kraftprobe.register.1"
ELECTION_S = 300.0
"""How long anything may take that needs a new leader, on a busy machine."""
STEADY = {"controller.quorum.fetch.timeout.ms": 5_000, "broker.session.timeout.ms": 60_000}
"""No stall of a busy machine deposes a leader of real processes, or fences a broker."""

Body = Callable[["Cluster"], Awaitable[None]]
Work = Callable[[Backend, Clock], Awaitable[None]]


class Cluster:
    """A running cluster and a client of it."""

    def __init__(self, backend: Backend, clock: Clock, timeout_ms: float = 800.0) -> None:
        self.backend = backend
        self.clock = clock
        self.client = Client(backend.client_network(), clock)
        self.timeout_ms = timeout_ms

    def peer(self, node: str, listener: Listener = "CONTROLLER") -> Peer:
        return Peer(self.backend.endpoint(node, listener), self.timeout_ms)

    async def eventually(self, what: str, condition: Callable[[], Awaitable[object]]):
        """Wait for a condition; returns what it gave."""
        running = asyncio.get_running_loop()
        deadline = running.time() + ELECTION_S
        while running.time() < deadline:
            if found := await condition():
                return found
            await asyncio.sleep(0.05)
        raise AssertionError(f"not within {ELECTION_S:g} s: {what}")

    async def leader(self, but: str | None = None) -> str:
        """Wait for a node that has just committed a read as the leader."""

        async def reads() -> str | None:
            for node in self.backend.nodes:
                if node != but and (await self.read(node)).type == "ok":
                    return node
            return None

        return str(await self.eventually("a leader", reads))

    async def write(self, node: str, value: str) -> Outcome:
        return await self.client.alter_config(self.peer(node), CLUSTER_RESOURCE, KEY, "set", value)

    async def read(self, node: str) -> Outcome:
        return await self.client.read_config(self.peer(node), CLUSTER_RESOURCE, KEY)

    async def write_somewhere(self, value: str, but: str | None = None) -> str:
        """Write until it is acknowledged; returns the node."""

        async def acknowledged() -> str | None:
            for node in self.backend.nodes:
                if node != but and (await self.write(node, value)).type == "ok":
                    return node
            return None

        return str(await self.eventually(f"an acknowledged write of {value}", acknowledged))

    async def image(self, node: str) -> str | None:
        """What a node's own image holds for the key."""
        try:
            found = await self.client.final_read(self.peer(node, "CLIENT"))
        except (CallFailed, FinalReadRefused):
            return None
        return found["configs"].get("broker:", {}).get(KEY)

    async def converged(self, value: str) -> None:
        """Wait until every node serves a value from its own image."""

        async def everywhere() -> bool:
            return all([await self.image(node) == value for node in self.backend.nodes])

        await self.eventually(f"all nodes serve {value}", everywhere)

    def links_of(self, node: str) -> list[tuple[str, str]]:
        others = [other for other in self.backend.nodes if other != node]
        return [(node, other) for other in others] + [(other, node) for other in others]


class LocalArm:
    """Processes, TCP, files, real time."""

    name = "local"

    def run(self, body: Body, folder: Path, nodes: int = 3, run_id: str = "conformance") -> None:
        async def whole() -> None:
            backend = LocalBackend(KraftSystem(STEADY), folder, nodes, run_id)
            async with running(backend):
                await body(Cluster(backend, LoopClock(asyncio.get_running_loop()), 5_000.0))
            assert backend.unexpected_deaths() == ()

        asyncio.run(whole())

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

    def _make(
        self, folder: Path, nodes: int, node_settings: Mapping[str, int] | None = None
    ) -> tuple[SimBackend, Watcher, Scheduler]:
        scheduler = Scheduler()
        backend = SimBackend(
            nodes,
            1,
            folder.name,
            settings=self._settings,
            node_settings=node_settings,
            run_folder=folder,
            scheduler=scheduler,
        )
        monitor = watch(backend.world)
        ImageWatch(backend.world, monitor)
        return backend, monitor, scheduler

    def run(self, body: Body, folder: Path, nodes: int = 3) -> None:
        backend, monitor, scheduler = self._make(folder, nodes)

        async def whole() -> None:
            async with running(backend):
                await body(Cluster(backend, backend.clock))

        loop.run(whole(), scheduler)
        assert backend.unexpected_deaths() == ()
        assert monitor.violations == []

    def play(self, work: Work, folder: Path, nodes: int, settings: Mapping[str, int]):
        backend, monitor, scheduler = self._make(folder, nodes, settings)
        loop.run(work(backend, backend.clock), scheduler)
        assert monitor.violations == []
