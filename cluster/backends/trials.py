"""Folders in which something is only tried: named so that those of a killed harness are found.

`kraftprobe-trial-<pid namespace>-<pid>-<start time>-...` in the folder for temporary files, of the
harness that made it. They go with the trial; what a killed one left is removed when its maker is
dead, as seen from the maker's own namespace, its owner is this user, and nothing is mounted there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cluster.backends.base import NodeState, ProcessIdentity
from cluster.backends.processes.records import own_identity, pid_namespace, state_of

_NAME = re.compile(r"kraftprobe-trial-(\d+)-(\d+)-(.+)-[^-]+")


@contextlib.contextmanager
def trial_folder() -> Iterator[Path]:
    """Make a folder for a trial, and remove it."""
    me = own_identity()
    started = re.sub(r"[^A-Za-z0-9-]", "_", me.started)
    prefix = f"kraftprobe-trial-{pid_namespace()}-{me.pid}-{started}-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        yield Path(folder)


def abandoned_trials() -> list[Path]:
    """List the folders of trials with a dead harness."""
    found = []
    for folder in sorted(Path(tempfile.gettempdir()).glob("kraftprobe-trial-*")):
        named = _NAME.fullmatch(folder.name)
        if named is None or folder.is_symlink() or not folder.is_dir():
            continue
        if int(named[1]) != pid_namespace():
            continue  # there its maker has another pid, and would seem dead here
        maker = ProcessIdentity(int(named[2]), named[3])
        if state_of(maker) is NodeState.DEAD and folder.stat().st_uid == os.getuid():
            found.append(folder)
    return found


def remove_trial(folder: Path) -> bool:
    """Remove such a folder; False when something is mounted there, or it cannot be."""
    mounted = any(Path(root).is_mount() for root, _, _ in os.walk(folder))
    if not mounted:
        shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
