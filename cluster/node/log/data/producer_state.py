"""What a partition remembers of idempotent producers (KIP-98), so that a retry is no duplicate.

Of each producer id: its epoch, and sequences and offsets of its last five batches, which is as many
as a producer may have in flight. A batch with the sequences of one of these is a retry, and is
answered with the offsets that it got then. Any other must follow the last one.

The state is a function of the log. It is rebuilt from the last snapshot and the batches after it;
of each producer a snapshot holds the last batch only. Snapshot file, `<offset>.snapshot`, the state
below that offset: version (int16, 1), CRC-32C of what follows (uint32), count (int32), and for each
producer id (int64), epoch (int16), last sequence (int32), last offset (int64), offset delta
(int32), timestamp (int64), epoch of the coordinator (int32), first offset of the open transaction
(int64, -1). After `ProducerStateManager` and `ProducerAppendInfo`, transactions aside.
"""

from __future__ import annotations

import re
import struct
from collections import deque
from dataclasses import dataclass, field

from crc32c import crc32c

from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import NO_PRODUCER, NO_TIMESTAMP, SEQUENCE_MAX, BatchHeader
from cluster.node.log.data.data_config import AppendError
from cluster.values import valueclass

BATCHES_TO_RETAIN = 5
NO_EPOCH = -1
_VERSION = 1
_HEAD = struct.Struct(">hIi")
_CRC_END = 6
_ENTRY = struct.Struct(">qhiqiqiq")
_NAME = re.compile(r"(\d{20})\.snapshot")


def snapshot_name(offset: int) -> str:
    """File name of the snapshot of the state below `offset`."""
    return f"{offset:020d}.snapshot"


def snapshot_offset(name: str) -> int | None:
    """Read the offset from a file name; None when it does not name a snapshot."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


@valueclass
class ProducerBatch:
    """Sequences and offsets of one batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class ProducerEntry:
    """What is known of one producer id."""

    epoch: int
    last_timestamp_ms: int = NO_TIMESTAMP
    batches: deque[ProducerBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_TO_RETAIN))

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; -1 without any."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerState:
    """The producers of one partition, up to `end_offset` of its log."""

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        """producer.id.expiration.ms"""
        self.producers: dict[int, ProducerEntry] = {}
        self.end_offset = 0

    def duplicate_of(self, header: BatchHeader) -> ProducerBatch | None:
        """Find the batch that this one repeats, if it is among the last ones."""
        entry = self.producers.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            return None
        sequences = (header.base_sequence, header.last_sequence)
        for batch in entry.batches:
            if (batch.first_sequence, batch.last_sequence) == sequences:
                return batch
        return None

    def check(self, header: BatchHeader) -> None:
        """Refuse a batch that does not follow, from a known producer. Raises AppendError."""
        entry = self.producers.get(header.producer_id)
        if entry is None or entry.epoch == NO_EPOCH:
            return
        name = f"producer {header.producer_id}"
        if header.producer_epoch < entry.epoch:
            raise AppendError(
                ErrorCode.invalid_producer_epoch,
                f"Epoch of {name} is {header.producer_epoch}, which is smaller than the last "
                f"seen epoch {entry.epoch}",
            )
        if header.producer_epoch > entry.epoch:
            expected = 0
        else:
            expected = (entry.last_sequence + 1) & SEQUENCE_MAX
        if header.base_sequence != expected:
            raise AppendError(
                ErrorCode.out_of_order_sequence_number,
                f"Out of order sequence number for {name}: {header.base_sequence} (incoming seq. "
                f"number), {expected} expected in epoch {header.producer_epoch}",
            )

    def update(self, header: BatchHeader) -> None:
        """Note a batch that is in the log, with the offsets that it has there."""
        self.end_offset = header.next_offset
        if header.producer_id == NO_PRODUCER or header.is_control:
            return
        entry = self.producers.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_epoch)
        entry.last_timestamp_ms = header.max_timestamp_ms
        entry.batches.append(
            ProducerBatch(
                header.last_sequence,
                header.last_offset,
                header.last_offset_delta,
                header.max_timestamp_ms,
            )
        )

    def expire(self, now_ms: int) -> None:
        """Forget producers whose last record is older than `producer.id.expiration.ms`."""
        for producer_id in [
            producer_id
            for producer_id, entry in self.producers.items()
            if now_ms - entry.last_timestamp_ms >= self.expiration_ms
        ]:
            del self.producers[producer_id]

    def clear(self, end_offset: int) -> None:
        """Forget everything; the log is read again from `end_offset` on."""
        self.producers.clear()
        self.end_offset = end_offset

    def encode(self) -> bytes:
        """Return the content of a snapshot at `end_offset`."""
        entries = [
            _ENTRY.pack(
                producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.batches[-1].last_offset if entry.batches else -1,
                entry.batches[-1].offset_delta if entry.batches else 0,
                entry.last_timestamp_ms,
                -1,
                -1,
            )
            for producer_id, entry in self.producers.items()
        ]
        body = struct.pack(">i", len(entries)) + b"".join(entries)
        return struct.pack(">hI", _VERSION, crc32c(body)) + body

    def load(self, data: bytes, end_offset: int, now_ms: int) -> None:
        """Take over a snapshot, without what expired. Raises ValueError when it is damaged."""
        producers = decode_snapshot(data)
        self.producers = producers
        self.end_offset = end_offset
        self.expire(now_ms)


def decode_snapshot(data: bytes) -> dict[int, ProducerEntry]:
    """Read a snapshot. Raises ValueError when it is damaged."""
    if len(data) < _HEAD.size:
        raise ValueError("cut off")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise ValueError(f"unknown version {version}")
    if crc32c(data[_CRC_END:]) != crc:
        raise ValueError("CRC is wrong")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise ValueError(f"{count} producers announced in {len(data)} bytes")
    producers = {}
    for producer_id, epoch, sequence, offset, delta, timestamp_ms, _, _ in _ENTRY.iter_unpack(
        data[_HEAD.size :]
    ):
        entry = ProducerEntry(epoch, timestamp_ms)
        if offset >= 0:
            entry.batches.append(ProducerBatch(sequence, offset, delta, timestamp_ms))
        producers[producer_id] = entry
    return producers
