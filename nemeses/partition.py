"""The fault `partition`: cut directed links in one of the shapes of `nemeses.grudges`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cluster.backends.base import Ability, Backend, Link, LinkMeasure, NodeState, Probe
from cluster.names import unknown
from cluster.values import valueclass
from nemeses import grudges
from nemeses.base import Injection, ParameterError, Parameters, View, refused
from nemeses.targets import check_keys

SILENCE_S = 0.3
"""How long a cut link must stay silent to count as cut."""
WORKS_TIMEOUT_S = 3.0
"""How long a link that should work may take to show it; a busy node is slow to answer."""

_RETRY_S = 0.05

DIRECTIONS = ("random", "leader-to-follower", "leader-outgoing", "leader-incoming")


@valueclass
class _Scene:
    """What a shape may use."""

    nodes: tuple[str, ...]
    """Shuffled."""
    leader: str
    """The leader, or any node for shapes that do not care."""


@valueclass
class _Cut:
    targets: tuple[str, ...]
    links: frozenset[Link]


@valueclass
class _Shape:
    cut: Callable[[_Scene], _Cut]
    needs_leader: bool
    least_nodes: int


def _follower(scene: _Scene) -> str:
    return next(node for node in scene.nodes if node != scene.leader)


_SHAPES: Mapping[str, _Shape] = {
    "isolate-leader": _Shape(
        lambda scene: _Cut((scene.leader,), grudges.isolate(scene.nodes, scene.leader)),
        needs_leader=True,
        least_nodes=2,
    ),
    "isolate-random": _Shape(
        lambda scene: _Cut(scene.nodes[:1], grudges.isolate(scene.nodes, scene.nodes[0])),
        needs_leader=False,
        least_nodes=2,
    ),
    "halves": _Shape(
        lambda scene: _Cut(scene.nodes[: len(scene.nodes) // 2], grudges.halves(scene.nodes)),
        needs_leader=False,
        least_nodes=2,
    ),
    "majorities-ring": _Shape(
        lambda scene: _Cut(scene.nodes, grudges.majorities_ring(scene.nodes)),
        needs_leader=False,
        least_nodes=3,
    ),
    "bridge": _Shape(
        lambda scene: _Cut(scene.nodes, grudges.bridge(scene.nodes)),
        needs_leader=False,
        least_nodes=3,
    ),
}

_ONE_WAY: Mapping[str, _Shape] = {
    "random": _Shape(
        lambda scene: _Cut(scene.nodes[:2], grudges.one_way(scene.nodes[:1], scene.nodes[1:2])),
        needs_leader=False,
        least_nodes=2,
    ),
    "leader-to-follower": _Shape(
        lambda scene: _Cut(
            (scene.leader, _follower(scene)),
            grudges.one_way([scene.leader], [_follower(scene)]),
        ),
        needs_leader=True,
        least_nodes=2,
    ),
    "leader-outgoing": _Shape(
        lambda scene: _Cut((scene.leader,), grudges.outgoing(scene.nodes, scene.leader)),
        needs_leader=True,
        least_nodes=2,
    ),
    "leader-incoming": _Shape(
        lambda scene: _Cut((scene.leader,), grudges.incoming(scene.nodes, scene.leader)),
        needs_leader=True,
        least_nodes=2,
    ),
}

SHAPES = (*_SHAPES, "one-way")


class Partition:
    """Links between nodes are cut; the clients of the harness are never cut off.

    Parameters: `shape`, one of SHAPES (default isolate-random); with shape one-way `direction`, one
    of DIRECTIONS (default random: one random node does not reach another). Who is on which side
    is drawn when it is injected; only the leader is looked up.
    """

    name = "partition"

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        """See `Fault.check`."""
        check_keys(self.name, parameters, ("shape", "direction"))
        shape = parameters.get("shape", "isolate-random")
        if shape not in SHAPES:
            raise ParameterError(unknown("partition shape", shape, SHAPES))
        if "direction" in parameters and shape != "one-way":
            raise ParameterError(f"partition shape {shape} has no direction; one-way has")
        if parameters.get("direction", "random") not in DIRECTIONS:
            raise ParameterError(unknown("direction", parameters["direction"], DIRECTIONS))
        least = _shape(parameters).least_nodes
        if len(nodes) < least:
            raise ParameterError(f"partition shape {shape} needs at least {least} nodes")

    def options(self, nodes: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
        """See `Fault.options`."""
        plain: list[dict[str, Any]] = [{"shape": shape} for shape in _SHAPES]
        one_way: list[dict[str, Any]] = [
            {"shape": "one-way", "direction": direction} for direction in DIRECTIONS
        ]
        return tuple(
            option for option in plain + one_way if len(nodes) >= _shape(option).least_nodes
        )

    async def probe(self, view: View) -> Probe:
        """See `Fault.probe`."""
        if len(view.backend.nodes) < 2:
            return Probe(possible=False, reason="one node has no links", remedy="--nodes 3")
        return await view.backend.probe(Ability.LINKS)

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        """See `Fault.inject`."""
        nodes = view.backend.nodes
        self.check(parameters, nodes)
        shape = _shape(parameters)
        leader = await view.leader() if shape.needs_leader else nodes[0]
        if leader is None:
            return refused(self.name, parameters, "no leader is known")
        cut = shape.cut(_Scene(_shuffled(view.random, nodes), leader))
        await view.backend.cut_links(cut.links)
        links = tuple(sorted(cut.links))
        return Injection(
            self.name,
            dict(parameters),
            cut.targets,
            verified=False,
            detail={"cut": _names(links)},
            links=links,
            applied=True,
        )

    async def verify(self, view: View, injection: Injection) -> Injection:
        """Measure that the links are silent, and that those that nobody cut still work."""
        cut = view.backend.links_cut()
        whole = [link for link in _all_links(view.backend.nodes) if link not in cut]
        leaking, broken, unmeasured = await _measure(view.backend, injection.links, whole)
        detail = {
            **injection.detail,
            "leaking": _names(leaking),
            "broken": _names(broken),
            "unmeasured": _names(unmeasured),
        }
        reasons = [f"bytes pass {name}" for name in _names(leaking)]
        reasons += [f"nothing passes {name}, which is not cut" for name in _names(broken)]
        reasons += [f"{name} is open" for name in _names(set(injection.links) - cut)]
        if set(injection.links) <= set(unmeasured):
            reasons.append("no cut link could be measured, as its nodes do not run")
        return _told(injection, detail, reasons)

    async def heal(self, view: View, injection: Injection) -> Injection:
        """Restore the links that no other active partition cuts, and measure that they work."""
        others = {
            link
            for other in view.active
            if other.fault == self.name and other is not injection
            for link in other.links
        }
        mine = [link for link in injection.links if link not in others]
        await view.backend.restore_links(mine)
        still_cut = view.backend.links_cut() & set(mine)
        _, broken, unmeasured = await _measure(view.backend, (), mine)
        detail = {
            "restored": _names(mine),
            "left_to_others": _names(set(injection.links) & others),
            "broken": _names(broken),
            "unmeasured": _names(unmeasured),
        }
        reasons = [f"nothing passes {name} after the heal" for name in _names(broken)]
        reasons += [f"{name} is still cut" for name in _names(still_cut)]
        return _told(injection, detail, reasons)


async def _measure(
    backend: Backend, silent: Iterable[Link], working: Iterable[Link]
) -> tuple[list[Link], list[Link], list[Link]]:
    """Measure links that should be silent or work; returns (leaking, broken, unmeasured).

    A link can be measured only between nodes that ran the whole time as the same processes, and
    while nobody else cuts or restores it.
    """
    quiet, whole = list(silent), list(working)
    before, cut_before = await _running(backend), backend.links_cut()
    measures = await asyncio.gather(
        *(backend.measure_link(link, SILENCE_S) for link in quiet if _both(link, before)),
        *(_until_works(backend, link) for link in whole if _both(link, before)),
    )
    after = await _running(backend)
    same = {node: process for node, process in before.items() if after.get(node) == process}
    changed = cut_before ^ backend.links_cut()
    measured = dict(
        zip([link for link in (*quiet, *whole) if _both(link, before)], measures, strict=True)
    )
    steady = [link for link in measured if _both(link, same) and link not in changed]
    leaking = [
        link
        for link in quiet
        if link in measured and link not in changed and not measured[link].silent
    ]
    broken = [link for link in steady if link in whole and not measured[link].works]
    return leaking, broken, [link for link in (*quiet, *whole) if link not in steady]


async def _until_works(backend: Backend, link: Link) -> LinkMeasure:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WORKS_TIMEOUT_S
    while True:
        measure = await backend.measure_link(link, max(_RETRY_S, deadline - loop.time()))
        if measure.works or loop.time() >= deadline:
            return measure
        await asyncio.sleep(_RETRY_S)


async def _running(backend: Backend) -> dict[str, object]:
    """Identify the processes of all nodes that run."""
    return {
        node: await backend.process(node)
        for node in backend.nodes
        if await backend.state(node) is NodeState.RUNNING
    }


def _both(link: Link, nodes: Mapping[str, object]) -> bool:
    return link[0] in nodes and link[1] in nodes


def _shape(parameters: Parameters) -> _Shape:
    shape = parameters.get("shape", "isolate-random")
    return _ONE_WAY[parameters.get("direction", "random")] if shape == "one-way" else _SHAPES[shape]


def _shuffled(generator: random.Random, nodes: Sequence[str]) -> tuple[str, ...]:
    return tuple(generator.sample(nodes, len(nodes)))


def _all_links(nodes: Sequence[str]) -> list[Link]:
    return [(a, b) for a in nodes for b in nodes if a != b]


def _names(links: Iterable[Link]) -> list[str]:
    return [f"{source}->{target}" for source, target in sorted(links)]


def _told(injection: Injection, detail: Mapping[str, Any], reasons: Sequence[str]) -> Injection:
    told = dict(detail) | ({"reason": "; ".join(reasons)} if reasons else {})
    return replace(injection, verified=not reasons, detail=told)
