"""The metadata log as the consensus core uses it (ReplicatedLog, KafkaRaftLog).

Adds to `cluster.log.Log` what replication needs: appends in two roles, validation of a replica's
position, truncation that never goes below the high watermark.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from cluster.kraft.messages import OffsetAndEpoch
from cluster.kraft.types import IllegalStateError
from cluster.log.log import Log
from cluster.log.records import split_batches


class Validity(Enum):
    """What a replica's position is worth to this log."""

    VALID = "valid"
    DIVERGING = "diverging"


class ReplicatedLog:
    """The log of one metadata partition. The high watermark is exclusive."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.high_watermark = log.start_offset

    @property
    def start_offset(self) -> int:
        """First offset that is held."""
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self._log.end_offset

    @property
    def durable_end_offset(self) -> int:
        """Everything below would survive a power loss."""
        return self._log.durable_end_offset

    @property
    def last_fetched_epoch(self) -> int:
        """Epoch of the last record; 0 when there is none."""
        return self._log.last_epoch

    @property
    def end(self) -> OffsetAndEpoch:
        """Log end offset and the epoch of the last record."""
        return OffsetAndEpoch(self.end_offset, self.last_fetched_epoch)

    def append_as_leader(self, batch: bytes) -> None:
        """Append one batch that this leader encoded for the current log end."""
        self._log.append(batch)

    def append_as_follower(self, records: bytes, epoch: int) -> bool:
        """Append fetched batches up to the first of an epoch above `epoch`; CRCs are checked.

        A response that was read while leadership changed may hold batches of a newer epoch, whose
        leader this replica does not know yet (KAFKA-18723). Returns whether anything was appended.
        Raises CorruptBatchError; then nothing was appended.
        """
        accepted: list[bytes] = []
        for header, batch in split_batches(records):  # the log verifies what it appends
            if header.partition_leader_epoch > epoch:
                break
            accepted.append(batch)
        if accepted:
            self._log.append(b"".join(accepted))
        return bool(accepted)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from `offset` on, committed or not; at least one when there is any."""
        return self._log.read(offset, max_bytes)

    def read_committed(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from `offset` on, below the high watermark."""
        return self._log.read(offset, max_bytes, self.high_watermark)

    def flush(self, done: Callable[[], None]) -> None:
        """Make everything appended so far durable, then call `done`."""
        self._log.flush(done)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch not above `epoch` in this log, and where it ends."""
        return self._log.end_offset_for_epoch(epoch)

    def initialize_leader_epoch(self, epoch: int) -> None:
        """Note that `epoch` starts at the log end."""
        self._log.initialize_leader_epoch(epoch)

    def validate(self, offset: int, epoch: int) -> tuple[Validity, OffsetAndEpoch]:
        """Whether this log holds all of a replica's log that ends at `offset` in `epoch`.

        With DIVERGING comes where the replica's log may last have agreed with this one.
        """
        if self.start_offset == 0 and offset == 0:
            return Validity.VALID, OffsetAndEpoch(0, 0)
        end = self.end_offset_for_epoch(epoch)
        if end.epoch != epoch or end.offset < offset:
            return Validity.DIVERGING, end
        return Validity.VALID, OffsetAndEpoch(offset, epoch)

    def truncate_to_end_offset(self, diverging: OffsetAndEpoch) -> int:
        """Cut the log to where it may agree with the leader's; returns the new end offset.

        Raises IllegalStateError rather than cut a committed record, or agree that one differs.
        """
        if diverging.offset < self.high_watermark:
            raise IllegalStateError(
                f"told that the log diverges from {diverging.offset} on, below the high watermark "
                f"{self.high_watermark}"
            )
        if diverging.epoch == 0:
            offset = min(diverging.offset, self.end_offset)
        else:
            local = self.end_offset_for_epoch(diverging.epoch)
            same = local.epoch == diverging.epoch
            offset = min(local.offset, diverging.offset) if same else local.offset
        if offset < self.high_watermark:
            raise IllegalStateError(
                f"told to truncate to {offset}, below the high watermark {self.high_watermark}"
            )
        self._log.truncate_to(offset)
        return offset

    def update_high_watermark(self, offset: int) -> None:
        """Move the high watermark, which never goes back and never passes the log end."""
        if offset > self.end_offset:
            raise IllegalStateError(
                f"high watermark {offset} beyond the log end offset {self.end_offset}"
            )
        if offset < self.high_watermark:
            raise IllegalStateError(
                f"high watermark {offset} below the one already known, {self.high_watermark}"
            )
        self.high_watermark = offset
