"""One incarnation of a simulated node: its four seams, and how it pauses, resumes and dies.

A process may die at any instruction, also within an event, whose code then runs to its end. Nothing
of that has an effect: the seams of a dead process send, write and trace nothing.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.hooks import TraceFields
from cluster.backends.sim.mesh import Call, Mesh, Reply
from cluster.backends.sim.scheduler import Entry, Scheduler
from cluster.backends.sim.wire import WireService
from cluster.node.assembly import Node, Seams
from cluster.node.config import NodeConfig
from cluster.node.log.data.log_manager import LogDir, LogDirs
from cluster.node.meta_properties import Identity, MetaPropertiesError, identify
from cluster.node.ports import Endpoint
from cluster.node.protocol.messages import ApiVersionsRequest
from cluster.node.reasons import reason_of

TIMER_GRAIN_MS = 1e-6
"""A timer is late by this much, as real ones are: with clocks that drift, rounding could otherwise
make it due before its time, and the node set it again and again without time passing."""

WALL_ORIGIN_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z: when every simulated world begins."""

CLIENT_PORT = 9092
CONTROLLER_PORT = 9093

LISTENER_OF = {CLIENT_PORT: "CLIENT", CONTROLLER_PORT: "CONTROLLER"}

_SHUTDOWN_MS = 4000.0

OnTrace = Callable[["Process", str, TraceFields], None]


class HostClock:
    """The clocks of one host: they outlive its processes."""

    __slots__ = ("_origin_ms", "_scheduler", "offset_ms", "rate", "skew_ms")

    def __init__(self, scheduler: Scheduler, rate: float, offset_ms: float, skew_ms: float) -> None:
        self._scheduler = scheduler
        self.rate = rate
        """How many of its milliseconds pass in one of the world's."""
        self.offset_ms = offset_ms
        """What its monotonic clock showed when the world began, had it always had this rate."""
        self._origin_ms = offset_ms
        self.skew_ms = skew_ms
        """By how much its wall clock is off, beside its drift; a fault may step it."""

    def monotonic_ms(self) -> float:
        """See `cluster.node.ports.Clock`."""
        return self.offset_ms + self._scheduler.now_ms * self.rate

    def wall_ms(self) -> int:
        """See `cluster.node.ports.Clock`."""
        drifted_ms = self.monotonic_ms() - self._origin_ms
        return int(WALL_ORIGIN_MS + self.skew_ms + drifted_ms)

    def set_rate(self, rate: float) -> None:
        """Run faster or slower from now on; the present reading does not jump."""
        assert rate > 0, "a monotonic clock goes on"
        self.offset_ms += self._scheduler.now_ms * (self.rate - rate)
        self.rate = rate

    def step_wall(self, by_ms: float) -> None:
        """Let the wall clock jump, either way."""
        self.skew_ms += by_ms


class _Clock:
    """The Clock seam of one process."""

    __slots__ = ("_host", "_process", "_scheduler", "monotonic_ms", "wall_ms")

    def __init__(self, process: Process, host: HostClock, scheduler: Scheduler) -> None:
        self._process = process
        self._host = host
        self._scheduler = scheduler
        self.monotonic_ms = host.monotonic_ms
        self.wall_ms = host.wall_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Entry:
        """See `cluster.node.ports.Clock`."""
        delay_ms = delay_ms / self._host.rate + TIMER_GRAIN_MS if delay_ms > 0 else 0.0
        return self._scheduler.call_later(delay_ms, callback, self._process)


class _Network:
    """The Network seam of one process."""

    __slots__ = ("_mesh", "_process")

    def __init__(self, process: Process, mesh: Mesh) -> None:
        self._process = process
        self._mesh = mesh

    def request(
        self, destination: Endpoint, message: object, timeout_ms: float, on_reply: Reply
    ) -> None:
        """See `cluster.node.ports.Network`."""
        process = self._process
        if process.alive:
            self._mesh.request(process.name, process, destination, message, timeout_ms, on_reply)


class Process:
    """See the module. Made by `cluster.backends.sim.world`, which starts and ends it."""

    def __init__(
        self,
        name: str,
        incarnation: int,
        scheduler: Scheduler,
        mesh: Mesh,
        disks: Mapping[str, MemoryDisk],
        clock: HostClock,
        seed: object,
        on_trace: OnTrace,
        on_death: Callable[[Process, str], None],
    ) -> None:
        """`disks`: by the path of the folder, that of the metadata first."""
        self.name = name
        self.incarnation = incarnation
        self.alive = True
        self.runs = True
        self.backlog: list[Callable[[], None]] = []
        self.calls: dict[Call, None] = {}
        self.node: Node | None = None
        """None until it has read its configuration and opened its log."""
        self._scheduler = scheduler
        self._mesh = mesh
        self._disks = disks
        self._clock = _Clock(self, clock, scheduler)
        self._random = random.Random(f"{seed}/node/{name}/{incarnation}")
        self._on_trace = on_trace
        self.monotonic_ms = clock.monotonic_ms
        self._on_death = on_death
        self._services: dict[int, WireService] = {}
        self._ready: Callable[[], None] | None = None

    # -- start and end ---------------------------------------------------------------------------

    def begin(
        self, config: NodeConfig, pid: int, mutant: str | None, ready: Callable[[], None]
    ) -> None:
        """Do what `cluster.node` does at its start; `ready` is called once it serves."""
        self._ready = ready
        try:
            identify(
                self._disks,
                config.cluster_id,
                config.node_id,
                self._random,
                lambda found: self._on_identity(config, pid, mutant, found),
            )
        except MetaPropertiesError as error:
            self.die(error)

    def _on_identity(
        self, config: NodeConfig, pid: int, mutant: str | None, found: Mapping[str, Identity]
    ) -> None:
        if not self.alive:
            return
        metadata, directory_id = next(iter(found.items()))
        if not isinstance(directory_id, uuid.UUID):
            self.die(directory_id)
            return
        wanted = [str(path) for path in config.log_dirs]
        online = tuple(
            LogDir(path, identity, self._disks[path])
            for path in wanted
            if isinstance(identity := found[path], uuid.UUID)
        )
        offline = tuple(path for path in wanted if not isinstance(found[path], uuid.UUID))
        self.trace(
            "start",
            node_id=config.node_id,
            directory_id=directory_id,
            pid=pid,
            mutant=mutant,
        )
        network = _Network(self, self._mesh)
        seams = Seams(
            clock=self._clock,
            network=network,
            forwarding=network,
            replication=network,
            disk=self._disks[metadata],
            log_dirs=LogDirs(online, offline),
            random=self._random,
            trace=self.trace,
        )
        try:
            self.node = Node(config, directory_id, seams, self.die)
            self.node.start()
        except Exception as error:  # noqa: BLE001  (whatever it is ends the process)
            self.trace("fatal", reason=reason_of(error))
            self.die(error)
            return
        if self.alive:
            self._mesh.hosts[self.name] = self
            if self._ready is not None:
                self._ready()

    def die(self, error: BaseException) -> None:
        """End because of an error of its own, as `cluster.node` does."""
        if self.alive:
            self.halt()
            self._on_death(self, reason_of(error))

    def halt(self) -> None:
        """End at this instruction."""
        self.alive = self.runs = False
        self.backlog.clear()
        if self._mesh.hosts.get(self.name) is self:
            del self._mesh.hosts[self.name]
        calls, self.calls = self.calls, {}
        for call in calls:
            call.disconnect()

    def pause(self) -> None:
        """SIGSTOP: callbacks that become due wait."""
        self.runs = False

    def resume(self) -> None:
        """SIGCONT: the callbacks that waited run now, in the order in which they became due."""
        self.runs = True
        backlog, self.backlog = self.backlog, []
        for callback in backlog:
            self._scheduler.call_later(0, callback, self)

    def shut_down(self, done: Callable[[], None]) -> None:
        """SIGTERM; `done` once raft has handed over and the disk has nothing more to do."""
        if self.node is None:
            self._drain(done)
        else:
            self.node.shutdown(_SHUTDOWN_MS, partial(self._drain, done))

    def _drain(self, done: Callable[[], None]) -> None:
        if all(disk.is_idle for disk in self._disks.values()):
            done()
        else:
            self._clock.call_later(1.0, lambda: self._drain(done))

    # -- requests and trace ----------------------------------------------------------------------

    def serve(self, port: int, message: Any, reply: Reply) -> None:
        """Take a request on the listener of this port."""
        node = self.node
        if node is None or not self.alive:
            return
        try:
            if self._mesh.settings.wire or type(message) is ApiVersionsRequest:
                # No node sees ApiVersions: its listener answers.
                self._wire(port).serve(message, reply)
            else:
                node.handle(LISTENER_OF[port], message, reply)
        except Exception as error:  # noqa: BLE001  (as `cluster.node.process._on_unhandled`)
            self.die(error)

    def _wire(self, port: int) -> WireService:
        service = self._services.get(port)
        if service is None:
            assert self.node is not None
            service = self._services[port] = WireService(
                LISTENER_OF[port], self.node, self.node.features
            )
        return service

    def trace(self, event: str, /, **fields: Any) -> None:
        """Record an event: the node's Trace seam."""
        if self.alive:
            self._on_trace(self, event, fields)
