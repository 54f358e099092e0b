"""A simulated world: nodes, links, disks and clocks on one queue of events, and their faults.

Nothing here is asynchronous: a test drives `scheduler` itself. The backend
(`cluster.backends.sim.sim_backend`) puts the same world behind coroutines.

Everything random comes from streams that are made from the seed and a name (a link, a disk, an
incarnation), so that an event added or left out in one place does not change what others draw.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PurePath
from typing import Literal, Protocol

from cluster.backends.base import BackendError, Death, NodeState
from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.incarnation import (
    CLIENT_PORT,
    CONTROLLER_PORT,
    HostClock,
    Incarnation,
    TraceFields,
)
from cluster.backends.sim.medium import Keep
from cluster.backends.sim.mesh import Mesh
from cluster.backends.sim.process import Process
from cluster.backends.sim.scheduler import Scheduler
from cluster.backends.sim.settings import SimSettings
from cluster.node.assembly import Node, NodeSignal
from cluster.node.config import NodeConfig, parse_config
from cluster.node.controller.records import remember_records
from cluster.node.log.batch.control import remember_control
from cluster.node.ports import Endpoint
from cluster.systems.base import Placement
from cluster.systems.kraft import KraftSystem

ListenerName = Literal["CONTROLLER", "CLIENT"]

Observe = Callable[[Incarnation, str, TraceFields], None]
"""Called with (process, event, fields) at the instruction that traces the event."""

EXIT_BROKEN = 1
"""Exit code of a node that ends itself (`cluster.node`)."""

_FIRST_PID = 1000
_RECORDS_REMEMBERED = 65_536
_CONTROL_REMEMBERED = 1024


TraceLine = tuple[int, int, str, TraceFields, int]
"""(the node's monotonic ns, incarnation, event, fields, the world's ns), as in trace.jsonl."""


class SimNode:
    """A host: the clock, disk and trace that outlive the node's processes."""

    def __init__(self, world: SimWorld, name: str, node_id: int) -> None:
        settings, seed = world.settings, world.seed
        draw = random.Random(f"{seed}/host/{name}")
        self.name = name
        self.node_id = node_id
        self.process: Incarnation | None = None
        """The present or the last process."""
        self.incarnation = -1
        self.clock = HostClock(
            world.scheduler,
            rate=1.0 + draw.uniform(-settings.drift_ppm, settings.drift_ppm) / 1e6,
            offset_ms=round(draw.uniform(1e3, 1e6), 3),
            skew_ms=draw.uniform(-settings.skew_ms, settings.skew_ms),
        )
        self.disk: MemoryDisk
        """That of the metadata."""
        self.disks: dict[str, MemoryDisk] = {}
        """By the path of the folder, that of the metadata first."""
        self.losses = random.Random(f"{seed}/losses/{name}")
        """Draws what a power loss keeps."""
        self.starts = random.Random(f"{seed}/starts/{name}")
        self.events: list[tuple[float, int, str, TraceFields, float]] = []
        """(the node's monotonic ms, incarnation, event, fields, the world's ms), oldest first."""
        self._scheduler = world.scheduler

    @property
    def trace(self) -> tuple[TraceLine, ...]:
        """Everything that its processes traced, as trace.jsonl has it."""
        return tuple(
            (round(t * 1e6), n, event, fields, round(w * 1e6))
            for t, n, event, fields, w in self.events
        )

    def add_disks(self, paths: Iterable[PurePath], settings: SimSettings, seed: object) -> None:
        """Give it a disk for each folder."""
        for path in dict.fromkeys(paths):
            label = f"{seed}/disk/{self.name}" + (f"/{path.name}" if self.disks else "")
            self.disks[str(path)] = MemoryDisk(
                self._complete_later, draw_sync_ms=_sync_times(settings, random.Random(label))
            )
        self.disk = next(iter(self.disks.values()))

    def _complete_later(self, delay_ms: float, done: Callable[[], None]) -> object:
        # A completion belongs to the process that asked for it, and waits while that is stopped.
        return self._scheduler.call_later(delay_ms, done, self.process)

    @property
    def state(self) -> NodeState:
        """The state of the process, as an operating system reports it."""
        process = self.process
        if process is None or not process.alive:
            return NodeState.DEAD
        return NodeState.RUNNING if process.runs else NodeState.PAUSED


def _sync_times(settings: SimSettings, draw: random.Random) -> Callable[[], float]:
    low, high = settings.sync_ms
    slow_low, slow_high = settings.slow_sync_ms
    probability = settings.slow_sync_probability

    def next_ms() -> float:
        if probability and draw.random() < probability:
            return slow_low + draw.random() * (slow_high - slow_low)
        return low + draw.random() * (high - low)

    return next_ms


class Program(Protocol):
    """What the nodes of a world run."""

    def folders(self, node: SimNode) -> Iterable[PurePath]:
        """Name the folders that a node keeps on disks of its own, that of the metadata first."""

    def process(self, node: SimNode) -> Incarnation:
        """Make the next process of a node."""

    def wipe(self, node: SimNode) -> None:
        """Take notice that the disk of a dead node is a new one."""

    def complaints(self) -> Iterable[tuple[str, str]]:
        """Yield (property, explanation) of what is wrong with a whole run, at its end."""

    def hold_processor(self) -> AbstractContextManager[None]:
        """Keep what plays the nodes on the processor of this thread, while the world goes on."""


class OwnProgram:
    """The node of this repository."""

    def __init__(
        self,
        world: SimWorld,
        node_settings: Mapping[str, int] | None,
        mutant: str | None,
        run_id: str,
    ) -> None:
        """Raises SettingError for a node setting that does not exist."""
        self._world = world
        self._mutant = mutant
        self._system = KraftSystem(node_settings)
        self._run_id = run_id
        self._configs = {name: self.config(node) for name, node in world.nodes.items()}

    def folders(self, node: SimNode) -> Iterable[PurePath]:
        config = self._configs[node.name]
        return (config.metadata_log_dir, *config.log_dirs)

    def process(self, node: SimNode) -> Process:
        return Process(self._world, node, self._configs[node.name], self._mutant)

    def wipe(self, node: SimNode) -> None:
        """Configure it anew, as an operator must: with bootstrap servers and no voters.

        By its old configuration it would count itself among the voters with a log that it no longer
        has, and vote a second time in an epoch.
        """
        self._configs[node.name] = self.config(node, is_static=False)

    def complaints(self) -> Iterable[tuple[str, str]]:
        """See `Program.complaints`: each event is judged when it happens."""
        return ()

    def hold_processor(self) -> AbstractContextManager[None]:
        """See `Program.hold_processor`: this thread plays them itself."""
        return nullcontext()

    def config(self, node: SimNode, *, is_static: bool = True) -> NodeConfig:
        """Return the configuration of a node; `is_static`: which names the voters."""
        name, world = node.name, self._world
        placement = Placement(
            name=name,
            node_id=node.node_id,
            run_id=self._run_id,
            folder=PurePath("/sim", name),
            interpreter=sys.executable,
            client=world.endpoint(name, "CLIENT"),
            controller=world.endpoint(name, "CONTROLLER"),
            voters=tuple(world.endpoint(voter) for voter in world.voters)
            if is_static and name in world.voters
            else (),
            bootstrap=tuple(world.endpoint(other) for other in world.names if other != name),
            brokers=tuple(world.endpoint(broker, "CLIENT") for broker in world.names),
            routes=(),
        )
        text = self._system.files(placement)["server.properties"]
        return parse_config(text, f"{name}/server.properties")


class SimWorld:
    """Nodes "n1", "n2", ... over one scheduler. Nothing runs before `start`."""

    def __init__(
        self,
        node_count: int,
        seed: object,
        *,
        settings: SimSettings | None = None,
        node_settings: Mapping[str, int] | None = None,
        run_id: str = "sim",
        mutant: str | None = None,
        scheduler: Scheduler | None = None,
        program: Callable[[SimWorld], Program] | None = None,
    ) -> None:
        """`mutant` is only recorded in the traces: the caller applies it (`cluster.mutants`).

        `program`: makes what the nodes run; None: the node of this repository, with these settings.
        Raises SettingError for a node setting that does not exist.
        """
        assert node_count >= 1, "a cluster has a node"
        remember_records(_RECORDS_REMEMBERED)
        remember_control(_CONTROL_REMEMBERED)
        self.settings = settings or SimSettings()
        self.seed = seed
        self.scheduler = scheduler or Scheduler()
        self.mesh = Mesh(self.scheduler, seed, self.settings)
        self.names = tuple(f"n{number}" for number in range(1, node_count + 1))
        self.nodes = {
            name: SimNode(self, name, number) for number, name in enumerate(self.names, start=1)
        }
        self.deaths: list[Death] = []
        """Processes that ended by themselves, oldest first."""
        self._observers: dict[str, list[Observe]] = {"": []}
        """By event; "": of all that nobody observes by its name."""
        self.on_start: list[Callable[[Incarnation], None]] = []
        """Called with every new process before its first instruction."""
        self.on_end: list[Callable[[Incarnation], None]] = []
        """Called with every process that has ended, in any way, before its disk loses power."""
        self._endpoints: dict[tuple[str, ListenerName], Endpoint] = {}
        for name, node in self.nodes.items():
            self._endpoints[name, "CONTROLLER"] = Endpoint(node.node_id, name, CONTROLLER_PORT)
            self._endpoints[name, "CLIENT"] = Endpoint(node.node_id, name, CLIENT_PORT)
        assert self.settings.observers < node_count, "a cluster has a voter"
        self.voters = self.names[: node_count - self.settings.observers]
        """The voters of the configuration."""
        self.program: Program = (
            OwnProgram(self, node_settings, mutant, run_id) if program is None else program(self)
        )
        for node in self.nodes.values():
            node.add_disks(self.program.folders(node), self.settings, seed)
        self._ready: dict[str, list[Callable[[str | None], None]]] = {}
        self._pids = 0

    # -- processes -------------------------------------------------------------------------------

    def running(self) -> Iterator[tuple[SimNode, Incarnation, Node]]:
        """Yield the hosts whose process runs and has opened its log, as one of this repository.

        What the caller then does is taken for the process's own: it ends if that does not.
        """
        for host in self.nodes.values():
            process = host.process
            if process is not None and process.runs and process.node is not None:
                self.scheduler.running = process
                yield host, process, process.node
        self.scheduler.running = None

    def start(self, name: str, ready: Callable[[str | None], None] | None = None) -> None:
        """Start a dead node; `ready(None)`, or `ready(reason)` if it ends. Raises BackendError."""
        node = self.nodes[name]
        if node.state is not NodeState.DEAD:
            raise BackendError(f"{name} cannot start: it is {node.state}")
        node.incarnation += 1
        process = node.process = self.program.process(node)
        for disk in node.disks.values():
            disk.power_on()
        for hook in self.on_start:
            hook(process)
        waiting = self._ready[name] = [] if ready is None else [ready]
        self._pids += 1
        pid = _FIRST_PID + self._pids
        least_ms, most_ms = self.settings.start_ms

        def serves() -> None:
            for callback in waiting:
                callback(None)
            waiting.clear()

        def begin() -> None:
            process.begin(pid, serves)

        self.scheduler.call_later(node.starts.uniform(least_ms, most_ms), begin, process)

    def kill(self, name: str, keep: Keep | None = None) -> None:
        """SIGKILL, at this very instruction. `keep`: what survives; None: as the settings say."""
        node = self.nodes[name]
        if node.process is not None and node.process.alive:
            node.process.halt()
            self._on_end(node, keep or self.settings.power_loss, "was killed")

    def wipe(self, name: str) -> None:
        """Replace a dead node's disk: it is another replica then. Raises BackendError."""
        node = self.nodes[name]
        if node.state is not NodeState.DEAD:
            raise BackendError(f"the disk of {name} cannot be replaced: it is {node.state}")
        for disk in node.disks.values():
            disk.wipe()
        self.program.wipe(node)

    def stop(self, name: str, done: Callable[[], None] | None = None) -> None:
        """SIGTERM: a graceful end, by which nothing is lost; `done` when it is over."""
        node = self.nodes[name]
        process = node.process
        if process is None or not process.alive:
            if done is not None:
                self.scheduler.call_later(0, done)
            return
        assert process.runs, "a stopped process does not handle SIGTERM"

        def on_end() -> None:
            if process.alive:
                process.halt()
                self._on_end(node, "everything", "was stopped")
            if done is not None:
                done()

        try:
            process.shut_down(on_end)
        except Exception as error:  # noqa: BLE001  (as in `Process.serve`)
            process.die(error)

    def pause(self, name: str) -> None:
        """SIGSTOP; nothing happens to a dead node."""
        process = self.nodes[name].process
        if process is not None and process.alive:
            process.pause()

    def resume(self, name: str) -> None:
        """SIGCONT; nothing happens to a node that is not stopped."""
        process = self.nodes[name].process
        if process is not None and process.alive and not process.runs:
            process.resume()

    def signal(self, name: str, what: NodeSignal) -> None:
        """SIGUSR1 ("resign") or SIGUSR2 ("snapshot"); nothing happens to a dead or stopped node."""
        process = self.nodes[name].process
        if process is not None and process.alive and process.runs:
            try:
                process.signal(what)
            except Exception as error:  # noqa: BLE001  (as in `Process.serve`)
                process.die(error)

    def on_death(self, process: Incarnation, reason: str) -> None:
        """Take notice of a process that ended by itself."""
        node = self.nodes[process.name]
        tail = (f"fatal: {reason}",)
        self.deaths.append(Death(process.name, process.incarnation, EXIT_BROKEN, tail))
        self._on_end(node, "written", reason)

    def _on_end(self, node: SimNode, keep: Keep, reason: str) -> None:
        assert node.process is not None
        for hook in self.on_end:
            hook(node.process)
        for disk in node.disks.values():
            disk.power_off(node.losses, keep)
        waiting = self._ready.pop(node.name, [])
        for callback in waiting:
            callback(reason)

    # -- addresses and evidence ------------------------------------------------------------------

    def endpoint(self, name: str, listener: ListenerName = "CONTROLLER") -> Endpoint:
        """Where a node listens."""
        return self._endpoints[name, listener]

    def write_disks(self, folder: Callable[[str], Path]) -> None:
        """Write each node's files below `folder(node)`, as the real disks hold them."""
        for name, node in self.nodes.items():
            for place, disk in node.disks.items():
                root = folder(name) / Path(place).name
                for path, content in disk.files().items():
                    target = root / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content)

    def observe(self, hook: Observe, *events: str) -> None:
        """Call a hook at these trace events, without any at all; it must not change the world."""
        observers = self._observers
        for event in events:
            observers.setdefault(event, observers[""].copy())
        for event in events or observers:
            observers[event].append(hook)

    def on_trace_event(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        """Take an event that a process traces, at the instruction that traces it."""
        if self.settings.trace_in_memory:
            self.nodes[process.name].events.append(
                (process.monotonic_ms(), process.incarnation, event, fields, self.scheduler.now_ms)
            )
        observers = self._observers
        for observe in observers.get(event) or observers[""]:
            observe(process, event, fields)
