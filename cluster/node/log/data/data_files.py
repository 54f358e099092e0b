"""The files of one partition's log: segments, snapshots, epochs, and the order of what is queued.

Orders that a crash could reveal, all of them orders of the disk's queue:

- the leader-epoch file is durable before a batch of a new epoch is written;
- a recovery point is saved behind the syncs that earned it, and lowered ahead of a truncation;
- a sync by `flush.messages` stands behind the batches that made it due and ahead of the barrier
  that reports them written: what is acknowledged, or named by a follower's next Fetch, is durable;
- a full segment is synced beside the queue, where no `flush.messages` has a promise rest on it. A
  later flush may be over before, and says nothing of that segment: so flushes count in the order in
  which they were begun, and one that is over waits for those before it;
- truncation removes snapshots and segments durably, last to first, before it cuts the one that
  stays, so that no removed file can come back behind newer records;
- the log start is saved before the epochs below it are forgotten and segments below it renamed, so
  that no record is without its epoch, and a missing segment is seen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from cluster.node.log.batch.records import HEADER_BYTES, BatchHeader, parse_header, split_batches
from cluster.node.log.data.data_config import INT64_MAX, DataLogConfig, StorageError
from cluster.node.log.data.data_recovery import DELETED_SUFFIX, RecoveredData
from cluster.node.log.data.data_segment import DataSegment
from cluster.node.log.data.data_times import check_cut
from cluster.node.log.data.partition_folder import parse_folder
from cluster.node.log.data.producer_state import snapshot_name
from cluster.node.log.storage.checkpoint import TopicPartition, replace_file
from cluster.node.log.storage.epoch_cache import EPOCH_FILE
from cluster.node.log.storage.index import CorruptIndexError
from cluster.node.log.storage.recovery import (
    CorruptLogError,
    NotInSegmentError,
    locate_batch,
    read_batches,
)
from cluster.node.log.storage.segment import BASE_OFFSET
from cluster.node.log.storage.tail import Tail
from cluster.node.ports import Clock, Disk, Random, Timer, nothing

T = TypeVar("T")
_READ_MIN_BYTES, _READ_MAX_BYTES = 1 << 12, 1 << 20
"""Who looks for one batch reads little: what is read is verified, too."""


class LogFolder(Protocol):
    """What a log needs of the folder of logs that it lies in; `LogDirectory` is one."""

    disk: Disk
    clock: Clock
    random: Random
    on_start_moved: Callable[[TopicPartition], None]
    """Learns that a log begins later than before."""

    def save_recovery_points(self, done: Callable[[], None]) -> None:
        """Queue the recovery points of all logs, as they are now; `done` when they are durable."""

    def save_start_offsets(self) -> None:
        """Queue the log starts of all logs, as they are now."""

    def on_failure(self, error: OSError | CorruptLogError) -> None:
        """Take the folder offline."""


@dataclass(slots=True, eq=False)
class _Flush:
    """Syncs on their way. `end_offset` sinks when the log is truncated below it meanwhile."""

    end_offset: int
    done: Callable[[], None]
    is_saved: bool
    """Whether the checkpoint of recovery points is replaced at once. One that is older than what
    is durable makes a recovery read more, and nothing else."""
    is_over: bool = False
    """Whether its own syncs are."""


class DataFiles:
    """What `DataLog` does to its files."""

    def __init__(
        self,
        folder: LogFolder,
        directory: str,
        config: DataLogConfig,
        recovered: RecoveredData,
        establish: Callable[[], None] | None = None,
    ) -> None:
        """`establish`: queues what makes the folder of a log that is not on disk yet.

        It is called before the first record. Until then a log costs no disk operation, as most
        partitions of a cluster that is tested through its metadata never hold a record.
        """
        self._folder = folder
        self._establish = establish
        self._disk = folder.disk
        self.directory = directory
        self.partition: TopicPartition = parse_folder(directory.rpartition("/")[2])[0]
        self.config = config
        self._segments = recovered.segments
        self.epochs = recovered.epochs
        """Where each leader epoch begins; to be read, not changed, by others."""
        self._epoch_file = recovered.epoch_file
        self.producers = recovered.producers
        """The state of idempotent producers; the same holds."""
        self._snapshots = recovered.snapshots
        self._tail = Tail(recovered.end_offset, config.cache_bytes)
        self._flushes: list[_Flush] = []
        self._flush_timer: Timer | None = None
        self._barrier_end: int | None = None
        self._awaiting: list[Callable[[], None]] = []
        self._waiting: list[Callable[[], None]] = []
        self._offline = False
        self.start_offset = recovered.start_offset
        self.saved_start_offset: int | None = recovered.start_offset
        """What a checkpoint of log starts may say; None while segments are exchanged."""
        self.end_offset = recovered.end_offset
        """Offset that the next record will get."""
        self.written_end_offset = recovered.end_offset
        """Everything below is with the kernel: a kill of the process keeps it."""
        self.recovery_point = recovered.recovery_point
        """Everything below is durable."""
        self.truncated_bytes = recovered.truncated_bytes
        self.scanned_bytes = recovered.scanned_bytes
        """Of how many bytes batches were checked when it was opened."""
        self._high_watermark = self.start_offset
        if not self._segments:
            self._add_segment(self.end_offset)
        self._write_epoch_file()

    @property
    def exists(self) -> bool:
        """Whether the log is on disk, or on its way there."""
        return self._establish is None

    @property
    def high_watermark(self) -> int:
        """Offset below which every in-sync replica has everything, as last set."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self._high_watermark = min(max(offset, self.start_offset), self.end_offset)

    def go_offline(self) -> None:
        """Let every further call raise StorageError."""
        self._offline = True

    def moved_to(self, directory: str) -> None:
        """Name what is queued from now on by the folder's new name, whose rename is queued."""
        self.directory = directory
        for segment in self._segments:
            segment.move_to(directory)

    # What others share.

    @property
    def _active(self) -> DataSegment:
        return self._segments[-1]

    def _check_online(self) -> None:
        if self._offline:
            raise StorageError(f"The folder of {self.partition} is offline")

    def _watch(self, error: OSError | None) -> None:
        if error is not None and not self._offline:
            self._folder.on_failure(error)

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _segment_of(self, offset: int) -> DataSegment:
        return self._segments[max(bisect_right(self._segments, offset, key=BASE_OFFSET) - 1, 0)]

    def end_of(self, segment: DataSegment) -> int:
        following = bisect_right(self._segments, segment.base_offset, key=BASE_OFFSET)
        if following == len(self._segments):
            return self.end_offset
        return self._segments[following].base_offset

    def _write_epoch_file(self) -> None:
        """Replace the leader-epoch file atomically and durably, if it would change."""
        if not self.exists:
            return
        content = self.epochs.encode()
        if content == self._epoch_file or not (self._epoch_file or self.epochs.entries):
            return
        replace_file(self._disk, self._path(EPOCH_FILE), content, self._watch)
        self._epoch_file = content

    # Appending and rolling.

    def _come_to_exist(self) -> None:
        """Queue the folder of a log that is not on disk yet, with the epochs that it has begun."""
        establish, self._establish = self._establish, None
        if establish is not None:
            establish()
            self._active.create()
            self._write_epoch_file()
            self._disk.sync_directory(self.directory, self._watch)

    def _append(self, batches: list[tuple[BatchHeader, bytes]]) -> None:
        self._come_to_exist()
        run: list[bytes] = []
        for header, batch in batches:
            if self._must_roll(header):
                self._write(run)
                self._roll(header.base_offset)
            if header.partition_leader_epoch != self.epochs.latest_epoch:
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)
                self._write_epoch_file()
            position = self._active.add(header)
            self._tail.append(header.base_offset, header.next_offset, position, batch)
            self.end_offset = header.next_offset
            self.producers.update(header)
            run.append(batch)
        self._write(run)
        self._flush_if_due()
        self._await_written()

    def _write(self, run: list[bytes]) -> None:
        if run:
            self._active.write(b"".join(run))
            run.clear()

    def _must_roll(self, header: BatchHeader) -> bool:
        segment = self._active
        if not segment.can_hold(header.last_offset):
            return True
        if not segment.size_bytes:
            return False
        size_bytes = segment.size_bytes + header.size_bytes
        return (
            size_bytes > self.config.segment_bytes or segment.is_index_full or self._is_old(header)
        )

    def _is_old(self, header: BatchHeader) -> bool:
        """Whether the segment's first batch is `segment.ms` older than this one."""
        segment = self._active
        if segment.first_timestamp_ms is None:
            first = self.reading(segment, lambda: self._disk.read(segment.path, 0, HEADER_BYTES))
            segment.first_timestamp_ms = parse_header(first).max_timestamp_ms
        if segment.first_timestamp_ms >= 0:
            waited_ms = header.max_timestamp_ms - segment.first_timestamp_ms
        else:
            waited_ms = self._folder.clock.wall_ms() - segment.created_ms
        return waited_ms > self.config.segment_ms - segment.roll_jitter_ms

    def _roll(self, offset: int) -> None:
        """Begin a new segment; the old one is flushed while appends go on.

        Its recovery point is not saved for that: the syncs of the checkpoint would hold up the
        queue while the disk is busy with the segment. It is with the next one, within a minute, as
        in Kafka; until then a recovery reads more.
        """
        self._active.close_times()
        self.producers.end_offset = offset
        aside = self.config.flush_messages == INT64_MAX
        self._flush(offset, nothing, self._take_snapshot(), is_saved=False, aside=aside)
        self._add_segment(offset)

    def _add_segment(self, offset: int) -> None:
        now_ms = self._folder.clock.wall_ms()
        segment = DataSegment(self._disk, self.directory, offset, self.config, now_ms)
        jitter_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        if jitter_ms > 0:
            segment.roll_jitter_ms = self._folder.random.randrange(0, jitter_ms)
        if self.exists:
            segment.create()
        self._segments.append(segment)

    def _take_snapshot(self) -> list[str]:
        """Write the producer state at its end, unless there is a snapshot of it; what to sync."""
        offset = self.producers.end_offset
        if offset <= (self._snapshots[-1] if self._snapshots else self._segments[0].base_offset):
            return []
        path = self._path(snapshot_name(offset))
        self._disk.write(path, self.producers.encode())
        self._snapshots.append(offset)
        return [path]

    # Reaching the kernel, and the medium.

    def _await_written(self) -> None:
        """Find out when the queue has come this far; one question at a time."""
        if self._barrier_end is None:
            self._barrier_end = self.end_offset
            self._awaiting, self._waiting = self._waiting, []
            self._disk.barrier(self._on_barrier)

    def _on_barrier(self, error: OSError | None) -> None:
        if error is not None or self._offline:
            self._watch(error)
            return
        assert self._barrier_end is not None
        assert self._barrier_end <= self.end_offset, "what was cut is no more on its way"
        self.written_end_offset = max(self.written_end_offset, self._barrier_end)
        self._barrier_end = None
        self._tail.evict(self.written_end_offset)
        callbacks, self._awaiting = self._awaiting, []
        if self._waiting or self.written_end_offset < self.end_offset:
            self._await_written()
        for callback in callbacks:
            callback()

    def _flush_if_due(self) -> None:
        """Sync what was appended by `flush.messages` at once, by `flush.ms` after that time.

        Kafka looks for the latter every `log.flush.scheduler.interval.ms`, by default never.
        """
        config = self.config
        queued = self._flushes[-1].end_offset if self._flushes else self.recovery_point
        if self.end_offset - queued >= config.flush_messages:
            self._flush(self.end_offset, nothing, is_saved=False)
        elif config.flush_ms < INT64_MAX and self._flush_timer is None:
            self._flush_timer = self._folder.clock.call_later(config.flush_ms, self._flush_late)

    def _flush_late(self) -> None:
        self._flush_timer = None
        if not self._offline and self.exists:
            self._flush(self.end_offset, nothing, is_saved=False)

    def _flush(
        self,
        end_offset: int,
        done: Callable[[], None],
        snapshots: Sequence[str] = (),
        *,
        is_saved: bool = True,
        aside: bool = False,
    ) -> None:
        """Sync all that is queued, then raise the recovery point. `aside`: the queue goes on."""
        for segment in self._segments:
            if segment.is_dirty:
                segment.is_dirty = False
                for path in segment.paths:
                    self._disk.sync(path, self._watch, aside=aside)
        for path in snapshots:
            self._disk.sync(path, self._watch, aside=aside)
        flush = _Flush(end_offset, done, is_saved)
        self._flushes.append(flush)
        over = partial(self._on_flush, flush)
        self._disk.sync_directory(self.directory, over, aside=aside)

    def _on_flush(self, flush: _Flush, error: OSError | None) -> None:
        if error is not None or self._offline:
            self._watch(error)
            return
        flush.is_over = True
        # An earlier one, aside, may have taken what this one found clean: it is not durable yet.
        while self._flushes and self._flushes[0].is_over:
            first = self._flushes.pop(0)
            self.recovery_point = max(self.recovery_point, first.end_offset)
            if first.is_saved:
                self._folder.save_recovery_points(first.done)
            else:
                first.done()

    # Reading.

    def _read_files(self, offset: int, max_bytes: int, limit: int) -> bytes:
        """Read from the segment that holds `offset`, verified. Raises StorageError."""
        while True:
            segment = self._segment_of(offset)
            reading = partial(self._read_segment, segment, offset, max_bytes, limit)
            try:
                return self.reading(segment, reading)
            except NotInSegmentError:
                offset = self.end_of(segment)
                if offset >= limit:
                    return b""

    def _read_segment(self, segment: DataSegment, offset: int, max_bytes: int, limit: int) -> bytes:
        data, headers = read_batches(self._disk, segment, offset, max_bytes, limit)
        position, expected = 0, None
        for header in headers:
            if header.base_offset != expected is not None and not segment.gaps:
                reason = f"batch begins at {header.base_offset}, not {expected}"
                raise CorruptLogError(segment.path, position, offset, reason)
            known = max(header.base_offset, self.start_offset)  # epochs below are forgotten
            epoch = self.epochs.epoch_at(known)
            if known < header.next_offset and epoch != header.partition_leader_epoch:
                reason = f"batch of epoch {header.partition_leader_epoch}, not {epoch}"
                raise CorruptLogError(segment.path, position, header.base_offset, reason)
            expected = header.next_offset
            position += header.size_bytes
        return data

    def reading(self, segment: DataSegment, read: Callable[[], T]) -> T:
        """Read once more with new indexes when something is wrong: it may be the old ones.

        Raises StorageError when it is the records; the folder is offline then.
        """
        try:
            try:
                return read()
            except (CorruptIndexError, CorruptLogError):
                if not segment.rebuild():
                    raise
                return read()
        except CorruptIndexError as error:
            failure: OSError | CorruptLogError
            failure = CorruptLogError(segment.path, 0, segment.base_offset, str(error))
        except (CorruptLogError, OSError) as error:
            failure = error
        self._folder.on_failure(failure)
        raise StorageError(str(failure)) from failure

    def batches_from(self, offset: int, end_offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Read all batches from the one that holds `offset` on. Raises StorageError."""
        most_bytes = _READ_MIN_BYTES
        while offset < end_offset:
            if offset >= self._tail.start_offset:
                data = self._tail.read(offset, most_bytes, end_offset)
            else:
                limit = min(end_offset, self._tail.start_offset)
                data = self._read_files(offset, most_bytes, limit)
            if not data:
                return
            most_bytes = min(8 * most_bytes, _READ_MAX_BYTES)
            for header, batch in split_batches(data):
                yield header, batch
                offset = header.next_offset

    # Truncating and deleting.

    def _lower_recovery_point(self, offset: int) -> None:
        """Save it before what lies above is changed; no flush on its way may raise it again."""
        for flush in self._flushes:
            flush.end_offset = min(flush.end_offset, offset)
        if offset < self.recovery_point:
            self.recovery_point = offset
            self._folder.save_recovery_points(nothing)

    def _end_at(self, offset: int) -> None:
        """Let the log end here, after its records above are gone."""
        self.end_offset = offset
        self.written_end_offset = min(self.written_end_offset, offset)
        if self._barrier_end is not None:
            self._barrier_end = min(self._barrier_end, offset)
        self.high_watermark = self._high_watermark

    def _truncate_files(self, offset: int) -> int:
        """Cut the log before the batch that holds `offset`; returns the new log end."""
        segment = self._segment_of(offset)
        if offset >= self._tail.start_offset:
            base_offset, position = self._tail.locate(offset)
        else:
            try:
                locate = partial(locate_batch, self._disk, segment, offset)
                base_offset, position = self.reading(segment, locate)
            except NotInSegmentError:
                base_offset, position = offset, segment.size_bytes
        end_offset = min(base_offset, offset)
        self.reading(segment, partial(check_cut, self, segment, base_offset))
        self._lower_recovery_point(end_offset)
        self._remove_snapshots_above(end_offset)
        while self._active is not segment:
            self._remove_segment(self._segments.pop())
        self.reading(segment, lambda: segment.truncate(position, base_offset))
        self._tail.truncate(end_offset)
        self._end_at(end_offset)
        self.reading(segment, segment.load_times)
        for header, _ in self.batches_from(segment.last_indexed[0], end_offset):
            segment.note_times(header)
        self._reload_producers()
        return end_offset

    def _reload_producers(self) -> None:
        """Build the producer state at the log end again."""
        state = self.producers
        if not state.producers:  # nobody wrote before the truncation, so nobody did before that
            state.end_offset = self.end_offset
            return
        state.clear(self.start_offset)
        for offset in reversed(self._snapshots):
            if offset <= self.start_offset:
                break
            path = self._path(snapshot_name(offset))
            try:
                state.load(self._disk.read(path), offset, self._folder.clock.wall_ms())
                break
            except (ValueError, OSError):
                continue
        for header, _ in self.batches_from(state.end_offset, self.end_offset):
            state.update(header)
        state.end_offset = self.end_offset

    def _remove_snapshots_above(self, offset: int) -> None:
        removed = [snapshot for snapshot in self._snapshots if snapshot > offset]
        for snapshot in reversed(removed):
            self._disk.remove(self._path(snapshot_name(snapshot)))
        if removed:
            self._disk.sync_directory(self.directory, self._watch)
            del self._snapshots[-len(removed) :]

    def _remove_segment(self, segment: DataSegment) -> None:
        for path in segment.paths:
            self._disk.remove(path)
        self._disk.sync_directory(self.directory, self._watch)

    def _delete_while(self, is_deletable: Callable[[DataSegment, int | None], bool]) -> int:
        """Delete segments from the first on; the predicate gets a segment and the next offset."""
        count = 0
        for index, segment in enumerate(self._segments):
            is_last = index + 1 == len(self._segments)
            following = None if is_last else self._segments[index + 1].base_offset
            end_offset = self.end_offset if following is None else following
            if end_offset > self.high_watermark or (is_last and not segment.size_bytes):
                break
            if not is_deletable(segment, following):
                break
            count += 1
        if count:
            self._delete_first(count)
        return count

    def _delete_first(self, count: int) -> None:
        if count == len(self._segments):
            self._roll(self.end_offset)
        deleted, self._segments[:] = self._segments[:count], self._segments[count:]
        self._move_start(max(self.start_offset, self._segments[0].base_offset))
        paths = [path for segment in deleted for path in segment.paths]
        for segment in deleted:
            if segment.base_offset in self._snapshots:
                self._snapshots.remove(segment.base_offset)
                paths.append(self._path(snapshot_name(segment.base_offset)))
        for path in paths:
            self._disk.rename(path, path + DELETED_SUFFIX)
        self._disk.sync_directory(self.directory, self._watch)

        def remove() -> None:
            if not self._offline:
                for path in paths:
                    self._disk.remove(path + DELETED_SUFFIX)

        self._folder.clock.call_later(self.config.file_delete_delay_ms, remove)

    def _move_start(self, offset: int) -> None:
        self.start_offset = self.saved_start_offset = offset
        self.high_watermark = self._high_watermark
        self._folder.save_start_offsets()
        if self.epochs.truncate_from_start(offset):
            self._write_epoch_file()
        self._folder.on_start_moved(self.partition)
