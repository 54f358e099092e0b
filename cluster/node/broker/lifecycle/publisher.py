"""BrokerMetadataPublisher: what committed metadata ask of this node's broker.

It keeps what the replica manager of a Kafka broker is given: the partitions that the broker leads
and those that it follows. It is driven by deltas, so that a change costs what changed; a whole
image is taken up by the index of the broker's partitions.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.node.controller.metadata.image import (
    NO_LOCAL_CHANGES,
    LocalReplicaChanges,
    MetadataDelta,
    MetadataImage,
    local_changes,
)
from cluster.node.controller.metadata.state import (
    PartitionKey,
    PartitionRegistration,
)

OnChanges = Callable[[LocalReplicaChanges, MetadataDelta, MetadataImage], None]


class BrokerMetadataPublisher:
    """A MetadataPublisher. What it shows is as of the last publication."""

    def __init__(
        self,
        broker_id: int,
        on_changes: OnChanges | None = None,
        on_first: Callable[[], None] | None = None,
    ) -> None:
        """`on_changes`: with each publication, what it changes about this broker's partitions.

        `on_first`: called once, when the first image is taken up (firstPublishFuture).
        """
        self.broker_id = broker_id
        self.leaders: dict[PartitionKey, PartitionRegistration] = {}
        """The partitions that it leads."""
        self.followers: dict[PartitionKey, PartitionRegistration] = {}
        """Those that it holds and another broker, or none, leads."""
        self._on_changes = on_changes
        self._on_first = on_first
        self._is_first = True

    def on_metadata_update(
        self, delta: MetadataDelta, image: MetadataImage, *, is_whole: bool
    ) -> None:
        if is_whole:
            now = image.state.partitions.keys_with(self.broker_id)
            among = dict.fromkeys((*now, *self.leaders, *self.followers))
            changes = local_changes(delta, self.broker_id, among)
        elif delta.partitions.is_empty:
            changes = NO_LOCAL_CHANGES
        else:
            changes = local_changes(delta, self.broker_id, delta.partitions.keys())
        self._apply(changes)
        if self._on_changes is not None:
            self._on_changes(changes, delta, image)
        if self._is_first:
            self._is_first = False
            if self._on_first is not None:
                self._on_first()

    @property
    def held(self) -> LocalReplicaChanges:
        """All that this broker holds, as changes from nothing."""
        return LocalReplicaChanges((), dict(self.leaders), dict(self.followers))

    def _apply(self, changes: LocalReplicaChanges) -> None:
        for key in changes.deletes:
            self.leaders.pop(key, None)
            self.followers.pop(key, None)
        for key, partition in changes.leaders.items():
            self.followers.pop(key, None)
            self.leaders[key] = partition
        for key, partition in changes.followers.items():
            self.leaders.pop(key, None)
            self.followers[key] = partition
