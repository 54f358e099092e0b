"""The base of faults that act on single nodes: targets, legality, measuring, healing.

A subclass says what happens to one node (`apply`), what is measured there while the fault bites
(`bites`) and after it was undone (`undo`, `check_gone`). Each measurement goes into the history for
each node, under `detail.nodes`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from cluster.backends.base import Backend, BackendError, NodeState
from cluster.values import valueclass
from nemeses.active_faults import applying, hit, keeper, leave_to_keeper, refusals
from nemeses.at_once import at_once
from nemeses.base import Injection, Parameters, Refusal, View, application, before_acting
from nemeses.fault_kind import FaultKind
from nemeses.queries import until
from nemeses.targets import choose


@valueclass
class Seen:
    """What was measured of one node."""

    detail: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able."""
    wrong: str = ""
    """Why the measurement does not verify the fault or its heal; empty when it does."""
    violation: Mapping[str, str] | None = None
    """{"kind", "explanation"} of behaviour that the fault saw and no correct node shows."""


TOOK_MS, SINCE_MS = "took_ms", "since_ms"
"""Details of an injection: how long before it is journaled it began, as a step of a script is
journaled when it is done. One that took so long is over then; one that has acted since goes on."""

Act = Callable[[str], Awaitable[Seen | None]]
"""Acts on a node; None: it measured nothing."""

_families: dict[str, str] = {}
"""Fault -> its family."""
_healed: WeakKeyDictionary[Backend, set[object]] = WeakKeyDictionary()
"""Keys of injections with a heal that was tried."""


class NodeFault(FaultKind):
    """See the module."""

    family: ClassVar[str] = ""
    """Faults of one family cannot act on one node at once: they would undo each other. Not given:
    its name."""
    may_end_node: ClassVar[bool] = False
    """Whether a correct node may end itself over it (`nodes.agreement` excuses such a death)."""

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            _families[cls.name] = cls.family or cls.name

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        self.check(parameters, view.backend.nodes)
        with before_acting():
            unable = {**await refusals(self.name, view.backend), **self._taken_nodes(view)}
            nodes = await choose(view, parameters.get("targets", "random"), unable)
        taken = self._taken_nodes(view)  # another one may have been quicker than the choice
        reasons = [taken[node] for node in nodes if node in taken]
        if reason := "; ".join(reasons) or self.too_much(view, nodes):
            raise Refusal(reason)
        with applying(view, self.name, nodes):
            return await self._act(view, nodes, parameters)

    async def _act(self, view: View, nodes: tuple[str, ...], parameters: Parameters) -> Injection:
        with before_acting():
            chosen = await self.choose_details(view, nodes, parameters)
        seen = await on_each(nodes, lambda node: self.apply(view, node, chosen[node]))
        for node, measured in seen.items():
            if measured.wrong:
                seen[node] = replace(measured, detail={**measured.detail, "not_hit": True})
        injection = application(self.name, parameters, nodes, {})
        return _judge(injection, self._detail(seen, chosen), seen)

    async def verify(self, view: View, injection: Injection) -> Injection:
        """See `Fault.verify`. Nodes that were not hit, as was noted, are not measured."""
        before = injection.detail["nodes"]
        hit_ones = [node for node in injection.targets if "not_hit" not in before.get(node, {})]
        seen = await on_each(hit_ones, lambda node: self.bites(view, node, injection))
        now = {node: {**before.get(node, {}), **new} for node, new in _details(seen).items()}
        detail = {**injection.detail, "nodes": {**before, **now}}
        return _judge(injection, detail, seen, injection.detail.get("reason"))

    async def heal(self, view: View, injection: Injection) -> Injection:
        """See `Fault.heal`. One that had ended before its first did not bite (`ended_early`)."""
        is_first, early = is_first_heal(view, injection), list[str]()

        async def undo(node: str) -> Seen:
            if is_first:
                with contextlib.suppress(BackendError):  # whatever it is, it must be healed
                    early.extend(filter(None, [await self.lapse(view, node, injection)]))
            await self.undo(view, node, injection)
            return await self.check_gone(view, node, injection)

        seen = await on_each(injection.targets, undo)
        detail = self._detail(seen, injection.detail["chosen"])
        return _judge(injection, detail | ({"ended_early": early} if early else {}), seen)

    def _detail(self, seen: Mapping[str, Seen], chosen: object) -> dict[str, Any]:
        detail: dict[str, Any] = {"nodes": _details(seen), "chosen": chosen}
        if self.may_end_node:
            detail["may_end_node"] = True
        return detail

    def too_much(self, view: View, nodes: tuple[str, ...]) -> str:  # noqa: ARG002
        """Say why no quorum can survive this; empty when it can."""
        return ""

    async def choose_details(
        self,
        view: View,  # noqa: ARG002  (some draw)
        nodes: tuple[str, ...],
        parameters: Parameters,
    ) -> dict[str, dict[str, Any]]:
        """Return the details for each node, JSON-able. Random draws belong here, in order.

        Raises BackendError where it must not happen to them now.
        """
        own = {key: value for key, value in parameters.items() if key != "targets"}
        return dict.fromkeys(nodes, own)

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen | None:
        """Hit one node; returns what is to be noted of that."""
        raise NotImplementedError

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Measure whether it bites there; what it returns joins what `apply` noted."""
        raise NotImplementedError

    async def lapse(self, view: View, node: str, injection: Injection) -> str:  # noqa: ARG002
        """Say why it is over at its heal, where it can end by itself; empty when it bites still."""
        return ""

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """Undo what is left of it on one node: start it where it is dead. Raises BackendError."""
        await start_if_dead(view, node, injection)

    async def check_gone(self, view: View, node: str, injection: Injection) -> Seen:
        """Measure that nothing is left of it: that the node lives."""
        return await alive(view, node, injection)

    def _taken_nodes(self, view: View) -> dict[str, str]:
        return {
            node: f"{fault} acts on it already"
            for fault, node in sorted(hit(view))
            if _families.get(fault) == _families[self.name]
        }


class SlowNodeFault(NodeFault):
    """A fault whose injection or measurement takes long, and which notes how long."""

    duration: ClassVar[str] = TOOK_MS
    """`SINCE_MS` where it goes on until the heal."""

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        begun_s = asyncio.get_running_loop().time()
        injection = await super().inject(view, parameters)
        return self._add_duration(injection, begun_s) if injection.applied else injection

    async def verify(self, view: View, injection: Injection) -> Injection:
        begun_s = asyncio.get_running_loop().time()
        return self._add_duration(await super().verify(view, injection), begun_s)

    def _add_duration(self, injection: Injection, begun_s: float) -> Injection:
        part_ms = round((asyncio.get_running_loop().time() - begun_s) * 1000)
        ms = injection.detail.get(self.duration, 0) + part_ms
        return replace(injection, detail={**injection.detail, self.duration: ms})


def is_first_heal(view: View, injection: Injection) -> bool:
    """Whether what bit is to be healed for the first time, so that it must bite still."""
    healed = _healed.setdefault(view.backend, set())
    is_first = injection.verified and injection.key not in healed
    healed.add(injection.key)
    return is_first


async def on_each(nodes: Iterable[str], act: Act) -> dict[str, Seen]:
    """Act on all nodes at once; an error of the backend is reported as what is wrong there."""

    async def guard(node: str) -> tuple[str, Seen]:
        try:
            return node, await act(node) or Seen()
        except BackendError as error:
            return node, Seen(wrong=str(error))

    return dict(await at_once(guard(node) for node in nodes))


async def end(backend: Backend, node: str) -> None:
    """Stop a node, and kill it only if it does not end, as one that is paused; it may be dead."""
    with contextlib.suppress(BackendError):
        await backend.stop(node)
    await backend.kill(node)


async def start_if_dead(view: View, node: str, injection: Injection) -> None:
    """Start a dead node, unless another fault holds it down. Raises BackendError."""
    if await leave_to_keeper(view, node, injection):
        return
    if await view.backend.state(node) is NodeState.DEAD:
        await view.backend.start(node)


async def alive(view: View, node: str, injection: Injection) -> Seen:
    """Measure that the node is not dead, or that another fault holds it down."""
    state = await view.backend.state(node)
    if state is not NodeState.DEAD:
        return Seen({"state": str(state)})
    other = await keeper(view, node, injection)
    detail = {"state": str(state)} | ({"left_to": other} if other else {})
    return Seen(detail, "" if other else f"{node} is dead")


def notes_of(injection: Injection, node: str) -> Mapping[str, Any]:
    """Return what was noted of a node so far."""
    found: Mapping[str, Any] = injection.detail["nodes"].get(node, {})
    return found


async def takeover(view: View, node: str, injection: Injection) -> str:
    """Say what another fault made of the node since it was hit; empty: it runs as it did."""
    state, now = await view.backend.state(node), view.backend.incarnation(node)
    runs_on = state is NodeState.RUNNING and now == notes_of(injection, node)["incarnation"]
    return "" if runs_on else str(state)


async def ended_itself(view: View, node: str, incarnation: int, timeout_s: float) -> bool:
    """Whether that life of the node ends unasked: by itself, and not by another fault's kill."""

    async def notices() -> bool | None:
        deaths = view.backend.unexpected_deaths()
        return (
            any((death.node, death.incarnation) == (node, incarnation) for death in deaths) or None
        )

    return await until(notices, timeout_s) is True


def _details(seen: Mapping[str, Seen]) -> dict[str, dict[str, Any]]:
    return {node: dict(measured.detail) for node, measured in seen.items()}


def _judge(
    injection: Injection,
    detail: dict[str, Any],
    seen: Mapping[str, Seen],
    before: str | None = None,
) -> Injection:
    wrong = [before] if before else []
    wrong += [measured.wrong for measured in seen.values() if measured.wrong]
    violations = [
        {"node": node, **measured.violation}
        for node, measured in seen.items()
        if measured.violation is not None
    ]
    if wrong:
        detail["reason"] = "; ".join(wrong)
    if violations:
        detail["violations"] = [*detail.get("violations", []), *violations]
    return replace(injection, verified=not wrong, detail=detail)
