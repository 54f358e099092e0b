"""Links of a simulated world that lose, delay, reorder and repeat messages (abilities.Shaping).

Messages have no size in this world, so no rate can be put on a link. Loss and repetition hit raft
messages between nodes only, as everything of the mesh does (`cluster.backends.sim.mesh`).
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.backends.abilities import LinkShape, ShapeMeasure
from cluster.backends.base import Link, Probe
from cluster.backends.links.shapes import PERFECT, missing_effects
from cluster.backends.sim.links import travel_ms
from cluster.backends.sim.mesh import Mesh
from cluster.backends.terms import ONE_NODE, BackendError

_MIDDLE = 0.9
"""Part of the round trips over which `ShapeMeasure.spread_ms` goes."""
_EXACT = 10**9
"""Stands for so many probes that the shares are exact."""
_NO_RATE = "messages of the simulated world have no size"


class SimShaping:
    """See `cluster.backends.abilities.Shaping`."""

    def __init__(self, mesh: Mesh, nodes: tuple[str, ...]) -> None:
        self._mesh = mesh
        self._nodes = nodes

    async def probe(self, shape: LinkShape) -> Probe:
        if shape.rate_kbit_s is not None:
            return Probe(possible=False, reason=_NO_RATE, remedy="--backend netns")
        if len(self._nodes) < 2:
            return ONE_NODE
        link = (self._nodes[0], self._nodes[1])
        before = self.shapes().get(link, PERFECT)
        await self.shape({link: shape})
        seen = await self.measure(link)
        await self.shape({link: before})
        back = self.shapes().get(link[::-1], PERFECT)
        missing = "; ".join(missing_effects(shape, back, seen))
        return Probe(possible=not missing, reason=missing)

    async def shape(self, links: Mapping[Link, LinkShape]) -> None:
        if any(shape.rate_kbit_s is not None for shape in links.values()):
            raise BackendError(f"{_NO_RATE}: try --backend netns")
        for (source, target), shape in links.items():
            self._mesh.link(source, target).shape = None if shape == PERFECT else shape

    def shapes(self) -> Mapping[Link, LinkShape]:
        links = ((a, b) for a in self._nodes for b in self._nodes if a != b)
        shapes = {link: self._mesh.link(*link).shape for link in links}
        return {link: shape for link, shape in shapes.items() if shape is not None}

    async def measure(self, link: Link) -> ShapeMeasure:
        """See `Shaping.measure`. Reads the shapes in force: no packet is sent and no time passes.

        Left out is what the links do by themselves (`SimSettings`), with a fault and without.
        """
        there, back = self._mesh.link(*link), self._mesh.link(*link[::-1])
        shape, answers = there.shape or PERFECT, back.shape or PERFECT
        lost = 1.0 if there.cut else shape.loss
        passes = lost < 1.0 and answers.loss < 1.0 and not back.cut
        return ShapeMeasure(
            round_trip_ms=travel_ms(shape) + travel_ms(answers) if passes else None,
            lost=lost,
            spread_ms=_MIDDLE * 2 * max(shape.jitter_ms, answers.jitter_ms) if passes else None,
            duplicated=shape.duplicate * (1.0 - lost),
            overtaking=shape.reorder * (1.0 - lost),
            probes=_EXACT,
        )
