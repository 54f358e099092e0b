"""What must hold of brokers and partitions in a simulated world, on every node's image.

| property | says | source |
|---|---|---|
| valid-brokers | ISR, ELR, leaders and fencing fit each other | KIP-966's specification |
| image-agreement | images at one offset hold the same brokers and partitions | snapshot == log prefix |
| broker-epoch | a broker's epoch grows with each incarnation, and with nothing else | KIP-631 |
| broker-view | what a broker was published is what its image holds | MetadataPublisher |
| partition-epochs | leader and partition epochs never decrease; a new leader epoch is a new partition epoch | KIP-841 |

An image is looked at when its node tells that the high watermark moved, so in the state before that
move, and whenever it acknowledges. Worlds without registered brokers cost nothing.
"""

# ruff: noqa: E501  (the table)

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable

from cluster.backends.sim.hooks import TraceFields
from cluster.backends.sim.image_sight import Changes, ImageSight
from cluster.backends.sim.process import Process
from cluster.backends.sim.world import SimWorld
from cluster.node.controller.invariants import broken_invariants
from cluster.node.controller.registrations import is_static, registered_brokers
from cluster.node.controller.state import MetadataState

Violated = Callable[[str, str, str], None]
"""(property, explanation, node)."""

_EVENTS = frozenset({"hw", "ack", "load-snapshot"})
_VIEWS_EVERY = 16
"""Of the images of one incarnation, every how many, from the first on, the broker's own view is
compared with all partitions: what is wrong stays wrong, and to compare is much work."""
_REMEMBERED_MAX = 5_000
"""Offsets whose content is remembered, the newest; nodes do not lag behind by more for long."""


class BrokerMonitor:
    """Watches a world from its beginning."""

    def __init__(self, world: SimWorld, violated: Violated) -> None:
        self.images_checked = 0
        self._violated = violated
        self._sights: dict[str, ImageSight] = {}
        """By node, of its latest incarnation."""
        self._contents: dict[int, tuple[str, Hashable]] = {}
        self._newest_offset = -1
        self._brokers: dict[int, tuple[int, uuid.UUID]] = {}
        self._partitions: dict[tuple[uuid.UUID, int], tuple[int, int]] = {}
        world.observers.append(self._observe)

    def _observe(self, process: Process, event: str, fields: TraceFields) -> None:
        del fields
        if event not in _EVENTS or process.node is None:
            return
        image = process.node.controller.image
        sight = self._sights.get(process.name)
        if sight is None or sight.incarnation != process.incarnation:
            sight = self._sights[process.name] = ImageSight(process.incarnation)
        offset, state = image.offset, image.state
        if offset == sight.offset or image.in_transaction or is_static(state):
            return
        self.images_checked += 1
        changes = sight.look(offset, state)
        for reason in broken_invariants(state, changes.affected.items()):
            self._violated("valid-brokers", f"at offset {offset} {reason}", process.name)
        publisher = process.node.publisher
        if (
            publisher is not None
            and process.node.controller.loader.is_published
            and sight.looks % _VIEWS_EVERY == 1
        ):
            difference = publisher.differences(state)
            if difference is not None:
                self._violated("broker-view", f"at offset {offset} {difference}", process.name)
        self._agree(process.name, sight, state)
        if offset > self._newest_offset:
            self._newest_offset = offset
            self._advance(process.name, offset, state, changes)

    def _agree(self, name: str, sight: ImageSight, state: MetadataState) -> None:
        offset, content = sight.offset, (tuple(registered_brokers(state)), sight.digest)
        other, known = self._contents.setdefault(offset, (name, content))
        if known != content:
            told = f"images of {other} and {name} differ at offset {offset}"
            self._violated("image-agreement", told, name)
        if len(self._contents) > _REMEMBERED_MAX:
            del self._contents[next(iter(self._contents))]

    def _advance(self, name: str, offset: int, state: MetadataState, changes: Changes) -> None:
        for broker in registered_brokers(state):
            epoch, incarnation = self._brokers.get(broker.id, (-1, broker.incarnation_id))
            same = incarnation == broker.incarnation_id
            if broker.epoch < epoch or (not same and broker.epoch == epoch):
                told = f"broker {broker.id} went from epoch {epoch} to {broker.epoch} by {offset}"
                self._violated("broker-epoch", told, name)
            self._brokers[broker.id] = (broker.epoch, broker.incarnation_id)
        for key, one in changes.partitions.items():
            before = self._partitions.get(key, (-1, -1))
            after = (one.leader_epoch, one.partition_epoch)
            if (
                after[0] < before[0]
                or after[1] < before[1]
                or (after[0] > before[0] and after[1] == before[1])
            ):
                told = (
                    f"partition {key[1]} of topic {key[0]} went from leader epoch {before[0]}, "
                    f"partition epoch {before[1]} to {after[0]}, {after[1]} by offset {offset}"
                )
                self._violated("partition-epochs", told, name)
            self._partitions[key] = after
