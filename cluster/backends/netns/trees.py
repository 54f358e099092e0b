"""Node folders that hold mounts of their own: recognised, and copied out."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePath

from cluster.backends.base import BackendError


def mounted_below(pid: int, folder: PurePath) -> bool:
    """Whether a process sees a mount at or below the folder. Raises BackendError if it is gone."""
    try:
        lines = Path("/proc", str(pid), "mountinfo").read_text().splitlines()
    except OSError as error:
        raise BackendError(f"the mounts of {folder} cannot be listed: {error}") from error
    points = (PurePath(line.split()[4].replace("\\040", " ")) for line in lines)
    return any(point.is_relative_to(folder) for point in points)


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
