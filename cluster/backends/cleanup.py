"""Find and end what a killed harness left behind, and nothing else.

Processes are ended here; `abandoned_mounts` lists the mounts. What nodes lean on goes after them
(`kraftprobe cleanup` keeps the order): first the nodes, killed and not asked, then containers, then
mounts, and then the processes behind those. A node that lost its disk first would see it fail, and
its last lines would read as a crash.

A process belongs to a run if it carries the run's label in its environment, or if the run
recorded its pid and start time. It is a leftover when the harness that started it is dead; while
the harness lives its run is a campaign like any other, and is touched only when it is named.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from cluster.backends.base import NodeState, ProcessIdentity
from cluster.backends.machine.mounts import Mount, mounts
from cluster.backends.processes.labelled import kill_process, labelled_processes, titled_processes
from cluster.backends.processes.records import (
    PROCESSES_FILE,
    TRIAL,
    RecordedProcess,
    identify,
    is_orphaned,
    may_name,
    own_identity,
    own_place,
    pid_namespace,
    read_recorded,
    state_of,
)
from cluster.values import valueclass

_PROC = Path("/proc")
_GONE_TIMEOUT_S = 20.0
_POLL_S = 0.005
_COMMAND_MAX = 200


@valueclass
class Leftover:
    """A live process that a run started and nobody looks after."""

    run_id: str
    identity: ProcessIdentity
    command: str
    """What it runs, for a person, as far as one line shows it; empty when it cannot be read."""
    supports: bool = False
    """Nodes may lean on it: to be ended after them."""
    contained: bool = False
    """It is in a container."""


def find_leftovers(runs: Path | None = None, run_id: str | None = None) -> list[Leftover]:
    """List the live processes of dead harnesses, ordered by run and pid, nodes first.

    Those in containers are among them, as far as this user may look at them.

    `runs`: only runs with a folder below this one (or that are this one), and throw-away clusters
    of probes, which have none; None: all on this machine that carry labels. `run_id`: only this
    run, and even if its harness lives.
    """
    folders = [] if runs is None else _run_folders(runs)
    recorded = {folder: tuple(read_recorded(folder)) for folder in folders}
    here = {process.run_id for processes in recorded.values() for process in processes}
    found: dict[ProcessIdentity, Leftover] = {}

    def add(run: str, identity: ProcessIdentity, *, supports: bool, contained: bool) -> None:
        command = _command(identity.pid)
        found[identity] = Leftover(run, identity, command, supports, contained)

    titled = titled_processes()
    for folder, processes in recorded.items():
        for process in _recorded_nodes(folder, processes, run_id):
            supports = ":" in process.role
            group = _group_of(process.identity, titled)
            for identity in group if _is_dead(process.identity) else (process.identity, *group):
                if may_name(folder, identity):
                    add(process.run_id, identity, supports=supports, contained=False)
    for seen in labelled_processes():
        if runs is not None and seen.run_id not in here and not seen.run_id.startswith(TRIAL):
            continue
        if seen.run_id == run_id or (run_id is None and _is_dead(seen.harness)):
            add(seen.run_id, seen.identity, supports=seen.supports, contained=seen.contained)
    return sorted(found.values(), key=lambda kept: (kept.supports, kept.run_id, kept.identity.pid))


def abandoned_mounts(runs: Path | None = None, run_id: str | None = None) -> list[Mount]:
    """List the mounts of dead harnesses, chosen as `find_leftovers` chooses processes."""
    return [
        mount
        for mount in mounts()
        if (mount.run_id == run_id or (run_id is None and _is_orphaned(mount)))
        and (
            runs is None
            or mount.folder.is_relative_to(runs.absolute())
            or mount.run_id.startswith(TRIAL)
        )
    ]


def _is_orphaned(mount: Mount) -> bool:
    return mount.namespace == pid_namespace() and _is_dead(mount.harness)


def clean(leftovers: Iterable[Leftover]) -> list[Leftover]:
    """Kill them and wait until they are gone, nodes before what they lean on; returns the rest.

    A node that is killed while its disk stalls stays until the disk goes, but acts no more. Each is
    looked at once more before it is signalled, so that a pid that has meanwhile become another
    process is safe.
    """
    asked = list(leftovers)
    for supports in (False, True):
        some = [leftover for leftover in asked if leftover.supports is supports]
        for leftover in some:
            with contextlib.suppress(OSError):
                kill_process(leftover.identity)
        deadline = time.monotonic() + _GONE_TIMEOUT_S
        while _alive(some) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    return _alive(asked)


def _alive(leftovers: Iterable[Leftover]) -> list[Leftover]:
    return [leftover for leftover in leftovers if not _is_dead(leftover.identity)]


def _run_folders(runs: Path) -> list[Path]:
    files = {*runs.glob(PROCESSES_FILE), *runs.glob(f"*/*/{PROCESSES_FILE}")}
    return sorted(file.parent for file in files)


def _recorded_nodes(
    folder: Path, recorded: Iterable[RecordedProcess], run_id: str | None
) -> Iterator[RecordedProcess]:
    """Yield what a harness of this place recorded: elsewhere the numbers are others'."""
    orphaned, here = is_orphaned(folder), own_place()
    for process in recorded:
        wanted = orphaned if run_id is None else process.run_id == run_id
        if wanted and process.role != "harness" and process.place == here:
            yield process


def _group_of(
    leader: ProcessIdentity, titled: Mapping[int, Sequence[ProcessIdentity]]
) -> list[ProcessIdentity]:
    """List those of a process's group that show no labels any more, also when it is dead itself.

    Its number is no other process's as long as one of the group lives. Where another has it, or
    one of the group is older, or of another boot, the group is another.
    """
    there = identify(leader.pid)
    if there is not None and there != leader:
        return []
    boot, _, began = leader.started.rpartition("-")
    found = []
    for identity in titled.get(leader.pid, ()):
        boot_there, _, began_there = identity.started.rpartition("-")
        if boot_there == boot and int(began_there) >= int(began) and identity != leader:
            found.append(identity)
    return found


def _is_dead(identity: ProcessIdentity) -> bool:
    return state_of(identity) is NodeState.DEAD


def _command(pid: int) -> str:
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    command = b" ".join(words).decode(errors="replace").partition("\n")[0].strip()
    return command if len(command) <= _COMMAND_MAX else f"{command[:_COMMAND_MAX]}..."


_NAME = re.compile(r"kraftprobe-trial-(\d+)-(\d+)-(.+)-[^-]+")


@contextlib.contextmanager
def trial_folder() -> Iterator[Path]:
    """Make a folder in which something is only tried, and remove it.

    `kraftprobe-trial-<pid namespace>-<pid>-<start time>-...` in the folder for temporary files, of
    the harness that made it. What a killed one left is removed when its maker is dead, as seen from
    the maker's own namespace, its owner is this user, and nothing is mounted there.
    """
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
        with contextlib.suppress(FileNotFoundError):  # another clean-up was quicker
            if state_of(maker) is NodeState.DEAD and folder.stat().st_uid == os.getuid():
                found.append(folder)
    return found


def remove_trial(folder: Path) -> bool:
    """Remove such a folder; False when something is mounted there, or it cannot be."""
    mounted = any(Path(root).is_mount() for root, _, _ in os.walk(folder))
    if not mounted:
        shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
