"""The committed metadata: what a replica knows after replaying the log up to an offset.

Every node replays every committed batch, in order, exactly once. Whatever is served to clients
comes from here; a record that does not fit is fatal (ReplayError), because from there on this
replica would no longer be one.

The records of a metadata transaction (KIP-868) are held back until it ends, so that nobody sees
half of one, and forgotten when it is aborted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from cluster.node.controller.metadata.image_writer import (
    RECORDS_PER_SLICE,
    ImageReading,
    replace_state,
)
from cluster.node.controller.metadata.replay import replay
from cluster.node.controller.metadata.state import (
    BrokerRegistration,
    ConfigKey,
    MetadataState,
    PartitionKey,
    PartitionRegistration,
    ReplayError,
    committed_state,
    overlay_state,
)
from cluster.node.controller.metadata.timeline import (
    NOTHING,
    AppendOffset,
    MapDelta,
    TimelineMap,
    take_deltas,
)
from cluster.node.controller.records import MetadataRecord, MetadataRecordError, decode_record
from cluster.node.controller.records.kinds import (
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


# What changed between two published images (MetadataDelta), and what that asks of one broker.
#
# Kafka replays a batch into a delta and makes the next image from it. Here the image's maps note
# what they held before, so a delta costs what was written; after a snapshot it costs a comparison
# of both contents, for the maps that are looked at.


@valueclass
class MetadataDelta:
    """What publishers look at, map by map: during their notification, not later."""

    partitions: MapDelta[PartitionKey, PartitionRegistration]
    configs: MapDelta[ConfigKey, str]
    brokers: MapDelta[int, BrokerRegistration]


_MAPS = tuple(field.name for field in fields(MetadataDelta))


def take_delta(state: MetadataState) -> MetadataDelta:
    """Return what changed in a committed state since the last call; at first, all there is."""
    return MetadataDelta(*take_deltas([getattr(state, name) for name in _MAPS]))


@valueclass
class LocalReplicaChanges:
    """What a delta asks of one broker (TopicsDelta.localChanges); all in the delta's order."""

    deletes: tuple[PartitionKey, ...]
    """It held them and does so no longer: removed with their topic, or reassigned."""
    leaders: dict[PartitionKey, PartitionRegistration]
    """It leads them, and something about them is new."""
    followers: dict[PartitionKey, PartitionRegistration]
    """It holds them, another broker or none leads, and something about them is new."""


NO_LOCAL_CHANGES = LocalReplicaChanges((), {}, {})
"""What most deltas ask."""


def local_changes(
    delta: MetadataDelta, broker_id: int, among: Iterable[PartitionKey]
) -> LocalReplicaChanges:
    """Sort partitions of a delta by what their changes mean to a broker."""
    deletes: list[PartitionKey] = []
    leaders: dict[PartitionKey, PartitionRegistration] = {}
    followers: dict[PartitionKey, PartitionRegistration] = {}
    for key in among:
        before, after = delta.partitions.before(key), delta.partitions.after(key)
        if before == after:
            continue
        if after is None or broker_id not in after.replicas:
            if before is not None and broker_id in before.replicas:
                deletes.append(key)
        elif after.leader == broker_id:
            leaders[key] = after
        else:
            followers[key] = after
    return LocalReplicaChanges(tuple(deletes), leaders, followers)


# What the active controller believes: the committed image plus what it appended and awaits.
#
# Only the generation of new records looks at it. It is empty on every node that is not active.


class SpeculativeState:
    """Uncommitted writes over a committed image. The image is never changed through it."""

    def __init__(self, image: MetadataImage) -> None:
        self._offset = AppendOffset()
        self.state: MetadataState = overlay_state(image.state, self._offset)
        self._maps = [getattr(self.state, field.name) for field in fields(self.state)]
        assert all(isinstance(state_map, TimelineMap) for state_map in self._maps)

    def replay(self, records: Sequence[MetadataRecord], last_offset: int) -> None:
        """Apply records that were just appended up to `last_offset`. Raises ReplayError."""
        first_offset = last_offset - len(records) + 1
        for offset, record in enumerate(records, first_offset):
            assert offset > self._offset.value, "appended offsets must grow"
            self._offset.value = offset
            if isinstance(record, TRANSACTION_MARKERS):
                # What another leader left open the image held back: there is nothing to undo. Its
                # own transaction this leader sees as it appends it.
                continue
            try:
                replay(self.state, record)
            except (MetadataRecordError, ReplayError) as error:
                raise ReplayError(f"record appended at offset {offset}: {error}") from error

    def drop_through(self, offset: int) -> None:
        """Forget what the image contains now."""
        if self._offset.value == NOTHING:
            return  # as on every node that does not lead
        for state_map in self._maps:
            state_map.drop_through(offset)

    def revert(self) -> None:
        """Forget everything: another leader decides what becomes of it."""
        for state_map in self._maps:
            state_map.revert()
        self._offset.value = NOTHING

    @property
    def is_empty(self) -> bool:
        """Whether it equals the committed image."""
        return not any(len(state_map) for state_map in self._maps)
