"""A node of either kind as a process of its own on loopback, without a backend."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping

from cluster.systems.base import Placement
from cluster.systems.kinds import SystemRequest
from cluster.systems.registry import system_named

OUTPUT = "output"
"""Name of the file that a node's output is appended to, in its folder."""


def start(
    placement: Placement,
    settings: Mapping[str, object],
    options: Mapping[str, str],
    edit: Callable[[str], str] = str,
) -> subprocess.Popen[bytes]:
    """Write the files of a placement and start its process; `edit` changes what is written.

    `options` are those of system "mixed": `kinds` says what the node is.
    """
    system = system_named("mixed").create(SystemRequest(dict(settings), dict(options)))
    placement.folder.mkdir(parents=True, exist_ok=True)
    for name, content in system.files(placement).items():
        (placement.folder / name).write_text(edit(content))
    with (placement.folder / OUTPUT).open("ab") as output:
        return subprocess.Popen(
            system.command(placement),
            cwd=placement.folder,
            env={**os.environ, **system.environment(placement)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a node and what it started, and wait for its end."""
    if process.poll() is None:  # else its id may be another's by now
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
