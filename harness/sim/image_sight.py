"""What the invariants of brokers may see of a simulated node: its committed metadata image.

`ImageWatch(world, watcher)` shows each image when its node traces that the high watermark moved,
so in the state before that move, and whenever it acknowledges. Worlds without registered brokers
cost nothing.

Images are large and most offsets change one partition, so a monitor that reads all of one at every
offset spends the world's time on it. Registrations are immutable and replaced when they change:
whatever is still the same object is unchanged. The node's own account of its changes is not asked;
it could be wrong.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Iterator, Mapping
from typing import TypeVar

from checkers.invariants.brokers import Image, Partition
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.hooks import TraceFields
from cluster.backends.sim.process import Process
from cluster.backends.sim.world import SimWorld
from cluster.node.controller.feature_levels import is_elr_enabled
from cluster.node.controller.leadership import min_insync_replicas
from cluster.node.controller.partition_change import RECOVERING
from cluster.node.controller.registrations import (
    has_online_replica,
    is_active,
    is_static,
    registered_brokers,
)
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
_EVENTS = frozenset({"hw", "ack", "load-snapshot"})
_VIEWS_EVERY = 16
"""Of the images of one incarnation, every how many, from the first on, the broker's own view is
compared with all partitions: what is wrong stays wrong, and to compare is much work."""


class ImageWatch:
    """Shows the images of a world to a watcher, from the beginning on."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self.images_checked = 0
        self._watcher = watcher
        self._sights: dict[str, ImageSight] = {}
        """By node, of its latest incarnation."""
        world.observers.append(self._observe)

    def _observe(self, process: Process, event: str, fields: TraceFields) -> None:
        del fields
        if event not in _EVENTS or process.node is None:
            return
        image = process.node.controller.image
        sight = self._sights.get(process.name)
        if sight is None or sight.incarnation != process.incarnation:
            sight = self._sights[process.name] = ImageSight(process.incarnation)
        if image.offset == sight.offset or image.in_transaction or is_static(image.state):
            return
        self.images_checked += 1
        changes = sight.look(image.offset, image.state)
        shown = image_of(image.offset, image.state, changes, sight.digest, _view(process, sight))
        self._watcher.take(process.name, "image", {"image": shown})


def _view(process: Process, sight: ImageSight) -> str | None:
    """Compare what a broker was published with its image, now and then."""
    assert process.node is not None
    publisher, controller = process.node.publisher, process.node.controller
    due = controller.loader.is_published and sight.looks % _VIEWS_EVERY == 1
    if publisher is None or not due:
        return None
    return publisher.differences(controller.image.state)


def image_of(
    offset: int, state: MetadataState, changes: Changes, digest: int, view: str | None = None
) -> Image:
    """Describe a state in the terms of the invariants."""
    brokers = tuple(registered_brokers(state))
    return Image(
        offset,
        is_elr_enabled(state),
        {broker.id: (broker.epoch, broker.incarnation_id) for broker in brokers},
        partitions_of(state, changes.partitions),
        partitions_of(state, changes.affected),
        (brokers, digest),
        view,
    )


def partitions_of(
    state: MetadataState, among: Mapping[PartitionKey, PartitionRegistration]
) -> dict[Hashable, Partition]:
    """Describe some partitions of a state."""
    return {key: _partition(state, key, one) for key, one in among.items()}


def _partition(state: MetadataState, key: PartitionKey, one: PartitionRegistration) -> Partition:
    topic = state.topics.get(key[0])
    brokers = {*one.replicas, *one.isr, one.leader}
    return Partition(
        name=f"{key[0] if topic is None else topic.name}-{key[1]}",
        topic_exists=topic is not None,
        leader=one.leader,
        replicas=tuple(one.replicas),
        isr=tuple(one.isr),
        elr=tuple(one.elr),
        leader_epoch=one.leader_epoch,
        partition_epoch=one.partition_epoch,
        is_recovering=one.leader_recovery_state == RECOVERING,
        isr_min=1 if topic is None else min_insync_replicas(state, topic.name),
        active=frozenset(broker for broker in brokers if is_active(state, broker)),
        online=frozenset(broker for broker in brokers if has_online_replica(state, one, broker)),
    )


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
