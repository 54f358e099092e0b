"""This machine as a `Host`: where a node is a plain process beside the harness."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from cluster.backends.abilities import Completed
from cluster.backends.base import BackendError, ProcessIdentity

_KILL_TIMEOUT_S = 2.0


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
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env={**os.environ, **self._environment},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise BackendError(f"cannot run {command[0]}: {error}") from error
        try:
            async with asyncio.timeout(timeout_s):
                stdout, stderr = await process.communicate(stdin)
        except TimeoutError:
            raise BackendError(f"{command[0]} did not end within {timeout_s:g} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                with contextlib.suppress(TimeoutError):  # it may hang in a disk that stalls
                    async with asyncio.timeout(_KILL_TIMEOUT_S):
                        await process.wait()
        assert process.returncode is not None, "it has ended"
        return Completed(process.returncode, stdout, stderr)

    async def pid(self) -> int | None:
        """See `Host.pid`."""
        found = await self._process(self.node)
        return None if found is None else found.pid
