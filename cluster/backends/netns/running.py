"""Run a short command of this machine and wait for what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from cluster.backends.abilities import Completed
from cluster.backends.base import BackendError


async def run_command(
    command: Sequence[str], environment: Mapping[str, str], stdin: bytes, timeout_s: float
) -> Completed:
    """Run it; killed when it does not end in time. Raises BackendError as `Host.run` does."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
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
        raise BackendError(f"{' '.join(command)[:200]}: no end within {timeout_s:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()  # to the end of its pipes, so that they are closed
    assert process.returncode is not None, "it has ended"
    return Completed(process.returncode, stdout, stderr)
