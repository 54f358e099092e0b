"""MetadataLoader: committed batches and snapshots become the image, and publishers are notified.

Every node has one, whatever its roles. Its rules are Kafka's:

- Nothing is published before the image has reached the high watermark that a leader reported: a
  broker that starts would else act on what was true long ago.
- The first publication, and each that follows a snapshot, is of the whole image (Kafka's
  SnapshotManifest); others are of the changes of some batches (LogDeltaManifest).
- While a metadata transaction is open nothing is published (KIP-868); its end publishes it whole.

A snapshot is read beside the image, some records in each turn of the node's task, and takes its
place at once: nobody ever sees half of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cluster.node.controller.metadata.image import MetadataDelta, MetadataImage, take_delta
from cluster.node.controller.metadata.image_writer import RECORDS_PER_SLICE
from cluster.node.kraft.types import CommittedBatch
from cluster.node.log.metadata.snapshot import Snapshot
from cluster.node.ports import Clock


class MetadataPublisher(Protocol):
    """What acts on committed metadata on this node (MetadataPublisher). May not fail."""

    def on_metadata_update(
        self, delta: MetadataDelta, image: MetadataImage, *, is_whole: bool
    ) -> None:
        """Take up an image and what changed since the last; `is_whole`: as if all had changed."""


class MetadataLoader:
    """Feeds one image and publishes it. Used within events of the controller's queue only."""

    def __init__(
        self, image: MetadataImage, clock: Clock, reported_high_watermark: Callable[[], int | None]
    ) -> None:
        """`reported_high_watermark`: the newest that a leader reported; None before any did."""
        self.image = image
        self.is_published = False
        """Whether anything was."""
        self.published_offset = -1
        """Of the last record in the last publication, which is all that publishers know of."""
        self.has_caught_up = False
        """Whether the image has once been as new as the quorum's."""
        self._clock = clock
        self._reported_high_watermark = reported_high_watermark
        self._publishers: list[MetadataPublisher] = []
        self._has_news = False
        """A batch was replayed since the last publication."""
        self._is_whole = True
        """The next publication is of the whole image."""

    def install(self, publisher: MetadataPublisher) -> None:
        """Add a publisher, before anything is replayed: it is to get all publications."""
        assert not self.is_published, "a publisher that misses the first image"
        self._publishers.append(publisher)

    def apply(self, batch: CommittedBatch) -> None:
        """Replay one committed batch. Raises ReplayError: the node must stop."""
        self.image.apply(batch)
        self._has_news = True

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
                self.image.finish_load(snapshot, reading)
                self._is_whole = True
                self.maybe_publish()
                done()
            else:
                self._clock.call_later(0, lambda: in_event(step))

        step()

    def maybe_publish(self) -> None:
        """Notify the publishers, if there is news and nothing forbids it."""
        if self._must_catch_up() or not self._publishers or self.image.in_transaction:
            return
        if not self._is_whole and not self._has_news:
            return
        is_whole, self._is_whole, self._has_news = self._is_whole, False, False
        self.is_published = True
        self.published_offset = self.image.offset
        delta = take_delta(self.image.state)
        for publisher in self._publishers:
            publisher.on_metadata_update(delta, self.image, is_whole=is_whole)

    def _must_catch_up(self) -> bool:
        if not self.has_caught_up:
            high_watermark = self._reported_high_watermark()
            self.has_caught_up = high_watermark is not None and (
                self.image.offset >= max(high_watermark - 1, 0)  # an empty image is no news
            )
        return not self.has_caught_up
