"""How much of its time an event loop waits: `poll-idle-ratio-avg`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol, cast

from cluster.node.runtime.window import SAMPLE_S


class _SelectorLoop(Protocol):
    _selector: Any


class IdleTime:
    """Measures the waits of a selector loop from now on; two clock readings a turn of the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._now_s = now_s
        self._waited_s = 0.0
        self._marks = [(now_s(), 0.0)]
        selector = cast("_SelectorLoop", loop)._selector
        self._select = selector.select
        selector.select = self._timed_select

    def _timed_select(self, timeout: float | None = None) -> Any:
        began = self._now_s()
        try:
            return self._select(timeout)
        finally:
            now = self._now_s()
            self._waited_s += now - began
            if now - self._marks[-1][0] >= SAMPLE_S:
                self._marks = [self._marks[-1], (now, self._waited_s)]

    def ratio(self) -> float:
        """Return the share of the last half minute to minute that was waited, 0 to 1."""
        began, waited = self._marks[0]
        elapsed = self._now_s() - began
        return 1.0 if elapsed <= 0 else min(1.0, (self._waited_s - waited) / elapsed)
