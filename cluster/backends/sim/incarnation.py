"""One process of a simulated node, whatever program it runs: how it pauses, resumes and dies.

A process may die at any instruction, also within an event, whose code then runs to its end. Nothing
of that has an effect: a dead process sends, writes and traces nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.mesh import Call, Mesh, Reply
from cluster.backends.sim.scheduler import Scheduler
from cluster.node.assembly import Node, NodeSignal
from cluster.node.errors import reason_of

TraceFields = dict[str, Any]

TIMER_GRAIN_MS = 1e-6
"""A timer is late by this much, as real ones are: with clocks that drift, rounding could otherwise
make it due before its time, and the node set it again and again without time passing."""

WALL_ORIGIN_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z: when every simulated world begins."""

CLIENT_PORT = 9092
CONTROLLER_PORT = 9093


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
        return self.offset_ms + self._scheduler.now_ms * self.rate

    def wall_ms(self) -> int:
        drifted_ms = self.offset_ms + self._scheduler.now_ms * self.rate - self._origin_ms
        return int(WALL_ORIGIN_MS + self.skew_ms + drifted_ms)

    def set_rate(self, rate: float) -> None:
        """Run faster or slower from now on; the present reading does not jump."""
        assert rate > 0, "a monotonic clock goes on"
        self.offset_ms += self._scheduler.now_ms * (self.rate - rate)
        self.rate = rate

    def step_wall(self, by_ms: float) -> None:
        """Let the wall clock jump, either way."""
        self.skew_ms += by_ms


class Replica(Protocol):
    """The log and the disk of a process, as the invariants see them."""

    @property
    def start_offset(self) -> int:
        """First offset of its log."""

    @property
    def durable_end_offset(self) -> int:
        """Offset below which all is durable, by its own account."""

    def batches(self, offset: int) -> list[tuple[int, int, int, int]]:
        """(base offset, next offset, epoch, checksum) of all batches from an offset on."""

    def election(self) -> tuple[int, int, int] | str | None:
        """Durable epoch, leader and vote (-1: none) of quorum-state; a string: its fault."""

    def snapshot(self, offset: int, epoch: int) -> int | str:
        """Checksum of the durable bytes of a snapshot; a string: its fault."""


class Host(Protocol):
    """What outlives the processes of a node."""

    name: str
    incarnation: int
    """Number of the process that is made."""
    clock: HostClock
    disks: dict[str, MemoryDisk]
    """By the path of the folder, that of the metadata first."""

    disk: MemoryDisk
    """That of the metadata."""


class Surroundings(Protocol):
    """What a process has of its world."""

    scheduler: Scheduler
    mesh: Mesh

    @property
    def seed(self) -> object:
        """Of the world."""

    def on_trace_event(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        """Take notice of a line of its trace."""

    def on_death(self, process: Incarnation, reason: str) -> None:
        """Take notice that it ended by itself."""


class Incarnation:
    """See the module. The world starts and ends it."""

    node: Node | None = None
    """This repository's node, once it has opened its log; always None of another program."""
    replica: Replica | None = None
    """None until its log is open."""

    def __init__(self, world: Surroundings, node: Host) -> None:
        self.name = node.name
        self.incarnation = node.incarnation
        self.alive = True
        self.runs = True
        self.backlog: list[list[Any]] = []
        self.calls: dict[Call, None] = {}
        self.monotonic_ms = node.clock.monotonic_ms
        self._host_clock, self._began_ms = node.clock, node.clock.offset_ms
        self._scheduler = world.scheduler
        self._mesh = world.mesh
        self._on_trace = world.on_trace_event
        self._on_death = world.on_death

    @property
    def keeps_time(self) -> bool:
        """Whether its clock has run at one rate: a timer set at another one comes when it likes."""
        return self._host_clock.offset_ms == self._began_ms

    def begin(self, pid: int, ready: Callable[[], None]) -> None:
        """Do what the program does at its start; `ready` is called once it serves."""
        raise NotImplementedError

    def serve(self, port: int, message: Any, reply: Reply) -> None:
        """Take a request on the listener of this port."""
        raise NotImplementedError

    def shut_down(self, done: Callable[[], None]) -> None:
        """SIGTERM; `done` once all that a graceful end takes is over."""
        raise NotImplementedError

    def signal(self, what: NodeSignal) -> None:
        """SIGUSR1 ("resign") or SIGUSR2 ("snapshot")."""
        raise NotImplementedError

    def listen(self) -> None:
        """Be reached at its name from now on."""
        self._mesh.hosts[self.name] = self

    def die(self, error: BaseException) -> None:
        """End because of an error of its own."""
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
        for entry in backlog:
            self._scheduler.requeue(entry)

    def trace(self, event: str, /, **fields: Any) -> None:
        """Record an event: the node's Trace seam."""
        if self.alive:
            self._on_trace(self, event, fields)
