"""What blocks the event loop (a plain `time.sleep`, an endless loop) is ended at a bound.

Nothing on the loop can end it, as bounds are kept by the loop, and signals are handled there. So a
timer of the kernel, which the loop sets anew while it turns, raises an error in the very code that
keeps it from turning: a client's then ends the run as any error of a client does, with its package,
file and line; an injection counts as one that raised. A signal that waits for the loop shortens the
timer (`hurry`).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator

BLOCKED_S = 60.0
"""No turn of a loop takes so long, on a machine where it is starved either."""
GRACE_S = 10.0
"""Given to the loop after the bound: it may not have turned because the process was stopped."""
HURRY_S = 2.5
"""Each of the two looks after a signal: longer than a beat."""
_BEAT_S = 1.0


class BlockedError(Exception):
    """A client or a fault did not let the loop turn."""


def hurry() -> None:
    """End what blocks a watched loop within seconds, as a signal waits to be handled on it."""
    left_s, interval_s = signal.getitimer(signal.ITIMER_REAL)
    if left_s and not interval_s:  # else no loop is watched, or an earlier signal has asked
        signal.setitimer(signal.ITIMER_REAL, HURRY_S, HURRY_S)


@contextlib.asynccontextmanager
async def raise_in_blocked_loop() -> AsyncIterator[None]:
    """Raise BlockedError in what blocks the loop while the body runs; in the main thread only."""
    turns, turns_at_alarm, turned_s = 0, -1, time.monotonic()

    def alarm(*_: object) -> None:
        nonlocal turns_at_alarm
        is_blocked = turns == turns_at_alarm
        turns_at_alarm = turns
        interval_s = signal.getitimer(signal.ITIMER_REAL)[1]
        signal.setitimer(signal.ITIMER_REAL, interval_s or GRACE_S, interval_s)
        if is_blocked:
            raise BlockedError(
                f"the event loop was blocked for {time.monotonic() - turned_s:.0f} s: "
                "clients and faults must await what takes long"
            )

    async def beat() -> None:
        nonlocal turns, turned_s
        while True:
            turns, turned_s = turns + 1, time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, BLOCKED_S)
            await asyncio.sleep(_BEAT_S)

    before = signal.signal(signal.SIGALRM, alarm)
    beating = asyncio.ensure_future(beat())
    try:
        yield
    finally:
        beating.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
