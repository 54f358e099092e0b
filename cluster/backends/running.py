"""What hosts with files on this machine share: short commands, and files of a node."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.backends.abilities import Completed
from cluster.backends.base import BackendError

_KILL_TIMEOUT_S = 2.0


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
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            with contextlib.suppress(TimeoutError):  # it may hang in a disk that stalls
                async with asyncio.timeout(_KILL_TIMEOUT_S):
                    await process.communicate()  # to the end of its pipes, so that they are closed
    assert process.returncode is not None, "it has ended"
    return Completed(process.returncode, stdout, stderr)


def write_files(node: str, folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files, by path below the node's folder. Raises BackendError as `HostProvider.put`.

    They may hold keys and passwords: nobody but the user may read them, who runs the node too.
    """
    try:
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).touch(0o600)
            (folder / path).chmod(0o600)
            (folder / path).write_bytes(content)
    except OSError as error:
        raise BackendError(f"{node}: {error}") from error
