"""Reading batches back from a segment's file, verified again: a disk may rot while a node runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from cluster.node.log.batch.records import (
    PREFIX_BYTES,
    BatchHeader,
    CorruptBatchError,
    batch_size_bytes,
    check_batch,
)
from cluster.node.log.storage.recovery import CorruptLogError
from cluster.node.ports import Disk


class NotInSegmentError(Exception):
    """The offset is missing from the end of a segment that may have gaps."""


class Readable(Protocol):
    """What reading needs to know of a segment."""

    path: str
    base_offset: int
    gaps: bool

    def range_holding(self, offset: int) -> tuple[int, int]:
        """Return file positions [start, end) of some whole batches, one of which holds `offset`."""


def locate_batch(disk: Disk, segment: Readable, offset: int) -> tuple[int, int]:
    """Return base offset and file position of the batch that holds `offset`.

    With gaps, of the first batch that ends above it. Raises CorruptLogError, OSError, and with
    gaps NotInSegmentError when the segment ends at or below it.
    """
    start, end = segment.range_holding(offset)
    data = disk.read(segment.path, start, end - start)
    position = 0
    with _blaming(segment, start, offset):
        expected = segment.base_offset if not start else None
        while True:
            if segment.gaps and position == len(data):
                raise NotInSegmentError
            header = check_batch(data, position, gaps=segment.gaps)
            if header.base_offset != expected is not None and not segment.gaps:
                reason = f"begins at {header.base_offset}, not {expected}"
                raise CorruptBatchError(f"batch at byte {position}: {reason}")
            if offset < header.next_offset:
                return header.base_offset, start + position
            expected = header.next_offset
            position += header.size_bytes


def read_batches(
    disk: Disk, segment: Readable, offset: int, max_bytes: int, end_offset: int
) -> tuple[bytes, list[BatchHeader]]:
    """Read whole batches of one segment from the one that holds `offset` on, and their headers.

    At most `max_bytes`, but at least one batch; none with a record at or after `end_offset`.
    Raises CorruptLogError, OSError.
    """
    headers: list[BatchHeader] = []
    _, start = locate_batch(disk, segment, offset)
    data = disk.read(segment.path, start, max(max_bytes, PREFIX_BYTES))
    position = 0
    with _blaming(segment, start, offset):
        first_bytes = batch_size_bytes(data)
        if first_bytes is not None and first_bytes > max_bytes:
            data = disk.read(segment.path, start, first_bytes)
        while position < len(data):
            size_bytes = batch_size_bytes(data, position)
            if position and (size_bytes is None or position + size_bytes > len(data)):
                break  # the rest of a batch that does not fit
            header = check_batch(data, position, gaps=segment.gaps)
            if header.next_offset > end_offset:
                break
            headers.append(header)
            position += header.size_bytes
    return data[:position], headers


@contextmanager
def _blaming(segment: Readable, position: int, offset: int) -> Iterator[None]:
    try:
        yield
    except CorruptBatchError as error:
        reason = f"changed since it was written: {error} of the part read from here on"
        raise CorruptLogError(segment.path, position, offset, reason) from None
