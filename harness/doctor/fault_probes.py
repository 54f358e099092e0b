"""Probes what a backend can do on this machine, by trying, before a campaign starts.

`doctor`, the refusal of a plan and `--skip-impossible` all use these probes. No result is cached
between commands, since a machine changes.

A fault's probe needs a running cluster: a packet filter's rule can only be tried in a namespace. So
all faults are probed on one throw-away cluster of nodes that do nothing (`cluster.systems.idle`),
with the surroundings that the faults need (mounts, preloaded libraries), in a temporary folder and
under a label of its own. A probe never touches a node of a campaign. If that cluster does not come
up, a second cluster without surroundings shows whether nodes can run at all. Then each surrounding
is tried by itself; if it keeps the cluster down, only the faults that need it are impossible.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from random import Random

from cluster.backends.base import Ability, Backend, BackendError, Probe
from cluster.backends.cleanup import trial_folder
from cluster.backends.processes.records import TRIAL
from cluster.backends.terms import Need, NoPlaceError
from cluster.systems.idle import IdleSystem
from cluster.systems.secured import RunSecurity
from cluster.values import valueclass
from harness.plan.plan import Plan, parameters_in
from harness.run.plan_backend import place_of
from harness.terminal.progress import Steps
from nemeses.at_once import OutOfTimeError, in_time
from nemeses.base import Injection, Parameters, View
from nemeses.links.partition import Partition
from nemeses.links.shaping import LINK_FAULTS
from nemeses.processes.signals import ProcessFault
from nemeses.registry import fault_named, needs_of

_Act = Callable[[Backend], Awaitable[None]]

_NODES_MAX = 3
"""Enough for every probe: a leader, and others to cut it off from."""
PROBE_BOUND_S = 30.0
"""A probe that takes longer than this counts as impossible."""
_QUICK = ("local", "sim")
_OF_LINKS = frozenset({Partition().name, *LINK_FAULTS})
NO_REMEDY = "none here; --skip-impossible runs a plan without it"


class TrialView:
    """The view of a probe (`nemeses.base.View`): a cluster without a leader."""

    bound_s = PROBE_BOUND_S

    def __init__(self, backend: Backend, controllers: tuple[str, ...]) -> None:
        """`controllers`: those of the plan, of which the cluster may have fewer."""
        self.backend = backend
        self.controllers = controllers
        self.random = Random("trial")
        self.active: list[Injection] = []

    async def leader(self) -> str | None:
        """Return None: idle nodes elect no leader."""
        return None

    async def partition_leader(self) -> str | None:
        """Return None: idle nodes have no topics."""
        return None


@valueclass
class Tried:
    """The probes of one backend."""

    backend: Probe
    """Whether nodes can run there at all."""
    abilities: Mapping[str, Probe]
    """By `Ability`, its value."""
    faults: Mapping[str, Probe]


def try_faults(plan: Plan, kinds: Sequence[str], steps: Steps) -> Mapping[str, Probe]:
    """Probe these faults on the plan's backend. Raises BackendError where no node can run there."""
    return _try(plan, kinds, (), steps).faults if kinds else {}


def try_backend(plan: Plan, kinds: Sequence[str], steps: Steps) -> Tried:
    """Probe the plan's backend, its abilities and these faults; raises nothing but an interrupt."""
    try:
        return _try(plan, kinds, tuple(Ability), steps)
    except (BackendError, OSError) as error:
        not_up = Probe(possible=False, reason=" ".join(str(error).split()))
        abilities = dict.fromkeys((ability.value for ability in Ability), not_up)
        return Tried(not_up, abilities, dict.fromkeys(kinds, not_up))


def _try(plan: Plan, kinds: Sequence[str], abilities: Sequence[Ability], steps: Steps) -> Tried:
    needs = needs_of(kinds)
    try:
        return _ask(plan, kinds, abilities, needs, steps)
    except BackendError as error:
        if not needs or isinstance(error, NoPlaceError):
            raise
        bare = _ask(plan, kinds, abilities, (), steps)
    found = dict(bare.faults)
    for need in sorted(needs):
        wanting = [kind for kind in kinds if need in needs_of([kind]) and found[kind].possible]
        try:
            found.update(_ask(plan, wanting, (), (need,), steps).faults if wanting else {})
        except BackendError as error:
            impossible = Probe(possible=False, reason=str(error), remedy=NO_REMEDY)
            found.update(dict.fromkeys(wanting, impossible))
    return Tried(bare.backend, bare.abilities, found)


def _ask(
    plan: Plan,
    kinds: Sequence[str],
    abilities: Sequence[Ability],
    needs: Collection[Need],
    steps: Steps,
) -> Tried:
    """Probe these on one throw-away cluster. Raises BackendError when it does not come up."""
    of_abilities: dict[str, Probe] = {}
    of_faults: dict[str, Probe] = {}

    async def act(backend: Backend) -> None:
        for ability in abilities:
            steps.step(f"probing whether {backend.name} can do {ability.value}")
            of_abilities[ability.value] = await _bound(backend.probe(ability))
        of_faults.update(await _probe_all(backend, plan, kinds, steps))

    with steps.show(at_once=plan.backend not in _QUICK):
        steps.step(f"probing {len(kinds)} faults on a throw-away cluster of backend {plan.backend}")
        _on_trial(plan, needs, act, steps)
    return Tried(Probe(possible=True), of_abilities, of_faults)


def _on_trial(plan: Plan, needs: Collection[Need], act: _Act, steps: Steps) -> None:
    """Act on a throw-away cluster of the plan's kind, on a loop of its own, and take it down."""
    nodes = min(plan.nodes, _NODES_MAX)
    small = replace(plan, nodes=nodes, mutant=None, node_settings={})
    system = IdleSystem(RunSecurity(plan.security, TRIAL).client())
    with trial_folder() as folder:
        run_folder = folder / f"{TRIAL}{secrets.token_hex(4)}"
        with place_of(small, system, run_folder, steps.step, needs=needs) as place:

            async def work() -> None:
                try:
                    await place.backend.up()
                    await act(place.backend)
                    steps.step("taking the throw-away cluster down")
                finally:
                    await place.backend.down()

            place.run(work, lambda _: None)


async def _probe_all(
    backend: Backend, plan: Plan, kinds: Sequence[str], steps: Steps
) -> dict[str, Probe]:
    """Probe link faults beside the others."""
    view = TrialView(backend, plan.nodes_at("CONTROLLER"))
    found: dict[str, Probe] = {}

    async def probe(some: Sequence[str]) -> None:
        for kind in some:
            steps.step(f"probing {kind} ({len(found)} of {len(kinds)} done)")
            found[kind] = await _bound(_probe(view, kind, parameters_in(plan, kind)))

    of_links = [kind for kind in kinds if kind in _OF_LINKS]
    others = [kind for kind in kinds if kind not in of_links]
    await asyncio.gather(probe(of_links), probe(others))
    return {kind: found[kind] for kind in kinds}


async def _probe(view: View, kind: str, asked: Sequence[Parameters]) -> Probe:
    """Probe a fault, and the parameters that a plan gives it."""
    fault = fault_named(kind)
    probe = await fault.probe(view)
    if probe.possible and isinstance(fault, ProcessFault):
        lacking = filter(None, (fault.lacking(view, parameters) for parameters in asked))
        reason = next(lacking, "")
        return Probe(possible=not reason, reason=reason)
    return probe


async def _bound(asking: Awaitable[Probe]) -> Probe:
    """Await a probe within the bound; an impossible result without a remedy gets NO_REMEDY."""
    try:
        probe = await in_time(asking, PROBE_BOUND_S)
    except OutOfTimeError:
        reason = f"the probe took longer than {PROBE_BOUND_S:g} s"
        probe = Probe(possible=False, reason=reason, remedy="try again when the machine is idle")
    except Exception as error:  # noqa: BLE001  (any error of a probe means that it cannot work)
        failure = " ".join(str(error).split()) or type(error).__name__
        probe = Probe(possible=False, reason=failure)
    return probe if probe.possible or probe.remedy else replace(probe, remedy=NO_REMEDY)
