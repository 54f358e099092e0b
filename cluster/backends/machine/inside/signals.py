"""What a running node is asked for by signals."""

import os
import signal


def send(pid: int, name: str) -> None:
    """Send a process the signal of this name."""
    os.kill(pid, getattr(signal, name))


def latest_snapshot(folder: str) -> str:
    """Name the newest checkpoint of a log; empty where there is none."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return max((name for name in names if name.endswith(".checkpoint")), default="")
