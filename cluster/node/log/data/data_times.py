"""Records by time, for ListOffsets and retention.

The time index of a segment leads near the place: everything before an entry is no later than the
entry's timestamp. An entry that was read from a file is compared with the batch that it names; one
that does not fit makes the segment's indexes be built anew. What remains unseen is a time index
that was cut off between two entries (Kafka does not see that either): a segment may then count as
older than it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from cluster.node.log.batch.records import (
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatchError,
    decode_batch,
    inflate_batch,
)
from cluster.node.log.data.data_segment import DataSegment
from cluster.node.log.storage.index import CorruptIndexError
from cluster.values import valueclass

T = TypeVar("T")
_INFLATED_MAX_BYTES = 1 << 30


@valueclass
class TimestampAndOffset:
    """A record's timestamp (-1: not asked for), its offset and its leader epoch, if known."""

    timestamp_ms: int
    offset: int
    epoch: int | None


class Batches(Protocol):
    """What is needed of a log."""

    start_offset: int

    def batches_from(self, offset: int, end_offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Read all batches from the one that holds `offset` on."""

    def reading(self, segment: DataSegment, read: Callable[[], T]) -> T:
        """Read, once more with new indexes when they are found wrong."""

    def end_of(self, segment: DataSegment) -> int:
        """Return the offset that follows a segment."""


def largest(log: Batches, segment: DataSegment) -> int:
    """Return the largest timestamp of a segment; -1 without any. Raises StorageError."""

    def load() -> None:
        if not segment.times_known:
            segment.load_times()
            if segment.max_timestamp_ms == NO_TIMESTAMP and segment.size_bytes:
                raise CorruptIndexError(f"{segment.time_index_path}: no entry")
            _check_entry(log, segment, segment.max_timestamp_offset, segment.max_timestamp_ms)

    log.reading(segment, load)
    return segment.max_timestamp_ms


def check_cut(log: Batches, segment: DataSegment, offset: int) -> None:
    """Check the entries of the time index between which a segment is about to be cut at `offset`.

    An entry that names too late a batch would be dropped with those behind it, and the time of the
    batch that stays with it. Raises CorruptIndexError, StorageError.
    """
    times = segment.time_index
    first_cut = bisect_left(times.offsets, offset - segment.base_offset)
    for at in range(max(first_cut - 1, 0), min(first_cut + 1, len(times.offsets))):
        _check_entry(log, segment, segment.base_offset + times.offsets[at], times.timestamps[at])


def find_timestamp(
    log: Batches, segments: Sequence[DataSegment], timestamp_ms: int
) -> TimestampAndOffset | None:
    """Find the first record of these segments that is not earlier. Raises StorageError."""
    for segment in segments:
        if segment.size_bytes and largest(log, segment) >= timestamp_ms:
            record = _first_not_earlier(
                log, segment, _floor(log, segment, timestamp_ms), timestamp_ms
            )
            if record is not None:
                return record
    return None


def find_largest(log: Batches, segments: Sequence[DataSegment]) -> TimestampAndOffset | None:
    """Find the first record with the largest timestamp of all. Raises StorageError."""
    latest = max(segments, key=lambda segment: largest(log, segment))
    if latest.max_timestamp_ms == NO_TIMESTAMP:
        return None
    offset = max(latest.max_timestamp_offset, log.start_offset)
    return _first_not_earlier(log, latest, offset, latest.max_timestamp_ms)


def _floor(log: Batches, segment: DataSegment, timestamp_ms: int) -> int:
    """Find an offset before which everything is earlier."""

    def look_up() -> int:
        relative = segment.time_index.lookup(timestamp_ms)
        if relative is None:
            return segment.base_offset
        at = segment.time_index.offsets.index(relative)
        offset = segment.base_offset + relative
        _check_entry(log, segment, offset, segment.time_index.timestamps[at])
        return offset

    return log.reading(segment, look_up)


def _check_entry(log: Batches, segment: DataSegment, offset: int, timestamp_ms: int) -> None:
    if offset < log.start_offset:
        return  # what it names may be gone from the log, though not from the file
    header, _ = next(log.batches_from(offset, log.end_of(segment)), (None, b""))
    if header is None or (header.last_offset, header.max_timestamp_ms) != (offset, timestamp_ms):
        raise CorruptIndexError(f"{segment.time_index_path}: {timestamp_ms} is not at {offset}")


def _first_not_earlier(
    log: Batches, segment: DataSegment, offset: int, timestamp_ms: int
) -> TimestampAndOffset | None:
    start_offset = max(offset, log.start_offset)
    for header, batch in log.batches_from(start_offset, log.end_of(segment)):
        if header.max_timestamp_ms < timestamp_ms:
            continue
        try:
            records = decode_batch(inflate_batch(batch, _INFLATED_MAX_BYTES))
        except (CorruptBatchError, OverflowError, ValueError):
            first = max(header.base_offset, log.start_offset)  # the nearest that can be said
            return TimestampAndOffset(header.max_timestamp_ms, first, header.partition_leader_epoch)
        for record in records:
            if record.timestamp >= timestamp_ms and record.offset >= log.start_offset:
                return TimestampAndOffset(
                    record.timestamp, record.offset, header.partition_leader_epoch
                )
    return None
