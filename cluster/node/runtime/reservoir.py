"""A histogram of the newest values, as Kafka's Yammer metrics have them: by percentiles."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

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
