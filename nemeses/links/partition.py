"""The fault `partition`: cut directed links in one of the shapes of `nemeses.links.grudges`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cluster.backends.base import (
    Ability,
    Backend,
    BackendError,
    Link,
    LinkMeasure,
    NodeState,
    Probe,
)
from cluster.backends.terms import ONE_NODE
from cluster.names import unknown
from nemeses.at_once import at_once
from nemeses.base import (
    Injection,
    ParameterError,
    Parameters,
    Refusal,
    View,
    add_measurement,
    application,
    before_acting,
    names_of,
    others,
)
from nemeses.links import grudges
from nemeses.links.grudges import links_of
from nemeses.links.shaping import DIRECTIONS as LINK_DIRECTIONS
from nemeses.links.shaping import LINK_FAULTS
from nemeses.targets import check_keys, check_target, choose, words_of

SILENCE_S = 0.3
"""How long a cut link must stay silent to count as cut."""
WORKS_TIMEOUT_S = 3.0
"""How long bytes may take over a link that should work; a busy node answers slowly."""

_RETRY_S = 0.05

SHAPES = ("isolate", "halves", "majorities-ring", "bridge", "one-way", "links")
DIRECTIONS: Mapping[str, tuple[str, ...]] = {
    "isolate": LINK_DIRECTIONS,
    "one-way": ("random", "leader-to-follower"),
}
"""Shape -> its directions, the default first."""
_KEYS: Mapping[str, tuple[str, ...]] = {
    "isolate": ("targets", "direction"),
    "one-way": ("direction",),
    "links": ("links",),
}
"""Shape -> its own parameters."""
_LEAST_NODES = {"majorities-ring": 3, "bridge": 3}
_SLOW_MS = 1_000.0
"""A link with more delay than this is not measured: its bytes arrive after the time-out."""


class Partition:
    """Links between nodes are cut; the clients of the harness are never cut off.

    Parameters: `shape`, one of SHAPES (default isolate). With isolate `targets` (default leader):
    these together against the rest, and `direction`: both (default), outgoing (what they send),
    incoming. With one-way `direction`: random (default, one random node does not reach another) or
    leader-to-follower. With links `links`: "n1>n2,n2-n3", "-" for both ways. Which node is on which
    side is drawn when it is injected.
    """

    name = "partition"

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        known = dict.fromkeys(key for keys in _KEYS.values() for key in keys)
        check_keys(self.name, parameters, ("shape", *known))
        shape = parameters.get("shape", "isolate")
        if shape not in SHAPES:
            raise ParameterError(unknown("partition shape", shape, SHAPES))
        for key in known:
            if key in parameters and key not in _KEYS.get(shape, ()):
                raise ParameterError(f"partition shape {shape} has no {key}")
        directions = DIRECTIONS.get(shape, ())
        if "direction" in parameters and parameters["direction"] not in directions:
            raise ParameterError(unknown("direction", parameters["direction"], directions))
        least = _LEAST_NODES.get(shape, 2)
        if len(nodes) < least:
            raise ParameterError(f"partition shape {shape} needs at least {least} nodes")
        if shape == "links" and not links_of(self.name, parameters.get("links", ""), nodes):
            raise ParameterError("partition shape links needs links, such as n1>n2,n2-n3")
        targets = parameters.get("targets", "leader")
        check_target(targets, nodes)
        if "all" in words_of(targets):
            raise ParameterError("partition of all nodes leaves none to cut them off from")

    def options(self, nodes: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
        leader, one_way = {"shape": "isolate", "targets": "leader"}, {"shape": "one-way"}
        every: tuple[dict[str, Any], ...] = (
            leader,
            {"shape": "isolate", "targets": "random"},
            *({"shape": shape} for shape in ("halves", "majorities-ring", "bridge")),
            *({**one_way, "direction": direction} for direction in DIRECTIONS["one-way"]),
            *({**leader, "direction": direction} for direction in ("outgoing", "incoming")),
        )
        return tuple(
            option for option in every if len(nodes) >= _LEAST_NODES.get(option["shape"], 2)
        )

    async def probe(self, view: View) -> Probe:
        if len(view.backend.nodes) < 2:
            return ONE_NODE
        return await view.backend.probe(Ability.LINKS)

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        nodes = view.backend.nodes
        self.check(parameters, nodes)
        with before_acting():
            targets, cut = await _choose(view, parameters)
        links = tuple(sorted(cut))
        detail: dict[str, Any] = {"cut": names_of(links)}
        try:
            await view.backend.cut_links(cut)
        except BackendError as error:  # some may be cut
            detail["error"] = str(error)
        return application(self.name, parameters, targets, detail, links)

    async def verify(self, view: View, injection: Injection) -> Injection:
        """Measure that the links are silent, and that those that nobody cut still work."""
        cut = view.backend.links_cut()
        whole = [link for link in _all_links(view.backend.nodes) if link not in cut]
        whole = sorted(set(whole) - _barely_passing(view))
        leaking, broken, unmeasured = await _measure(view.backend, injection.links, whole)
        detail = {
            "leaking": names_of(leaking),
            "broken": names_of(broken),
            "unmeasured": names_of(unmeasured),
        }
        reasons = [injection.detail["error"]] if "error" in injection.detail else []
        reasons += [f"bytes pass {name}" for name in names_of(leaking)]
        reasons += [f"nothing passes {name}, which is not cut" for name in names_of(broken)]
        reasons += [f"{name} is open" for name in names_of(set(injection.links) - cut)]
        if set(injection.links) <= set(unmeasured):
            reasons.append("no cut link could be measured, as its nodes do not run")
        return add_measurement(injection, detail, reasons)

    async def heal(self, view: View, injection: Injection) -> Injection:
        """Restore the links that no other active partition cuts, and measure that they work.

        Counted before: a cut that others ended, as by a reload of the host's firewall, did not bite
        (`ended_early`).
        """
        leaking: list[Link] = []
        with contextlib.suppress(BackendError):  # whatever it is, it must be healed
            leaking = await _leaking(view.backend, injection.links)
        theirs = {
            link
            for other in others(view, injection)
            if other.fault == self.name
            for link in other.links
        }
        mine = [link for link in injection.links if link not in theirs]
        await view.backend.restore_links(mine)
        still_cut = view.backend.links_cut() & set(mine)
        whole = sorted(set(mine) - _barely_passing(view))
        _, broken, unmeasured = await _measure(view.backend, (), whole)
        detail = {
            "restored": names_of(mine),
            "left_to_others": names_of(set(injection.links) & theirs),
            "broken": names_of(broken),
            "unmeasured": names_of(unmeasured),
        } | (
            {"ended_early": [f"bytes pass {name}" for name in names_of(leaking)]} if leaking else {}
        )
        reasons = [f"nothing passes {name} after the heal" for name in names_of(broken)]
        reasons += [f"{name} is still cut" for name in names_of(still_cut)]
        return add_measurement(replace(injection, detail={}), detail, reasons)


async def _choose(view: View, parameters: Parameters) -> tuple[tuple[str, ...], frozenset[Link]]:
    """Choose the targets and the links that this partition cuts. Raises Refusal for none."""
    backend, shape = view.backend, parameters.get("shape", "isolate")
    if shape == "links":
        named = links_of(Partition.name, parameters["links"], backend.nodes)
        ends = dict.fromkeys(end for link in named for end in link)
        return tuple(ends), frozenset(named)
    direction = parameters.get("direction", next(iter(DIRECTIONS.get(shape, ())), ""))
    if shape == "isolate":
        nodes = await choose(view, parameters.get("targets", "leader"), {})
        if not (links := grudges.isolate(backend.nodes, nodes, direction)):
            raise Refusal("no node is left on the other side")
        return nodes, links
    to_follower = direction == "leader-to-follower"
    # The sides are of voters; who never votes reaches, and is reached from, all of them.
    among = backend.nodes if shape == "one-way" and not to_follower else view.controllers
    if len(among) < _LEAST_NODES.get(shape, 2):
        raise Refusal(f"{len(among)} voters are too few for {shape}")
    nodes = tuple(view.random.sample(among, len(among)))
    if shape == "one-way":
        source: str | None = nodes[0]
        if to_follower:
            source = await view.leader()
        if source is None:
            raise Refusal("no leader is known")
        target = next(node for node in nodes if node != source)
        return (source, target), grudges.one_way([source], [target])
    if shape == "halves":
        return nodes[: len(nodes) // 2], grudges.halves(nodes)
    return nodes, (grudges.bridge if shape == "bridge" else grudges.majorities_ring)(nodes)


def _barely_passing(view: View) -> set[Link]:
    """Name the links on which another fault lets nothing pass, or nothing in time."""
    shaped = [
        (link, LINK_FAULTS[other.fault].shape(other.parameters))
        for other in view.active
        if other.fault in LINK_FAULTS
        for link in other.links
    ]
    slow = [link for link, shape in shaped if shape.loss >= 1.0 or shape.delay_ms > _SLOW_MS]
    return {end for link in slow for end in (link, link[::-1])}


async def _measure(
    backend: Backend, silent: Iterable[Link], working: Iterable[Link]
) -> tuple[list[Link], list[Link], list[Link]]:
    """Measure links that should be silent or work; returns (leaking, broken, unmeasured).

    A link can be measured only between nodes that ran the whole time as the same processes, and
    while nobody else cuts or restores it.
    """
    quiet, whole = list(silent), list(working)
    before, cut_before = await _running(backend), backend.links_cut()
    measures = await at_once(
        [backend.measure_link(link, SILENCE_S) for link in quiet if _both(link, before)]
        + [_until_works(backend, link) for link in whole if _both(link, before)]
    )
    after = await _running(backend)
    same = {node: process for node, process in before.items() if after.get(node) == process}
    changed = cut_before ^ backend.links_cut()
    by_link = dict(
        zip([link for link in (*quiet, *whole) if _both(link, before)], measures, strict=True)
    )
    steady = [link for link in by_link if _both(link, same) and link not in changed]
    leaking = [
        link
        for link in quiet
        if link in by_link and link not in changed and not by_link[link].silent
    ]
    broken = [link for link in steady if link in whole and not by_link[link].works]
    return leaking, broken, [link for link in (*quiet, *whole) if link not in steady]


async def _leaking(backend: Backend, links: Iterable[Link]) -> list[Link]:
    """Return the cut links that bytes have passed since, or for which nobody counts any more."""
    nodes, cut = await _running(backend), backend.links_cut()
    known = [link for link in links if link in cut and _both(link, nodes)]
    measures = await at_once([backend.measure_link(link, 0.0) for link in known])
    passed = {link for link, seen in zip(known, measures, strict=True) if seen.bytes_since_cut != 0}
    return sorted(passed & backend.links_cut())


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


def _all_links(nodes: Sequence[str]) -> list[Link]:
    return [(a, b) for a in nodes for b in nodes if a != b]
