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
            archive.extractall(destination, filter="data")
    except (tarfile.TarError, OSError) as error:
        raise BackendError(f"{destination}: cannot be unpacked: {error}") from error
