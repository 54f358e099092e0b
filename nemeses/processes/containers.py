"""The fault `container-kill`: the node's container is killed whole, not its process alone.

With the container goes its network namespace: cut and shaped links would heal silently, which is
why the heal measures that links which others have cut are silent again.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.backends.abilities import HostLoss
from cluster.backends.base import Backend, BackendError, NodeState, Probe
from nemeses.active_faults import leave_to_keeper
from nemeses.base import Injection, Parameters, View, add_measurement, name_of, names_of
from nemeses.processes.signals import ProcessFault

SILENCE_S = 0.3
"""How long a link that others have cut must stay silent after the heal."""


class ContainerKill(ProcessFault):
    """Containers are killed; the heal starts them again, each with its node (docker only).

    What other faults have in force in a container is applied anew.

    Parameters: targets (default random).
    """

    name = "container-kill"
    state = NodeState.DEAD
    leftover = NodeState.DEAD

    async def probe(self, view: View) -> Probe:
        abilities = view.backend.abilities()
        if abilities.hosts is not None:
            return await abilities.hosts.probe()
        reason = f"backend {view.backend.name} has no containers to kill"
        return Probe(possible=False, reason=reason, remedy="--backend docker")

    async def apply(self, backend: Backend, node: str, parameters: Parameters) -> None:  # noqa: ARG002
        """Kill it; returns when it is gone."""
        await _hosts(backend).lose(node)

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """Bring the container back if it is away, then the node."""
        if not await leave_to_keeper(view, node, injection):
            await _hosts(view.backend).bring_back(node)
            await super().undo(view, node, injection)

    async def verify(self, view: View, injection: Injection) -> Injection:
        """Measure that neither container nor node is there."""
        verified = await super().verify(view, injection)
        hosts = _hosts(view.backend)
        there = {node: await hosts.is_there(node) for node in injection.targets}
        wrong = [f"the container of {node} runs" for node, runs in there.items() if runs]
        return _with(verified, {"containers": there}, wrong)

    async def heal(self, view: View, injection: Injection) -> Injection:
        """See `Fault.heal`; measures also that other faults are in force in the container again."""
        healed = await super().heal(view, injection)
        backend = view.backend
        hosts = _hosts(backend)
        there = {node: await hosts.is_there(node) for node in injection.targets}
        wrong = [
            f"the container of {node} does not run" for node, runs in there.items() if not runs
        ]
        cut = sorted(link for link in backend.links_cut() if set(link) & set(injection.targets))
        leaking = []
        for link in cut:
            measure = await backend.measure_link(link, SILENCE_S)
            if (measure.by_source or measure.by_target) and link in backend.links_cut():
                leaking.append(name_of(link))
        wrong += [f"{name} is cut by another fault, and passes" for name in leaking]
        found = {"containers": there, "still_cut": names_of(cut)}
        return _with(healed, found, wrong)


def _hosts(backend: Backend) -> HostLoss:
    hosts = backend.abilities().hosts
    if hosts is None:
        raise BackendError(f"backend {backend.name} has no containers")
    return hosts


def _with(injection: Injection, found: Mapping[str, object], wrong: list[str]) -> Injection:
    reasons = [str(injection.detail["reason"])] if "reason" in injection.detail else []
    return add_measurement(injection, found, [*reasons, *wrong])
