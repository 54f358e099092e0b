"""Real time, on an asyncio loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from cluster.node.ports import Timer


class LoopClock:
    """The `Clock` seam over an event loop: `monotonic_ms` is the loop's own time."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000.0

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        assert delay_ms >= 0
        return self._loop.call_later(delay_ms / 1000.0, callback)
