"""Watches the harness itself during a run: a late event loop, scarce processors, clock steps.

Times of the journal are of a monotonic clock, so none of this makes a verdict wrong. But faults and
operations come late where the loop does, and certificates or a node's own log lines do not fit
where the wall clock of the harness's machine was set: a reader of the run must know.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from checkers.history import EventType
from checkers.runs.faults import OWN_DELAYS
from harness.run.recorder import Recorder

_EVERY_S = 0.25
STEP_MIN_S = 0.1
"""A clock that is slewed moves by 0.0005 s a second at most: a change like this is a step."""


class OwnDelays:
    """Measures until it is closed; journals a step of the wall clock when it sees it."""

    def __init__(
        self,
        recorder: Recorder,
        wall_s: Callable[[], float] = time.time,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recorder = recorder
        self._wall_s = wall_s
        self._monotonic_s = monotonic_s
        self._late_s = 0.0
        # The best of several: that of one in the middle of which this process stood would be wrong.
        self._offset_s, _ = min((self._measure() for _ in range(5)), key=itemgetter(1))

    async def watch(self) -> None:
        """Measure until cancelled."""
        while True:
            due_s = self._monotonic_s() + _EVERY_S
            await asyncio.sleep(_EVERY_S)
            self._late_s = max(self._late_s, self._monotonic_s() - due_s)
            self.look()

    def look(self) -> None:
        """Compare the clocks, and journal a step of the wall clock.

        This process may be stopped between two readings: then they are compared next time.
        """
        offset_s, unsure_s = self._measure()
        if unsure_s > STEP_MIN_S / 4:
            return
        step_s = offset_s - self._offset_s
        self._offset_s = offset_s
        if abs(step_s) > STEP_MIN_S:
            self._note(clock_step_s=round(step_s, 3))

    def end(self) -> None:
        """Journal what was measured in all."""
        self._note(
            late_ms=round(1000 * self._late_s),
            load=round(os.getloadavg()[0], 1),
            processors=os.cpu_count() or 1,
        )

    def _note(self, **value: Any) -> None:
        self._recorder.note(OWN_DELAYS, value, EventType.INFO)

    def _measure(self) -> tuple[float, float]:
        """Return wall clock minus monotonic clock, and how much it may be wrong."""
        before_s = self._monotonic_s()
        wall_s = self._wall_s()
        after_s = self._monotonic_s()
        return wall_s - after_s, after_s - before_s
