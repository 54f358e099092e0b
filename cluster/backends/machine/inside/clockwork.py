"""Rewrites a libfaketime file again and again: a clock that drifts or strobes.

`python clockwork.py FILE OFFSET_MS RATE PERIOD_MS` (PERIOD_MS 0: no strobe). It steps the offset
instead of giving libfaketime a rate, since the library also scales the time-outs of sleep, poll
and epoll by a rate, which would leak the fault into the monotonic clock. With a step every 20 ms a
clock that runs 10 % fast is at most 2 ms off its line. Ends when its folder is gone.
"""

import os
import sys
import time

STEP_S = 0.02


def show(path: str, offset_s: float) -> None:
    """Let the clock of this file show an offset.

    Written beside and renamed: libfaketime ends a process that reads half a line.
    """
    beside = f"{path}.{os.getpid()}"
    with open(beside, "w", encoding="ascii") as file:
        file.write(f"{offset_s:+.6f} x1\n")
    os.replace(beside, path)


def main(path: str, offset_s: float, rate: float, period_s: float) -> None:
    """Run until killed."""
    began_s = time.monotonic()
    while True:
        passed_s = time.monotonic() - began_s
        shown_s = offset_s + (rate - 1.0) * passed_s
        if period_s and int(passed_s / period_s) % 2:
            shown_s = 0.0
        try:
            show(path, shown_s)
        except FileNotFoundError:
            return
        time.sleep(min(STEP_S, period_s / 4) if period_s else STEP_S)


if __name__ == "__main__":
    offset_ms, rate, period_ms = (float(word) for word in sys.argv[2:5])
    main(sys.argv[1], offset_ms / 1000, rate, period_ms / 1000)
