"""What a running node is asked for by signals: to resign, to snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final, Literal

from cluster.backends.base import BackendError
from cluster.backends.machine.programs import Machine, run_program

_SIGNALS: Final = {"resign": "SIGUSR1", "snapshot": "SIGUSR2"}

_SEND = """
import os, signal
os.kill(argument["pid"], getattr(signal, argument["signal"]))
answer(True)
"""

_LATEST = """
import os
names = os.listdir(argument) if os.path.isdir(argument) else []
answer(max((name for name in names if name.endswith(".checkpoint")), default=""))
"""


class NodeSignals:
    """See `cluster.backends.abilities.Requests`."""

    def __init__(
        self, machines: Mapping[str, Machine], log_folders: Mapping[str, PurePath]
    ) -> None:
        """`log_folders`: where each node's metadata log is, as seen inside its host."""
        self._machines = machines
        self._log_folders = log_folders

    async def send(self, node: str, what: Literal["resign", "snapshot"]) -> None:
        """See `Requests.send`."""
        machine = self._machines[node]
        pid = await machine.pid()
        if pid is None:
            raise BackendError(f"{node} cannot be asked: it is dead")
        await run_program(machine, _SEND, {"pid": pid, "signal": _SIGNALS[what]})

    async def latest_snapshot(self, node: str) -> str:
        """See `Requests.latest_snapshot`."""
        folder = str(self._log_folders[node])
        return str(await run_program(self._machines[node], _LATEST, folder))
