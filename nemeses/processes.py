"""Faults of processes: kill, pause and restart.

All three act on nodes that are named by `targets` (`nemeses.targets`), all of them at once, and
are measured by what the operating system says of the processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar

from cluster.backends.base import Ability, Backend, BackendError, NodeState, Probe, ProcessIdentity
from nemeses.base import Injection, ParameterError, Parameters, View, refused
from nemeses.legality import GRACEFUL_RESTART, refusals
from nemeses.targets import check_keys, check_target, choose


class ProcessFault:
    """What kill, pause and restart have in common."""

    name: ClassVar[str]
    ability: ClassVar[Ability]
    state: ClassVar[NodeState]
    """What the operating system shows of a target while the fault bites."""
    leftover: ClassVar[NodeState]
    """What it shows of a target that is not healed."""
    keys: ClassVar[tuple[str, ...]] = ("targets",)
    favourites: ClassVar[tuple[str, ...]]
    """Targets that a random schedule chooses from."""

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        """See `Fault.check`."""
        check_keys(self.name, parameters, self.keys)
        check_target(parameters.get("targets", "random"), nodes)

    def options(self, nodes: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
        """See `Fault.options`."""
        no_minority = len(nodes) < 3
        return tuple(
            {"targets": target}
            for target in self.favourites
            if not (target == "minority" and no_minority)
        )

    async def probe(self, view: View) -> Probe:
        """See `Fault.probe`."""
        return await view.backend.probe(self.ability)

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        """See `Fault.inject`."""
        self.check(parameters, view.backend.nodes)
        unable = await refusals(self.rule(parameters), view.backend)
        choice = await choose(view, parameters.get("targets", "random"), unable)
        if not choice.nodes:
            return refused(self.name, parameters, choice.reason)
        backend = view.backend
        before = {node: _name(await backend.process(node)) for node in choice.nodes}
        errors = await _for_each(choice.nodes, lambda node: self.apply(backend, node, parameters))
        detail = {"processes_before": before} | ({"errors": errors} if errors else {})
        return Injection(
            self.name, dict(parameters), choice.nodes, verified=False, detail=detail, applied=True
        )

    async def verify(self, view: View, injection: Injection) -> Injection:
        """See `Fault.verify`."""
        states = {node: await view.backend.state(node) for node in injection.targets}
        after = {node: _name(await view.backend.process(node)) for node in injection.targets}
        wrong = [
            f"{node} is {state}" for node, state in states.items() if state is not self.state
        ] + self.complaints(injection, after)
        detail = {**injection.detail, "processes_after": after}
        return _measured(replace(injection, detail=detail), states, wrong)

    async def heal(self, view: View, injection: Injection) -> Injection:
        """See `Fault.heal`."""
        errors = await _for_each(injection.targets, lambda node: self.undo(view.backend, node))
        states = {node: await view.backend.state(node) for node in injection.targets}
        wrong = [
            errors.get(node, f"{node} is {state}")
            for node, state in states.items()
            if node in errors or state is self.leftover
        ]
        return _measured(injection, states, wrong)

    def rule(self, parameters: Parameters) -> str:  # noqa: ARG002  (restart's depends on them)
        """Name the row of the legality table."""
        return self.name

    async def apply(self, backend: Backend, node: str, parameters: Parameters) -> None:
        """Hit one node."""
        raise NotImplementedError

    async def undo(self, backend: Backend, node: str) -> None:
        """Undo what is left of it on one node: start it if it is dead."""
        if await backend.state(node) is NodeState.DEAD:
            await backend.start(node)

    def complaints(self, injection: Injection, after: dict[str, str | None]) -> list[str]:  # noqa: ARG002
        """Say what is wrong about the processes that the targets have now."""
        return []


class Kill(ProcessFault):
    """Nodes are killed (SIGKILL); the heal starts them again and waits until they answer.

    Parameters: targets (default random).
    """

    name = "kill"
    ability = Ability.PROCESSES
    state = NodeState.DEAD
    leftover = NodeState.DEAD
    favourites = ("leader", "random", "minority", "majority", "all")

    async def apply(self, backend: Backend, node: str, parameters: Parameters) -> None:  # noqa: ARG002
        """Kill it; returns when it is gone."""
        await backend.kill(node)


class Pause(ProcessFault):
    """Nodes are stopped (SIGSTOP) and go on at the heal (SIGCONT).

    Parameters: targets (default random).
    """

    name = "pause"
    ability = Ability.SIGNALS
    state = NodeState.PAUSED
    leftover = NodeState.PAUSED
    favourites = ("leader", "random", "minority", "majority")

    async def apply(self, backend: Backend, node: str, parameters: Parameters) -> None:  # noqa: ARG002
        """Stop it; returns when the operating system shows it stopped."""
        await backend.pause(node)

    async def undo(self, backend: Backend, node: str) -> None:
        """Continue it if it is paused; a node that died meanwhile is another fault's."""
        if await backend.state(node) is NodeState.PAUSED:
            await backend.resume(node)


class Restart(ProcessFault):
    """Nodes are ended and started again at once; several together, not in turn.

    Parameters: targets (default random); graceful (default false): SIGTERM, else SIGKILL.
    Heal starts what a failed restart left dead.
    """

    name = "restart"
    ability = Ability.PROCESSES
    state = NodeState.RUNNING
    leftover = NodeState.DEAD
    keys = ("targets", "graceful")
    favourites = ("leader", "random", "minority")

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        """See `Fault.check`."""
        super().check(parameters, nodes)
        graceful = parameters.get("graceful", False)
        if not isinstance(graceful, bool):
            raise ParameterError(f"graceful of restart must be true or false, not {graceful!r}")

    def options(self, nodes: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
        """See `Fault.options`."""
        return tuple(
            {**option, "graceful": graceful}
            for option in super().options(nodes)
            for graceful in (False, True)
        )

    def rule(self, parameters: Parameters) -> str:
        """Graceful needs more of a node."""
        return GRACEFUL_RESTART if parameters.get("graceful") else self.name

    async def apply(self, backend: Backend, node: str, parameters: Parameters) -> None:
        """End it, start it; returns when it answers."""
        if parameters.get("graceful"):
            await backend.stop(node)
        else:
            await backend.kill(node)
        await backend.start(node)

    def complaints(self, injection: Injection, after: dict[str, str | None]) -> list[str]:
        """Every target must be another process than before."""
        before = injection.detail["processes_before"]
        return [
            f"{node} is the same process as before"
            for node in injection.targets
            if before[node] == after[node]
        ]


async def _for_each(nodes: Iterable[str], act: Callable[[str], Awaitable[None]]) -> dict[str, str]:
    """Act on all nodes at once; returns what went wrong, by node."""

    async def guarded(node: str) -> tuple[str, str] | None:
        try:
            await act(node)
        except BackendError as error:
            return node, str(error)
        return None

    results = await asyncio.gather(*(guarded(node) for node in nodes))
    return dict(result for result in results if result is not None)


def _measured(
    injection: Injection, states: dict[str, NodeState], wrong: Iterable[str]
) -> Injection:
    detail = {key: value for key, value in injection.detail.items() if key != "reason"}
    detail["states"] = {node: str(state) for node, state in states.items()}
    reason = "; ".join(wrong)
    if reason:
        detail["reason"] = reason
    return replace(injection, verified=not reason, detail=detail)


def _name(process: ProcessIdentity | None) -> str | None:
    return None if process is None else f"{process.pid}:{process.started}"
