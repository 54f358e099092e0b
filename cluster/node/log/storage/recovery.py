"""Reading a log after a crash: what may be cut off, and what must stop the node.

Every batch of every segment is read and verified: magic, length, CRC, offsets without a gap,
epochs that never decrease. What is found wrong is either

- a *torn tail*: bytes at the end of the last segment, at or above the recovery point, with no
  intact batch after them. They were being written when the node died, their durability was never
  reported, and they are cut off; or
- *corruption*: everything else. A node that dropped such records would vote and acknowledge as if
  it had never had them, so it must not start (`CorruptLogError`).

Offset and epoch of a batch are outside its CRC. A damaged offset shows as a gap; a damaged epoch
shows below the recovery point as a contradiction to the leader-epoch file, which is made durable
before any batch of a new epoch counts as durable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from cluster.node.log.batch.records import (
    HEADER_BYTES,
    MAGIC,
    PREFIX_BYTES,
    BatchHeader,
    CorruptBatchError,
    batch_size_bytes,
    check_batch,
)
from cluster.node.log.storage.checkpoint import RECOVERY_POINT_FILE, decode_recovery_point
from cluster.node.log.storage.epoch_cache import EPOCH_FILE, EpochEntry, LeaderEpochCache
from cluster.node.log.storage.segment import Segment, segment_base_offset, segment_name
from cluster.node.ports import Disk

_WINDOW_BYTES = 4 << 20
_MAGIC_POSITION = 16


class CorruptLogError(Exception):
    """The log lacks or contradicts what was durable: the node must refuse to start or stop."""

    def __init__(self, path: str, position: int, offset: int, reason: str) -> None:
        super().__init__(f"{path}: byte {position}, offset {offset}: {reason}")
        self.path = path
        self.position = position
        self.offset = offset


@dataclass(slots=True)
class Recovered:
    """What recovery found. The caller still has to cut the torn tail off the file."""

    segments: list[Segment]
    epochs: LeaderEpochCache
    start_offset: int
    end_offset: int
    recovery_point: int
    """As the file says, 0 without one."""
    epoch_file: bytes
    """Content found, empty without one."""
    truncated_bytes: int = 0
    control: list[tuple[BatchHeader, bytes]] = field(default_factory=list)
    """The control batches, oldest first: they need not be read from the log again."""


def recover(disk: Disk, directory: str) -> Recovered:
    """Verify the log in `directory`. Changes nothing. Raises CorruptLogError, OSError."""
    names = disk.list_directory(directory)
    bases = sorted(b for b in map(segment_base_offset, names) if b is not None)
    start = bases[0] if bases else 0
    found = Recovered(
        segments=[],
        epochs=LeaderEpochCache(),
        start_offset=start,
        end_offset=start,
        recovery_point=decode_recovery_point(
            read_if_there(disk, f"{directory}/{RECOVERY_POINT_FILE}")
        ),
        epoch_file=read_if_there(disk, f"{directory}/{EPOCH_FILE}"),
    )
    for base_offset in bases:
        segment = Segment(f"{directory}/{segment_name(base_offset)}", base_offset)
        if base_offset != found.end_offset:
            reason = f"segment begins at {base_offset}, not at {found.end_offset}"
            raise CorruptLogError(segment.path, 0, found.end_offset, reason)
        found.segments.append(segment)
        _scan(disk, segment, found, is_last=base_offset == bases[-1])
    if found.end_offset < found.recovery_point:
        path = found.segments[-1].path if found.segments else directory
        position = found.segments[-1].size_bytes if found.segments else 0
        reason = f"log ends here, but everything below {found.recovery_point} was durable"
        raise CorruptLogError(path, position, found.end_offset, reason)
    _check_epoch_file(directory, found)
    return found


def read_if_there(disk: Disk, path: str) -> bytes:
    """Read a file; nothing when it is missing. Raises OSError."""
    try:
        return disk.read(path)
    except FileNotFoundError:
        return b""


def _scan(disk: Disk, segment: Segment, found: Recovered, *, is_last: bool) -> None:
    """Index one segment and advance `found`, up to its end or its torn tail."""
    window = Window(disk, segment.path)
    latest = found.epochs.latest_epoch
    while segment.size_bytes < window.size_bytes:
        position = segment.size_bytes
        try:
            header = window.batch_at(position)
            check_place(header, found.end_offset, latest)
        except CorruptBatchError as error:
            _check_torn(window, position, found, str(error), is_last=is_last)
            found.truncated_bytes = window.size_bytes - position
            return
        segment.add(header.base_offset, header.size_bytes, header.max_timestamp_ms)
        if header.is_control:
            found.control.append((header, window.bytes_at(position, header.size_bytes)))
        if header.partition_leader_epoch != latest:
            latest = header.partition_leader_epoch
            found.epochs.assign(latest, header.base_offset)
        found.end_offset = header.next_offset


def check_place(
    header: BatchHeader, end_offset: int, latest_epoch: int | None, *, gaps: bool = False
) -> None:
    """Raise CorruptBatchError unless the intact batch belongs where it lies."""
    if header.base_offset < end_offset or (header.base_offset > end_offset and not gaps):
        raise CorruptBatchError(f"batch begins at {header.base_offset}, not {end_offset}")
    if header.partition_leader_epoch < (latest_epoch or 0):
        raise CorruptBatchError(f"epoch {header.partition_leader_epoch} after {latest_epoch or 0}")


def _check_torn(
    window: Window, position: int, found: Recovered, reason: str, *, is_last: bool
) -> None:
    """Raise CorruptLogError unless the invalid bytes at `position` may be a torn tail."""
    offset = found.end_offset
    if not is_last:
        reason += "; a later segment exists"
    elif offset < found.recovery_point:
        reason += f"; everything below {found.recovery_point} was durable"
    else:
        later = _intact_batch_after(window.rest(position), offset)
        if later is None:
            return
        reason += f"; an intact batch follows at byte {position + later}"
    raise CorruptLogError(window.path, position, offset, reason)


def _intact_batch_after(data: bytes, offset: int) -> int | None:
    """Find the position > 0 of an intact batch with a base offset above `offset`.

    Lengths cannot be trusted here, so every byte that could be a magic is tried.
    """
    found = data.find(MAGIC, _MAGIC_POSITION + 1)
    while found != -1:
        position = found - _MAGIC_POSITION
        if len(data) - position < HEADER_BYTES:
            return None
        try:
            if check_batch(data, position).base_offset > offset:
                return position
        except CorruptBatchError:
            pass
        found = data.find(MAGIC, found + 1)
    return None


def _check_epoch_file(directory: str, found: Recovered) -> None:
    """Raise CorruptLogError when batches below the recovery point contradict the epoch file.

    A file that is missing or cannot be parsed is rebuilt from the batches: it is replaced
    atomically, so a crash never leaves one, and the log itself is whole.
    """
    try:
        written = LeaderEpochCache.decode(found.epoch_file)
    except ValueError:
        return
    path = f"{directory}/{EPOCH_FILE}"
    first = written.entries[0].start_offset if written.entries else found.start_offset
    if first < min(found.start_offset, found.recovery_point):
        reason = f"log begins here, but records from {first} on were durable"
        raise CorruptLogError(found.segments[0].path, 0, found.start_offset, reason)
    written.truncate_from_start(found.start_offset)
    batches = LeaderEpochCache(found.epochs.entries)
    if any(segment.base_offset == first for segment in found.segments[1:]):
        # The segments before this one were about to be deleted: the file forgets them first.
        batches.truncate_from_start(first)
    check_epochs(path, written, batches, found.recovery_point)


def check_epochs(
    path: str, written: LeaderEpochCache, batches: LeaderEpochCache, recovery_point: int
) -> None:
    """Raise CorruptLogError when file and batches disagree below the recovery point."""
    expected = _below(written, recovery_point)
    actual = _below(batches, recovery_point)
    if expected == actual:
        return
    differing = min(set(expected) ^ set(actual), key=lambda entry: entry.start_offset)
    reason = (
        f"batches say that epochs begin at {_pairs(actual)}, the file that they begin at "
        f"{_pairs(expected)}, and everything below {recovery_point} was durable"
    )
    raise CorruptLogError(path, 0, differing.start_offset, reason)


def _below(epochs: LeaderEpochCache, offset: int) -> tuple[EpochEntry, ...]:
    return tuple(entry for entry in epochs.entries if entry.start_offset < offset)


def _pairs(entries: tuple[EpochEntry, ...]) -> str:
    return " ".join(f"{entry.epoch}@{entry.start_offset}" for entry in entries) or "nowhere"


class Window:
    """A file that is read forward, some megabytes at a time."""

    def __init__(self, disk: Disk, path: str, *, gaps: bool = False) -> None:
        self.path = path
        self.size_bytes = disk.size(path)
        self._disk = disk
        self._gaps = gaps
        self._start = 0
        self._data = b""

    def batch_at(self, position: int) -> BatchHeader:
        """Verify the batch at `position`. Raises CorruptBatchError."""
        try:
            return check_batch(self._data, position - self._start, gaps=self._gaps)
        except CorruptBatchError:
            pass  # it may go on behind the window
        try:
            self._need(position, HEADER_BYTES)
            size_bytes = batch_size_bytes(self._data, position - self._start)
            if size_bytes is not None and position + size_bytes <= self.size_bytes:
                self._need(position, size_bytes)
            return check_batch(self._data, position - self._start, gaps=self._gaps)
        except CorruptBatchError as error:
            raise CorruptBatchError(str(error).partition(": ")[2]) from None

    def bytes_at(self, position: int, size_bytes: int) -> bytes:
        """Return the bytes of the batch that was verified last."""
        return self._data[position - self._start : position - self._start + size_bytes]

    def rest(self, position: int) -> bytes:
        """Read everything from `position` on."""
        return self._disk.read(self.path, position)

    def _need(self, position: int, size_bytes: int) -> None:
        if position + size_bytes > self._start + len(self._data):
            self._data = self._disk.read(self.path, position, max(size_bytes, _WINDOW_BYTES))
            self._start = position


# Reading batches back from a segment's file, verified again: a disk may rot while a node runs.


class NotInSegmentError(Exception):
    """The offset is missing from the end of a segment that may have gaps."""


class Readable(Protocol):
    """What reading needs to know of a segment."""

    path: str
    base_offset: int
    size_bytes: int
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

    At most `max_bytes`, but at least one batch; none with a record at or after `end_offset`, nor
    what the file has behind the segment: its cut may wait for the disk. Raises CorruptLogError,
    OSError.
    """
    headers: list[BatchHeader] = []
    _, start = locate_batch(disk, segment, offset)
    left_bytes = segment.size_bytes - start
    data = disk.read(segment.path, start, min(max(max_bytes, PREFIX_BYTES), left_bytes))
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
