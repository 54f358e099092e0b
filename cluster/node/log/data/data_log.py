"""The log of one partition's data (Kafka's `UnifiedLog`): append, read, truncate, delete.

It is the sibling of `log.Log`, which holds metadata, and shares its records, epoch cache, tail,
reader and recovery. What differs follows from what a record's promise rests on. A metadata record
counts when it is durable, a data record when the in-sync replicas have it; so appends go to the
kernel at once and are synced when their segment is rolled (or by `flush.messages` and `flush.ms`),
a kill loses nothing that `when_written` reported, and only a power loss of all replicas can lose
what was acknowledged. And
it is large: it is opened without being read (`data_recovery`), by index files (`data_segment`).

All calls are synchronous and for the node's task only. An error of the disk, or a record that is
not what was written, is reported to `LogFolder.on_failure`, which takes the folder offline; from
then on every call raises StorageError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import (
    NO_PRODUCER,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatchError,
    batch_size_bytes,
    check_batch,
    parse_header,
    with_place,
)
from cluster.node.log.data.data_config import (
    AppendError,
    OffsetOutOfRangeError,
    UnexpectedAppendOffsetError,
)
from cluster.node.log.data.data_files import DataFiles
from cluster.node.log.data.data_segment import DataSegment
from cluster.node.log.data.data_times import (
    TimestampAndOffset,
    find_largest,
    find_timestamp,
    largest,
)
from cluster.node.log.data.validation import validate
from cluster.node.log.storage.tail import Tail
from cluster.node.log.types import OffsetAndEpoch
from cluster.values import valueclass

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
MAX_TIMESTAMP = -3


@valueclass
class LogAppendInfo:
    """Where an append lies in the log."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 unless the topic's records carry the time of their append."""
    log_start_offset: int
    is_duplicate: bool = False
    """Whether it is the answer to a retry: nothing was appended."""


class DataLog(DataFiles):
    """One replica's log of one partition; made by `LogDirectory`."""

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segment_offsets(self) -> tuple[int, ...]:
        """First offset of each segment."""
        return tuple(segment.base_offset for segment in self._segments)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        """Find the largest epoch <= `epoch` in this log and where its records end (KIP-101).

        None when it is later than all that is known. See `LeaderEpochCache.end_offset_for`.
        """
        latest = self.epochs.latest_epoch
        if latest is None or epoch > latest:
            return None
        return self.epochs.end_offset_for(epoch, self.end_offset)

    # Appending.

    def append_as_leader(self, records: bytes, leader_epoch: int) -> LogAppendInfo:
        """Append one batch of a client, which gets the next offsets. See `validation`.

        A retry of one of the last five batches of its producer is answered with the offsets of
        that one. Raises AppendError, StorageError.
        """
        self._check_online()
        assert leader_epoch >= (self.epochs.latest_epoch or 0), "a leader of the past appends"
        header, batch = validate(records, self.config, self._folder.clock.wall_ms())
        if len(batch) > self.config.segment_bytes:
            raise AppendError(
                ErrorCode.record_list_too_large,
                f"The record batch is {len(batch)} bytes, a segment {self.config.segment_bytes}",
            )
        log_append_time_ms = header.max_timestamp_ms if self.config.log_append_time else -1
        if header.producer_id != NO_PRODUCER:
            duplicate = self.producers.duplicate_of(header)
            if duplicate is not None:
                return LogAppendInfo(
                    duplicate.first_offset,
                    duplicate.last_offset,
                    duplicate.timestamp_ms if self.config.log_append_time else -1,
                    self.start_offset,
                    is_duplicate=True,
                )
            self.producers.check(header)
        batch = with_place(batch, self.end_offset, leader_epoch)
        header = parse_header(batch)
        self._append([(header, batch)])
        return LogAppendInfo(
            header.base_offset, header.last_offset, log_append_time_ms, self.start_offset
        )

    def append_as_follower(
        self, records: bytes, leader_epoch: int | None = None
    ) -> LogAppendInfo | None:
        """Append a leader's batches as they are; None when nothing was appended.

        A batch that is cut off ends the records, as does one of a later epoch than `leader_epoch`,
        the epoch that was asked for. Raises AppendError for a damaged batch, all or nothing;
        UnexpectedAppendOffsetError when they do not follow the log end; StorageError.
        """
        self._check_online()
        batches: list[tuple[BatchHeader, bytes]] = []
        expected = self.end_offset
        epoch = self.epochs.latest_epoch or 0
        for header, batch in self._fetched_batches(records):
            if leader_epoch is not None and header.partition_leader_epoch > leader_epoch:
                break
            gap = header.base_offset - expected
            if gap < 0 or (gap and not self.config.compact):
                raise UnexpectedAppendOffsetError(header.base_offset, header.last_offset, expected)
            if header.partition_leader_epoch < epoch:
                reason = f"batch of epoch {header.partition_leader_epoch} after {epoch}"
                raise AppendError(ErrorCode.corrupt_message, reason)
            expected, epoch = header.next_offset, header.partition_leader_epoch
            batches.append((header, batch))
        if not batches:
            return None
        first_offset = batches[0][0].base_offset
        self._append(batches)
        return LogAppendInfo(first_offset, expected - 1, NO_TIMESTAMP, self.start_offset)

    def initialize_leader_epoch(self, epoch: int) -> None:
        """Begin `epoch` at the log end, before its first record. Raises ValueError if past."""
        self._check_online()
        if epoch < (self.epochs.latest_epoch or 0):
            raise ValueError(f"epoch {epoch} cannot begin after {self.epochs.latest_epoch}")
        if self.epochs.assign(epoch, self.end_offset):
            self._write_epoch_file()

    def when_written(self, done: Callable[[], None]) -> None:
        """Call `done` once a kill can no longer lose what is in the log now.

        Never called when the folder goes offline before. Kafka acknowledges no earlier.
        """
        self._check_online()
        if self._barrier_end == self.end_offset:
            self._awaiting.append(done)  # what is on its way asks for all of it
        else:
            self._waiting.append(done)
            self._await_written()

    # Reading.

    def read(
        self, offset: int, max_bytes: int, *, min_one: bool = True, end_offset: int | None = None
    ) -> bytes:
        """Return whole batches from the one that holds `offset` on.

        At most `max_bytes`, but with `min_one` at least one batch if there is any; none with a
        record at or after `end_offset` (default: the log end). A read may end early, at the end
        of a segment or of what is in memory. What comes from a file is verified. Raises
        OffsetOutOfRangeError outside of the log, StorageError.
        """
        self._check_online()
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(
                f"{offset} is not in the log of {self.partition}, "
                f"{self.start_offset}..{self.end_offset}"
            )
        limit = self.end_offset if end_offset is None else min(end_offset, self.end_offset)
        if offset >= limit:
            return b""
        if offset >= self._tail.start_offset:
            data = self._tail.read(offset, max_bytes, limit)
        else:
            data = self._read_files(offset, max_bytes, min(limit, self._tail.start_offset))
        if not min_one and len(data) > max_bytes:
            return b""
        return data

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """Estimate what `read` would bring, without reading: less where it lies in files alone."""
        return self._tail.bytes_between(offset, end_offset)

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """Find the first record that is not earlier, for ListOffsets; None when all are.

        `EARLIEST_TIMESTAMP` and `LATEST_TIMESTAMP` mean log start and log end, `MAX_TIMESTAMP` the
        first record with the largest timestamp. Raises StorageError.
        """
        self._check_online()
        if timestamp_ms == EARLIEST_TIMESTAMP:
            epoch = self.epochs.epoch_at(self.start_offset)
            return TimestampAndOffset(-1, self.start_offset, epoch)
        if timestamp_ms == LATEST_TIMESTAMP:
            return TimestampAndOffset(-1, self.end_offset, self.epochs.latest_epoch)
        if timestamp_ms == MAX_TIMESTAMP:
            return find_largest(self, self._segments)
        return find_timestamp(self, self._segments, timestamp_ms)

    # Making durable.

    def flush(self, done: Callable[[], None]) -> None:
        """Make durable all that was appended, then call `done`.

        By then `recovery_point` has risen to the log end of this call, or to where the log was
        truncated since, and is durable itself. Never called when the folder goes offline before.
        """
        self._check_online()
        self._come_to_exist()
        self._flush(self.end_offset, done)

    # Cutting and deleting.

    def truncate_to(self, offset: int) -> None:
        """Drop all records at or after `offset`, and the epochs that begin there.

        An offset within a batch drops the whole batch. At or above the log end only the epochs
        are cut (KAFKA-10706); below the log start the log begins anew there. Raises StorageError.
        """
        self._check_online()
        if offset < self.start_offset:
            self.truncate_fully_and_start_at(offset)
            return
        if offset < self.end_offset:
            offset = self._truncate_files(offset)
        if self.epochs.truncate_from_end(offset):
            self._write_epoch_file()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the log is empty from now on and begins at `offset`."""
        self._check_online()
        self._come_to_exist()
        self.saved_start_offset = None
        self._folder.save_start_offsets()
        self._lower_recovery_point(0)
        self._remove_snapshots_above(-1)
        while self._segments:
            self._remove_segment(self._segments.pop())
        self.epochs.clear()
        self._write_epoch_file()
        self.producers.clear(offset)
        self._tail = Tail(offset, self.config.cache_bytes)
        self.start_offset = offset
        self._end_at(offset)
        self._add_segment(offset)
        self.saved_start_offset = offset

    def increment_log_start_offset(self, offset: int) -> bool:
        """Move the log start up (DeleteRecords); the segments below go with the next retention.

        False when it is there already. Raises OffsetOutOfRangeError above the high watermark.
        """
        self._check_online()
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(
                f"Cannot increment the log start offset of {self.partition} to {offset}, above "
                f"the high watermark {self.high_watermark}"
            )
        if offset <= self.start_offset:
            return False
        self._move_start(offset)
        return True

    def delete_old_segments(self) -> int:
        """Delete segments by log start, `retention.bytes` and `retention.ms`; says how many.

        None with a record above the high watermark; the last one only when it has expired, after
        a roll. Raises StorageError.
        """
        self._check_online()
        count = self._delete_while(self._is_below_start)
        if "delete" not in self.config.cleanup_policy:
            return count
        if self.config.retention_bytes >= 0:
            excess = self.size_bytes - self.config.retention_bytes

            def is_excess(segment: DataSegment, _: int | None) -> bool:
                nonlocal excess
                excess -= segment.size_bytes
                return excess >= 0

            count += self._delete_while(is_excess)
        if self.config.retention_ms >= 0:
            count += self._delete_while(self._is_expired)
        return count

    def _is_below_start(self, _: DataSegment, following: int | None) -> bool:
        return following is not None and following <= self.start_offset

    def _is_expired(self, segment: DataSegment, _: int | None) -> bool:
        latest_ms = largest(self, segment)
        if latest_ms < 0:
            latest_ms = segment.created_ms
        return self._folder.clock.wall_ms() - latest_ms > self.config.retention_ms

    def expire_producers(self) -> None:
        """Forget producers by `producer.id.expiration.ms`."""
        self.producers.expiration_ms = self.config.producer_id_expiration_ms
        self.producers.expire(self._folder.clock.wall_ms())

    def close(self, done: Callable[[], None]) -> None:
        """Make everything durable, with a snapshot of the producers, before a clean shutdown."""
        self._check_online()
        self._active.close_times()
        self._flush(self.end_offset, done, self._take_snapshot())

    def _fetched_batches(self, records: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
        position = 0
        try:
            while (size_bytes := batch_size_bytes(records, position)) is not None:
                end = position + size_bytes
                if end > len(records):
                    return
                batch = records[position:end]
                yield check_batch(batch, gaps=self.config.compact), batch
                position = end
        except CorruptBatchError as error:
            raise AppendError(ErrorCode.corrupt_message, str(error)) from error
