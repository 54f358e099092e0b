"""Shows the logs and disks of simulated nodes to the invariants, beside the nodes' traces.

`watch(world)` judges a world by all invariants of `checkers.invariants`; call it before the first
node starts. It reads the nodes' state and never changes it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from crc32c import crc32c

from checkers.invariants.brokers import BROKER_INVARIANTS
from checkers.invariants.registry import INVARIANTS
from checkers.invariants.sight import Batch, Election
from checkers.invariants.watcher import Violation, Watcher
from cluster.backends.sim.hooks import TraceFields
from cluster.backends.sim.process import Process
from cluster.backends.sim.world import SimWorld
from cluster.node.kraft.messages import NO_NODE
from cluster.node.kraft.quorum.quorum_state_store import FILE_NAME, QuorumStateError, decode
from cluster.node.kraft.replicated_log import ReplicatedLog
from cluster.node.log.metadata.snapshot import CorruptSnapshotError, parse_snapshot, snapshot_name
from cluster.node.log.storage.segment import METADATA_DIRECTORY
from cluster.node.log.types import OffsetAndEpoch

_QUORUM_STATE = f"{METADATA_DIRECTORY}/{FILE_NAME}"
_HEADER = struct.Struct(">qiibIhi")
_PREFIX_BYTES = 12
_READ_BYTES = 1 << 30


def watch(world: SimWorld, on_violation: Callable[[Violation], None] | None = None) -> Watcher:
    """Judge a world; `on_violation` is called within a node's event, so it must not act on it."""
    watcher = Watcher(WorldSight(world), on_violation, (*INVARIANTS, *BROKER_INVARIANTS))
    take = watcher.take

    def observe(process: Process, event: str, fields: TraceFields) -> None:
        take(process.name, event, fields)

    def on_end(process: Process) -> None:
        if process.node is not None:
            watcher.note_end(process.name, process.node.raft.log.durable_end_offset)

    world.observers.append(observe)
    world.on_end.append(on_end)
    return watcher


class WorldSight:
    """See `checkers.invariants.sight.Sight`."""

    def __init__(self, world: SimWorld) -> None:
        self._nodes = world.nodes

    def is_open(self, node: str) -> bool:
        """Whether the node has opened its log."""
        process = self._nodes[node].process
        return process is not None and process.node is not None

    def start_offset(self, node: str) -> int:
        """First offset of the node's log."""
        process = self._nodes[node].process
        assert process is not None
        assert process.node is not None, "it is open"
        return process.node.raft.log.start_offset

    def batches(self, node: str, offset: int) -> list[Batch]:
        """All batches of the node's log from `offset` on."""
        process = self._nodes[node].process
        assert process is not None
        assert process.node is not None, "it is open"
        return read_from(process.node.raft.log, offset)

    def durable_end(self, node: str) -> int | None:
        """Offset below which all is durable; None: the node does not run, or is opening its log."""
        process = self._nodes[node].process
        if process is None or process.node is None or not process.alive:
            return None
        return process.node.raft.log.durable_end_offset

    def quorum_state(self, node: str) -> Election | str | None:
        """The durable content of the quorum-state file, or why it cannot be decoded."""
        content = self._nodes[node].disk.durable(_QUORUM_STATE)
        if content is None:
            return None
        try:
            state = decode(content)
        except QuorumStateError as error:
            return str(error)
        voted_id = NO_NODE if state.voted_key is None else state.voted_key.id
        return Election(state.epoch, state.leader_id, voted_id)

    def snapshot(self, node: str, offset: int, epoch: int) -> int | str:
        """Checksum of the durable bytes of a snapshot."""
        snapshot_id = OffsetAndEpoch(offset, epoch)
        path = f"{METADATA_DIRECTORY}/{snapshot_name(snapshot_id)}"
        content = self._nodes[node].disk.durable(path) or b""
        try:
            parse_snapshot(path, snapshot_id, content)
        except CorruptSnapshotError as error:
            return str(error)
        return int(crc32c(content))


def batches_of(data: bytes) -> list[Batch]:
    """Split bytes that hold whole batches; no checksum is verified here."""
    found: list[Batch] = []
    position = 0
    while position < len(data):
        base, length, epoch, _, crc, _, delta = _HEADER.unpack_from(data, position)
        found.append((base, base + delta + 1, epoch, crc))
        position += length + _PREFIX_BYTES
    return found


def read_from(log: ReplicatedLog, offset: int) -> list[Batch]:
    """Read all batches of a log from `offset` on; a single read ends with its segment."""
    found: list[Batch] = []
    while offset < log.end_offset:
        found += batches_of(log.read(offset, _READ_BYTES))
        offset = found[-1][1]
    return found
