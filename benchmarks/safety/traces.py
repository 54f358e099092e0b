"""What a machine is like, as far as a toolkit for faults could have changed it.

Each trace is one line of text; a machine is a set of them, so that a difference names itself.
Numbers that move by themselves (counters, ids that are given anew) are left out.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from cluster.backends.base import BackendError
from cluster.backends.docker.engine import HARNESS_LABEL, RUN_LABEL, connect, engine_expected

CLOCK_TOLERANCE_S = 0.5
"""A clock that was set shows more; one that is slewed by a time service shows less."""

_COUNTERS = re.compile(r"\[\d+:\d+\]|packets \d+ bytes \d+")
_ENGINES_OWN = ("/run/docker/", "/var/run/docker/", "/var/lib/docker/")
_PROC = Path("/proc")


def snapshot(folder: Path, harnesses: Collection[int], *, alone: bool) -> set[str]:
    """Look at this machine.

    `folder`: where runs are. `harnesses`: their pids so far, by which an engine that serves others,
    too, tells what is ours. `alone`: all processes here are.
    """
    return {
        *_rules(),
        *_mounts(),
        *_loops(folder),
        *_engine(harnesses),
        *(_processes() if alone else _labelled()),
        *(_namespaces() if alone else ()),
    }


def clock_offset_s() -> float:
    """How far the wall clock is from the clock that nobody can set."""
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


def _rules() -> Iterator[str]:
    commands = (["nft", "list", "ruleset"], ["iptables-save"], ["ip6tables-save"])
    for command in (*commands, ["tc", "qdisc", "show"]):
        with contextlib.suppress(FileNotFoundError):
            told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            for line in told.splitlines():
                if not line.startswith("#"):
                    yield f"rule: {command[0]}: {_COUNTERS.sub('', line).strip()}"


def _mounts() -> Iterator[str]:
    for line in (_PROC / "self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[4].startswith(_ENGINES_OWN):
            continue  # others' containers come and go
        yield f"mount: {before.split()[4]} {' '.join(after.split()[:2])}"


def _loops(folder: Path) -> Iterator[str]:
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            told = backing.read_text().strip()
            if told.startswith(str(folder)):
                yield f"loop device: {told}"


def _engine(harnesses: Collection[int]) -> Iterator[str]:
    if not harnesses or not engine_expected():
        return
    try:
        client = connect()
    except BackendError:
        return
    with contextlib.closing(client):
        things = client.api.containers(all=True, filters={"label": RUN_LABEL})
        things += client.api.networks(filters={"label": RUN_LABEL})
    for thing in things:
        pid = (thing.get("Labels") or {}).get(HARNESS_LABEL, "").partition(":")[0]
        if pid.isdecimal() and int(pid) in harnesses:
            yield f"engine: {thing['Id'][:12]}"


def _processes() -> Iterator[str]:
    for entry in _PROC.iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and (words := (entry / "cmdline").read_bytes()):
                command = words.replace(b"\0", b" ").decode(errors="replace").strip()
                yield f"process: {entry.name} {command[:150]}"


def _labelled() -> Iterator[str]:
    for entry in _PROC.iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and b"KRAFTPROBE_RUN=" in (entry / "environ").read_bytes():
                yield f"labelled process: {entry.name}"


def _namespaces() -> Iterator[str]:
    """Namespaces that a process is in; their numbers are given anew, so they are only counted."""
    found = set()
    for entry in _PROC.glob("[0-9]*/ns/*"):
        with contextlib.suppress(OSError):
            found.add(entry.readlink())
    yield f"namespaces: {len(found)}"
