"""Asks the active controller of a simulated world what it would do, and has it do nothing.

`WhatIfs(world, watcher)` puts some questions whenever that controller's image has moved, to the
functions of the node that decide it, in that image: requests that are wrong whatever a cluster
holds, settings at their bounds, requests whose answer the image decides (`decided_requests`), right
ones that follow each other (`metadata_walk`), and batches. Nothing is appended: a world is the same
whether it is asked or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from random import Random
from typing import Any, Final

from checkers.invariants.watcher import Watcher
from cluster.backends.sim.world import SimWorld
from cluster.node.assembly import Node
from cluster.node.controller.metadata.feature_levels import is_elr_enabled
from cluster.node.controller.metadata.registrations import is_static
from cluster.node.controller.metadata.state import MetadataState
from harness.sim.requests.batches import judged_batches
from harness.sim.requests.decided import (
    Decision,
    answer,
    decisions,
    described_settings,
    settings,
)
from harness.sim.requests.metadata_walk import walk
from workloads.data.wrong_requests import WRONG, errors_of

_EVERY_MS: Final = 20.0
_AT_ONCE: Final = 3
_SELDOM: Final = 0.1
_WRONG: Final = tuple(WRONG.items())


class WhatIfs:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._world = world
        self._watcher = watcher
        self._asked: dict[str, tuple[int, int]] = {}
        """By node: process and offset of the image that it was asked about last."""
        self._random = Random(f"what-ifs/{world.seed}")
        self._of_batches = Random(f"batches/{world.seed}")
        self._settings: dict[str, Iterator[Decision]] = {}
        """By node: those that it may have, or may not, in turn."""
        world.scheduler.call_later(_EVERY_MS, self._ask_all)

    def _ask_all(self) -> None:
        for host, process, node in self._world.running():
            image = node.controller.image
            at = process.incarnation, image.offset
            if not node.controller.is_active or self._asked.get(host.name) == at:
                continue
            self._asked[host.name] = at
            if is_elr_enabled(image.state) and not image.in_transaction:
                try:
                    self._ask(host.name, node)
                except Exception as error:  # noqa: BLE001  (whatever it is, the node raised it)
                    node.raft.fail(error)
        self._world.scheduler.call_later(_EVERY_MS, self._ask_all)

    def _ask(self, name: str, node: Node) -> None:
        state, random = node.controller.image.state, self._random
        for what, wrong in random.sample(_WRONG, _AT_ONCE):
            asked = what, wrong.request, wrong.errors
            self._decide(name, "refusal", asked, (node, state, wrong.is_of_broker))
        if name not in self._settings:
            every = list(settings(node))
            self._settings[name] = cycle(random.sample(every, len(every)))
        for asked in islice(self._settings[name], 2 * _AT_ONCE):
            self._decide(name, "refusal", asked, (node, state, True))
        if random.random() < _SELDOM:
            rows, known = described_settings(node, state)
            shown = {"of": "settings of a broker", "rows": rows, "known": known}
            self._watcher.take(name, "cluster-answer", shown)
            for what, errors, right in judged_batches(self._of_batches):
                said: dict[str, Any] = {"what": what, "errors": errors, "right": right}
                self._watcher.take(name, "decision", said)
        if random.random() < _SELDOM and not is_static(state):
            for what, errors, right in walk(node, random):
                said = {"what": what, "errors": errors, "right": right}
                self._watcher.take(name, "decision", said)
        for _ in range(_AT_ONCE):
            among = list(decisions(node, state, random))
            for asked in random.sample(among, min(len(among), _AT_ONCE)):
                self._decide(name, "decision", asked, (node, state, True))

    def _decide(
        self, name: str, event: str, decision: Decision, by: tuple[Node, MetadataState, bool]
    ) -> None:
        (what, request, right), (node, state, is_of_broker) = decision, by
        response, count = answer(request, node, state, is_of_broker=is_of_broker)
        errors = errors_of(response)
        if count and ("none",) not in right:
            errors = ["none"] * len(errors)  # it is done, whatever is said
        self._watcher.take(name, event, {"what": what, "errors": errors, "right": right})
