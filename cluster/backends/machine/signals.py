"""What a running node is asked for by signals: to resign, to snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final, Literal

from cluster.backends.base import BackendError
from cluster.backends.machine.inside import signals
from cluster.backends.machine.programs import Machine, run_program

_SIGNALS: Final = {"resign": "SIGUSR1", "snapshot": "SIGUSR2"}


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
        await run_program(machine, signals.send, pid, _SIGNALS[what])

    async def latest_snapshot(self, node: str) -> str:
        """See `Requests.latest_snapshot`."""
        folder = str(self._log_folders[node])
        return await run_program(self._machines[node], signals.latest_snapshot, folder)
