"""Find and end what a killed harness left behind, and nothing else.

Processes are ended here; `abandoned_mounts` lists the mounts, which are taken away after them.

A process belongs to a run if it carries the run's label in its environment, or if the run
recorded its pid and start time. It is a leftover when the harness that started it is dead; while
the harness lives its run is a campaign like any other, and is touched only when it is named.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from cluster.backends.base import RUN_LABEL, NodeState, ProcessIdentity
from cluster.backends.machine.mounts import Mount, mounts
from cluster.backends.processes import (
    HARNESS_LABEL,
    PROCESSES_FILE,
    TRIAL,
    RecordedProcess,
    identify,
    read_recorded,
    state_of,
)
from cluster.values import valueclass

_PROC = Path("/proc")
_GONE_TIMEOUT_S = 5.0
_POLL_S = 0.005


@valueclass
class Leftover:
    """A live process that a run started and nobody looks after."""

    run_id: str
    identity: ProcessIdentity
    command: str
    """What it runs, for a person; empty when it cannot be read."""


def find_leftovers(runs: Path | None = None, run_id: str | None = None) -> list[Leftover]:
    """List the live processes of dead harnesses, ordered by run and pid.

    `runs`: only runs with a folder below this one (or that are this one), and throw-away clusters
    of probes, which have none; None: all on this machine that carry labels. `run_id`: only this
    run, and even if its harness lives.
    """
    folders = [] if runs is None else _run_folders(runs)
    recorded = {folder: tuple(read_recorded(folder)) for folder in folders}
    here = {process.run_id for processes in recorded.values() for process in processes}
    found: dict[ProcessIdentity, str] = {}
    for labelled_run, harness, identity in _labelled_processes():
        if runs is not None and labelled_run not in here and not labelled_run.startswith(TRIAL):
            continue
        if labelled_run == run_id or (run_id is None and _is_dead(harness)):
            found[identity] = labelled_run
    for processes in recorded.values():
        for process in _recorded_nodes(processes, run_id):
            found[process.identity] = process.run_id
    order = sorted(found, key=lambda identity: (found[identity], identity.pid))
    return [Leftover(found[identity], identity, _command(identity.pid)) for identity in order]


def abandoned_mounts(runs: Path | None = None, run_id: str | None = None) -> list[Mount]:
    """List the mounts of dead harnesses, chosen as `find_leftovers` chooses processes."""
    return [
        mount
        for mount in mounts()
        if (mount.run_id == run_id or (run_id is None and _is_dead(mount.harness)))
        and (
            runs is None
            or mount.folder.is_relative_to(runs.absolute())
            or mount.run_id.startswith(TRIAL)
        )
    ]


def clean(leftovers: Iterable[Leftover]) -> list[Leftover]:
    """Kill them and wait until they are gone; returns those that are not.

    Each is looked at once more before it is signalled, so that a pid that has meanwhile become
    another process is safe.
    """
    asked = list(leftovers)
    for leftover in asked:
        with contextlib.suppress(OSError):
            _kill(leftover.identity)
    deadline = time.monotonic() + _GONE_TIMEOUT_S
    while (alive := [one for one in asked if not _is_dead(one.identity)]) and (
        time.monotonic() < deadline
    ):
        time.sleep(_POLL_S)
    return alive


def _run_folders(runs: Path) -> list[Path]:
    files = {*runs.glob(PROCESSES_FILE), *runs.glob(f"*/*/{PROCESSES_FILE}")}
    return sorted(file.parent for file in files)


def _recorded_nodes(
    processes: Iterable[RecordedProcess], run_id: str | None
) -> Iterator[RecordedProcess]:
    recorded = tuple(processes)
    harnesses = [process for process in recorded if process.role == "harness"]
    orphaned = bool(harnesses) and all(_is_dead(process.identity) for process in harnesses)
    for process in recorded:
        wanted = orphaned if run_id is None else process.run_id == run_id
        if wanted and process.role != "harness" and not _is_dead(process.identity):
            yield process


def _is_dead(identity: ProcessIdentity) -> bool:
    return state_of(identity) is NodeState.DEAD


def _labelled_processes() -> Iterator[tuple[str, ProcessIdentity, ProcessIdentity]]:
    """Yield (run id, harness, process) for all live processes whose environment we may read."""
    if sys.platform != "linux":
        return
    own_namespace = (_PROC / "self/ns/pid").readlink()
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        identity = identify(int(entry.name))
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            namespace = (entry / "ns/pid").readlink()
        except OSError:
            continue  # gone, or another user's
        # In another namespace the harness has another pid, and would seem dead.
        if identity is None or namespace != own_namespace:
            continue
        variables = dict(pair.split(b"=", 1) for pair in environment if b"=" in pair)
        run = variables.get(RUN_LABEL.encode(), b"").decode(errors="replace")
        harness = _parse_harness(variables.get(HARNESS_LABEL.encode(), b""))
        if run and harness is not None and identify(identity.pid) == identity:
            yield run, harness, identity


def _parse_harness(label: bytes) -> ProcessIdentity | None:
    pid, _, started = label.decode(errors="replace").partition(":")
    return ProcessIdentity(int(pid), started) if pid.isdecimal() and started else None


def _command(pid: int) -> str:
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode(errors="replace").strip()


def _kill(identity: ProcessIdentity) -> None:
    if sys.platform != "linux":
        if not _is_dead(identity):
            os.kill(identity.pid, signal.SIGKILL)
        return
    handle = os.pidfd_open(identity.pid)  # from here on the handle means one process only
    try:
        if not _is_dead(identity):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)
