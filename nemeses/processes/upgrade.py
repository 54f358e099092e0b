"""A node becomes the next release of its system, or the one before, as an operator makes it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

from cluster.backends.base import Ability, Backend, NodeState
from nemeses.base import Injection, Parameters, Refusal, View, releases_of
from nemeses.node_fault import TOOK_MS
from nemeses.processes.signals import ProcessFault
from nemeses.queries import until

UPGRADE: Final = "upgrade"
STEPS: Final[Mapping[str, int]] = {"next": 1, "previous": -1}
PRINTED_WITHIN_S = 60.0
"""A broker of Kafka prints its release once it has joined its cluster, some 10 s after its start;
later while a fault keeps it from the leader."""
LEGAL_WITHIN_S = 30.0
"""How long an upgrade waits for a node that runs: an operator stops none that another one needs."""

_turns: WeakKeyDictionary[Backend, asyncio.Lock] = WeakKeyDictionary()
"""Whose injection it is ..."""
_one_by_one: WeakKeyDictionary[Backend, asyncio.Lock] = WeakKeyDictionary()
"""... and which of its nodes' turn."""


class Upgrade(ProcessFault):
    """A node ends (SIGTERM) and starts as the plan's next release, or as the one before, for good.

    Parameters: targets (default random), to ("next", the default, or "previous"). Of a cluster one
    node at a time: the next waits until this one has printed its release, at most
    `PRINTED_WITHIN_S`. It bit when the process that runs then has printed the wanted release. The
    heal starts what is dead.
    """

    name = UPGRADE
    needs = "releases"
    ability = Ability.PROCESSES
    state = NodeState.RUNNING
    leftover = NodeState.DEAD
    choices: ClassVar = {"to": tuple(STEPS)}
    favourites = ("random", "leader", "follower")

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        """See `Fault.inject`. Waits for its turn, and for a node that it may act on."""

        async def attempt() -> Injection | None:
            begun_s = loop.time()
            try:
                injection = await super(Upgrade, self).inject(view, parameters)
            except Refusal as refusal:
                refused.append(refusal)
                return None
            took_ms = round((loop.time() - begun_s) * 1000)
            return replace(injection, detail={**injection.detail, TOOK_MS: took_ms})

        loop = asyncio.get_running_loop()
        refused: list[Refusal] = []
        async with _turns.setdefault(view.backend, asyncio.Lock()):
            before = self._names_after(view, 0)
            wanted = self._names_after(view, STEPS[parameters.get("to", "next")])
            injection = await until(attempt, LEGAL_WITHIN_S)
        if injection is None:
            raise refused[-1]
        detail = {
            "from": {node: before[node] for node in injection.targets},
            "to": {node: wanted[node] for node in injection.targets},
        }
        return replace(injection, detail={**injection.detail, **detail})

    def _names_after(self, view: View, step: int) -> dict[str, str]:
        """Return the release of each node, a step from the one that it has."""
        releases = releases_of(view)
        numbers = {node: releases.number(node) + step for node in view.backend.nodes}
        last = len(releases.names) - 1
        return {
            node: releases.names[number] for node, number in numbers.items() if 0 <= number <= last
        }

    def unable(self, view: View, parameters: Parameters) -> dict[str, str]:
        """Name the nodes that have no further release."""
        able = self._names_after(view, STEPS[parameters.get("to", "next")])
        others = (node for node in view.backend.nodes if node not in able)
        return dict.fromkeys(others, "there is no further release")

    async def apply(self, backend: Backend, node: str, parameters: Parameters) -> None:
        """End it, start it as the other release; returns when it has printed a release."""
        releases = backend.abilities().releases
        assert releases is not None, "it was injected"
        number = releases.number(node) + STEPS[parameters.get("to", "next")]
        async with _one_by_one.setdefault(backend, asyncio.Lock()):
            await backend.stop(node)
            await releases.choose(node, number)
            await backend.start(node)
            await until(partial(releases.measure, node), PRINTED_WITHIN_S)

    async def verify(self, view: View, injection: Injection) -> Injection:
        """See `Fault.verify`. Asks what the processes printed."""
        releases = releases_of(view)
        printed = {node: await releases.measure(node) for node in injection.targets}
        detail = {**injection.detail, "printed": printed}
        return await super().verify(view, replace(injection, detail=detail))

    def complaints(self, injection: Injection, after: dict[str, str | None]) -> list[str]:
        """Check that every target runs as a new process, of the wanted release."""
        wrong = []
        for node in injection.targets:
            before, printed, wanted = (
                injection.detail[key][node] for key in ("processes_before", "printed", "to")
            )
            if before == after[node]:
                wrong.append(f"{node} is the same process as before")
            elif printed != wanted:
                wrong.append(f"{node} printed {printed or 'no release'}, not {wanted}")
        return wrong
