"""A segmented log of record batches: append, read, flush as a group, truncate.

All writes go into the FIFO queue of one `Disk`, and every ordering that a crash could reveal is
the order of that queue:

- a segment is synced before the first byte of the next one, so that only the last segment can
  have a torn tail;
- the leader-epoch file is durable before a batch of a new epoch counts as durable, so that
  recovery can trust it about everything below the recovery point;
- the recovery point is written behind the sync that earned it, and durably lowered ahead of a
  truncation below it, so that it never claims more than is durable;
- truncation removes whole segments last to first, each durably, before it cuts the one that stays,
  so that no removed segment can come back behind newer records;
- deletion below a snapshot removes segments first to last, each durably, after the leader-epoch
  file has forgotten them, so that what is left is always one log without a hole;
- truncation of everything lowers the recovery point first and begins the new segment last, so that
  a crash leaves a prefix of the old log, nothing, or the new one.

What is found at the start may be in the kernel's cache alone, after a kill or a failed fsync: so
the first flush syncs names, and what lies above the recovery point is written again before.

What is not durable is served from memory (`Tail`). `docs/node.md` says what is durable when.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from cluster.node.log.batch.records import BatchHeader, iter_batches
from cluster.node.log.storage.checkpoint import (
    RECOVERY_POINT_FILE,
    encode_recovery_point,
    replace_file,
)
from cluster.node.log.storage.epoch_cache import EPOCH_FILE, EpochEntry
from cluster.node.log.storage.recovery import (
    CorruptLogError,
    Recovered,
    locate_batch,
    read_batches,
    recover,
)
from cluster.node.log.storage.segment import BASE_OFFSET, Segment, segment_name
from cluster.node.log.storage.tail import Tail
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Disk, nothing
from cluster.values import valueclass

__all__ = ["CorruptLogError", "Log", "LogConfig", "MisplacedBatchError"]


class MisplacedBatchError(ValueError):
    """An intact batch that does not go on from the end of the log; nothing was appended."""


@valueclass
class LogConfig:
    """Sizes of a log."""

    segment_bytes: int = 1 << 30
    """A batch that would make a segment larger begins the next one."""
    segment_ms: int = 2**63 - 1
    """So does a batch that is younger than the segment's first by more than that."""
    cache_bytes: int = 16 << 20
    """Durable batches that are kept in memory; what is not durable comes on top."""


@dataclass(slots=True)
class _Flush:
    """One sync on its way. `end_offset` sinks when the log is truncated below it meanwhile."""

    end_offset: int
    callbacks: list[Callable[[], None]]


class Log:
    """One replica's log of one partition. Owned by one task; see the module for its order."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        on_failure: Callable[[OSError], None],
        recovered: Recovered,
    ) -> None:
        """Take over what `recover` found; use `open`."""
        self._disk = disk
        self.directory = directory
        self._config = config
        self._on_failure = on_failure
        self._segments = recovered.segments
        self.epochs = recovered.epochs
        """Where each epoch begins; to be read, not changed, by others."""
        self._epochs_in_file: tuple[EpochEntry, ...] | None = None
        self._epoch_file = recovered.epoch_file
        self._recovery_point = recovered.recovery_point
        self._tail = Tail(recovered.end_offset, config.cache_bytes)
        self._names_changed = True
        self._flush: _Flush | None = None
        self._waiting: list[Callable[[], None]] = []
        self._failed = False
        self.start_offset = recovered.start_offset
        self.end_offset = recovered.end_offset
        """Offset that the next record will get."""
        self.durable_end_offset = max(recovered.recovery_point, recovered.start_offset)
        self.truncated_bytes = recovered.truncated_bytes
        self._recovered_control: list[tuple[BatchHeader, bytes]] | None = recovered.control

    @classmethod
    def open(
        cls, disk: Disk, directory: str, config: LogConfig, on_failure: Callable[[OSError], None]
    ) -> Log:
        """Recover the log in `directory` (named `<topic>-<partition>`) or begin an empty one.

        Reads synchronously. A torn tail is cut off and counted in `truncated_bytes`. Batches above
        the recovery point may have survived only by luck, so `durable_end_offset` starts at the
        recovery point, and a flush of the rest is under way when this returns.

        `on_failure` is called once, with the first error of the disk; no callback of `flush` is
        called after it. Raises CorruptLogError, OSError.
        """
        recovered = recover(disk, directory)
        log = cls(disk, directory, config, on_failure, recovered)
        if not log._segments:
            log._create_directory()
            log._add_segment()
        elif recovered.truncated_bytes:
            disk.truncate(log._active.path, log._active.size_bytes)
        if not recovered.recovery_point:
            log._write_recovery_point(0)  # so that its name is durable with the first flush
        if recovered.truncated_bytes or log.durable_end_offset < log.end_offset:
            disk.rewrite(log._active.path, log._position(log.durable_end_offset))
            log._start_flush()
        return log

    @property
    def recovered_control(self) -> list[tuple[BatchHeader, bytes]]:
        """The control batches that were found when it was opened, oldest first, with headers.

        To be asked for before anything is appended: only until then they are all that there are.
        """
        assert self._recovered_control is not None, "the log was appended to since it was opened"
        return self._recovered_control

    def append(self, batches: bytes) -> None:
        """Append whole batches in memory and in the disk's queue; `flush` makes them durable.

        All or nothing. Raises CorruptBatchError when a batch is damaged, MisplacedBatchError when
        an offset is not the log end or an epoch is lower than that of the record before.
        """
        verified = list(iter_batches(batches))
        expected = self.end_offset
        epoch = self._last_record_epoch()
        for header, _ in verified:
            if header.base_offset != expected:
                raise MisplacedBatchError(
                    f"batch at offset {header.base_offset}, log ends at {expected}"
                )
            if header.partition_leader_epoch < epoch:
                raise MisplacedBatchError(
                    f"batch of epoch {header.partition_leader_epoch} after {epoch}"
                )
            expected, epoch = header.next_offset, header.partition_leader_epoch
        self._recovered_control = None
        run: list[bytes] = []
        latest_epoch = self.epochs.latest_epoch
        for header, batch in verified:
            if self._should_roll(header):
                self._queue_append(run)
                self._roll()
            position = self._active.add(
                header.base_offset, header.size_bytes, header.max_timestamp_ms
            )
            self.end_offset = header.next_offset
            self._tail.append(header.base_offset, self.end_offset, position, batch)
            if header.partition_leader_epoch != latest_epoch:
                latest_epoch = header.partition_leader_epoch
                self.epochs.assign(latest_epoch, header.base_offset)
            run.append(batch)
        self._queue_append(run)
        assert self.end_offset == expected

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> bytes:
        """Return whole batches from the one that holds `offset` on, durable or not.

        At most `max_bytes`, but at least one batch if there is any; none with a record at or
        after `end_offset` (default: the log end). A read may end early at a segment's end.
        Raises ValueError below the log start, CorruptLogError or OSError from the file.
        """
        if offset < self.start_offset:
            raise ValueError(f"offset {offset} is below the log start {self.start_offset}")
        limit = self.end_offset if end_offset is None else min(end_offset, self.end_offset)
        if offset >= limit:
            return b""
        if offset >= self._tail.start_offset:
            return self._tail.read(offset, max_bytes, limit)
        limit = min(limit, self._tail.start_offset)
        data, _ = read_batches(self._disk, self._segment_of(offset), offset, max_bytes, limit)
        return data

    def flush(self, done: Callable[[], None]) -> None:
        """Make durable all that was appended, then call `done`.

        `durable_end_offset` has risen by then to the log end of this call, or to where the log
        was truncated since. While one sync is on its way, all further calls share the next.
        """
        self._waiting.append(done)
        if self._flush is None and not self._failed:
            self._start_flush()

    def truncate_to(self, offset: int) -> None:
        """Drop all records at or after `offset`, and the epochs that begin there.

        An offset within a batch drops the whole batch, lest a hole remain. Raises ValueError below
        the log start.
        """
        if offset < self.start_offset:
            raise ValueError(f"cannot truncate to {offset}, below the start {self.start_offset}")
        if offset < self.end_offset:
            offset = self._truncate_files(offset)
            self._tail.truncate(offset)
            self.end_offset = offset
            self.durable_end_offset = min(self.durable_end_offset, offset)
            if self._flush is not None:
                self._flush.end_offset = min(self._flush.end_offset, offset)
        self.epochs.truncate_from_end(offset)

    def delete_before(self, offset: int) -> None:
        """Move the log start up to `offset`, and delete the segments that lie wholly below.

        Call it only when a durable snapshot stands for all that lies below. Raises ValueError
        outside of the log.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise ValueError(f"{offset} is not in the log {self.start_offset}..{self.end_offset}")
        self.start_offset = offset
        self.durable_end_offset = max(self.durable_end_offset, offset)
        if offset == self.end_offset and self._active.base_offset < offset:
            self._roll()
        kept = self._segment_of(offset)
        if self._segments[0] is kept:
            return
        self.epochs.truncate_from_start(kept.base_offset)
        self._write_epoch_file()
        while self._segments[0] is not kept:
            self._disk.remove(self._segments.pop(0).path)
            self._disk.sync_directory(self.directory, self._watch)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all and begin empty at `offset`, which a durable snapshot must reach."""
        assert offset > 0, "an empty log begins at 0 by itself"
        self._write_recovery_point(0)
        self._disk.sync(self._path(RECOVERY_POINT_FILE), self._watch)
        while self._segments:
            self._disk.remove(self._segments.pop().path)
            self._disk.sync_directory(self.directory, self._watch)
        self.epochs.clear()
        self._tail = Tail(offset, self._config.cache_bytes)
        self.start_offset = self.end_offset = self.durable_end_offset = offset
        if self._flush is not None:
            self._flush.end_offset = min(self._flush.end_offset, offset)
        self._add_segment()
        self.flush(nothing)

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def first_segment_offset(self) -> int:
        """Where the first segment begins; records from here to `start_offset` are still held."""
        return self._segments[0].base_offset

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Find the largest epoch <= `epoch` in this log and where its records end.

        See `LeaderEpochCache.end_offset_for`.
        """
        return self.epochs.end_offset_for(epoch, self.end_offset)

    @property
    def _active(self) -> Segment:
        return self._segments[-1]

    def _last_record_epoch(self) -> int:
        end = self.end_offset
        return (self.epochs.epoch_at(end - 1) or 0) if end > self.start_offset else 0

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _position(self, offset: int) -> int:
        """Find where the active segment has the batch that holds `offset`, or all above it."""
        if offset <= self._active.base_offset:
            return 0
        if offset >= self.end_offset:
            return self._active.size_bytes
        return locate_batch(self._disk, self._active, offset)[1]

    def _queue_append(self, run: list[bytes]) -> None:
        if run:
            self._disk.append(self._active.path, b"".join(run))
            run.clear()

    def _create_directory(self) -> None:
        self._disk.make_directory(self.directory)
        parent = self.directory
        while parent:
            parent = parent.rpartition("/")[0]
            self._disk.sync_directory(parent, self._watch)

    def _add_segment(self) -> None:
        path = self._path(segment_name(self.end_offset))
        self._segments.append(Segment(path, self.end_offset))
        self._disk.append(path, b"")
        self._names_changed = True

    def _should_roll(self, header: BatchHeader) -> bool:
        """Whether a batch begins a segment (LogSegment.shouldRoll).

        Age is by the timestamps of batches, so that all replicas of a log, and a restart, agree.
        """
        active = self._active
        if not active.size_bytes:
            return False
        first_ms = active.first_timestamp_ms
        age_ms = header.max_timestamp_ms - first_ms if first_ms >= 0 else 0
        return (
            active.size_bytes + header.size_bytes > self._config.segment_bytes
            or age_ms > self._config.segment_ms
        )

    def _roll(self) -> None:
        self._disk.sync(self._active.path, self._watch)
        self._sync_names()
        self._add_segment()

    def _sync_names(self) -> None:
        if self._names_changed:
            self._disk.sync_directory(self.directory, self._watch)
            self._names_changed = False

    def _start_flush(self) -> None:
        flush = _Flush(self.end_offset, self._waiting)
        self._flush = flush
        self._waiting = []
        self._write_epoch_file()
        # The names first exist when the content is applied: they are synced behind it.
        if self._names_changed:
            self._disk.sync(self._active.path, self._watch)
            self._names_changed = False
            self._disk.sync_directory(self.directory, self._on_flush)
        else:
            self._disk.sync(self._active.path, self._on_flush)
        if flush.end_offset != self._recovery_point:
            self._write_recovery_point(flush.end_offset)

    def _on_flush(self, error: OSError | None) -> None:
        flush = self._flush
        if error is not None or self._failed or flush is None:
            self._watch(error)
            return
        self._flush = None
        assert flush.end_offset <= self.end_offset
        self.durable_end_offset = max(self.durable_end_offset, flush.end_offset)
        self._tail.evict(self.durable_end_offset)
        if self._waiting:
            self._start_flush()
        for callback in flush.callbacks:
            callback()

    def _watch(self, error: OSError | None) -> None:
        """Completion of syncs that only matter when they fail: the disk is lost, once."""
        if error is not None and not self._failed:
            self._failed = True
            self._on_failure(error)

    def _write_epoch_file(self) -> None:
        """Replace the leader-epoch file atomically and durably, if it would change."""
        entries = self.epochs.entries
        if entries == self._epochs_in_file:
            return
        self._epochs_in_file = entries
        content = self.epochs.encode()
        if content == self._epoch_file:
            return
        replace_file(self._disk, self._path(EPOCH_FILE), content, self._watch)
        self._epoch_file = content

    def _write_recovery_point(self, offset: int) -> None:
        """Queue the new content; what was queued before is durable when it is applied."""
        content = encode_recovery_point(self.directory, offset)
        self._disk.write(self._path(RECOVERY_POINT_FILE), content)
        self._recovery_point = offset

    def _truncate_files(self, offset: int) -> int:
        """Queue the truncation to the batch that holds `offset`; return that batch's offset."""
        segment = self._segment_of(offset)
        if offset >= self._tail.start_offset:
            base_offset, position = self._tail.locate(offset)
        else:
            base_offset, position = locate_batch(self._disk, segment, offset)
        if base_offset < self._recovery_point:
            self._write_recovery_point(base_offset)
            self._disk.sync(self._path(RECOVERY_POINT_FILE), self._watch)
        while self._active is not segment:
            self._disk.remove(self._segments.pop().path)
            self._disk.sync_directory(self.directory, self._watch)
        self._disk.truncate(segment.path, position)
        segment.truncate(position)
        return base_offset

    def _segment_of(self, offset: int) -> Segment:
        return self._segments[bisect_right(self._segments, offset, key=BASE_OFFSET) - 1]
