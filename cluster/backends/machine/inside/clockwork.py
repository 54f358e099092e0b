"""Sets a faked clock again and again: a clock that drifts or strobes.

`python clockwork.py FILE OFFSET_MS RATE PERIOD_MS` (PERIOD_MS 0: no strobe). With a step every
20 ms a clock that runs 10 % fast is at most 2 ms off its line. Ends when its file is gone.
"""

import mmap
import os
import sys
import time

STEP_S = 0.02


def main(path: str, offset_s: float, rate: float, period_s: float) -> None:
    """Run until killed."""
    began_s = time.monotonic()
    with open(path, "r+b") as file:
        page = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")
    while os.path.exists(path):
        passed_s = time.monotonic() - began_s
        shown_s = offset_s + (rate - 1.0) * passed_s
        if period_s and int(passed_s / period_s) % 2:
            shown_s = 0.0
        page[0] = round(shown_s * 1e9)
        time.sleep(min(STEP_S, period_s / 4) if period_s else STEP_S)


if __name__ == "__main__":
    offset_ms, rate, period_ms = (float(word) for word in sys.argv[2:5])
    main(sys.argv[1], offset_ms / 1000, rate, period_ms / 1000)
