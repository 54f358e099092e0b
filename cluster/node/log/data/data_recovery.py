"""Opening a log of data: what is read, what is cut off, and what is refused.

After a clean shutdown no batch is read but the few behind the last entry of the last segment's
index, and those about the last entry of its time index, which new entries must follow. After
any other end the segments from the recovery point on are: every batch is checked, indexes and
producer state are built anew, and the log is cut at the first batch that is not intact, with all
segments after it. What was cut was never reported durable, whatever lies behind it: other than for
metadata, nothing here waits for a sync, so a power loss may tear a log at several places. What is
kept above the recovery point is written again (`Disk.rewrite`).

`CorruptLogError` is raised where Kafka would cut or go on in silence: when something below the
recovery point is missing or damaged, or epochs contradict the leader-epoch file. What is not read
here is checked when it is read.

Index files that are missing or of an odd size are rebuilt here, others when they are found wrong.
Without a readable leader-epoch file everything is read.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from cluster.node.log.batch.records import (
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatchError,
    parse_header,
)
from cluster.node.log.data.data_config import DataLogConfig
from cluster.node.log.data.data_segment import DataSegment
from cluster.node.log.data.producer_state import ProducerState, snapshot_name, snapshot_offset
from cluster.node.log.storage.epoch_cache import EPOCH_FILE, LeaderEpochCache
from cluster.node.log.storage.index import INDEX_SUFFIX, TIME_INDEX_SUFFIX, CorruptIndexError
from cluster.node.log.storage.recovery import (
    CorruptLogError,
    NotInSegmentError,
    Window,
    check_epochs,
    check_place,
    locate_batch,
    read_if_there,
)
from cluster.node.log.storage.segment import BASE_OFFSET, segment_base_offset
from cluster.node.ports import Completion, Disk

DELETED_SUFFIX = ".deleted"
_LEFTOVERS = (DELETED_SUFFIX, ".tmp")


@dataclass(slots=True)
class RecoveredData:
    """A log as it was found, and as the disk's queue makes it."""

    segments: list[DataSegment]
    epochs: LeaderEpochCache
    epoch_file: bytes
    producers: ProducerState
    snapshots: list[int]
    start_offset: int
    end_offset: int
    recovery_point: int
    truncated_bytes: int = 0
    scanned_bytes: int = 0
    """Of how many bytes batches were checked."""


def empty_data(config: DataLogConfig) -> RecoveredData:
    """Begin a log of which nothing is there."""
    producers = ProducerState(config.producer_id_expiration_ms)
    return RecoveredData([], LeaderEpochCache(), b"", producers, [], 0, 0, 0)


def recover_data(
    disk: Disk,
    directory: str,
    config: DataLogConfig,
    *,
    recovery_point: int,
    start_offset: int | None,
    is_clean: bool,
    now_ms: int,
    watch: Completion,
) -> RecoveredData:
    """Open the log in `directory`, whose first segment may still have to be created.

    `recovery_point` and `start_offset` are what the checkpoints say, None: nothing. Reads
    synchronously; what must change joins the queue of the disk, whose errors `watch` gets. Raises
    CorruptLogError, OSError.
    """
    opening = _Opening(disk, directory, config, recovery_point, now_ms, watch)
    return opening.open(start_offset, is_clean=is_clean)


class _Opening:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: DataLogConfig,
        recovery_point: int,
        now_ms: int,
        watch: Completion,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._recovery_point = recovery_point
        self._now_ms = now_ms
        self._watch = watch
        self._names = disk.list_directory(directory)
        self._written = LeaderEpochCache()
        """As the leader-epoch file says; empty without a readable one."""

    def open(self, start_offset: int | None, *, is_clean: bool) -> RecoveredData:
        segments = self._load()
        first_offset = segments[0].base_offset if segments else (start_offset or 0)
        if start_offset is not None and segments and first_offset > start_offset:
            reason = f"log begins here, but its start was {start_offset}: segments are missing"
            raise CorruptLogError(segments[0].path, 0, first_offset, reason)
        found = RecoveredData(
            segments=[],
            epochs=LeaderEpochCache(),
            epoch_file=read_if_there(self._disk, f"{self._directory}/{EPOCH_FILE}"),
            producers=ProducerState(self._config.producer_id_expiration_ms),
            snapshots=sorted(
                offset for offset in map(snapshot_offset, self._names) if offset is not None
            ),
            start_offset=max(start_offset or 0, first_offset),
            end_offset=first_offset,
            recovery_point=self._recovery_point,
        )
        try:
            written = self._written = LeaderEpochCache.decode(found.epoch_file)
        except ValueError:
            written = None
        if start_offset is None and written is not None and written.entries:
            # All segments were about to be removed, and the log start is what the epochs know.
            found.start_offset = max(found.start_offset, written.entries[0].start_offset)
        to_scan = self._first_to_scan(segments, is_clean=is_clean, has_epochs=written is not None)
        self._read(segments, to_scan, found)
        if found.end_offset < self._recovery_point:
            segment = found.segments[-1] if found.segments else None
            reason = f"log ends here, but everything below {self._recovery_point} was durable"
            path, position = (segment.path, segment.size_bytes) if segment else (self._directory, 0)
            raise CorruptLogError(path, position, found.end_offset, reason)
        if written is not None and to_scan < len(segments):
            self._compare_epochs(written, found)
        if found.end_offset < found.start_offset:
            self._begin_anew(found)
        found.epochs.truncate_from_end(found.end_offset)
        found.epochs.truncate_from_start(found.start_offset)
        if is_clean and not found.truncated_bytes:
            found.recovery_point = found.end_offset
        self._remove_strays(found)
        return found

    def _load(self) -> list[DataSegment]:
        bases = {b for b in map(segment_base_offset, self._names) if b is not None}
        for name in self._names:
            is_index = name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX))
            orphaned = (
                is_index and segment_base_offset(name.partition(".")[0] + ".log") not in bases
            )
            if orphaned or name.endswith(_LEFTOVERS):
                self._disk.remove(f"{self._directory}/{name}")
        segments = []
        for base in sorted(bases):
            segment = DataSegment(self._disk, self._directory, base, self._config, self._now_ms)
            segment.load()
            segments.append(segment)
        return segments

    def _first_to_scan(
        self, segments: list[DataSegment], *, is_clean: bool, has_epochs: bool
    ) -> int:
        """Say from which segment on every batch is read; their number when none is."""
        count = len(segments)
        if not has_epochs and any(segment.size_bytes for segment in segments):
            return 0
        if is_clean:
            return count if count and segments[-1].indexes_plausible else max(count - 1, 0)
        found = bisect_right(segments, self._recovery_point, key=BASE_OFFSET)
        return max(found - 1, 0)

    def _read(self, segments: list[DataSegment], to_scan: int, found: RecoveredData) -> None:
        for segment in segments[:to_scan]:
            if not segment.indexes_plausible:
                segment.rebuild()
        found.segments = segments[:to_scan]
        if to_scan == len(segments):
            found.epochs = LeaderEpochCache(self._written.entries)
            if segments and not self._walk_tail(segments[-1], found):
                to_scan -= 1
                found.segments.pop()
            else:
                self._load_producers(found, found.end_offset)
                return
        if to_scan < len(segments):
            found.end_offset = segments[to_scan].base_offset
            found.epochs = LeaderEpochCache(self._written.entries)
            found.epochs.truncate_from_end(found.end_offset)
            self._load_producers(found, found.end_offset)
            self._scan_all(segments[to_scan:], found)

    def _walk_tail(self, segment: DataSegment, found: RecoveredData) -> bool:
        """Find the log end from the last index entry on; False when the indexes are wrong.

        Raises CorruptLogError when the batches are damaged, all of which were durable.
        """
        try:
            indexed, position = segment.last_indexed
            segment.load_times()
            self._check_times(segment)
        except CorruptIndexError:
            return False
        window = Window(self._disk, segment.path, gaps=segment.gaps)
        end_offset = segment.base_offset
        start = position
        while position < window.size_bytes:
            try:
                header = window.batch_at(position)
            except CorruptBatchError as error:
                if position == start and position:
                    return False
                raise CorruptLogError(segment.path, position, end_offset, str(error)) from None
            if position == start and position and header.last_offset != indexed:
                return False
            if position != start or not position:
                self._check_order(segment, position, header.base_offset, end_offset)
            segment.note_times(header)
            if not position:
                segment.first_timestamp_ms = header.max_timestamp_ms
            end_offset = header.next_offset
            position += header.size_bytes
        found.end_offset = end_offset
        found.scanned_bytes += window.size_bytes - start
        return True

    def _check_times(self, segment: DataSegment) -> None:
        """Raise CorruptIndexError unless the batch that was loaded as the latest is as late."""
        offset = segment.max_timestamp_offset
        if segment.max_timestamp_ms == NO_TIMESTAMP:
            return
        try:
            _, position = locate_batch(self._disk, segment, offset)
        except (CorruptLogError, NotInSegmentError) as error:
            raise CorruptIndexError(f"{segment.time_index_path}: {error}") from None
        header = parse_header(self._disk.read(segment.path, position, HEADER_BYTES))
        if (header.last_offset, header.max_timestamp_ms) != (offset, segment.max_timestamp_ms):
            raise CorruptIndexError(f"{segment.time_index_path}: no such batch ends at {offset}")

    def _check_order(
        self, segment: DataSegment, position: int, base_offset: int, end_offset: int
    ) -> None:
        if base_offset != end_offset and not (segment.gaps and base_offset > end_offset):
            reason = f"batch begins at {base_offset}, not {end_offset}"
            raise CorruptLogError(segment.path, position, end_offset, reason)

    def _scan_all(self, segments: list[DataSegment], found: RecoveredData) -> None:
        """Check every batch of these segments, and cut at the first that is not intact."""
        for index, segment in enumerate(segments):
            apart = segment.base_offset - found.end_offset
            if index and apart and not (segment.gaps and apart > 0):
                reason = f"segment begins at {segment.base_offset}, not at {found.end_offset}"
                self._refuse_loss(segment, 0, found, reason)
                self._drop(segments[index:])
                found.truncated_bytes += sum(dropped.size_bytes for dropped in segments[index:])
                return
            found.end_offset = segment.base_offset
            found.segments.append(segment)
            left_bytes = self._scan(segment, found)
            if left_bytes:
                self._drop(segments[index + 1 :])
                self._disk.truncate(segment.path, segment.size_bytes)
                found.truncated_bytes += left_bytes
            is_active = left_bytes > 0 or segment is segments[-1]
            segment.write_indexes(closed=not is_active)
            if is_active:
                return

    def _scan(self, segment: DataSegment, found: RecoveredData) -> int:
        """Index one segment; returns the bytes behind its last intact batch."""
        window = Window(self._disk, segment.path, gaps=segment.gaps)
        segment.begin_scan()
        durable_bytes = 0
        latest = found.epochs.latest_epoch
        while segment.size_bytes < window.size_bytes:
            position = segment.size_bytes
            try:
                header = window.batch_at(position)
                check_place(header, found.end_offset, latest, gaps=segment.gaps)
                self._check_epoch(header)
                segment.check_fits(header)
            except CorruptBatchError as error:
                self._refuse_loss(segment, position, found, str(error))
                break
            segment.add(header)
            if header.partition_leader_epoch != latest:
                latest = header.partition_leader_epoch
                found.epochs.assign(latest, header.base_offset)
            found.end_offset = header.next_offset
            if found.end_offset <= self._recovery_point:
                durable_bytes = segment.size_bytes
            if header.last_offset >= found.start_offset:
                found.producers.update(header)
        found.producers.end_offset = found.end_offset
        found.scanned_bytes += segment.size_bytes
        if durable_bytes < segment.size_bytes:
            self._disk.rewrite(segment.path, durable_bytes)
        return window.size_bytes - segment.size_bytes

    def _check_epoch(self, header: BatchHeader) -> None:
        """Raise CorruptBatchError for a batch of another epoch than the file knows there.

        Its checksum does not cover the epoch, but the file is durable before a batch of a new one
        is written. It may have forgotten more of the log's begin.
        """
        entries = self._written.entries
        if not entries or header.base_offset < entries[0].start_offset:
            return
        epoch = self._written.epoch_at(header.base_offset)
        if epoch != header.partition_leader_epoch:
            raise CorruptBatchError(f"epoch {header.partition_leader_epoch}, not {epoch}")

    def _refuse_loss(
        self, segment: DataSegment, position: int, found: RecoveredData, reason: str
    ) -> None:
        if found.end_offset < self._recovery_point:
            reason += f"; everything below {self._recovery_point} was durable"
            raise CorruptLogError(segment.path, position, found.end_offset, reason)

    def _drop(self, segments: list[DataSegment]) -> None:
        """Remove segments, last to first, each durably: none may come back behind newer batches."""
        for segment in reversed(segments):
            for path in segment.paths:
                self._disk.remove(path)
            self._disk.sync_directory(self._directory, self._watch)

    def _begin_anew(self, found: RecoveredData) -> None:
        """Start at the log start: a power loss took what was deleted below it, and more."""
        self._drop(found.segments)
        found.segments = []
        found.epochs.clear()
        found.producers.clear(found.start_offset)
        found.end_offset = found.start_offset
        found.recovery_point = min(found.recovery_point, found.end_offset)

    def _load_producers(self, found: RecoveredData, end_offset: int) -> None:
        """Build the producer state up to `end_offset`, from a snapshot and what follows it."""
        state = found.producers
        state.clear(min(found.start_offset, end_offset))
        for offset in reversed(found.snapshots):
            if found.start_offset < offset <= end_offset:
                path = f"{self._directory}/{snapshot_name(offset)}"
                try:
                    state.load(self._disk.read(path), offset, self._now_ms)
                    break
                except ValueError:  # torn, or damaged: an older one has less
                    self._disk.remove(path)
                    found.snapshots.remove(offset)
        from_offset = state.end_offset
        if from_offset == end_offset:
            return
        first = max(bisect_right(found.segments, from_offset, key=BASE_OFFSET) - 1, 0)
        for segment in found.segments[first:]:
            window = Window(self._disk, segment.path, gaps=segment.gaps)
            position = 0
            while position < window.size_bytes:
                try:
                    header = window.batch_at(position)
                except CorruptBatchError as error:
                    offset = state.end_offset
                    raise CorruptLogError(segment.path, position, offset, str(error)) from None
                if header.last_offset >= from_offset:
                    state.update(header)
                position += header.size_bytes
            found.scanned_bytes += window.size_bytes
        state.end_offset = end_offset

    def _compare_epochs(self, written: LeaderEpochCache, found: RecoveredData) -> None:
        """Raise CorruptLogError when file and batches disagree below the recovery point.

        Either may have forgotten more of the log's begin than the other.
        """
        start = found.start_offset
        if written.entries:
            start = max(start, written.entries[0].start_offset)
        expected = LeaderEpochCache(written.entries)
        actual = LeaderEpochCache(found.epochs.entries)
        expected.truncate_from_start(start)
        actual.truncate_from_start(start)
        path = f"{self._directory}/{EPOCH_FILE}"
        check_epochs(path, expected, actual, self._recovery_point)

    def _remove_strays(self, found: RecoveredData) -> None:
        """Remove snapshots above the log end, and those in the midst of a segment but the last."""
        bases = [segment.base_offset for segment in found.segments]
        kept = [offset for offset in found.snapshots if offset <= found.end_offset]
        last = kept[-1:]
        kept = [offset for offset in kept if offset in bases or offset in last]
        strays = [offset for offset in found.snapshots if offset not in kept]
        for offset in strays:
            self._disk.remove(f"{self._directory}/{snapshot_name(offset)}")
        if strays:
            self._disk.sync_directory(self._directory, self._watch)
        found.snapshots = kept
