"""The fault `timer-rate`: a node's time-outs come too early or too late.

Every time-out of KRaft is measured with a monotonic clock, and no two of these run alike. Safety
must not depend on any rate; liveness is expected back with the true one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from nemeses.base import Injection, View, timers_of
from nemeses.node_fault import NodeFault, Seen


class TimerRate(NodeFault):
    """The node's monotonic clock runs `rate` times as fast, and with it all its time-outs.

    Its wall clock goes with it. Parameters: targets (default random), rate (default 2, 0.05 to 20).
    """

    name = "timer-rate"
    needs = "timers"
    numbers: ClassVar = {"rate": (2.0, 0.05, 20)}
    variants = tuple({"rate": rate} for rate in (0.2, 0.5, 2.0, 5.0))

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen:
        """Set the rate."""
        await timers_of(view).set(node, self.number(chosen, "rate"))
        return Seen()

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Measure the rate."""
        return await _measure(view, node, self.number(injection.detail["chosen"][node], "rate"))

    async def undo(self, view: View, node: str, injection: Injection) -> None:  # noqa: ARG002
        """Let it run with its host's own clock again."""
        await timers_of(view).set(node, 1.0)

    async def check_gone(self, view: View, node: str, injection: Injection) -> Seen:  # noqa: ARG002
        """Measure that it does."""
        return await _measure(view, node, 1.0)


async def _measure(view: View, node: str, asked: float) -> Seen:
    rate = await timers_of(view).measure(node)
    wrong = "" if math.isclose(rate, asked) else f"{node}: timers run at {rate:g}, not {asked:g}"
    return Seen({"rate": round(rate, 6)}, wrong)
