"""`kraftprobe` in a process of its own, as a user starts it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

PROGRAM = (sys.executable, "-c", "from harness.cli import main; main()")
TIMEOUT_S = 1200
STARVED = "the machine was starved"
UNKNOWN, UNDER_EXERCISED = 3, 4
ATTEMPTS = 3


def kraftprobe(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def until_decided(
    perform: Callable[[int], subprocess.CompletedProcess[str]],
) -> subprocess.CompletedProcess[str]:
    """Perform a run again that tried too little, or is UNKNOWN where the machine was starved.

    `perform` is given the number of the attempt, for a folder of its own.
    """
    for attempt in range(ATTEMPTS):
        done = perform(attempt)
        starved = done.returncode == UNKNOWN and STARVED in done.stdout
        if done.returncode != UNDER_EXERCISED and not starved:
            break
    return done
