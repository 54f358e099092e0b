"""The metadata log as the consensus core uses it (ReplicatedLog, KafkaRaftLog).

Adds to `cluster.node.log.Log` what replication needs: appends in two roles, validation of a
replica's position, truncation that never goes below the high watermark, and the snapshots that
stand for what lies below the log's start (KIP-630).

A log that begins above 0 needs a snapshot that covers what is missing (KAFKA-14240). A log that
does not hold all that the latest snapshot contains (the node died between the two, or what was
fsynced last of the log was lost with the power) is dropped for it at the start.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from cluster.node.kraft.quorum.control_state import ControlState
from cluster.node.kraft.snapshot_store import SnapshotFile, SnapshotStore
from cluster.node.kraft.types import IllegalStateError
from cluster.node.log.batch.records import (
    BatchHeader,
    CutOffBatchError,
    parse_header,
    split_batches,
)
from cluster.node.log.metadata.log import Log
from cluster.node.log.metadata.snapshot import BOOTSTRAP_ID, CorruptSnapshotError, Snapshot
from cluster.node.log.types import OffsetAndEpoch


class Validity(Enum):
    """What a replica's position is worth to this log."""

    VALID = "valid"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"
    """This log begins too late for it: the replica needs a snapshot."""


class ReplicatedLog:
    """The log of one metadata partition. The high watermark is exclusive."""

    def __init__(
        self, log: Log, snapshots: SnapshotStore, control: ControlState | None = None
    ) -> None:
        """Make log, snapshots and `control` fit. Raises CorruptSnapshotError, OSError."""
        self._log = log
        self.snapshots = snapshots
        self.control = ControlState() if control is None else control
        """Voters and kraft.version, as of the log end."""
        self.high_watermark = log.start_offset
        self._fit_snapshots()
        self._read_control()

    def _read_control(self) -> None:
        """Take up all control records: the latest snapshot's, and those of the log behind it."""
        latest = self.snapshots.latest
        self.control.load(None if latest is None else self.snapshots.read(latest))
        offset = self.start_offset if latest is None else latest.offset
        self.control.append(
            (header, batch)
            for header, batch in self._log.recovered_control
            if offset < header.next_offset <= self.end_offset
        )

    def _fit_snapshots(self) -> None:
        start = self._log.start_offset
        for snapshot_id in self.snapshots.ids:
            if snapshot_id.offset < start:
                self.snapshots.remove(snapshot_id)
        latest, earliest = self.snapshots.latest, self.snapshots.earliest
        if latest is None or earliest is None:
            if start > 0:
                reason = "the log begins here, but no snapshot holds what came before"
                raise CorruptSnapshotError(self._log.directory, 0, start, reason)
            return
        self.snapshots.read(latest)  # a damaged one is to be reported now, not when it is needed
        if not self.truncate_to_latest_snapshot(0.0) and start > 0:
            self._log.delete_before(earliest.offset)
        # Only what is committed is ever in a snapshot.
        self.high_watermark = max(self._log.start_offset, latest.offset)

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
    def is_durable(self) -> bool:
        """Whether all that it holds would survive a power loss."""
        log = self._log
        return log.durable_end_offset == log.end_offset

    @property
    def last_fetched_epoch(self) -> int:
        """Epoch of the last record, held or in the snapshot; 0 when there is none."""
        epoch = self._log.epochs.latest_epoch
        if epoch is None:
            latest = self.snapshots.latest
            epoch = latest.epoch if latest is not None and self.start_offset > 0 else 0
        return epoch

    @property
    def end(self) -> OffsetAndEpoch:
        """Log end offset and the epoch of the last record."""
        return OffsetAndEpoch(self.end_offset, self.last_fetched_epoch)

    def append_as_leader(self, batch: bytes) -> None:
        """Append one batch that this leader encoded for the current log end."""
        self._log.append(batch)
        self.control.append(split_batches(batch))

    def append_as_follower(self, records: bytes, epoch: int) -> bool:
        """Append fetched batches up to the first of an epoch above `epoch`; CRCs are checked.

        A response that was read while leadership changed may hold batches of a newer epoch, with a
        leader unknown to this replica yet (KAFKA-18723). Kafka's leaders fill a response up to the
        byte, so its last batch may be cut off. Returns whether anything was appended.
        Raises CorruptBatchError; then nothing was appended.
        """
        accepted: list[tuple[BatchHeader, bytes]] = []
        try:
            for header, batch in split_batches(records):  # the log verifies what it appends
                if header.partition_leader_epoch > epoch:
                    break
                accepted.append((header, batch))
        except CutOffBatchError:
            if not accepted:
                raise
        if accepted:
            self._log.append(b"".join(batch for _, batch in accepted))
            self.control.append(accepted)
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
        if self._log.epochs.latest_epoch is None:
            return self.end
        return self._log.end_offset_for_epoch(epoch)

    def validate(self, offset: int, epoch: int) -> tuple[Validity, OffsetAndEpoch]:
        """Whether this log holds all of a replica's log that ends at `offset` in `epoch`.

        With DIVERGING comes where the replica's log may last have agreed with this one, with
        SNAPSHOT the id of the latest snapshot.
        """
        start = self.start_offset
        if start == 0 and offset == 0:
            return Validity.VALID, OffsetAndEpoch(0, 0)
        earliest, latest = self.snapshots.earliest, self.snapshots.latest
        if earliest is not None and latest is not None:
            at_start = offset == start and epoch != earliest.epoch
            if offset < start or at_start or epoch < earliest.epoch:
                return Validity.SNAPSHOT, latest
        if epoch != self._log.epochs.latest_epoch or offset > self._log.end_offset:
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
                f"the log would diverge from {diverging.offset} on, below the high watermark "
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
                f"a truncation to {offset}, below the high watermark {self.high_watermark}"
            )
        self._log.truncate_to(offset)
        self.control.truncate(offset)
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

    # -- snapshots -------------------------------------------------------------------------------

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The newest snapshot that others may have; a bootstrap checkpoint is none."""
        latest = self.snapshots.latest
        return None if latest is None or latest == BOOTSTRAP_ID else latest

    @property
    def size_bytes(self) -> int:
        """Size of the segments."""
        return self._log.size_bytes

    def create_new_snapshot(self, snapshot_id: OffsetAndEpoch) -> SnapshotFile | None:
        """Begin a snapshot of committed state; None when one as new exists or is being written.

        Raises ValueError unless the id is the committed end of a batch of this log and names the
        epoch of its last record (KAFKA-14619).
        """
        offset = snapshot_id.offset
        if offset < self.start_offset or snapshot_id in self.snapshots:
            return None
        if offset > self.high_watermark:
            raise ValueError(f"{snapshot_id} is above the high watermark {self.high_watermark}")
        validity, where = self.validate(offset, snapshot_id.epoch)
        if validity is not Validity.VALID or where != snapshot_id:
            raise ValueError(f"{snapshot_id} is not in this log, which has {where} there")
        if self._log.epochs.epoch_at(offset - 1) not in (None, snapshot_id.epoch):
            raise ValueError(f"{snapshot_id} does not name the epoch of its last record")
        if offset < self.end_offset and parse_header(self.read(offset, 1)).base_offset != offset:
            raise ValueError(f"{snapshot_id} is within a batch")
        return self.snapshots.begin(snapshot_id)

    def read_snapshot(self, snapshot_id: OffsetAndEpoch) -> Snapshot:
        """Return a snapshot of the store. Raises CorruptSnapshotError, OSError."""
        return self.snapshots.read(snapshot_id)

    def truncate_to_latest_snapshot(self, now_ms: float) -> bool:
        """Drop the whole log for the latest snapshot, unless the log holds all of it already.

        Raises IllegalStateError rather than drop what is known to be committed.
        """
        latest = self.latest_snapshot_id
        if latest is None or self._holds(latest):
            return False
        if latest.offset < self.high_watermark:
            raise IllegalStateError(
                f"{latest} is not in this log, which is committed up to {self.high_watermark}"
            )
        self._log.truncate_fully_and_start_at(latest.offset)
        self.control.load(self.snapshots.read(latest))
        self.high_watermark = latest.offset
        self._forget_snapshots_before(latest, now_ms)
        return True

    def _holds(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether the log goes on from this snapshot, or comes past it."""
        offset, first = snapshot_id.offset, self._log.first_segment_offset
        if not first <= offset <= self.end_offset:
            return False
        return offset == first or self._log.epochs.epoch_at(offset - 1) == snapshot_id.epoch

    def delete_before_snapshot(self, snapshot_id: OffsetAndEpoch, until_ms: float) -> bool:
        """Let the log begin at a snapshot, and delete older ones; False when it may not or does.

        Their files stay until then.
        """
        offset = snapshot_id.offset
        if snapshot_id not in self.snapshots or offset > self.high_watermark:
            return False
        if offset <= self.start_offset:
            return False
        self._log.delete_before(offset)
        self.control.forget_before(offset)
        self._forget_snapshots_before(snapshot_id, until_ms)
        return True

    def _forget_snapshots_before(self, snapshot_id: OffsetAndEpoch, until_ms: float) -> None:
        for older in self.snapshots.ids:
            if older < snapshot_id:
                self.snapshots.delete(older, until_ms)
