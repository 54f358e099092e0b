"""Links of a simulated world that lose, delay, reorder and repeat messages (abilities.Shaping).

Messages have no size in this world, so no rate can be put on a link. Loss and repetition hit raft
messages between nodes only, as everything of the mesh does (`cluster.backends.sim.mesh`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from cluster.backends.abilities import LinkShape, ShapeMeasure
from cluster.backends.arrivals import Arrivals, measure_of, probes_for
from cluster.backends.base import Link, Probe
from cluster.backends.shapes import PERFECT, missing_effects
from cluster.backends.sim.mesh import Mesh
from cluster.backends.terms import ONE_NODE, BackendError

_GAP_MS = 2.0
_NO_RATE = "messages of the simulated world have no size"


class SimShaping:
    """See `cluster.backends.abilities.Shaping`."""

    def __init__(self, mesh: Mesh, nodes: tuple[str, ...]) -> None:
        self._mesh = mesh
        self._nodes = nodes

    async def probe(self, shape: LinkShape) -> Probe:
        """See `Shaping.probe`."""
        if shape.rate_kbit_s is not None:
            return Probe(possible=False, reason=_NO_RATE, remedy="--backend netns")
        if len(self._nodes) < 2:
            return ONE_NODE
        link = (self._nodes[0], self._nodes[1])
        before = self.shaped().get(link, PERFECT)
        await self.shape({link: shape})
        seen = await self.measure(link)
        await self.shape({link: before})
        back = self.shaped().get(link[::-1], PERFECT)
        missing = "; ".join(missing_effects(shape, back, seen))
        return Probe(possible=not missing, reason=missing)

    async def shape(self, links: Mapping[Link, LinkShape]) -> None:
        """See `Shaping.shape`."""
        if any(shape.rate_kbit_s is not None for shape in links.values()):
            raise BackendError(f"{_NO_RATE}: try --backend netns")
        for (source, target), shape in links.items():
            self._mesh.link(source, target).shape = None if shape == PERFECT else shape

    def shaped(self) -> Mapping[Link, LinkShape]:
        """See `Shaping.shaped`."""
        links = ((a, b) for a in self._nodes for b in self._nodes if a != b)
        shapes = {link: self._mesh.link(*link).shape for link in links}
        return {link: shape for link, shape in shapes.items() if shape is not None}

    async def measure(self, link: Link) -> ShapeMeasure:
        """See `Shaping.measure`. The probes draw what raft messages would meet; time passes."""
        source, target = link
        count = probes_for(self._mesh.link(source, target).shape or PERFECT)
        arrived: list[tuple[float, int]] = []
        trips: list[float] = []
        for sequence in range(count):
            sent_ms = sequence * _GAP_MS
            there = self._mesh.fates(source, target)
            arrived += [(sent_ms + travel_ms, sequence) for travel_ms in there]
            back = self._mesh.fates(target, source) if there else []
            if back:
                trips.append(min(there) + min(back))
        arrived.sort()
        await asyncio.sleep(count * _GAP_MS / 1000 + max(trips, default=0.0) / 1000)
        first_ms = arrived[0][0] if arrived else 0.0
        return measure_of(
            Arrivals(
                sent=count,
                sequences=tuple(sequence for _, sequence in arrived),
                at_ms=tuple(at_ms - first_ms for at_ms, _ in arrived),
                round_trips_ms=tuple(trips),
            )
        )
