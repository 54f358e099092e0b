"""One replica of a released node: what is on its disk, as Python knows it.

The bytes are in the JVM. Here is a twin of what the invariants ask for, and on the simulated disk a
file with a few bytes for each batch, so that stalls, errors and power losses of that disk act on
the log of Kafka as they do on ours: what the disk loses of that file, the log loses of its batches.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Final

from crc32c import crc32c

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.kafka import frames
from cluster.backends.sim.kafka.frames import Effect
from cluster.backends.sim.kafka.jvm import Jvm
from cluster.node.log.batch.control import Voters, decode_control
from cluster.node.log.batch.records import decode_records, iter_batches
from cluster.node.log.metadata.snapshot import snapshot_name
from cluster.node.log.storage.segment import METADATA_DIRECTORY
from cluster.node.log.types import OffsetAndEpoch

LOG: Final = f"{METADATA_DIRECTORY}/log"
STATE: Final = f"{METADATA_DIRECTORY}/quorum-state"
_BATCH_BYTES: Final = 16
"""How long a batch is in the twin of the log."""

_LENGTH_BYTES: Final = 12
"""Of a batch's beginning: the offset, and how many bytes follow."""

Batch = tuple[int, int, int, int]


class KafkaReplica:
    """See the module; `cluster.backends.sim.incarnation.Replica` for the invariants."""

    def __init__(
        self,
        node_id: int,
        directory: uuid.UUID,
        voters: Mapping[int, uuid.UUID],
        *,
        is_static: bool,
    ) -> None:
        """`voters`: those of the configuration, or of the checkpoint that it is formatted with."""
        self.node_id = node_id
        self.directory = directory
        self.is_static = is_static
        self.held: tuple[int, int, int] | None = None
        """Epoch, leader and vote in the state file."""
        self.start_offset = 0
        self.durable_end_offset = 0
        self.in_flush = 0
        """Which flush of the last answer was under way when the power failed; 0: none."""
        self.torn_bytes = 0
        """Of a batch that a power loss tore, before the process started."""
        self.snapshots: dict[tuple[int, int], int] = {}
        """(offset, epoch) -> checksum."""
        self._batches: list[Batch] = []
        self._voters: list[tuple[int, Mapping[int, uuid.UUID]]] = [(-1, voters)]
        self._is_new = True

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self._batches[-1][1] if self._batches else self.start_offset

    @property
    def last_epoch(self) -> int:
        """Epoch in which the log ends."""
        if self._batches:
            return self._batches[-1][2]
        return max((epoch for _, epoch in self.snapshots), default=0)

    @property
    def voters(self) -> tuple[int, Mapping[int, uuid.UUID]]:
        """Offset of the newest voter set, -1: of the configuration or of checkpoint 0-0."""
        return self._voters[-1]

    def batches(self, offset: int) -> list[Batch]:
        found: list[Batch] = []
        for batch in reversed(self._batches):
            if batch[0] < offset:
                break
            found.append(batch)
        return found[::-1]

    def election(self) -> tuple[int, int, int] | str | None:
        return self.held

    def snapshot(self, offset: int, epoch: int) -> int | str:
        """See `Replica.snapshot`: the same for all, as each node stamps its own with its time."""
        held = (offset, epoch) in self.snapshots
        return 0 if held else f"there is no snapshot {offset}-{epoch}"

    def append(self, batch: Batch, disk: MemoryDisk) -> None:
        """Add a batch, not durable."""
        self._batches.append(batch)
        disk.append(LOG, bytes(_BATCH_BYTES), at_once=True)

    def truncate(self, end_offset: int, disk: MemoryDisk) -> bool:
        """Cut the log, for good; returns whether another voter set is in force."""
        while self._batches and self._batches[-1][0] >= end_offset:
            self._batches.pop()
        disk.cut(LOG, len(self._batches) * _BATCH_BYTES)
        self.durable_end_offset = min(self.durable_end_offset, end_offset)
        return self._forget_voters(end_offset)

    def drop(self, start_offset: int, disk: MemoryDisk) -> None:
        """Begin anew behind a snapshot."""
        self._batches.clear()
        disk.cut(LOG, 0)
        self.start_offset = self.durable_end_offset = start_offset

    def trim(self, start_offset: int) -> None:
        """Begin later, as old segments were deleted; the twin on the disk keeps them."""
        self.start_offset = start_offset

    def add_voters(self, offset: int, voters: Mapping[int, uuid.UUID]) -> bool:
        """Put a voter set in force; returns whether it is: a snapshot may hold an older one."""
        newest, known = self._voters[-1]
        if offset < newest or voters == known:
            return False
        self._forget_voters(offset)
        self._voters.append((offset, voters))
        return True

    def _forget_voters(self, end_offset: int) -> bool:
        before = self._voters[-1]
        while len(self._voters) > 1 and self._voters[-1][0] >= end_offset:
            self._voters.pop()
        return self._voters[-1] is not before

    def open(self, jvm: Jvm, disk: MemoryDisk) -> None:
        """Bring log and twin together before a process starts, and take up what is there."""
        if self._is_new:
            self._is_new = False
        else:
            durable = sum(batch[1] <= self.durable_end_offset for batch in self._batches)
            whole, torn = divmod(disk.size(LOG), _BATCH_BYTES)
            keep = max(0, whole - durable)
            if disk.size(LOG) > len(disk.durable(LOG) or b""):
                torn = -1  # the kernel, which lives, has more than the disk
            jvm.call(frames.kill(self.node_id, keep=keep, torn=torn, flush=self.in_flush))
        self.in_flush = 0
        self._read(jvm.call(frames.state(self.node_id)))
        names = {f"{METADATA_DIRECTORY}/{_name(*key)}": b"" for key in self.snapshots}
        durable = sum(batch[1] <= self.durable_end_offset for batch in self._batches)
        written = [bytes(_BATCH_BYTES)] * (len(self._batches) - durable)
        disk.replace({LOG: bytes(_BATCH_BYTES * durable), STATE: b"", **names}, {LOG: written})

    def _read(self, effects: frames.Effects) -> None:
        self._batches, self.snapshots, self.held, self.torn_bytes = [], {}, None, 0
        is_torn = False
        for effect in effects:
            kind = effect[0]
            if kind == Effect.STATE:
                self.held = effect[1:]
            elif kind == Effect.DISK:
                self.start_offset, self.durable_end_offset = effect[1], effect[3]
            elif kind == Effect.BATCH:
                base, last, epoch, data = effect[1:]
                if is_torn:
                    continue
                if len(data) < _LENGTH_BYTES + int.from_bytes(data[8:_LENGTH_BYTES]):
                    # Kafka drops it as it starts, with all that is behind it.
                    is_torn, self.torn_bytes, self.durable_end_offset = True, len(data), base
                    continue
                self._batches.append((base, last + 1, epoch, int(crc32c(data))))
            elif kind == Effect.CHECKPOINT:
                offset, epoch, data = effect[1:]
                self.snapshots[offset, epoch] = int(crc32c(data))
        if not self.is_static:
            self.learn_voters(effects)

    def learn_voters(self, effects: frames.Effects) -> None:
        """Take up the voter sets of checkpoints and log, as evidence has them."""
        found: dict[int, Mapping[int, uuid.UUID]] = {}
        for effect in effects:
            if effect[0] == Effect.CHECKPOINT:
                for _, voters in _voters_in(effect[3]):
                    found[effect[1] - 1] = voters
            elif effect[0] == Effect.BATCH and effect[1] < self.durable_end_offset:
                found |= dict(_voters_in(effect[4]))
        self._voters = sorted(found.items(), key=lambda row: row[0]) or [(-1, {})]

    def note_snapshot(self, offset: int, epoch: int, checksum: int, disk: MemoryDisk) -> None:
        """A snapshot is durable."""
        self.snapshots[offset, epoch] = checksum
        disk.write(f"{METADATA_DIRECTORY}/{_name(offset, epoch)}", b"")


def _voters_in(data: bytes) -> Iterator[tuple[int, Mapping[int, uuid.UUID]]]:
    """Yield the voter sets of some batches, with their offsets."""
    for header, batch in iter_batches(data, gaps=True):
        if header.is_control:
            for number, record in enumerate(decode_records(batch)):
                control = decode_control(record)
                if isinstance(control, Voters):
                    voters = {voter.voter_id: voter.directory_id for voter in control.voters}
                    yield header.base_offset + number, voters


def _name(offset: int, epoch: int) -> str:
    return snapshot_name(OffsetAndEpoch(offset, epoch))
