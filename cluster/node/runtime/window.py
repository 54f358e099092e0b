"""Sums over the last half minute to minute: the sampled statistics of Kafka's metrics."""

from __future__ import annotations

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
