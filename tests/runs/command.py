"""`kraftprobe` in a process of its own, as a user starts it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = (sys.executable, "-c", "from harness.cli import main; main()")
TIMEOUT_S = 1200


def kraftprobe(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
