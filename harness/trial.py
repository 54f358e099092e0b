"""Whether faults can work on a backend here, found out by trying, before a campaign starts.

A fault's probe may need the place to be up: a rule can only be tried where there is a namespace.
So what cannot be told of a backend that is down is asked again on a throw-away cluster of nodes
that do nothing (`cluster.systems.idle`), in a temporary folder and under a label of its own, which
is taken down again. No node of a campaign is ever touched by a probe.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random

from cluster.backends.base import Ability, Backend, BackendError, Probe
from cluster.backends.processes import TRIAL
from cluster.backends.trials import trial_folder
from cluster.systems.idle import IdleSystem
from cluster.values import valueclass
from harness.places import place_of
from harness.plan import Plan
from nemeses.base import Injection
from nemeses.registry import fault_named

_Act = Callable[[Backend], Awaitable[None]]

_NODES_MAX = 3
"""Enough for every probe: a leader, and others to cut it off from."""
PROBE_BOUND_S = 30.0
"""How long one probe may take until it counts as impossible."""


class TrialView:
    """What a fault's probe sees (`nemeses.base.View`): a place, and nobody who leads."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.random = Random("trial")
        self.active: list[Injection] = []

    async def leader(self) -> str | None:
        """Nobody leads: these nodes do nothing."""
        return None

    async def partition_leader(self) -> str | None:
        """And there are no topics."""
        return None


@valueclass
class Tried:
    """What was found out about one backend."""

    backend: Probe
    """Whether nodes can run there at all."""
    abilities: dict[str, Probe]
    """By `Ability`, its value."""
    faults: dict[str, Probe]


def try_faults(plan: Plan, kinds: Sequence[str]) -> dict[str, Probe]:
    """Probe these faults on the plan's backend. Raises BackendError where no node can run there."""
    found: dict[str, Probe] = {}

    async def ask(backend: Backend) -> None:
        unsure = [kind for kind in kinds if kind not in found or not found[kind].possible]
        found.update(await _probe_all(backend, unsure))

    _try(plan, ask, up=False)
    if not all(probe.possible for probe in found.values()):
        _try(plan, ask, up=True)
    return found


def try_backend(plan: Plan, kinds: Sequence[str]) -> Tried:
    """Probe the plan's backend, its abilities and these faults; raises nothing but an interrupt."""
    abilities: dict[str, Probe] = {}

    async def ask(backend: Backend) -> None:
        for ability in Ability:
            abilities[ability.value] = await _bounded(backend.probe(ability))

    try:
        _try(plan, ask, up=False)
        basic = abilities[Ability.PROCESSES.value]
        if not basic.possible:
            return Tried(basic, abilities, dict.fromkeys(kinds, basic))
        return Tried(Probe(possible=True), abilities, try_faults(plan, kinds))
    except (BackendError, OSError) as error:
        not_up = Probe(possible=False, reason=" ".join(str(error).split()))
        return Tried(not_up, abilities, dict.fromkeys(kinds, not_up))


def _try(plan: Plan, act: _Act, *, up: bool) -> None:
    """Act on a throw-away place of the plan's kind, on a loop of its own, and take it down."""
    small = replace(plan, nodes=min(plan.nodes, _NODES_MAX), mutant=None, node_settings={})
    with trial_folder() as folder:
        run_folder = folder / f"{TRIAL}{secrets.token_hex(4)}"
        with place_of(small, IdleSystem(), run_folder) as place:

            async def work() -> None:
                if not up:
                    await act(place.backend)
                    return
                try:
                    await place.backend.up()
                    await act(place.backend)
                finally:
                    await place.backend.down()

            place.run(work, lambda _: None)


async def _probe_all(backend: Backend, kinds: Sequence[str]) -> dict[str, Probe]:
    view = TrialView(backend)
    return {kind: await _bounded(fault_named(kind).probe(view)) for kind in kinds}


async def _bounded(asking: Awaitable[Probe]) -> Probe:
    try:
        async with asyncio.timeout(PROBE_BOUND_S):
            return await asking
    except TimeoutError:
        return Probe(possible=False, reason=f"the probe took longer than {PROBE_BOUND_S:g} s")
    except Exception as error:  # noqa: BLE001  (whatever a probe meets says that it cannot work)
        told = " ".join(str(error).split()) or type(error).__name__
        return Probe(possible=False, reason=told)
