"""The mounts that runs put over their nodes' data folders: labelled, found and removed.

A mount is a run's when the kernel's table shows the toolkit's type and a label
`kraftprobe#<run id>#<harness pid>:<its start time>#<node>#<process namespace of that pid>` as its
source. Nothing else is touched.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import TypeVar

from cluster.backends.base import ProcessIdentity
from cluster.backends.processes.records import pid_namespace
from cluster.values import valueclass

FUSE_TYPE = "fuse.kraftprobe"
_TABLE = Path("/proc/self/mountinfo")
_LABEL = re.compile(r"kraftprobe#([^#]+)#(\d+):([^#]+)#([^#]+)#(\d+)")
_TIMEOUT_S = 10.0
_HEAL_TIMEOUT_S = 2.0
PathT = TypeVar("PathT", bound=PurePath)


@valueclass
class Mount:
    """One mount of a run."""

    run_id: str
    harness: ProcessIdentity
    node: str
    folder: Path
    namespace: int
    """Where the harness has that pid."""


def mount_label(run_id: str, harness: ProcessIdentity, node: str) -> str:
    """Name a mount after its run, harness and node."""
    assert "#" not in run_id, "a run's name has no number sign"
    return f"kraftprobe#{run_id}#{harness.pid}:{harness.started}#{node}#{pid_namespace()}"


def mounts() -> Iterator[Mount]:
    """List the mounts of runs on this machine."""
    if sys.platform != "linux":
        return
    for line in _TABLE.read_text(encoding="utf-8", errors="surrogateescape").split("\n")[:-1]:
        before, _, after = line.partition(" - ")
        kind, source = after.split(" ")[:2]
        found = _LABEL.fullmatch(_plain(source))
        if kind == FUSE_TYPE and found:
            run_id, pid, started, node, namespace = found.groups()
            folder, harness = Path(_plain(before.split(" ")[4])), ProcessIdentity(int(pid), started)
            yield Mount(run_id, harness, node, folder, int(namespace))


def state_folder(folder: PathT) -> PathT:
    """Locate what the filesystem over a data folder keeps beside it: control socket, log, undo."""
    return folder.parent / f".{folder.name}-disk"


def heal(mount: Mount) -> None:
    """End its faults: a process that waits for a stalled disk cannot even be killed.

    A filesystem that does not answer is let be.
    """
    with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_HEAL_TIMEOUT_S)
        place = os.open(state_folder(mount.folder), os.O_RDONLY | os.O_DIRECTORY)
        try:  # a socket's name has at most 107 bytes
            connection.connect(f"/proc/self/fd/{place}/control")
        finally:
            os.close(place)
        connection.sendall(b'{"verb": "clear"}\n')
        connection.recv(1)


def unmount(mount: Mount) -> bool:
    """Unmount it, at once and even in use; whether it is gone. What lies below reappears."""
    for command in (["umount", "-l", str(mount.folder)], ["fusermount3", "-uz", str(mount.folder)]):
        if mount not in set(mounts()):
            return True
        program = shutil.which(command[0])
        if program is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(  # noqa: S603  (names are ours)
                    [program, *command[1:]], check=False, capture_output=True, timeout=_TIMEOUT_S
                )
    return mount not in set(mounts())


def _plain(text: str) -> str:
    """Undo the octal escapes of the kernel's tables."""
    return re.sub(r"\\(\d{3})", lambda found: chr(int(found.group(1), 8)), text)
