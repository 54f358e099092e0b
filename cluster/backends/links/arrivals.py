"""What became of the packets of a probe, and the figures of a link that follow from it."""

from __future__ import annotations

import statistics

from cluster.backends.abilities import LinkShape, ShapeMeasure
from cluster.values import valueclass

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

    def rate_kbit_s(self, size_bytes: int) -> float | None:
        """Bits that arrived between the first packet and the last, by time."""
        if len(self.at_ms) < 2 or self.at_ms[-1] <= 0:
            return None
        return (len(self.at_ms) - 1) * size_bytes * 8 / self.at_ms[-1]


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
