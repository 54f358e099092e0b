"""Figures of what was seen of late, as Kafka's metrics have them: sums, and percentiles."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

SAMPLE_S: Final = 30.0
"""`metrics.sample.window.ms`; with two samples, as `metrics.num.samples` has it."""


class Window:
    """What was recorded in the sample that runs and in the one before it."""

    __slots__ = ("_began_s", "_current", "_previous", "_sample_began_s")

    def __init__(self, now_s: float) -> None:
        self._began_s = self._sample_began_s = now_s
        self._current: list[float] = [0.0, 0.0, 0.0]  # sum, count, maximum
        self._previous: list[float] = [0.0, 0.0, 0.0]

    def record(self, value: float, now_s: float) -> None:
        """Add a value (>= 0)."""
        self._turn(now_s)
        sample = self._current
        sample[0] += value
        sample[1] += 1
        sample[2] = max(sample[2], value)

    def mean(self, now_s: float) -> float:
        """Return the mean, NaN when nothing was recorded."""
        self._turn(now_s)
        count = self._current[1] + self._previous[1]
        return (self._current[0] + self._previous[0]) / count if count else float("nan")

    def maximum(self, now_s: float) -> float:
        """Return the maximum, NaN when nothing was recorded."""
        self._turn(now_s)
        if not self._current[1] + self._previous[1]:
            return float("nan")
        return max(self._current[2], self._previous[2])

    def rate_per_s(self, now_s: float) -> float:
        """Return the sum a second; a window that is younger than a sample counts as one."""
        self._turn(now_s)
        elapsed = max(SAMPLE_S, now_s - max(self._began_s, self._sample_began_s - SAMPLE_S))
        return (self._current[0] + self._previous[0]) / elapsed

    def _turn(self, now_s: float) -> None:
        elapsed = now_s - self._sample_began_s
        if elapsed < SAMPLE_S:
            return
        self._previous = self._current if elapsed < 2 * SAMPLE_S else [0.0, 0.0, 0.0]
        self._current = [0.0, 0.0, 0.0]
        self._sample_began_s += SAMPLE_S * (elapsed // SAMPLE_S)


RESERVOIR_SIZE: Final = 1_028
"""Of Yammer's samples; those are drawn with more weight on newer values, these are the newest."""
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Kafka's 50thPercentile to 999thPercentile."""


class Reservoir:
    """The newest values, and count and sum of all."""

    def __init__(self) -> None:
        self.values: deque[float] = deque(maxlen=RESERVOIR_SIZE)
        self.count = 0
        self.sum = 0.0

    def record(self, value: float) -> None:
        """Add one."""
        self.values.append(value)
        self.count += 1
        self.sum += value

    def quantiles(self) -> tuple[float, ...]:
        """Return the values below which these shares of the newest are; NaN without any."""
        ordered = sorted(self.values)
        if not ordered:
            return (math.nan,) * len(QUANTILES)
        return tuple(
            ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in QUANTILES
        )

    def maximum(self) -> float:
        """Return the largest of the newest; NaN without any."""
        return max(self.values, default=math.nan)
