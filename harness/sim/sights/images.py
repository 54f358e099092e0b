"""Shows committed metadata images of simulated nodes to the invariants of brokers.

`ImageWatch(world, watcher)` shows a node's image at its trace events `hw` (so in the state before
the high watermark moved), `ack` and `load-snapshot`, what it published first, that a snapshot is
due, that an active controller's image has no metadata.version, and whatever it finds partitions by
as it appends. Worlds without registered brokers have no such images.

Images are large and most offsets change a single partition, so reading a whole image at every
offset would dominate the simulation. Registrations are immutable and replaced when they change: an
entry that is still the same object is unchanged. The node's own list of changes is not used, since
it may be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import field
from dataclasses import fields as fields_of
from itertools import pairwise
from typing import Any, Final, TypeVar

from checkers.invariants.brokers import Image, Partition
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.world import SimWorld
from cluster.node.assembly import Node
from cluster.node.controller.configs.definitions import MIN_INSYNC_REPLICAS
from cluster.node.controller.metadata.feature_levels import METADATA_VERSION, is_elr_enabled
from cluster.node.controller.metadata.registrations import (
    has_online_replica,
    is_active,
    is_static,
    registered_brokers,
)
from cluster.node.controller.metadata.state import (
    ConfigResource,
    MetadataState,
    PartitionKey,
    PartitionRegistration,
    ResourceType,
    partition_marks,
)
from cluster.node.controller.metadata.timeline import IndexedTimelineMap
from cluster.node.controller.partitions.leadership import (
    UNCLEAN_LEADER_ELECTION,
    min_insync_replicas,
)
from cluster.node.controller.partitions.partition_change import RECOVERING
from cluster.node.controller.records.kinds import NO_LEADER
from cluster.values import valueclass
from harness.sim.sights.broker_view import differences

K = TypeVar("K")
V = TypeVar("V")

_HASH_MASK = 2**64 - 1
_INDEXES: Final = frozenset({"topic_names", "similar_names", "config_names"})
_COMPARED: Final = tuple(
    field.name for field in fields_of(MetadataState) if field.name not in _INDEXES
)
"""The maps of a state of which the others are indexes."""
_EVENTS = frozenset({"hw", "ack", "load-snapshot"})
_EVERY = 16
"""All partitions are read at every n-th image, or append, of an incarnation, beginning with the
first. That is expensive, and a difference persists."""


def _has_grown(node: Node) -> bool:
    """Whether a node has committed far more than it may between two snapshots that it began."""
    log, most_bytes = node.raft._core.log, 2 * node.controller._snapshots._max_bytes
    if log.size_bytes < most_bytes:
        return False
    committed, segments = log.high_watermark, log._log._segments
    first = max((at.offset for at in (*log.snapshots.ids, *log.snapshots._writing)), default=0)
    new_bytes = (
        each.size_bytes
        for each, following in pairwise(segments)
        if each.base_offset >= first and following.base_offset <= committed
    )
    return sum(new_bytes) >= most_bytes


class ImageWatch:
    """Shows the images of a world to a watcher."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self.images_checked = 0
        self._watcher = watcher
        self._due: Counter[tuple[str, int]] = Counter()
        """By node and incarnation: for how many commits a snapshot has been due."""
        self._sights: dict[str, ImageSight] = {}
        """Node -> sight of its latest incarnation."""
        self._heard: dict[tuple[str, int], int | None] = {}
        """By node and incarnation: the high watermark that it had heard of, before it published."""
        self._claims: dict[tuple[str, int], int] = {}
        """By node and incarnation: where its image ended as it claimed to be the controller."""
        self._appends: dict[tuple[str, int], int] = {}
        """By node and incarnation: appends of its controller that could find partitions."""
        world.observe(self._observe)

    def _look_at_publication(self, process: Incarnation, node: Node) -> None:
        """Show the first publication of an incarnation, if there was none at the event before."""
        at = process.name, process.incarnation
        if not node.controller.loader.is_published:
            self._heard[at] = node.raft.reported_high_watermark
        elif at in self._heard:
            heard, reported = self._heard.pop(at), node.raft.reported_high_watermark
            shown = {"offset": node.controller.image.offset, "high_watermark": heard}
            if heard is not None or reported is None:  # else it heard of one since
                self._watcher.take(process.name, "published", shown)

    def _look_at_snapshots(self, process: Incarnation, node: Node) -> None:
        """Show a commit for which a snapshot is due still."""
        at, controller = (process.name, process.incarnation), node.controller
        snapshots = controller._snapshots
        is_due = snapshots._bytes >= snapshots._max_bytes or _has_grown(node)
        is_due = is_due and not snapshots._is_writing
        if not is_due or controller.image.in_transaction or not controller.loader.has_caught_up:
            self._due[at] = 0
            return
        self._due[at] += 1
        self._watcher.take(process.name, "snapshot-due", {"commits": self._due[at]})

    def _look_at_controller(self, process: Incarnation, node: Node) -> None:
        """Show what an active controller has committed, if there is no metadata.version in it."""
        image = node.controller.image
        if node.controller.is_active and image.state.features.get(METADATA_VERSION) is None:
            shown = {
                "claimed": self._claims[process.name, process.incarnation],
                "offset": image.offset,
                "in_transaction": image.in_transaction,
                "has_version": False,
            }
            self._watcher.take(process.name, "controller-image", shown)

    def _look_at_marks(self, process: Incarnation, node: Node) -> None:
        """Show which partitions an active controller finds by their marks, and which bear them."""
        partitions = node.controller.speculative.state.partitions
        assert isinstance(partitions, IndexedTimelineMap), "an overlay's"
        index = partitions._marked._index
        if index is None:
            return  # it is made when it is first asked for
        at = process.name, process.incarnation
        self._appends[at] = self._appends.get(at, 0) + 1
        if self._appends[at] % _EVERY != 1:
            return
        having: dict[Hashable, list[str]] = {}
        for key, partition in partitions.entries().items():
            for mark in partition_marks(partition):
                having.setdefault(mark, []).append(_name(key))
        found = {
            mark: [_name(key) for key in partitions.keys_with(mark)]
            for mark in dict.fromkeys((*having, *index))
        }
        shown = {"found": found, "having": having}
        self._watcher.take(process.name, "partitions-found", shown)

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        if event == "append" and process.node is not None and process.node.controller.is_active:
            self._look_at_marks(process, process.node)
        if event == "claim":
            self._claims[process.name, process.incarnation] = fields["offset"]
        if process.node is not None:
            self._look_at_publication(process, process.node)
            if event == "hw":
                self._look_at_snapshots(process, process.node)
                self._look_at_controller(process, process.node)
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


def _name(key: PartitionKey) -> str:
    return f"{key[0]}-{key[1]}"


def _view(process: Incarnation, sight: ImageSight) -> str | None:
    """Compare what a broker has and goes by with its image, at every `_EVERY`-th image."""
    assert process.node is not None
    controller = process.node.controller
    if not controller.loader.is_published or sight.looks % _EVERY != 1:
        return None
    return differences(process.node, controller.image.state)


def image_of(
    offset: int, state: MetadataState, changes: Changes, digest: int, view: str | None = None
) -> Image:
    """Describe a state in the terms of the invariants."""
    brokers = tuple(registered_brokers(state))
    active = frozenset(broker.id for broker in brokers if is_active(state, broker.id))
    isr_mins: dict[str, int] = {}
    affected: dict[Hashable, Partition] = {
        key: _partition(state, key, registration, changes, (active, isr_mins))
        for key, registration in changes.affected.items()
    }
    return Image(
        offset,
        is_elr_enabled(state),
        {broker.id: (broker.epoch, broker.incarnation_id) for broker in brokers},
        {key: affected[key] for key in changes.partitions},
        affected,
        digest,
        view,
        tuple(name for name in changes.deleted if _is_stray(state, name)),
    )


def _is_stray(state: MetadataState, topic: str) -> bool:
    has_configs = bool(state.resource_configs(ConfigResource(ResourceType.TOPIC, topic)))
    return has_configs and state.topic_by_name(topic) is None


def _partition(
    state: MetadataState,
    key: PartitionKey,
    registration: PartitionRegistration,
    changes: Changes,
    known: tuple[frozenset[int], dict[str, int]],
) -> Partition:
    """`known`: the active brokers, and by topic the min.insync.replicas, once one was asked for."""
    topic, brokers, (active, isr_mins) = state.topics.get(key[0]), _brokers_of(registration), known
    if topic is not None and topic.name not in isr_mins:
        isr_mins[topic.name] = min_insync_replicas(state, topic.name)
    return Partition(
        name=f"{key[0] if topic is None else topic.name}-{key[1]}",
        topic_exists=topic is not None,
        leader=registration.leader,
        replicas=tuple(registration.replicas),
        isr=tuple(registration.isr),
        elr=tuple(registration.elr),
        leader_epoch=registration.leader_epoch,
        partition_epoch=registration.partition_epoch,
        is_recovering=registration.leader_recovery_state == RECOVERING,
        isr_min=1 if topic is None else isr_mins[topic.name],
        active=active & brokers,
        online=frozenset(
            broker for broker in brokers if has_online_replica(state, registration, broker)
        ),
        unplaced=frozenset(_without_directory(state, registration)) - changes.brokers
        if key in changes.partitions
        else frozenset(),
        last_known=tuple(registration.last_known_elr),
        takers=changes.takers.get(key, frozenset()),
    )


def _without_directory(state: MetadataState, registration: PartitionRegistration) -> Iterator[int]:
    for number, directory in zip(registration.replicas, registration.directories, strict=False):
        broker = state.brokers.get(number)
        if broker is not None and len(broker.log_dirs) == 1 and directory not in broker.log_dirs:
            yield number


def _brokers_of(registration: PartitionRegistration) -> set[int]:
    return {*registration.replicas, *registration.isr, registration.leader}


@valueclass
class Changes:
    """Differences between two consecutive looks at an image."""

    partitions: dict[PartitionKey, PartitionRegistration]
    """New or changed partitions."""
    affected: dict[PartitionKey, PartitionRegistration]
    """Those, and the partitions whose topic, configuration or brokers changed."""
    deleted: tuple[str, ...]
    """Names of topics that were deleted."""
    brokers: frozenset[int]
    """Those whose registration changed: by an earlier one a broker had other directories."""
    takers: dict[PartitionKey, frozenset[int]] = field(default_factory=dict)
    """As of `Partition`, of the partitions that have had none at the last look."""


class ImageSight:
    """Compares the committed image of an incarnation of a node with its last state."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.offset = -1
        """Offset of the image at the last look."""
        self.looks = 0
        """Number of looks."""
        self.digest = 0
        """Sum of the hashes of all that a snapshot holds, mod 2^64: equal for equal images."""
        self._maps: dict[str, dict[Any, Any]] = {name: {} for name in _COMPARED}
        self._takers: dict[PartitionKey, frozenset[int]] = {}
        """Of the partitions without a leader: the replicas that are alive."""

    def look(self, offset: int, state: MetadataState) -> Changes:
        """Compare an image with the last look."""
        self.offset = offset
        self.looks += 1
        before = self._maps
        self._maps = {name: getattr(state, name).entries() for name in _COMPARED}
        changed = {name: [*changed_keys(before[name], self._maps[name])] for name in _COMPARED}
        for name, keys in changed.items():
            for key in keys:
                for entries, sign in ((before[name], -1), (self._maps[name], 1)):
                    if key in entries:
                        term = sign * hash((name, key, entries[key]))
                        self.digest = (self.digest + term) & _HASH_MASK
        partitions: dict[PartitionKey, PartitionRegistration] = self._maps["partitions"]
        moved = {key: partitions[key] for key in changed["partitions"] if key in partitions}
        deleted = tuple(
            before["topics"][topic].name
            for topic in changed["topics"]
            if topic not in self._maps["topics"]
        )
        affected = self._affected_partitions(state, moved, before, changed)
        takers = self._new_takers(state, before)
        affected |= {key: partitions[key] for key in takers}
        return Changes(moved, affected, deleted, frozenset(changed["brokers"]), takers)

    def _new_takers(
        self, state: MetadataState, before: dict[str, dict[Any, Any]]
    ) -> dict[PartitionKey, frozenset[int]]:
        """Return who would lead by an unclean election that was allowed, and due since the last."""
        known, self._takers = self._takers, {}
        found = {}
        for key, held in self._maps["partitions"].items():
            if held.leader != NO_LEADER:
                continue
            takers = frozenset(
                each
                for each in held.replicas
                if is_active(state, each) and has_online_replica(state, held, each)
            )
            if not takers:
                continue
            self._takers[key] = takers
            old, topic = before["partitions"].get(key), self._maps["topics"].get(key[0])
            if old is None or old.replicas != held.replicas or topic is None or key in known:
                continue
            setting = ConfigResource(ResourceType.TOPIC, topic.name), UNCLEAN_LEADER_ELECTION
            if {"true"} == {maps["configs"].get(setting) for maps in (before, self._maps)}:
                found[key] = takers
        return found

    def _affected_partitions(
        self,
        state: MetadataState,
        moved: dict[PartitionKey, PartitionRegistration],
        before: dict[str, dict[Any, Any]],
        changed: dict[str, list[Any]],
    ) -> dict[PartitionKey, PartitionRegistration]:
        partitions: dict[PartitionKey, PartitionRegistration] = self._maps["partitions"]
        # No other configuration is in what the invariants see of a partition, and registers of the
        # workload are written to that of all brokers.
        resources = [
            resource for resource, name in changed["configs"] if name == MIN_INSYNC_REPLICAS
        ]
        if before["features"] != self._maps["features"] or any(
            resource.type != ResourceType.TOPIC for resource in resources
        ):
            return partitions
        affected = dict(moved)
        brokers = set(changed["brokers"])
        if brokers:
            affected |= {
                key: registration
                for key, registration in partitions.items()
                if not brokers.isdisjoint(_brokers_of(registration))
            }
        touched = [before["topics"].get(topic) for topic in changed["topics"]]
        touched += [state.topic_by_name(resource.name) for resource in resources]
        for topic in touched:
            for index in range(topic.partition_count if topic is not None else 0):
                assert topic is not None
                registration = partitions.get((topic.id, index))
                if registration is not None:
                    affected[topic.id, index] = registration
        return affected


def changed_keys(before: dict[K, V], after: dict[K, V]) -> Iterator[K]:
    """Yield the keys that were added, replaced or removed.

    Most keys are the same objects in the same order, and are not looked up: to hash one with an
    UUID takes longer than all else. What is added is behind them.
    """
    passed: dict[K, V] = {}
    """Keys of `before` that were not met in `after`, so far."""
    held = iter(before.items())
    for key, value in after.items():
        old: V | None
        for old_key, old in held:
            if old_key is key:
                break
            passed[old_key] = old
        else:
            old = passed.pop(key, None)
        if old is not value:
            yield key
    yield from passed
    yield from (key for key, _ in held)
