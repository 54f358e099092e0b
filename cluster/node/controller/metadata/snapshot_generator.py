"""When a node snapshots its image, and how it goes about it (SnapshotGenerator, SnapshotEmitter).

Every node decides for itself, from what it has replayed: when the records since the last snapshot
come to `metadata.log.max.record.bytes.between.snapshots`, or when one is older than
`metadata.log.max.snapshot.interval.ms`. It begins only with nothing else to do, at the end of a
batch and outside of metadata transactions (KAFKA-14619), from a copy of the committed image: never
from what the active controller has appended and awaits. It writes a slice at a time, so that a
large image holds nothing else up.

A snapshot that was loaded counts like one that was made (KAFKA-13968: neither never nor always).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from cluster.node.controller.metadata.feature_levels import metadata_version
from cluster.node.controller.metadata.image import MetadataImage
from cluster.node.controller.metadata.image_writer import (
    RECORDS_PER_SLICE,
    frozen_copy,
    image_records,
)
from cluster.node.controller.records import MetadataRecord, encode_record, record_version
from cluster.node.kraft.snapshot_store import SnapshotWriter
from cluster.node.kraft.types import CommittedBatch
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Clock

CreateSnapshot = Callable[[OffsetAndEpoch, int], SnapshotWriter | None]


class SnapshotGenerator:
    """Counts what was replayed since the last snapshot and makes the next."""

    def __init__(
        self,
        image: MetadataImage,
        clock: Clock,
        create_snapshot: CreateSnapshot,
        max_bytes: int,
        max_interval_ms: float,
    ) -> None:
        """`max_interval_ms` 0 turns the trigger by time off."""
        self._image = image
        self._clock = clock
        self._create_snapshot = create_snapshot
        self._max_bytes = max_bytes
        self._max_interval_ms = max_interval_ms
        self._bytes = 0
        self._since_ms = clock.monotonic_ms()
        self._is_writing = False
        self._is_asked = False

    def request(self) -> None:
        """Let the next be due now, if there is anything that no snapshot holds."""
        self._is_asked = True

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Count replayed batches."""
        self._bytes += sum(batch.size_bytes for batch in batches)

    def on_load(self) -> None:
        """Begin to count anew: there is a snapshot as new as the image."""
        self._bytes = 0
        self._is_asked = False
        self._since_ms = self._clock.monotonic_ms()

    @property
    def is_due(self) -> bool:
        """Whether a snapshot should be made as soon as there is nothing else to do."""
        if self._is_writing or self._bytes == 0 or self._image.in_transaction:
            return False
        age_ms = self._clock.monotonic_ms() - self._since_ms
        is_old = 0 < self._max_interval_ms <= age_ms
        return self._is_asked or self._bytes >= self._max_bytes or is_old

    def generate(self) -> None:
        """Begin a snapshot of the image as it is now, if one is due still."""
        if not self.is_due:
            return
        provenance = self._image.provenance
        snapshot_id = OffsetAndEpoch(self._image.offset + 1, provenance.last_contained_epoch)
        writer = self._create_snapshot(snapshot_id, provenance.last_contained_log_time_ms)
        self.on_load()
        if writer is not None:
            self._is_writing = True
            state = frozen_copy(self._image.state)
            self._write(writer, image_records(state), metadata_version(state))

    def _write(self, writer: SnapshotWriter, records: Iterator[MetadataRecord], level: int) -> None:
        values = [
            encode_record(record, record_version(record, level))
            for record in islice(records, RECORDS_PER_SLICE)
        ]
        if values:
            writer.append(values)
            self._clock.call_later(0, lambda: self._write(writer, records, level))
        else:
            writer.freeze()
            self._is_writing = False
