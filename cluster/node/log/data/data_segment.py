"""One segment of a log of data: `.log`, `.index` and `.timeindex`, in Kafka's formats.

Unlike a segment of metadata it can be used without having been read: where its batches lie is in
its index files, which are loaded when they are first needed. What was loaded is not trusted
(`cluster.node.log.storage.index`); `rebuild` makes both indexes anew from the batches.

Entries are a function of the batches: one for each batch that begins more than
`index.interval.bytes` behind the batch of the entry before (or the file's start), whether it was
appended, replicated or recovered (KAFKA-16541, E50).
"""

from __future__ import annotations

from bisect import bisect_right

from cluster.node.log.batch.records import (
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatchError,
    parse_header,
)
from cluster.node.log.data.data_config import INT32_MAX, DataLogConfig
from cluster.node.log.storage.index import (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    CorruptIndexError,
    OffsetIndex,
    TimeIndex,
)
from cluster.node.log.storage.recovery import CorruptLogError, Window, check_place, read_if_there
from cluster.node.log.storage.segment import segment_name
from cluster.node.ports import Disk

_LOG_SUFFIX = ".log"


class DataSegment:
    """Where the batches of one file lie, what times they have, and its indexes."""

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, config: DataLogConfig, created_ms: int
    ) -> None:
        self._disk = disk
        self._config = config
        self.base_offset = base_offset
        self.gaps = config.compact
        self.move_to(directory)
        self.size_bytes = 0
        self.created_ms = created_ms
        self.roll_jitter_ms = 0
        self.first_timestamp_ms: int | None = None
        """Largest timestamp of the first batch; None until it is known."""
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        """Last offset of the first batch that has the largest timestamp."""
        self.times_known = True
        """Whether these two are; else `DataLog` reads them from the time index."""
        self.is_dirty = True
        """Whether something may be in it that no sync has covered."""
        self._loaded_bytes = 0
        """What lies below was indexed by a file that was read, not by us."""
        self._index: OffsetIndex | None = OffsetIndex()
        self._time_index: TimeIndex | None = TimeIndex()
        self._queued = [bytearray(), bytearray()]

    def move_to(self, directory: str) -> None:
        """Name its files as those of a folder."""
        self.path = f"{directory}/{segment_name(self.base_offset)}"
        stem = self.path.removesuffix(_LOG_SUFFIX)
        self.index_path = stem + INDEX_SUFFIX
        self.time_index_path = stem + TIME_INDEX_SUFFIX

    def create(self) -> None:
        """Create the three files."""
        for path in self.paths:
            self._disk.append(path, b"", at_once=True)

    def load(self) -> None:
        """Take over the files that are there; indexes are read later. Raises OSError."""
        self.size_bytes = self._loaded_bytes = self._disk.size(self.path)
        self._index = self._time_index = None
        self.times_known = False
        self.is_dirty = False

    @property
    def paths(self) -> tuple[str, str, str]:
        """Its files."""
        return self.path, self.index_path, self.time_index_path

    @property
    def indexes_plausible(self) -> bool:
        """Whether both index files are there with whole entries, without reading them."""
        for path, entry_bytes in (
            (self.index_path, OffsetIndex.ENTRY_BYTES),
            (self.time_index_path, TimeIndex.ENTRY_BYTES),
        ):
            if not self._disk.exists(path) or self._disk.size(path) % entry_bytes:
                return False
        return True

    @property
    def index(self) -> OffsetIndex:
        """The offset index, read if need be. Raises CorruptIndexError, OSError."""
        if self._index is None:
            data = read_if_there(self._disk, self.index_path)
            self._index = OffsetIndex.decode(data, self.size_bytes)
        return self._index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, read if need be. Raises CorruptIndexError, OSError."""
        if self._time_index is None:
            data = read_if_there(self._disk, self.time_index_path)
            self._time_index = TimeIndex.decode(data)
        return self._time_index

    @property
    def last_indexed(self) -> tuple[int, int]:
        """Offset and position of the last entry; the segment's begin without any."""
        if not self.index.offsets:
            return self.base_offset, 0
        return self.base_offset + self.index.offsets[-1], self.index.positions[-1]

    @property
    def is_index_full(self) -> bool:
        """Whether an index has reached `segment.index.bytes`; a roll needs one more time entry."""
        limit = self._config.segment_index_bytes
        index_max = limit // OffsetIndex.ENTRY_BYTES
        time_max = limit // TimeIndex.ENTRY_BYTES - 1
        return len(self.index.offsets) >= index_max or len(self.time_index.offsets) >= time_max

    def can_hold(self, last_offset: int) -> bool:
        """Whether the offset can be told from the first one by an int32."""
        return last_offset - self.base_offset <= INT32_MAX

    def check_fits(self, header: BatchHeader) -> None:
        """Raise CorruptBatchError for a batch that was never put into this segment."""
        if not self.can_hold(header.last_offset):
            raise CorruptBatchError(f"offset {header.last_offset} is too far from the first")

    def add(self, header: BatchHeader) -> int:
        """Note a batch at the end of the file; returns its position."""
        position = self.size_bytes
        self._note(header, position)
        self.size_bytes += header.size_bytes
        self.is_dirty = True
        return position

    def write(self, batches: bytes) -> None:
        """Queue batches that were added, and then the entries that point at them."""
        self._disk.append(self.path, batches, at_once=True)
        for path, queued in zip(self.paths[1:], self._queued, strict=True):
            if queued:
                self._disk.append(path, bytes(queued), at_once=True)
                queued.clear()

    def close_times(self) -> None:
        """Give the largest timestamp an entry, as nothing follows."""
        if self.times_known and (entry := self._index_time()):
            self._disk.append(self.time_index_path, entry, at_once=True)
            self.is_dirty = True

    def note_times(self, header: BatchHeader) -> None:
        """Take a batch into account that the time index does not cover."""
        if header.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = header.max_timestamp_ms
            self.max_timestamp_offset = header.last_offset

    def load_times(self) -> None:
        """Begin with the largest timestamp of the time index. Raises CorruptIndexError."""
        times = self.time_index
        self.max_timestamp_ms, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        if times.offsets:
            self.max_timestamp_ms = times.timestamps[-1]
            self.max_timestamp_offset = self.base_offset + times.offsets[-1]
        self.times_known = True

    def range_holding(self, offset: int) -> tuple[int, int]:
        """Return file positions [start, end) of some whole batches, one of which holds `offset`.

        Raises CorruptIndexError when no batch lies where the index says, OSError.
        """
        assert offset >= self.base_offset
        index = self.index
        found = bisect_right(index.offsets, offset - self.base_offset)
        start = 0
        if found:
            start = index.positions[found - 1]
            self._check_entry(self.base_offset + index.offsets[found - 1], start)
        # The batch of the next entry ends above the offset and may hold it: read that one too.
        beyond = found + 1
        end = index.positions[beyond] if beyond < len(index.positions) else self.size_bytes
        return start, end

    def truncate(self, position: int, offset: int) -> None:
        """Cut files and indexes at a batch. Raises CorruptIndexError, OSError, before any cut."""
        index, time_index = self.index, self.time_index
        self._disk.truncate(self.path, position)
        self._disk.truncate(self.index_path, index.truncate(position))
        left_bytes = time_index.truncate(offset - self.base_offset)
        self._disk.truncate(self.time_index_path, left_bytes)
        self.size_bytes = position
        self._loaded_bytes = min(self._loaded_bytes, position)
        self.is_dirty = True
        if not position:
            self.first_timestamp_ms = None

    def rebuild(self) -> bool:
        """Index the batches of the loaded part again; False when our own index covers all.

        Raises CorruptLogError when they are damaged, OSError.
        """
        if not self._loaded_bytes:
            return False
        own_index, own_times = self._index, self._time_index
        own_max = (self.max_timestamp_ms, self.max_timestamp_offset)
        end_bytes, self.size_bytes = self.size_bytes, 0
        loaded_bytes = self._loaded_bytes
        self.begin_scan()
        window = Window(self._disk, self.path, gaps=self.gaps)
        offset = self.base_offset
        while self.size_bytes < loaded_bytes:
            position = self.size_bytes
            try:
                header = window.batch_at(position)
                check_place(header, offset, None, gaps=self.gaps)
                self.check_fits(header)
            except CorruptBatchError as error:
                raise CorruptLogError(self.path, position, offset, str(error)) from None
            self.add(header)
            offset = header.next_offset
        if end_bytes > loaded_bytes:
            self._adopt(own_index, own_times, own_max, loaded_bytes, offset)
        self.size_bytes = end_bytes
        self.write_indexes(closed=True)
        return True

    def begin_scan(self) -> None:
        """Forget what is known of the batches, which are added again."""
        self.size_bytes = self._loaded_bytes = 0
        self._index, self._time_index = OffsetIndex(), TimeIndex()
        self.max_timestamp_ms, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.times_known = True
        self.first_timestamp_ms = None

    def write_indexes(self, *, closed: bool) -> None:
        """Replace both index files by what is in memory; `closed`: as `close_times` leaves them."""
        if closed:
            self._index_time()
        self._disk.write(self.index_path, self.index.encode())
        self._disk.write(self.time_index_path, self.time_index.encode())
        for queued in self._queued:
            queued.clear()
        self.is_dirty = True

    def _note(self, header: BatchHeader, position: int) -> None:
        if not position:
            self.first_timestamp_ms = header.max_timestamp_ms
        self.note_times(header)
        _, indexed = self.last_indexed
        if position - indexed > self._config.index_interval_bytes:
            relative = header.last_offset - self.base_offset
            self._queued[0] += self.index.append(relative, position)
            self._queued[1] += self._index_time()

    def _index_time(self) -> bytes:
        """Give the largest timestamp an entry unless it has one; returns its bytes, if any."""
        last = self.max_timestamp_offset - self.base_offset
        return self.time_index.append(self.max_timestamp_ms, last)

    def _check_entry(self, last_offset: int, position: int) -> None:
        try:
            header = parse_header(self._disk.read(self.path, position, HEADER_BYTES))
        except CorruptBatchError as error:
            raise CorruptIndexError(f"{self.index_path}: {error}") from None
        if header.last_offset != last_offset:
            raise CorruptIndexError(
                f"{self.index_path}: offset {last_offset} is not at byte {position}"
            )

    def _adopt(
        self,
        index: OffsetIndex | None,
        times: TimeIndex | None,
        largest: tuple[int, int],
        position: int,
        offset: int,
    ) -> None:
        """Keep the entries of what was appended since the files were loaded."""
        assert index is not None, "a segment that is appended to has its indexes loaded"
        assert times is not None
        for last, at in zip(index.offsets, index.positions, strict=True):
            if at >= position:
                self.index.append(last, at)
        for timestamp_ms, last in zip(times.timestamps, times.offsets, strict=True):
            if last >= offset - self.base_offset:
                self.time_index.append(timestamp_ms, last)
        if largest[0] > self.max_timestamp_ms and largest[1] >= offset:
            self.max_timestamp_ms, self.max_timestamp_offset = largest
