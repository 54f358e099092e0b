"""Measures directed links between hosts by probe packets of their agents.

A probe is a handful of datagrams from the source's host to the target's, with the address and the
interface that the nodes' own packets have. What arrives is reported by the target's agent over the
harness's own path, so each direction is measured by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import statistics
from collections.abc import Mapping
from typing import Any

from cluster.backends.abilities import LinkShape, ShapeMeasure
from cluster.backends.agent.channel import ASK_S
from cluster.backends.base import BackendError, Link
from cluster.backends.hosts import AgentHost, HostProvider
from cluster.values import valueclass

_GAP_MS = 20.0
_SMALL_BYTES = 64
_LARGE_BYTES = 1200
_HEADERS_BYTES = 28
"""Of IP and UDP, which count as bits on the wire."""
_PROBE_GAP_MS = 2.0
_LINGER_MS = 300.0
_BURST_S = 0.5
"""About as long as a burst that measures a rate takes on the wire."""


class LinkProber:
    """Sends and counts packets by the agents of all hosts. `start` first."""

    def __init__(self, provider: HostProvider, hosts: Mapping[str, AgentHost]) -> None:
        self._hosts = dict(hosts)
        self._numbers = itertools.count(random.getrandbits(48))
        self._ports = {node: provider.ports(node).agent for node in hosts}

    async def start(self) -> None:
        """Let every agent listen. Raises BackendError."""
        await asyncio.gather(*(self.ensure(node) for node in self._hosts))

    async def ensure(self, node: str) -> None:
        """Let a node's agent listen, which may be a new one. Raises BackendError."""
        host = self._hosts[node]
        await host.call("listen", address=host.address, port=self._ports[node])

    async def passes(self, link: Link, timeout_s: float, *, as_answer: bool) -> bool:
        """Send packets over the link until one arrives, or the time is over.

        As the source's request goes (from a fresh port to the target's known one), or as its answer
        to a request of the target's (from its known port to a fresh one).
        """
        source, target = link
        source_port, target_port = 0, self._ports[target]
        if as_answer:
            source_port = self._ports[source]
            target_port = int((await self._hosts[target].call("open")).fields["port"])
        probe = next(self._numbers)
        count = max(1, int(timeout_s * 1000 / _GAP_MS))
        request = self._packets(target, target_port, probe, count, _GAP_MS, source_port)
        calling = self._hosts[source].call("send", timeout_s=timeout_s + ASK_S, **request)
        sending = asyncio.ensure_future(calling)
        try:
            seen = await self._arrivals(target, probe, timeout_s)
            await self._hosts[source].call("stop", probe=probe)
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, BackendError):
                await sending
        return bool(seen)

    async def arrivals(
        self, link: Link, count: int, gap_ms: float, linger_ms: float, size_bytes: int
    ) -> Arrivals:
        """Send that many packets over the link and see what becomes of each."""
        source, target = link
        probe = next(self._numbers)
        request = self._packets(target, self._ports[target], probe, count, gap_ms, 0)
        request |= {"linger_ms": linger_ms, "size": size_bytes}
        takes_s = (count * gap_ms + linger_ms) / 1000
        host = self._hosts[source]
        answer = await host.call("send", timeout_s=3 * takes_s + ASK_S, **request)
        seen = await self._arrivals(target, probe, 0.0)
        return Arrivals(
            sent=count,
            sequences=tuple(int(sequence) for sequence, _ in seen),
            at_ms=tuple(at / 1000 for _, at in seen),
            round_trips_ms=tuple(float(trip) for _, trip, _ in answer.fields["answers"]),
            took_ms=max((float(at_ms) for *_, at_ms in answer.fields["answers"]), default=0.0),
        )

    async def shape(self, link: Link, expected: LinkShape, back: LinkShape) -> ShapeMeasure:
        """Measure a link of which this is expected; round trips come back over the opposite one.

        Enough packets are sent that a rare event shows, and waited for as long as a delay needs.
        """
        travel_ms = sum(2 * (shape.delay_ms + shape.jitter_ms) for shape in (expected, back))
        linger_ms = _LINGER_MS + travel_ms
        if expected.rate_kbit_s is not None:
            bits = (_LARGE_BYTES + _HEADERS_BYTES) * 8
            count = int(min(PROBES, max(8, expected.rate_kbit_s * 1000 * _BURST_S / bits)))
            wire_ms = count * bits / expected.rate_kbit_s
            burst = await self.arrivals(link, count, 0.0, linger_ms + wire_ms, _LARGE_BYTES)
            least_ms = sum(max(0.0, way.delay_ms - way.jitter_ms) for way in (expected, back))
            rate = burst.rate_kbit_s(_LARGE_BYTES + _HEADERS_BYTES, least_ms)
            return measure_of(burst, rate)
        count = probes_for(expected)
        # Packets close to one another share their jitter, as none overtakes another.
        gap_ms = max(_PROBE_GAP_MS, expected.jitter_ms / 5)
        probe = await self.arrivals(link, count, gap_ms, linger_ms, _SMALL_BYTES)
        return measure_of(probe, None)

    def _packets(
        self, target: str, port: int, probe: int, count: int, gap_ms: float, from_port: int
    ) -> dict[str, Any]:
        return {
            "to": [self._hosts[target].address, port],
            "probe": probe,
            "count": count,
            "gap_ms": gap_ms,
            "from_port": from_port,
            "size": _SMALL_BYTES,
            "linger_ms": 0,
        }

    async def _arrivals(self, node: str, probe: int, wait_s: float) -> list[tuple[int, int]]:
        answer = await self._hosts[node].call(
            "seen", probe=probe, wait_ms=wait_s * 1000, timeout_s=wait_s + ASK_S
        )
        seen: list[tuple[int, int]] = answer.fields["seen"]
        return seen


PROBES = 200
"""Packets that measure a link, unless what is expected of it is rare."""
_PROBES_MAX = 2000
_EXPECTED_EVENTS = 20
"""Packets that should meet what is rare, so that none at all cannot be chance: e ** -20."""


@valueclass
class Arrivals:
    """What one probe's packets met on their link."""

    sent: int
    sequences: tuple[int, ...]
    """Of the packets in their order of arrival; a duplicate is there twice."""
    at_ms: tuple[float, ...]
    """When each arrived, after the first."""
    round_trips_ms: tuple[float, ...]
    """Of the packets that were answered."""
    took_ms: float
    """From when the first was sent until the last answer was there; 0 without one."""

    @property
    def lost(self) -> float:
        """Share of packets that did not arrive."""
        return 1.0 - len(set(self.sequences)) / self.sent

    @property
    def duplicated(self) -> float:
        """Share of packets that arrived more than once."""
        return (len(self.sequences) - len(set(self.sequences))) / self.sent

    @property
    def overtaking(self) -> float:
        """Share of packets that arrived before one that was sent earlier."""
        earliest, ahead = self.sent, 0
        for sequence in reversed(self.sequences):
            ahead += sequence > earliest
            earliest = min(earliest, sequence)
        return ahead / self.sent

    def rate_kbit_s(self, size_bytes: int, travel_ms: float) -> float | None:
        """Bits that arrived by time: the lower of two measures, as each may be too high.

        Between two arrivals, of which the first may be late on a busy machine; and from when the
        first was sent until the last answer came, which may be lost. `travel_ms`: least time of a
        packet and its answer beside the wire's.
        """
        bits, packets = size_bytes * 8, len(set(self.sequences))
        spans = (packets - 1, max(self.at_ms, default=0.0)), (packets, self.took_ms - travel_ms)
        return min((count * bits / ms for count, ms in spans if count > 0 and ms > 0), default=None)


def probes_for(expected: LinkShape) -> int:
    """Return how many packets show what is expected, however rare."""
    shares = (expected.loss, expected.duplicate, expected.reorder)
    rarest = min((share for share in shares if share), default=1.0)
    return int(min(_PROBES_MAX, max(PROBES, _EXPECTED_EVENTS / rarest)))


def measure_of(arrivals: Arrivals, rate_kbit_s: float | None = None) -> ShapeMeasure:
    """Sum a probe up."""
    trips = sorted(arrivals.round_trips_ms)
    edge = len(trips) // 20
    return ShapeMeasure(
        round_trip_ms=statistics.median(trips) if trips else None,
        lost=arrivals.lost,
        spread_ms=trips[-1 - edge] - trips[edge] if trips else None,
        duplicated=arrivals.duplicated,
        overtaking=arrivals.overtaking,
        rate_kbit_s=rate_kbit_s,
        probes=arrivals.sent,
    )
