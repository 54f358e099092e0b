"""Faults of processes: kill, stop, pause and restart.

All act on nodes that are named by `targets` (`nemeses.targets`), all of them at once, and
are measured by what the operating system says of the processes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, get_args

from cluster.backends.abilities import Keep
from cluster.backends.base import Ability, Backend, BackendError, NodeState, ProcessIdentity
from nemeses.active_faults import GRACEFUL_RESTART, keeper, refusals
from nemeses.base import (
    Injection,
    Parameters,
    Refusal,
    View,
    add_measurement,
    application,
    before_acting,
)
from nemeses.fault_kind import FaultKind
from nemeses.node_fault import is_first_heal, on_each, start_if_dead
from nemeses.targets import choose


class ProcessFault(FaultKind):
    """What they have in common."""

    state: ClassVar[NodeState]
    """State of a target, as the operating system reports it, while the fault is in force."""
    leftover: ClassVar[NodeState]
    """What it shows of a target that is not healed."""

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        self.check(parameters, view.backend.nodes)
        if reason := self.lacking(view, parameters):
            raise Refusal(reason)
        backend = view.backend
        with before_acting():
            unable = {
                **self.unable(view, parameters),
                **await refusals(self.rule(parameters), backend),
            }
            nodes = await choose(view, parameters.get("targets", "random"), unable)
            before = {node: _name(await backend.process(node)) for node in nodes}
        if dead := [node for node, process in before.items() if process is None]:
            # No row of the table lets a fault act on a process that is gone: it would have no
            # effect of its own, and show the state that another one brought about.
            raise Refusal(f"{', '.join(dead)} died meanwhile")
        errors = await _for_each(nodes, lambda node: self.apply(backend, node, parameters))
        detail = {"processes_before": before, **self.extra_detail(backend, parameters)}
        if errors:
            detail["errors"] = errors
        return application(self.name, parameters, nodes, detail)

    async def verify(self, view: View, injection: Injection) -> Injection:
        states = {node: await view.backend.state(node) for node in injection.targets}
        after = {node: _name(await view.backend.process(node)) for node in injection.targets}
        wrong = [
            f"{node} is {state}" for node, state in states.items() if state is not self.state
        ] + self.complaints(injection, after)
        detail = {**injection.detail, "processes_after": after}
        return _measure(replace(injection, detail=detail), states, wrong)

    async def heal(self, view: View, injection: Injection) -> Injection:
        errors = await _for_each(injection.targets, lambda node: self.undo(view, node, injection))
        states = {node: await view.backend.state(node) for node in injection.targets}
        wrong = [
            errors.get(node, f"{node} is {state}")
            for node, state in states.items()
            if node in errors
            or (state is self.leftover and await self.is_own(view, node, injection))
        ]
        return _measure(injection, states, wrong)

    async def is_own(self, view: View, node: str, injection: Injection) -> bool:
        """Whether the state of a target that is not healed is this fault's, and no other's."""
        return not await keeper(view, node, injection)

    def lacking(self, view: View, parameters: Parameters) -> str:  # noqa: ARG002  (kill's depends)
        """Say which ability these parameters need that is not here; empty when none."""
        return ""

    def unable(self, view: View, parameters: Parameters) -> dict[str, str]:  # noqa: ARG002
        """Say of nodes, whatever their state, why the fault cannot act on them."""
        return {}

    def extra_detail(self, backend: Backend, parameters: Parameters) -> dict[str, Any]:  # noqa: ARG002
        """Return more of an injection's detail for the history."""
        return {}

    def rule(self, parameters: Parameters) -> str:  # noqa: ARG002  (restart's depends on them)
        """Name the row of the legality table."""
        return self.name

    async def apply(self, backend: Backend, node: str, parameters: Parameters) -> None:
        """Hit one node."""
        raise NotImplementedError

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """Undo what is left of it on one node: start it if it is dead."""
        await start_if_dead(view, node, injection)

    def complaints(self, injection: Injection, after: dict[str, str | None]) -> list[str]:  # noqa: ARG002
        """Say what is wrong about the processes that the targets have now."""
        return []


KEEPS = get_args(Keep)
EVERYTHING = "everything"


class Kill(ProcessFault):
    """Nodes are killed (SIGKILL); the heal starts them again and waits until they answer.

    Parameters: targets (default random); keep: what survives of writes that were not fsynced, "any"
    (of each file some prefix), "nothing" or "everything". Not given: what a kill does here by
    itself, which the detail names (`keeps`). A real SIGKILL keeps everything.
    """

    name = "kill"
    ability = Ability.PROCESSES
    state = NodeState.DEAD
    leftover = NodeState.DEAD
    choices: ClassVar = {"keep": KEEPS}
    favourites = ("leader", "random", "minority", "majority", "all")

    def lacking(self, view: View, parameters: Parameters) -> str:
        """A backend that kills a process only cannot lose what the process wrote."""
        keep = parameters.get("keep", EVERYTHING)
        if keep == EVERYTHING or view.backend.abilities().crashes is not None:
            return ""
        way = "; power-loss does" if keep == "nothing" else ""
        return f"a kill on backend {view.backend.name} cannot keep {keep} of unsynced writes{way}"

    def extra_detail(self, backend: Backend, parameters: Parameters) -> dict[str, Any]:
        crashes = backend.abilities().crashes
        by_itself = EVERYTHING if crashes is None else crashes.keeps
        return {"keeps": parameters.get("keep", by_itself)}

    async def apply(self, backend: Backend, node: str, parameters: Parameters) -> None:
        """Kill it; returns when it is gone."""
        crashes = backend.abilities().crashes
        if crashes is not None and "keep" in parameters:
            await crashes.kill(node, parameters["keep"])
        else:
            await backend.kill(node)


class Stop(ProcessFault):
    """Nodes are asked to end (SIGTERM) and stay down until the heal, which starts them again.

    Parameters: targets (default random). A node hands its leadership over and brings its disk up to
    date first: it bit when the process has ended.
    """

    name = "stop"
    ability = Ability.PROCESSES
    state = NodeState.DEAD
    leftover = NodeState.DEAD
    favourites = ("leader", "random", "minority", "majority", "all")

    async def apply(self, backend: Backend, node: str, parameters: Parameters) -> None:  # noqa: ARG002
        """Ask it; returns when it was asked."""
        await backend.terminate(node)

    async def verify(self, view: View, injection: Injection) -> Injection:
        """See `Fault.verify`. Waits for the ends."""
        errors = await _for_each(
            injection.targets, lambda node: _end(view.backend, node, injection)
        )
        detail = {**injection.detail, "errors": injection.detail.get("errors", {}) | errors}
        return await super().verify(view, replace(injection, detail=detail))

    def complaints(self, injection: Injection, after: dict[str, str | None]) -> list[str]:
        """Name the targets that are gone, but did not end by themselves in time."""
        errors = injection.detail["errors"]
        return [errors[node] for node in injection.targets if node in errors and not after[node]]

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """Wait for its end, if it has not come yet, and start it."""
        try:
            await _end(view.backend, node, injection)
        except BackendError:
            # Paused since it was asked, it would end behind the heal, as it goes on.
            await view.backend.kill(node)
        await super().undo(view, node, injection)


async def _end(backend: Backend, node: str, injection: Injection) -> None:
    """Wait for the process that was asked to end; asked again, it goes on as it began."""
    if _name(await backend.process(node)) == injection.detail["processes_before"][node]:
        await backend.stop(node)


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

    async def heal(self, view: View, injection: Injection) -> Injection:
        """See `Fault.heal`. Of a process that went on before, it did not bite (`ended_early`)."""
        early = [
            f"{node} is running"
            for node in (injection.targets if is_first_heal(view, injection) else ())
            if await view.backend.state(node) is NodeState.RUNNING
            and await self.is_own(view, node, injection)
        ]
        healed = await super().heal(view, injection)
        more = {"ended_early": early} if early else {}
        return replace(healed, detail={**healed.detail, **more})

    async def is_own(self, view: View, node: str, injection: Injection) -> bool:
        """Whether the process is the one that was paused: a later one is another pause's."""
        paused = injection.detail.get("processes_before", {}).get(node)
        return paused in (None, _name(await view.backend.process(node)))

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """Continue it if it is paused; a node that died meanwhile is another fault's."""
        is_paused = await view.backend.state(node) is NodeState.PAUSED
        if is_paused and await self.is_own(view, node, injection):
            await view.backend.resume(node)


class Restart(ProcessFault):
    """Nodes are ended and started again at once; several together, not in turn.

    Parameters: targets (default random); graceful (default false): SIGTERM, else SIGKILL.
    Heal starts what a failed restart left dead.
    """

    name = "restart"
    ability = Ability.PROCESSES
    state = NodeState.RUNNING
    leftover = NodeState.DEAD
    choices: ClassVar = {"graceful": (False, True)}
    variants = ({"graceful": False}, {"graceful": True})

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
        """Check that every target runs as a new process."""
        before = injection.detail["processes_before"]
        return [
            f"{node} is the same process as before"
            for node in injection.targets
            if before[node] == after[node]
        ]


async def _for_each(nodes: Iterable[str], act: Callable[[str], Awaitable[None]]) -> dict[str, str]:
    """Act on all nodes at once; returns what went wrong, by node."""
    return {node: seen.wrong for node, seen in (await on_each(nodes, act)).items() if seen.wrong}


def _measure(injection: Injection, states: dict[str, NodeState], wrong: Sequence[str]) -> Injection:
    found = {"states": {node: str(state) for node, state in states.items()}}
    return add_measurement(injection, found, wrong)


def _name(process: ProcessIdentity | None) -> str | None:
    return None if process is None else f"{process.pid}:{process.started}"
