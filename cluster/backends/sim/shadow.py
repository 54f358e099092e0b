"""Copies of all nodes' logs as the monitor knows them: one small tuple for each batch.

Built from what nodes trace, so that following an append costs one header and no log is read twice;
a scan of the real logs must give the same (`cluster.backends.sim.scan`).
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import dataclass, field

from cluster.node.kraft.replicated_log import ReplicatedLog

_HEADER = struct.Struct(">qiibIhi")
_PREFIX_BYTES = 12
_READ_BYTES = 1 << 30

Batch = tuple[int, int, int, int]
"""(base offset, next offset, epoch, crc)."""

Content = tuple[int, int, int]
"""(next offset, epoch, crc): what (base offset, epoch) must always stand for."""


def batches_of(data: bytes) -> list[Batch]:
    """Batches of bytes that hold whole ones; no checksum is verified here."""
    found: list[Batch] = []
    position = 0
    while position < len(data):
        base, length, epoch, _, crc, _, delta = _HEADER.unpack_from(data, position)
        found.append((base, base + delta + 1, epoch, crc))
        position += length + _PREFIX_BYTES
    return found


def read_from(log: ReplicatedLog, offset: int) -> list[Batch]:
    """All batches of a log from `offset` on; one read ends where a file does."""
    found: list[Batch] = []
    while offset < log.end_offset:
        found += batches_of(log.read(offset, _READ_BYTES))
        offset = found[-1][1]
    return found


@dataclass(slots=True, eq=False)
class ShadowLog:
    """One node's log. Survives the node, as its disk does."""

    batches: list[Batch] = field(default_factory=list)
    durable: int = 0
    """Everything below survives a power loss, as of the end of the last process."""
    checked: int = 0
    """How many batches were compared with what is committed, in this incarnation."""
    is_stale: bool = True
    """It has to be read from the log at the next event: a process opened that log."""

    @property
    def end(self) -> int:
        """Offset of the next record."""
        return self.batches[-1][1] if self.batches else 0

    def truncate(self, end_offset: int) -> list[tuple[int, Batch]]:
        """Drop what lies at or after an offset; returns it with positions, last first."""
        dropped = []
        batches = self.batches
        while batches and batches[-1][0] >= end_offset:
            dropped.append((len(batches) - 1, batches.pop()))
        self.durable = min(self.durable, end_offset)
        self.checked = min(self.checked, len(batches))
        return dropped

    def holds(self, position: int, batch: Batch) -> bool:
        """Whether this very batch is at a position."""
        return position < len(self.batches) and self.batches[position] == batch

    def differs(self, committed: list[Batch], offset: int) -> bool:
        """Whether it holds another batch than the committed one that ends at an offset.

        Nothing that it holds after that can be committed. False where no committed batch ends.
        """
        position = bisect_left(committed, (offset,)) - 1
        ends_there = position >= 0 and committed[position][1] == offset
        return ends_there and not self.holds(position, committed[position])
