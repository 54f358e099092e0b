"""This machine as a `Host`: commands and files of a node that is a plain process here."""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path, PurePath

from cluster.backends.abilities import Completed
from cluster.backends.agent.processes import RefusedError, run
from cluster.backends.base import BackendError, ProcessIdentity


class LocalHost:
    """See `cluster.backends.abilities.Host`.

    What it runs carries `environment` beside what the harness has, so that a labelled program
    that stays is found again.
    """

    address = "127.0.0.1"
    interpreter = sys.executable

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
        environment = {**os.environ, **self._environment}
        try:
            return Completed(*await run(command, environment, stdin, timeout_s))
        except (OSError, RefusedError) as error:
            raise BackendError(f"cannot run {command[0]}: {error}") from error

    async def pid(self) -> int | None:
        found = await self._process(self.node)
        return None if found is None else found.pid


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


def read_here(path: Path, offset: int) -> bytes:
    """Read a file from an offset on; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read()
    except FileNotFoundError:
        return b""


def unpack(packed: bytes, destination: Path) -> None:
    """Unpack a tar archive of plain files and folders. Raises BackendError."""
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(destination, filter="data")
            else:  # Python before 3.11.4
                archive.extractall(destination, [_plain(member) for member in archive])  # noqa: S202
    except (tarfile.TarError, OSError) as error:
        raise BackendError(f"{destination}: cannot be unpacked: {error}") from error


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return what stays below where it is unpacked. Raises TarError for the rest."""
    path = PurePath(member.name)
    if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
        raise tarfile.TarError(f"{member.name!r} is no plain file or folder below it")
    return member
