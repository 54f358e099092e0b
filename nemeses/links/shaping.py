"""Faults of links that still carry packets: loss, delay, reorder, duplicate, bandwidth.

Each shapes the directed links between the nodes that `targets` name and all others, `direction`
says which way; each measures the links by probe packets of its own, with the fault, shortly before
the heal, and after it. Several may be in force on one link: of every part the worst one holds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar

from cluster.backends.abilities import LinkShape, ShapeMeasure
from cluster.backends.base import BackendError, Link, Probe
from cluster.backends.links.shapes import PERFECT, combine, left_effects, missing_effects
from cluster.backends.terms import ONE_NODE
from nemeses.at_once import at_once
from nemeses.base import (
    Injection,
    ParameterError,
    Parameters,
    Refusal,
    View,
    absence,
    add_measurement,
    application,
    before_acting,
    name_of,
    names_of,
    others,
    shaping_of,
)
from nemeses.fault_kind import ABOVE_ZERO, FaultKind
from nemeses.links.grudges import one_way
from nemeses.targets import choose

DIRECTIONS = ("both", "outgoing", "incoming")
"""Packets of and to the targets, only what they send, only what they get."""

MEASURED_LINKS_MAX = 8
"""More are not measured at once: the measurement would be a load of its own."""
_HEALED_TIMEOUT_S = 5.0
_RETRY_S = 0.1


class LinkFault(FaultKind):
    """What the faults of links have in common."""

    choices: ClassVar = {"direction": DIRECTIONS}
    nodes_min = 2

    def shape(self, parameters: Parameters) -> LinkShape:
        """Say what these parameters do to a link."""
        raise NotImplementedError

    def options(self, nodes: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
        """See `Fault.options`: the leader's links both ways and one way, a node's, everybody's."""
        if len(nodes) < 2:
            return ()
        defaults = {name: default for name, (default, _, _) in self.numbers.items()}
        places: tuple[dict[str, Any], ...] = (
            {"targets": "leader", "direction": "both"},
            {"targets": "leader", "direction": "outgoing"},
            {"targets": "leader", "direction": "incoming"},
            {"targets": "random", "direction": "both"},
            {"targets": "all", "direction": "both"},
        )
        return tuple({**place, **defaults} for place in places)

    async def probe(self, view: View) -> Probe:
        if len(view.backend.nodes) < 2:
            return ONE_NODE
        shaping = view.backend.abilities().shaping
        return absence(view, "shaping") if shaping is None else await shaping.probe(self.shape({}))

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        """See `Fault.inject`. A link outlives its nodes: targets may be paused or dead."""
        backend = view.backend
        self.check(parameters, backend.nodes)
        shaping = shaping_of(view)
        with before_acting():
            nodes = await choose(view, parameters.get("targets", "random"), {})
        direction = parameters.get("direction", "both")
        out, into = one_way(nodes, backend.nodes), one_way(backend.nodes, nodes)
        links = tuple(sorted({"both": out | into, "outgoing": out, "incoming": into}[direction]))
        detail: dict[str, Any] = {"links": names_of(links)}
        injection = application(self.name, parameters, nodes, detail, links)
        shapes = {
            link: combine([self.shape(parameters), *_others(view, injection, link)])
            for link in links
        }
        before = shaping.shapes()
        try:
            await shaping.shape(shapes)
        except BackendError as error:
            if shaping.shapes() == before:  # what a host refused is remembered (`Shaping.shape`)
                raise Refusal(str(error)) from error
            injection = replace(injection, detail={**detail, "error": str(error)})
        return injection

    async def verify(self, view: View, injection: Injection) -> Injection:
        sample = _sample(view, injection, MEASURED_LINKS_MAX)
        seen, wrong = await _verify(view, sample)
        error = injection.detail.get("error")
        return add_measurement(injection, {"measured": seen}, [error, *wrong] if error else wrong)

    async def heal(self, view: View, injection: Injection) -> Injection:
        """Give the links what the other faults in force leave them, and measure that.

        One link is measured before: a fault that ended by itself did not bite (`ended_early`).
        """
        last = _sample(view, injection, 1)
        before: dict[str, Any] = {}
        gone: list[str] = []
        with contextlib.suppress(BackendError):  # whatever it is, it must be healed
            before, gone = await _verify(view, last) if last else ({}, [])
        others_do = {link: _others(view, injection, link) for link in injection.links}
        mine = self.shape(injection.parameters)
        # Not what is in force: of that a heal that failed before has left nothing to look for.
        was = {link: combine([mine, *shapes]) for link, shapes in others_do.items()}
        left_to_others = {link: combine(shapes) for link, shapes in others_do.items()}
        await shaping_of(view).shape(left_to_others)
        sample = _sample(view, injection, MEASURED_LINKS_MAX)
        after, left = await _until_healed(view, {link: was[link] for link in sample})
        detail = {"before_heal": before, "after_heal": after} | (
            {"ended_early": gone} if gone and any(before.values()) else {}  # else none answered
        )
        return add_measurement(injection, detail, left)


class Loss(LinkFault):
    """Packets are lost at random.

    Parameters: targets, direction, percent (default 20, above 0, up to 100).
    """

    name = "loss"
    numbers: ClassVar = {"percent": (20.0, ABOVE_ZERO, 100.0)}

    def shape(self, parameters: Parameters) -> LinkShape:
        return LinkShape(loss=self.number(parameters, "percent") / 100)


class Delay(LinkFault):
    """Packets travel longer, with jitter.

    Parameters: targets, direction, delay_ms (default 200, up to 60,000), jitter_ms (default 0).
    """

    name = "delay"
    numbers: ClassVar = {
        "delay_ms": (200.0, ABOVE_ZERO, 60_000.0),
        "jitter_ms": (0.0, 0.0, 60_000.0),
    }

    def shape(self, parameters: Parameters) -> LinkShape:
        delay_ms = self.number(parameters, "delay_ms")
        return LinkShape(delay_ms=delay_ms, jitter_ms=self.number(parameters, "jitter_ms"))

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        super().check(parameters, nodes)
        if self.number(parameters, "jitter_ms") > self.number(parameters, "delay_ms"):
            raise ParameterError("jitter_ms of delay must not be above delay_ms")


class Reorder(LinkFault):
    """Packets overtake those before them.

    Parameters: targets, direction, percent (default 25, 1 to 50).
    """

    name = "reorder"
    numbers: ClassVar = {"percent": (25.0, 1.0, 50.0)}

    def shape(self, parameters: Parameters) -> LinkShape:
        return LinkShape(reorder=self.number(parameters, "percent") / 100)


class Duplicate(LinkFault):
    """Packets arrive twice.

    Parameters: targets, direction, percent (default 20, above 0, up to 100).
    """

    name = "duplicate"
    numbers: ClassVar = {"percent": (20.0, ABOVE_ZERO, 100.0)}

    def shape(self, parameters: Parameters) -> LinkShape:
        return LinkShape(duplicate=self.number(parameters, "percent") / 100)


class Bandwidth(LinkFault):
    """Links are throttled to a rate.

    Parameters: targets, direction, kbit_s (default 256).
    """

    name = "bandwidth"
    numbers: ClassVar = {"kbit_s": (256.0, 16.0, 100_000.0)}

    def shape(self, parameters: Parameters) -> LinkShape:
        return LinkShape(rate_kbit_s=self.number(parameters, "kbit_s"))


LINK_FAULTS: Mapping[str, LinkFault] = {
    fault.name: fault for fault in (Loss(), Delay(), Reorder(), Duplicate(), Bandwidth())
}


def _others(view: View, injection: Injection, link: Link) -> list[LinkShape]:
    """List what other faults in force do to a link."""
    return [
        LINK_FAULTS[other.fault].shape(other.parameters)
        for other in others(view, injection)
        if other.fault in LINK_FAULTS and link in other.links
    ]


def _sample(view: View, injection: Injection, count: int) -> list[Link]:
    """Choose links to measure: those on which, either way, no other fault lets nothing pass."""
    cut = view.backend.links_cut()
    links = [link for link in injection.links if link not in cut and link[::-1] not in cut]
    whole = [
        link
        for link in links
        if all(s.loss < 1.0 for way in (link, link[::-1]) for s in _others(view, injection, way))
    ]
    return sorted(view.random.sample(whole, min(count, len(whole))))


async def _verify(view: View, links: Sequence[Link]) -> tuple[dict[str, Any], list[str]]:
    """Measure links against the shapes in force: what was seen, and what is wrong."""
    shaping = shaping_of(view)
    if not links:
        return {}, ["no link could be measured, as nothing passes any"]
    shaped = shaping.shapes()
    measures = await at_once([shaping.measure(link) for link in links])
    seen = dict(zip(links, measures, strict=True))
    wrong = [
        f"{name_of(link)}: {reason}"
        for link, measure in seen.items()
        for reason in missing_effects(
            shaped.get(link, PERFECT), shaped.get(link[::-1], PERFECT), measure
        )
    ]
    return {name_of(link): _json(measure) for link, measure in seen.items()}, wrong


async def _until_healed(
    view: View, was: Mapping[Link, LinkShape]
) -> tuple[dict[str, Any], list[str]]:
    """Measure until nothing is left of these shapes; what was held back needs time to arrive."""
    shaping, loop = shaping_of(view), asyncio.get_running_loop()
    deadline_s = loop.time() + _HEALED_TIMEOUT_S
    while True:
        shaped = shaping.shapes()
        measures = await at_once([shaping.measure(link) for link in was])
        seen = dict(zip(was, measures, strict=True))
        left = [
            f"{name_of(link)}: {reason}"
            for link, measure in seen.items()
            for reason in left_effects(
                was[link], shaped.get(link, PERFECT), shaped.get(link[::-1], PERFECT), measure
            )
        ]
        if not left or loop.time() >= deadline_s:
            return {name_of(link): _json(measure) for link, measure in seen.items()}, left
        await asyncio.sleep(_RETRY_S)


def _json(measure: ShapeMeasure) -> dict[str, float]:
    found = asdict(measure)
    del found["probes"]
    return {name: round(value, 4) for name, value in found.items() if value is not None}
