"""This machine as a `Host`: where a node is a plain process beside the harness."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from cluster.backends.abilities import Completed
from cluster.backends.base import ProcessIdentity
from cluster.backends.running import run_command


class LocalHost:
    """See `cluster.backends.abilities.Host`.

    What it runs carries `environment` beside what the harness has, so that a labelled program
    that stays is found again.
    """

    address = "127.0.0.1"
    interface = None

    def __init__(
        self,
        node: str,
        folder: Path,
        environment: Mapping[str, str],
        process: Callable[[str], Awaitable[ProcessIdentity | None]],
    ) -> None:
        self.node = node
        self.folder = folder
        self._environment = environment
        self._process = process

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 10.0
    ) -> Completed:
        """See `Host.run`."""
        return await run_command(command, {**os.environ, **self._environment}, stdin, timeout_s)

    async def pid(self) -> int | None:
        """See `Host.pid`."""
        found = await self._process(self.node)
        return None if found is None else found.pid
