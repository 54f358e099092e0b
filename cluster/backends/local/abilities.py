"""What proxies do to links between processes of one machine: they delay them (Shaping).

The proxies carry bytes, no packets: they can let them travel longer. What befalls packets (loss,
repetition, overtaking) and a rate need a network of their own.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping

from cluster.backends.abilities import LinkShape, ShapeMeasure
from cluster.backends.base import BackendError, Link, Probe
from cluster.backends.links.proxy import LinkProxies, Way
from cluster.backends.links.shapes import PERFECT, try_shape

_PROBES = 12
_TIMEOUT_S = 2.0
_NO_PACKETS = (
    "links between processes of one machine carry bytes, no packets, and can only delay them"
)


class LocalShaping:
    """See `cluster.backends.abilities.Shaping`."""

    def __init__(self, proxies: LinkProxies, nodes: tuple[str, ...], ping: bytes) -> None:
        self._proxies = proxies
        self._nodes = nodes
        self._ping = ping
        self._shapes: dict[Link, LinkShape] = {}

    async def probe(self, shape: LinkShape) -> Probe:
        if not _is_delay(shape):
            return Probe(possible=False, reason=_NO_PACKETS, remedy="--backend netns")
        if len(self._nodes) < 2 or not self._proxies.are_open:
            return Probe(possible=False, reason="there is no link to try until two nodes are up")
        return await try_shape(self, self._nodes, shape)

    async def shape(self, links: Mapping[Link, LinkShape]) -> None:
        if not all(_is_delay(shape) for shape in links.values()):
            raise BackendError(f"{_NO_PACKETS}: try --backend netns")
        for link, shape in links.items():
            self._shapes[link] = shape
            self._proxies.slow_down(link, shape.delay_ms, shape.jitter_ms)
        self._shapes = {link: shape for link, shape in self._shapes.items() if shape != PERFECT}

    def shapes(self) -> Mapping[Link, LinkShape]:
        return dict(self._shapes)

    async def measure(self, link: Link) -> ShapeMeasure:
        """See `Shaping.measure`. Needs both nodes running: they answer.

        Of the link's streams, to each listener of its target, the one is reported that is the
        furthest from what is in force: a delay of one of them alone is none of the link.
        """
        shapes = [self._shapes.get(each, PERFECT) for each in (link, link[::-1])]
        delay_ms = sum(shape.delay_ms for shape in shapes)
        jitter_ms = sum(shape.jitter_ms for shape in shapes)
        timeout_s = _TIMEOUT_S + 2 * (delay_ms + jitter_ms) / 1000
        measures = await asyncio.gather(
            *(self._measure(way, timeout_s) for way in self._proxies.ways(link))
        )

        def strays_ms(measure: ShapeMeasure) -> float:
            trip_ms = measure.round_trip_ms
            return math.inf if trip_ms is None else abs(trip_ms - delay_ms)

        return max(measures, key=strays_ms)

    async def _measure(self, way: Way, timeout_s: float) -> ShapeMeasure:
        ping = self._ping
        trips = [await self._proxies.round_trip_ms(way, ping, timeout_s) for _ in range(_PROBES)]
        back = sorted(trip for trip in trips if trip is not None)
        if not back:
            return ShapeMeasure(round_trip_ms=None, lost=None)
        return ShapeMeasure(
            round_trip_ms=back[len(back) // 2],
            lost=1 - len(back) / len(trips),
            spread_ms=back[-1] - back[0],
            probes=len(trips),
        )


def _is_delay(shape: LinkShape) -> bool:
    return shape == LinkShape(delay_ms=shape.delay_ms, jitter_ms=shape.jitter_ms)
