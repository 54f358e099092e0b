"""One incarnation of this repository's node in a simulated world: its four seams.

What is left of the code of an event in which the process died runs to its end without any effect:
the seams of a dead process send, write and trace nothing.
"""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from crc32c import crc32c

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.encoded import EncodedRequest, WireService
from cluster.backends.sim.incarnation import (
    CLIENT_PORT,
    CONTROLLER_PORT,
    TIMER_GRAIN_MS,
    Host,
    HostClock,
    Incarnation,
    Surroundings,
)
from cluster.backends.sim.mesh import Mesh, Reply
from cluster.backends.sim.scheduler import Entry, Scheduler
from cluster.node.assembly import Node, NodeSignal, Seams
from cluster.node.config import NodeConfig
from cluster.node.errors import reason_of
from cluster.node.kraft.messages import NO_NODE
from cluster.node.kraft.quorum.quorum_state_store import FILE_NAME, QuorumStateError, decode
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.kraft.replicated_log import ReplicatedLog, Validity
from cluster.node.log.data.log_manager import LogDir, LogDirs
from cluster.node.log.metadata.snapshot import CorruptSnapshotError, parse_snapshot, snapshot_name
from cluster.node.log.storage.segment import METADATA_DIRECTORY
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.meta_properties import Identity, MetaPropertiesError, identify
from cluster.node.part_configs import raft_config
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import Features
from cluster.node.protocol.messages import ApiVersionsRequest
from cluster.node.protocol.server import RequestHandler

LISTENER_OF = {CLIENT_PORT: "CLIENT", CONTROLLER_PORT: "CONTROLLER"}

_SHUTDOWN_MS = 4000.0
_QUORUM_STATE = f"{METADATA_DIRECTORY}/{FILE_NAME}"
_HEADER = struct.Struct(">qiibIhi")
_PREFIX_BYTES = 12
_READ_BYTES = 1 << 30


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
        process = self._process
        if process.alive:
            self._mesh.request(process.name, process, destination, message, timeout_ms, on_reply)


class Served(RequestHandler, Protocol):
    """What a process serves, a whole node or its raft alone."""

    def start(self) -> None:
        """Take part in the quorum."""

    def features(self) -> Features:
        """Return the features that ApiVersions reports."""

    def handle_signal(self, what: NodeSignal) -> None:
        """See `Node.handle_signal`."""

    def shutdown(self, timeout_ms: float, done: Callable[[], None]) -> None:
        """See `Node.shutdown`."""


class Process(Incarnation):
    """See the module."""

    def __init__(
        self, world: Surroundings, node: Host, config: NodeConfig, mutant: str | None
    ) -> None:
        super().__init__(world, node)
        self._disks = node.disks
        self._disk = node.disk
        self._clock = _Clock(self, node.clock, world.scheduler)
        self._random = random.Random(f"{world.seed}/node/{node.name}/{node.incarnation}")
        self._config = config
        self._mutant = mutant
        self._services: dict[int, WireService] = {}
        self._ready: Callable[[], None] | None = None
        self._served: Served | None = None

    # -- start and end ---------------------------------------------------------------------------

    def begin(self, pid: int, ready: Callable[[], None]) -> None:
        """See `Incarnation.begin`: what `cluster.node` does."""
        config = self._config
        self._ready = ready
        try:
            identify(
                self._disks,
                config.cluster_id,
                config.node_id,
                self._random,
                partial(self._on_identity, pid),
            )
        except MetaPropertiesError as error:
            self.die(error)

    def _on_identity(self, pid: int, found: Mapping[str, Identity]) -> None:
        if not self.alive:
            return
        config = self._config
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
            mutant=self._mutant,
            check_quorum_timeout_ms=raft_config(config, directory_id).check_quorum_timeout_ms,
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
            self._served = self._assemble(config, directory_id, seams)
            self._served.start()
        except Exception as error:  # noqa: BLE001  (whatever it is ends the process)
            self.trace("fatal", reason=reason_of(error))
            self.die(error)
            return
        if self.alive:
            self.listen()
            if self._ready is not None:
                self._ready()

    def _assemble(self, config: NodeConfig, directory_id: uuid.UUID, seams: Seams) -> Served:
        """Open the log and what is above it."""
        self.node = Node(config, directory_id, seams, self.die)
        self.replica = OwnReplica(self.node.raft, self._disk)
        return self.node

    def signal(self, what: NodeSignal) -> None:
        """See `Incarnation.signal`; nothing before its log is open."""
        if self._served is not None:
            self._served.handle_signal(what)

    def shut_down(self, done: Callable[[], None]) -> None:
        """See `Incarnation.shut_down`: raft hands over, and the disk has nothing more to do."""
        if self._served is None:
            self._drain(done)
        else:
            self._served.shutdown(_SHUTDOWN_MS, partial(self._drain, done))

    def _drain(self, done: Callable[[], None]) -> None:
        if all(disk.is_idle for disk in self._disks.values()):
            done()
        else:
            self._clock.call_later(1.0, lambda: self._drain(done))

    # -- requests and trace ----------------------------------------------------------------------

    def serve(self, port: int, message: Any, reply: Reply) -> None:
        node = self._served
        if node is None or not self.alive:
            return
        try:
            if isinstance(message, EncodedRequest):
                message = message.message  # the sender encodes what answers it
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
            assert self._served is not None
            service = self._services[port] = WireService(
                LISTENER_OF[port], self._served, self._served.features
            )
        return service


class OwnReplica:
    """See `cluster.backends.sim.incarnation.Replica`."""

    def __init__(self, raft: RaftClient, disk: MemoryDisk) -> None:
        self._raft = raft
        self._disk = disk

    @property
    def start_offset(self) -> int:
        return self._raft.log.start_offset

    @property
    def durable_end_offset(self) -> int:
        return self._raft.log.durable_end_offset

    def batches(self, offset: int) -> list[tuple[int, int, int, int]]:
        return read_from(self._raft.log, offset)

    def election(self) -> tuple[int, int, int] | str | None:
        content = self._disk.durable(_QUORUM_STATE)
        if content is None:
            return None
        try:
            state = decode(content)
        except QuorumStateError as error:
            return str(error)
        voted_id = NO_NODE if state.voted_key is None else state.voted_key.id
        return state.epoch, state.leader_id, voted_id

    def snapshot(self, offset: int, epoch: int) -> int | str:
        snapshot_id = OffsetAndEpoch(offset, epoch)
        path = f"{METADATA_DIRECTORY}/{snapshot_name(snapshot_id)}"
        content = self._disk.durable(path) or b""
        try:
            held = parse_snapshot(path, snapshot_id, content)
        except CorruptSnapshotError as error:
            return str(error)
        log, last = self._raft.log, offset - 1
        if log.validate(offset, epoch)[0] is Validity.VALID and log.control.kraft_version_at(last):
            voters = log.control.voters_at(last).to_record()
            if voters not in held.control:
                return f"{path} holds other voters than the log up to there"
        return int(crc32c(content))


def batches_of(data: bytes) -> list[tuple[int, int, int, int]]:
    """Split bytes that hold whole batches; no checksum is verified here."""
    found: list[tuple[int, int, int, int]] = []
    position = 0
    while position < len(data):
        base, length, epoch, _, crc, _, delta = _HEADER.unpack_from(data, position)
        found.append((base, base + delta + 1, epoch, crc))
        position += length + _PREFIX_BYTES
    return found


def read_from(log: ReplicatedLog, offset: int) -> list[tuple[int, int, int, int]]:
    """Read all batches of a log from `offset` on; a single read ends with its segment."""
    found: list[tuple[int, int, int, int]] = []
    while offset < log.end_offset:
        found += batches_of(log.read(offset, _READ_BYTES))
        offset = found[-1][1]
    return found
