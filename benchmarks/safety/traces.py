"""The state of a machine, as far as a toolkit for faults could have changed it.

Each item is one line of text; a machine is a set of them, so that a difference can be read.
Numbers that move by themselves (counters, ids that are given anew) are left out.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cluster.backends.base import BackendError
from cluster.backends.docker.engine import HARNESS_LABEL, RUN_LABEL, connect, engine_expected
from cluster.backends.machine.mounts import FUSE_TYPE

CLOCK_TOLERANCE_S = 0.5
"""A clock that was set shows more; one that is slewed by a time service shows less."""

_COUNTERS = re.compile(r"\[\d+:\d+\]|packets \d+ bytes \d+")
_ENGINES_OWN = ("/run/docker/", "/var/run/docker/", "/var/lib/docker/")
_PROC = Path("/proc")


@dataclass(slots=True)
class Ours:
    """What marks things as ours on a machine that others use, too."""

    harnesses: set[str] = field(default_factory=set)
    """Pids of the harnesses so far."""
    bridges: set[str] = field(default_factory=set)
    """Interfaces of the engine's networks that they had made."""

    def note_bridges(self) -> None:
        """Note the networks that there are now."""
        self.bridges.update(
            f"br-{harness[:12]}" for harness in _things(self.harnesses, networks=True)
        )


def snapshot(folder: Path, ours: Ours, *, alone: bool) -> set[str]:
    """Look at this machine. `folder`: where runs are. `alone`: no other program runs here."""
    return {
        *(line for line in _rules() if alone or _is_ours(line, ours)),
        *_mounts(folder, alone=alone),
        *_loops(folder),
        *(f"engine: {thing}" for thing in _things(ours.harnesses, networks=False)),
        *(_processes() if alone else _labelled(ours.harnesses)),
        *(_namespaces() if alone else ()),
    }


def clock_offset_s() -> float:
    """Offset of the wall clock from a clock that cannot be set."""
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


def _rules() -> Iterator[str]:
    commands = (["nft", "list", "ruleset"], ["iptables-save"], ["ip6tables-save"])
    for command in (*commands, ["tc", "qdisc", "show"]):
        with contextlib.suppress(FileNotFoundError):
            listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            for line in listed.splitlines():
                if not line.startswith("#"):
                    yield f"rule: {command[0]}: {_COUNTERS.sub('', line).strip()}"


def _mounts(folder: Path, *, alone: bool) -> Iterator[str]:
    for line in (_PROC / "self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point, kind = before.split()[4], after.split()[0]
        if point.startswith(_ENGINES_OWN):
            continue  # others' containers come and go
        if (kind == FUSE_TYPE or not alone) and not point.startswith(str(folder)):
            continue  # and so do the disks of others' runs, and whatever else they mount
        yield f"mount: {point} {' '.join(after.split()[:2])}"


def _loops(folder: Path) -> Iterator[str]:
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            file = backing.read_text().strip()
            if file.startswith(str(folder)):
                yield f"loop device: {file}"


def _is_ours(rule: str, ours: Ours) -> bool:
    return "kraftprobe" in rule or any(bridge in rule for bridge in ours.bridges)


def _things(harnesses: Collection[str], *, networks: bool) -> list[str]:
    """Ids of the engine's networks, or of its containers and networks, of these harnesses."""
    if not harnesses or not engine_expected():
        return []
    try:
        client = connect()
    except BackendError:
        return []
    with contextlib.closing(client):
        things = client.api.networks(filters={"label": RUN_LABEL})
        if not networks:
            things += client.api.containers(all=True, filters={"label": RUN_LABEL})
    return [
        thing["Id"]
        for thing in things
        if (thing.get("Labels") or {}).get(HARNESS_LABEL, "").partition(":")[0] in harnesses
    ]


def _processes() -> Iterator[str]:
    for entry in _PROC.iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and (words := (entry / "cmdline").read_bytes()):
                command = words.replace(b"\0", b" ").decode(errors="replace").strip()
                yield f"process: {entry.name} {command[:150]}"


def _labelled(harnesses: Collection[str]) -> Iterator[str]:
    for entry in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for variable in (entry / "environ").read_bytes().split(b"\0"):
                name, _, value = variable.decode(errors="replace").partition("=")
                if name == "KRAFTPROBE_HARNESS" and value.partition(":")[0] in harnesses:
                    yield f"labelled process: {entry.name}"


def _namespaces() -> Iterator[str]:
    """Namespaces that a process is in; their numbers are given anew, so they are only counted."""
    found = set()
    for entry in _PROC.glob("[0-9]*/ns/*"):
        with contextlib.suppress(OSError):
            found.add(entry.readlink())
    yield f"namespaces: {len(found)}"
