"""Records waiting to be appended by the leader of one epoch (BatchAccumulator.java).

Appends are gathered into batches; a batch is ready when it is full, when `linger_ms` have passed
since its first record, or when a control record forces it out. Offsets are handed out at the
append, before anything is written, so that a state machine can be replayed at once.

Each append is atomic: all its records end up in one batch, and no batch mixes control and data
records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from cluster.node.kraft.quorum.config import MAX_BATCH_SIZE_BYTES, MAX_COMPLETED_BATCHES
from cluster.node.kraft.types import BatchTooLargeError, BufferFullError, NotLeaderError
from cluster.node.log.batch.records import Record, encode_batch
from cluster.values import valueclass

RECORD_OVERHEAD_BYTES = 21
"""Largest framing of one record in a v2 batch: varint length, attributes, deltas and lengths."""

BATCH_OVERHEAD_BYTES = 61
"""Header of a v2 batch."""


@dataclass(slots=True)
class _OpenBatch:
    base_offset: int
    first_append_ms: float
    records: list[Record] = field(default_factory=list)
    size_bytes: int = BATCH_OVERHEAD_BYTES


@valueclass
class CompletedBatch:
    """An encoded batch, ready for the log."""

    base_offset: int
    last_offset: int
    data: bytes


class BatchAccumulator:
    """One for each leader epoch; base offset is the log end offset at its start."""

    def __init__(
        self,
        epoch: int,
        base_offset: int,
        linger_ms: float,
        max_batch_size_bytes: int = MAX_BATCH_SIZE_BYTES,
    ) -> None:
        self.epoch = epoch
        self._next_offset = base_offset
        self._linger_ms = linger_ms
        self._max_batch_size_bytes = max_batch_size_bytes
        self._open: _OpenBatch | None = None
        self._completed: deque[CompletedBatch] = deque()
        self._drain_forced = False
        self._prepared_from: int | None = None

    @property
    def next_offset(self) -> int:
        """Offset that the next record will get."""
        return self._next_offset

    def append(self, epoch: int, values: Sequence[bytes], now_ms: float, wall_ms: int) -> int:
        """Add one atomic group of records; returns the offset of the last.

        It does not go out before `allow_drain`: a replay meanwhile may find that it must not.
        Raises NotLeaderError for an older epoch, ValueError for no records, BatchTooLargeError,
        BufferFullError. When it raises nothing was added.
        """
        if epoch < self.epoch:
            raise NotLeaderError(f"append for epoch {epoch}, but the epoch is {self.epoch}")
        assert epoch == self.epoch, f"append for epoch {epoch}, which has not begun"
        if not values:
            raise ValueError("an append of no records")
        size = sum(len(value) + RECORD_OVERHEAD_BYTES for value in values)
        if size + BATCH_OVERHEAD_BYTES > self._max_batch_size_bytes:
            raise BatchTooLargeError(
                f"{len(values)} records of {size} bytes do not fit in one batch of "
                f"{self._max_batch_size_bytes}"
            )
        if self._open is not None and self._open.size_bytes + size > self._max_batch_size_bytes:
            if len(self._completed) >= MAX_COMPLETED_BATCHES:
                raise BufferFullError(f"{len(self._completed)} batches wait for the log")
            self._complete(wall_ms)
        if self._open is None:
            self._open = _OpenBatch(self._next_offset, now_ms)
        if self._prepared_from is None:
            self._prepared_from = self._next_offset
        self._open.records.extend(Record(value=value) for value in values)
        self._open.size_bytes += size
        self._next_offset += len(values)
        return self._next_offset - 1

    def allow_drain(self) -> None:
        """Let everything that was appended so far go out (schedulePreparedAppend)."""
        self._prepared_from = None

    def append_control(self, records: Sequence[Record], wall_ms: int) -> int:
        """Add a control batch, which goes out at once; returns the offset of its last record."""
        assert records, "a control batch of no records"
        self._complete(wall_ms)
        data = encode_batch(self._next_offset, self.epoch, records, wall_ms, control=True)
        base_offset = self._next_offset
        self._next_offset += len(records)
        self._completed.append(CompletedBatch(base_offset, self._next_offset - 1, data))
        self._drain_forced = True
        return self._next_offset - 1

    def ms_until_drain(self, now_ms: float) -> float | None:
        """Milliseconds until something should be drained (<= 0: now); None when nothing may be."""
        if self._drain_forced or (self._completed and self._may_go(self._completed[0].last_offset)):
            return 0.0
        if self._open is None or not self._may_go(self._next_offset - 1):
            return None
        return max(0.0, self._open.first_append_ms + self._linger_ms - now_ms)

    def drain(self, wall_ms: int) -> list[CompletedBatch]:
        """Take everything that may go out, in offset order."""
        if self._may_go(self._next_offset - 1):
            self._complete(wall_ms)
        drained: list[CompletedBatch] = []
        while self._completed and self._may_go(self._completed[0].last_offset):
            drained.append(self._completed.popleft())
        self._drain_forced = False
        return drained

    def _may_go(self, last_offset: int) -> bool:
        return self._prepared_from is None or last_offset < self._prepared_from

    def _complete(self, wall_ms: int) -> None:
        batch = self._open
        if batch is None:
            return
        data = encode_batch(batch.base_offset, self.epoch, batch.records, wall_ms)
        last_offset = batch.base_offset + len(batch.records) - 1
        self._completed.append(CompletedBatch(batch.base_offset, last_offset, data))
        self._open = None
