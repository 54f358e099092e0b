"""MetadataLoader: committed batches and snapshots become the image, and publishers are notified.

Every node has one, whatever its roles. Its rules are Kafka's:

- Nothing is published before the image has reached the high watermark that a leader reported: a
  broker that starts would else act on what was true long ago.
- The first publication, and each that follows a snapshot, is of the whole image with its
  SnapshotManifest; others as the changes of some batches, with their LogDeltaManifest.
- While a metadata transaction is open nothing is published (KIP-868); its end publishes it whole.

A snapshot is read beside the image, some records in each turn of the node's task, and takes its
place at once: nobody ever sees half of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cluster.node.controller.metadata.delta import DeltaReading, MetadataDelta
from cluster.node.controller.metadata.image import MetadataImage, MetadataProvenance
from cluster.node.controller.metadata.image_writer import RECORDS_PER_SLICE, ImageReading
from cluster.node.kraft.types import CommittedBatch, LeaderAndEpoch
from cluster.node.log.metadata.snapshot import Snapshot
from cluster.node.ports import Clock
from cluster.values import valueclass


@valueclass
class SnapshotManifest:
    """The whole image is published: a snapshot was loaded, or it is the first publication."""

    provenance: MetadataProvenance


@valueclass
class LogDeltaManifest:
    """The changes of the image are published."""

    provenance: MetadataProvenance
    batches: int
    size_bytes: int


LoaderManifest = SnapshotManifest | LogDeltaManifest


class MetadataPublisher(Protocol):
    """What acts on committed metadata on this node (MetadataPublisher). May not fail."""

    def on_metadata_update(
        self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest
    ) -> None:
        """Take up an image and what changed in it since the last publication."""

    def on_controller_change(self, leader: LeaderAndEpoch) -> None:
        """Take up the quorum's leader."""


class MetadataLoader:
    """Feeds one image and publishes it. Used within events of the controller's queue only."""

    def __init__(
        self, image: MetadataImage, clock: Clock, reported_high_watermark: Callable[[], int | None]
    ) -> None:
        """`reported_high_watermark`: the newest that a leader reported; None before any did."""
        self.image = image
        self.is_published = False
        """Whether anything was."""
        self.has_caught_up = False
        """Whether the image has once been as new as the quorum's."""
        self._clock = clock
        self._reported_high_watermark = reported_high_watermark
        self._changes = DeltaReading(image.state)
        self._publishers: list[MetadataPublisher] = []
        self._batches = 0
        self._bytes = 0
        self._is_whole = True
        """The next publication is of the whole image."""

    def install(self, publisher: MetadataPublisher) -> None:
        """Add a publisher, before anything is replayed: it is to get all publications."""
        assert not self.is_published, "a publisher that misses the first image"
        self._publishers.append(publisher)

    def apply(self, batch: CommittedBatch) -> None:
        """Replay one committed batch. Raises ReplayError: the node must stop."""
        self.image.apply(batch)
        self._batches += 1
        self._bytes += batch.size_bytes

    def load(
        self,
        snapshot: Snapshot,
        in_event: Callable[[Callable[[], None]], None],
        done: Callable[[], None],
    ) -> None:
        """Read a snapshot and become it, in as many events as that takes; then call `done`.

        `in_event` runs a step as an event of the queue. Raises ReplayError, within an event.
        """
        reading = self.image.begin_load(snapshot)

        def step() -> None:
            if reading.read(RECORDS_PER_SLICE):
                self._finish_load(snapshot, reading)
                done()
            else:
                self._clock.call_later(0, lambda: in_event(step))

        step()

    def _finish_load(self, snapshot: Snapshot, reading: ImageReading) -> None:
        self.image.finish_load(snapshot, reading)
        self._is_whole = True
        self.maybe_publish()

    def maybe_publish(self) -> None:
        """Notify the publishers, if there is news and nothing forbids it."""
        provenance = self.image.provenance
        if self._must_catch_up() or not self._publishers or self.image.in_transaction:
            return
        manifest: LoaderManifest
        if self._is_whole:
            manifest = SnapshotManifest(provenance)
        elif self._batches:
            manifest = LogDeltaManifest(provenance, self._batches, self._bytes)
        else:
            return
        self._is_whole, self._batches, self._bytes = False, 0, 0
        self.is_published = True
        delta = self._changes.take()
        for publisher in self._publishers:
            publisher.on_metadata_update(delta, self.image, manifest)

    def notify_leader(self, leader: LeaderAndEpoch) -> None:
        """Notify the publishers of the quorum's leader."""
        for publisher in self._publishers:
            publisher.on_controller_change(leader)

    def _must_catch_up(self) -> bool:
        if not self.has_caught_up:
            high_watermark = self._reported_high_watermark()
            self.has_caught_up = high_watermark is not None and (
                self.image.offset >= max(high_watermark - 1, 0)  # an empty image is no news
            )
        return not self.has_caught_up
