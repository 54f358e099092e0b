"""What proxies do to links between processes of one machine: delays (Shaping), holds (Messages).

The proxies carry bytes, no packets: they can let them travel longer. What befalls packets (loss,
repetition, overtaking) and a rate need a network of their own.

What the proxies decode (`cluster.backends.links.messages`) is kept here until its release. A
message whose connection lives goes out on it, behind what has passed meanwhile. A request whose
connection is gone goes out on a new one, on which the target's response is lost; a response whose
connection is gone is lost itself, as nobody is there to hear it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence

from cluster.backends.abilities import LinkShape, ShapeMeasure
from cluster.backends.base import BackendError, Link, Probe
from cluster.backends.links.messages import KINDS, Held, Hold
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


class LocalMessages:
    """See `cluster.backends.abilities.Messages`. Listeners must be plain: see `local`."""

    def __init__(self, proxies: LinkProxies) -> None:
        self._proxies = proxies
        self._made = 0
        self._holds: dict[str, Hold] = {}

    async def hold(self, links: Sequence[Link], types: Sequence[str]) -> str:
        hold = Hold(set(links), frozenset(KINDS[name] for name in types))
        for link in links:
            for listener in hold.listeners:
                self._proxies.sieves[link, listener].begin(hold)
        try:
            _check(hold)
        except BackendError:
            self._end(hold, links)
            raise
        self._made += 1
        name = f"hold-{self._made}"
        self._holds[name] = hold
        return name

    async def count_held(self, name: str) -> int | None:
        """See `Messages.count_held`. Raises BackendError when messages may have passed unread."""
        hold = self._holds.get(name)
        if hold is None:
            return None
        _check(hold)
        return len(hold.held)

    async def release(self, name: str, links: Sequence[Link] = (), *, deliver: bool = True) -> int:
        """See `Messages.release`; counts no response that nobody is there to hear."""
        hold = self._holds.get(name)
        if hold is None:
            return 0
        out = self._end(hold, links or tuple(hold.links))
        if not hold.links:
            del self._holds[name]
        count = self._deliver(out) if deliver else len(out)
        _check(hold)
        return count

    def forget(self) -> None:
        """End all holds and lose what they kept. Idempotent; never raises."""
        for hold in self._holds.values():
            self._end(hold, tuple(hold.links))
        self._holds.clear()

    def _end(self, hold: Hold, links: Sequence[Link]) -> list[Held]:
        """End a hold on some links, and return what it kept there."""
        for link in hold.links.intersection(links):
            for listener in hold.listeners:
                self._proxies.sieves[link, listener].holds.remove(hold)
        hold.links.difference_update(links)
        out = [held for held in hold.held if held.link not in hold.links]
        hold.held = [held for held in hold.held if held.link in hold.links]
        return out

    def _deliver(self, messages: Sequence[Held]) -> int:
        anew: dict[Way, list[bytes]] = {}
        lost = 0
        for held in messages:
            if held.stream.takes_frames:
                held.stream.insert(held.frame)
            elif held.stream.requests:
                anew.setdefault((held.link, held.listener), []).append(held.frame)
            else:
                lost += 1
        for way, frames in anew.items():
            self._proxies.say_anew(way, frames)
        return len(messages) - lost


def _check(hold: Hold) -> None:
    """Raise BackendError when a link of a hold carried what is not Kafka's protocol."""
    if hold.undecoded:
        links = ", ".join(f"{source}>{target}" for source, target in sorted(hold.undecoded))
        raise BackendError(f"messages on {links} cannot be told apart: not Kafka's protocol")
