"""Backend `sim`: a whole cluster in this process, in virtual time.

It runs inside a `cluster.backends.sim.loop.VirtualTimeLoop` whose scheduler it shares, so that the
harness's coroutines and the nodes share one virtual time:

    scheduler = Scheduler()
    backend = SimBackend(SimWorld(3, 7, scheduler=scheduler))
    reads = loop.run(conduct(Run(plan, backend, Recorder(journal, ...), backend.clock)), scheduler)

A start and a graceful stop take virtual time, as on real hosts. Every other coroutine of `Backend`
takes none: it has acted when it first suspends, and a measurement reads the world's state.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from cluster.backends.base import (
    Abilities,
    Ability,
    BackendError,
    ClientNetwork,
    Death,
    Link,
    LinkMeasure,
    Listener,
    NodeState,
    Probe,
    ProcessIdentity,
)
from cluster.backends.links.shapes import PERFECT
from cluster.backends.sim.abilities import SimShaping, sim_abilities
from cluster.backends.sim.incarnation import WALL_ORIGIN_MS
from cluster.backends.sim.mesh import Mesh, Reply
from cluster.backends.sim.scheduler import Entry, Scheduler
from cluster.backends.sim.world import SimWorld
from cluster.node.assembly import NodeSignal
from cluster.node.log.metadata.snapshot import SUFFIX
from cluster.node.log.storage.segment import METADATA_DIRECTORY
from cluster.node.ports import Endpoint, Failure
from cluster.node.runtime.trace import encode_line

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 6.0


class SimClock:
    """The harness's own clock: the world's time, without skew or drift."""

    __slots__ = ("_scheduler",)

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def monotonic_ms(self) -> float:
        """Milliseconds since the world began."""
        return self._scheduler.now_ms

    def wall_ms(self) -> int:
        return WALL_ORIGIN_MS + int(self._scheduler.now_ms)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Entry:
        return self._scheduler.call_later(delay_ms, callback)


class SimClientNetwork:
    """Connections of one harness client: own name, own latencies, no link faults."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._name = mesh.new_client()
        self._open: dict[int, Reply] = {}
        self._next = 0
        self._closed = False

    def request(
        self, destination: Endpoint, message: object, timeout_ms: float, on_reply: Reply
    ) -> None:
        """Send a request; `on_reply` is called once, never within this call."""
        if self._closed:
            self._mesh.scheduler.call_later(0, lambda: on_reply(Failure.NOT_SENT))
            return
        self._next += 1
        number = self._next
        self._open[number] = on_reply

        def settle(reply: object) -> None:
            pending = self._open.pop(number, None)
            if pending is not None:
                pending(reply)

        self._mesh.request(self._name, None, destination, message, timeout_ms, settle)

    def close(self) -> None:
        """Close all its connections: open requests end with DISCONNECTED. Idempotent."""
        self._closed = True
        waiting, self._open = self._open, {}
        for on_reply in waiting.values():
            on_reply(Failure.DISCONNECTED)


class SimRequests:
    """See `cluster.backends.abilities.Requests`."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world

    async def send(self, node: str, what: NodeSignal) -> None:
        state = self._world.nodes[node].state
        if state is not NodeState.RUNNING:
            raise BackendError(f"{node} cannot be asked: it is {state}")
        self._world.signal(node, what)

    async def latest_snapshot(self, node: str) -> str:
        names = self._world.nodes[node].disk.list_directory(METADATA_DIRECTORY)
        return max((name for name in names if name.endswith(SUFFIX)), default="")


class SimBackend:
    """See `cluster.backends.base.Backend`. Nothing happens before `up`.

    Without `run_folder` nothing touches the real disk; with it `down` writes each node's files and
    trace below `run_folder/nodes/<node>`, as a real node leaves them. `world` has the holds,
    disks and clocks that tests use; the monitor attaches to it.
    """

    name = "sim"

    def __init__(self, world: SimWorld, run_folder: Path | None = None) -> None:
        self.world = world
        self.nodes = world.names
        self.clock = SimClock(world.scheduler)
        self._shaping = SimShaping(world.mesh, self.nodes)
        self._abilities = replace(
            sim_abilities(world), shaping=self._shaping, requests=SimRequests(world)
        )
        self._run_folder = run_folder
        self._down = False

    async def probe(self, ability: Ability) -> Probe:  # noqa: ARG002  (contract)
        """See `Backend.probe`: every ability works on a simulated node."""
        return Probe(possible=True)

    async def wait_until_lost(self) -> str:
        """See `Backend.wait_until_lost`: never."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    async def up(self) -> None:
        loop_scheduler = getattr(asyncio.get_running_loop(), "scheduler", None)
        assert loop_scheduler is self.world.scheduler, "the loop and the world have two times"
        try:
            async with asyncio.TaskGroup() as group:
                for node in self.nodes:
                    group.create_task(self.start(node))
        except BaseException as error:
            await self.down()
            if isinstance(error, BaseExceptionGroup):
                raise error.exceptions[0] from error
            raise

    async def down(self) -> None:
        if not self._down:
            self._down = True
            await self.restore_links(self.links_cut())
            await self._shaping.shape(dict.fromkeys(self._shaping.shapes(), PERFECT))
            self.world.mesh.end_holds()
            for node in self.nodes:
                self.world.nodes[node].disk.full = False
                self.world.nodes[node].disk.resume()
                self.world.resume(node)
                self.world.stop(node)
            try:
                await asyncio.gather(*(self._await_end(node) for node in self.nodes))
            finally:
                for node in self.nodes:
                    self.world.kill(node)
        if self._run_folder is not None:
            self.write(self.node_folder)

    async def start(self, node: str) -> None:
        if self._down:
            raise BackendError(f"{node} cannot start: the cluster is down")
        # A fault may act within an event of the node, which has to end before the node starts.
        await asyncio.sleep(0)
        ready: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

        def note(reason: str | None) -> None:
            if not ready.done():
                ready.set_result(reason)

        self.world.start(node, note)
        await asyncio.wait((ready,), timeout=READY_TIMEOUT_S)
        if not ready.done():
            self.world.kill(node)
            raise BackendError(f"{node} did not answer within {READY_TIMEOUT_S:g} s")
        if (reason := ready.result()) is not None:
            raise BackendError(f"{node} ended as it started: {reason}")

    async def join_anew(self, node: str) -> None:
        self.world.wipe(node)

    async def terminate(self, node: str) -> None:
        if self.world.nodes[node].state is NodeState.PAUSED:
            raise BackendError(f"{node} cannot stop gracefully: it is paused")
        self.world.stop(node)

    async def stop(self, node: str) -> None:
        await self.terminate(node)
        if not await self._await_end(node):
            self.world.kill(node)
            raise BackendError(f"{node} did not end within {STOP_TIMEOUT_S:g} s: killed")

    async def _await_end(self, node: str) -> bool:
        """Wait for the end of a node that was asked to stop; returns whether it came in time."""
        process = self.world.nodes[node].process
        if process is None or not process.alive:
            return True
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def note(other: object) -> None:
            if other is process and not ended.done():
                ended.set_result(None)

        self.world.on_end.append(note)
        try:
            await asyncio.wait((ended,), timeout=STOP_TIMEOUT_S)
        finally:
            self.world.on_end.remove(note)
        return not process.alive

    async def kill(self, node: str) -> None:
        self.world.kill(node)

    async def pause(self, node: str) -> None:
        self._refuse_dead(node, "pause")
        self.world.pause(node)

    async def resume(self, node: str) -> None:
        self._refuse_dead(node, "resume")
        self.world.resume(node)

    def _refuse_dead(self, node: str, what: str) -> None:
        if self.world.nodes[node].state is NodeState.DEAD:
            raise BackendError(f"{node} is dead: it cannot {what}")

    async def state(self, node: str) -> NodeState:
        return self.world.nodes[node].state

    async def process(self, node: str) -> ProcessIdentity | None:
        host = self.world.nodes[node]
        if host.state is NodeState.DEAD:
            return None
        return ProcessIdentity(host.node_id, str(host.incarnation))

    def incarnation(self, node: str) -> int:
        return self.world.nodes[node].incarnation

    def unexpected_deaths(self) -> tuple[Death, ...]:
        return tuple(self.world.deaths)

    async def cut_links(self, links: Iterable[Link]) -> None:
        for source, target in sorted(links):
            self.world.mesh.cut(source, target)

    async def restore_links(self, links: Iterable[Link]) -> None:
        for source, target in sorted(links):
            self.world.mesh.restore(source, target)

    def links_cut(self) -> frozenset[Link]:
        return self.world.mesh.cuts()

    async def measure_link(self, link: Link, timeout_s: float = 0.5) -> LinkMeasure:
        """See `Backend.measure_link`. It reads the links' state: no message is sent."""
        del timeout_s
        state = self.world.mesh.link(*link)
        running = all(self.world.nodes[node].state is NodeState.RUNNING for node in link)
        works = running and not state.cut and state.loss_now < 1.0
        return LinkMeasure(works, works, state.passed if state.cut else None)

    def endpoint(self, node: str, listener: Listener = "CONTROLLER") -> Endpoint:
        return self.world.endpoint(node, listener)

    async def connect(self, endpoint: Endpoint) -> socket.socket:
        """See `Backend.connect`: a world without bytes has no connections to open."""
        raise ConnectionRefusedError(f"{endpoint} is in the simulated world")

    def client_network(self) -> ClientNetwork:
        return SimClientNetwork(self.world.mesh)

    def abilities(self) -> Abilities:
        return self._abilities

    def node_folder(self, node: str) -> Path:
        """See `Backend.node_folder`. A name only, when nothing is to be written."""
        root = Path("/sim") if self._run_folder is None else self._run_folder.absolute()
        return root / "nodes" / node

    async def read_trace(self, node: str, offset: int) -> bytes:  # noqa: ARG002  (contract)
        """See `Backend.read_trace`: a world's observers are called with each event instead."""
        raise BackendError("the traces of a simulated world are observed, not read")

    def write(self, folder: Callable[[str], Path]) -> None:
        """Write every node's disk and trace into `folder(node)`. Raises OSError."""
        for node in self.nodes:
            folder(node).mkdir(parents=True, exist_ok=True)
        self.world.write_disks(folder)
        for node, host in self.world.nodes.items():
            with (folder(node) / "trace.jsonl").open("wb") as file:
                for time_ns, incarnation, event, fields, world_ns in host.trace:
                    line = {"t": time_ns, "w": world_ns, "n": incarnation, "e": event, **fields}
                    file.write(encode_line(line))
