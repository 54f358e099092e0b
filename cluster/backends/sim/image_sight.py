"""What changed in a node's metadata image since it was last looked at.

Images are large and most offsets change one partition, so a monitor that reads all of one at every
offset spends the world's time on it. Registrations are immutable and replaced when they change:
whatever is still the same object is unchanged. The node's own account of its changes is not asked;
it could be wrong.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TypeVar

from cluster.node.controller.state import (
    BrokerRegistration,
    ConfigKey,
    MetadataState,
    PartitionKey,
    PartitionRegistration,
    ResourceType,
    TopicImage,
)
from cluster.node.controller.timeline import CommittedMap, StateMap
from cluster.values import valueclass

K = TypeVar("K")
V = TypeVar("V")

_HASH_MASK = 2**64 - 1


@valueclass
class Changes:
    """What one look found that the one before it had not."""

    partitions: dict[PartitionKey, PartitionRegistration]
    """Partitions that are new or not what they were."""
    affected: dict[PartitionKey, PartitionRegistration]
    """Those, and the ones whose topic, configuration or brokers are not what they were."""


class ImageSight:
    """Looks at the committed image of one incarnation of a node, again and again."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.offset = -1
        """Of the image when it was looked at last."""
        self.looks = 0
        """How often it was looked at."""
        self.digest = 0
        """64 bits that two images with the same partitions share: a sum over their hashes."""
        self._topics: dict[uuid.UUID, TopicImage] = {}
        self._partitions: dict[PartitionKey, PartitionRegistration] = {}
        self._configs: dict[ConfigKey, str] = {}
        self._brokers: dict[int, BrokerRegistration] = {}
        self._features: dict[str, int] = {}

    def look(self, offset: int, state: MetadataState) -> Changes:
        """Compare an image with what it was at the last look."""
        self.offset = offset
        self.looks += 1
        before, self._partitions = self._partitions, _entries(state.partitions)
        changed: dict[PartitionKey, PartitionRegistration] = {}
        for key in _changed(before, self._partitions):
            old, new = before.get(key), self._partitions.get(key)
            for one, sign in ((old, -1), (new, 1)):
                if one is not None:
                    self.digest = (self.digest + sign * hash((key, one))) & _HASH_MASK
            if new is not None:
                changed[key] = new
        return Changes(changed, self._affected(state, changed))

    def _affected(
        self, state: MetadataState, changed: dict[PartitionKey, PartitionRegistration]
    ) -> dict[PartitionKey, PartitionRegistration]:
        topics, self._topics = self._topics, _entries(state.topics)
        configs, self._configs = self._configs, _entries(state.configs)
        brokers, self._brokers = self._brokers, _entries(state.brokers)
        features, self._features = self._features, _entries(state.features)
        resources = [resource for resource, _ in _changed(configs, self._configs)]
        if (
            brokers != self._brokers
            or features != self._features
            or any(resource.type != ResourceType.TOPIC for resource in resources)
        ):
            return self._partitions
        affected = dict(changed)
        touched = [topics.get(topic) for topic in _changed(topics, self._topics)]
        touched += [state.topic_by_name(resource.name) for resource in resources]
        for topic in touched:
            for index in range(topic.partition_count if topic is not None else 0):
                assert topic is not None
                one = self._partitions.get((topic.id, index))
                if one is not None:
                    affected[topic.id, index] = one
        return affected


def _entries(of: StateMap[K, V]) -> dict[K, V]:
    assert isinstance(of, CommittedMap), "an image holds what is committed"
    return of.entries()


def _changed(before: dict[K, V], after: dict[K, V]) -> Iterator[K]:
    """Yield the keys that were added, replaced or removed."""
    kept = 0
    for key, value in after.items():
        old = before.get(key)
        kept += old is not None
        if old is not value:
            yield key
    if kept < len(before):
        yield from (key for key in before if key not in after)
