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
from cluster.backends.sim.process import Process
from cluster.backends.sim.world import SimWorld
from cluster.controller.invariants import broken_invariants
from cluster.controller.registrations import is_static, partitions, registered_brokers
from cluster.controller.state import MetadataState

Violated = Callable[[str, str, str], None]
"""(property, explanation, node)."""

_EVENTS = frozenset({"hw", "ack", "load-snapshot"})
_REMEMBERED_MAX = 5_000
"""Offsets whose content is remembered, the newest; nodes do not lag behind by more for long."""


class BrokerMonitor:
    """Watches a world from its beginning."""

    def __init__(self, world: SimWorld, violated: Violated) -> None:
        self.images_checked = 0
        self._violated = violated
        self._seen: dict[tuple[str, int], int] = {}
        """Offset up to which each incarnation of a node was looked at."""
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
        who = (process.name, process.incarnation)
        offset = image.offset
        if offset == self._seen.get(who) or image.in_transaction or is_static(image.state):
            return
        self._seen[who] = offset
        self.images_checked += 1
        for reason in broken_invariants(image.state):
            self._violated("valid-brokers", f"at offset {offset} {reason}", process.name)
        publisher = process.node.publisher
        if publisher is not None and process.node.controller.loader.is_published:
            difference = publisher.differences(image.state)
            if difference is not None:
                self._violated("broker-view", f"at offset {offset} {difference}", process.name)
        self._agree(process.name, offset, image.state)
        if offset > self._newest_offset:
            self._newest_offset = offset
            self._advance(process.name, offset, image.state)

    def _agree(self, name: str, offset: int, state: MetadataState) -> None:
        content = (
            tuple(registered_brokers(state)),
            tuple(sorted(partitions(state), key=lambda item: (item[0][0].int, item[0][1]))),
        )
        other, known = self._contents.setdefault(offset, (name, content))
        if known != content:
            told = f"images of {other} and {name} differ at offset {offset}"
            self._violated("image-agreement", told, name)
        if len(self._contents) > _REMEMBERED_MAX:
            del self._contents[next(iter(self._contents))]

    def _advance(self, name: str, offset: int, state: MetadataState) -> None:
        for broker in registered_brokers(state):
            epoch, incarnation = self._brokers.get(broker.id, (-1, broker.incarnation_id))
            same = incarnation == broker.incarnation_id
            if broker.epoch < epoch or (not same and broker.epoch == epoch):
                told = f"broker {broker.id} went from epoch {epoch} to {broker.epoch} by {offset}"
                self._violated("broker-epoch", told, name)
            self._brokers[broker.id] = (broker.epoch, broker.incarnation_id)
        for key, one in partitions(state):
            before = self._partitions.get(key, (-1, -1))
            after = (one.leader_epoch, one.partition_epoch)
            if (
                after[0] < before[0]
                or after[1] < before[1]
                or (after[0] > before[0] and after[1] == before[1])
            ):
                told = f"partition {key} went from epochs {before} to {after} by offset {offset}"
                self._violated("partition-epochs", told, name)
            self._partitions[key] = after
