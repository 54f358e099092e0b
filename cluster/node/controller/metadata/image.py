"""The committed metadata: what a replica knows after replaying the log up to an offset.

Every node replays every committed batch, in order, exactly once. Whatever is served to clients
comes from here; a record that does not fit is fatal (ReplayError), because from there on this
replica would no longer be one.

The records of a metadata transaction (KIP-868) are held back until it ends, so that nobody sees
half of one, and forgotten when it is aborted.
"""

from __future__ import annotations

from cluster.node.controller.metadata.image_writer import (
    RECORDS_PER_SLICE,
    ImageReading,
    replace_state,
)
from cluster.node.controller.metadata.replay import replay
from cluster.node.controller.metadata.state import MetadataState, ReplayError, committed_state
from cluster.node.controller.records import MetadataRecordError, decode_record
from cluster.node.controller.records.schema import MetadataRecord
from cluster.node.controller.records.system import (
    TRANSACTION_MARKERS,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from cluster.node.kraft.types import CommittedBatch
from cluster.node.log.metadata.snapshot import Snapshot
from cluster.values import valueclass


@valueclass
class MetadataProvenance:
    """How far an image has come: the last batch that it contains. -1 before the first."""

    last_contained_offset: int = -1
    last_contained_epoch: int = -1
    last_contained_log_time_ms: int = -1


class MetadataImage:
    """Committed state and its provenance."""

    def __init__(self) -> None:
        self.state: MetadataState = committed_state()
        self.provenance = MetadataProvenance()
        self._transaction: list[MetadataRecord] | None = None
        self._transaction_offset = -1

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open: then the state lags behind the offset."""
        return self._transaction is not None

    @property
    def offset(self) -> int:
        """The offset of the last record that was replayed, -1 before the first."""
        return self.provenance.last_contained_offset

    @property
    def stable_offset(self) -> int:
        """The offset up to which the state shows all records: below an open transaction."""
        return self.offset if self._transaction is None else self._transaction_offset - 1

    def apply(self, batch: CommittedBatch) -> None:
        """Replay one committed batch. Raises ReplayError: the node must stop."""
        previous = self.provenance
        if batch.base_offset != previous.last_contained_offset + 1:
            raise ReplayError(
                f"committed batch at {batch.base_offset} after {previous.last_contained_offset}"
            )
        if batch.epoch < previous.last_contained_epoch:
            message = f"epoch {batch.epoch} at {batch.base_offset} is older than what precedes it"
            raise ReplayError(message)
        offset = batch.base_offset
        for offset, value in enumerate(batch.records, batch.base_offset):
            try:
                record, _ = decode_record(value)
                self._apply_record(record, offset)
            except (MetadataRecordError, ReplayError) as error:
                message = f"record at offset {offset} of epoch {batch.epoch}: {error}"
                raise ReplayError(message) from error
        assert offset <= batch.last_offset
        self.provenance = MetadataProvenance(batch.last_offset, batch.epoch, batch.timestamp_ms)

    def load(self, snapshot: Snapshot) -> None:
        """Become what a snapshot holds, at once. Raises ReplayError."""
        reading = self.begin_load(snapshot)
        while not reading.read(RECORDS_PER_SLICE):
            pass
        self.finish_load(snapshot, reading)

    def begin_load(self, snapshot: Snapshot) -> ImageReading:
        """Begin to read a snapshot beside what is held still. Raises ReplayError."""
        offset = snapshot.id.offset - 1
        if offset < self.offset:
            raise ReplayError(f"a snapshot up to {offset} after {self.offset}")
        return ImageReading(snapshot.values())

    def finish_load(self, snapshot: Snapshot, reading: ImageReading) -> None:
        """Become what was read of a snapshot, to its end: what it lacks is gone."""
        assert snapshot.id.offset > self.offset, "the image moved while a snapshot was read"
        replace_state(self.state, reading.state)
        self._transaction = None
        self.provenance = MetadataProvenance(
            snapshot.id.offset - 1, snapshot.id.epoch, snapshot.last_contained_log_timestamp_ms
        )

    def _apply_record(self, record: MetadataRecord, offset: int) -> None:
        if type(record) not in TRANSACTION_MARKERS:
            if self._transaction is None:
                replay(self.state, record)
            else:
                self._transaction.append(record)
        elif isinstance(record, BeginTransactionRecord):
            if self._transaction is not None:
                raise ReplayError("a metadata transaction begins within another")
            self._transaction, self._transaction_offset = [], offset
        else:
            held, self._transaction = self._transaction, None
            if held is None:
                raise ReplayError(f"{type(record).__name__} without an open metadata transaction")
            for kept in held if isinstance(record, EndTransactionRecord) else ():
                replay(self.state, kept)
