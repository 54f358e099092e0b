"""Processes of this machine that carry a run's labels, found by their environments (Linux)."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from cluster.backends.agent.processes import RUN_LABEL, environment_of, group_of
from cluster.backends.base import NodeState, ProcessIdentity
from cluster.backends.processes.records import (
    HARNESS_LABEL,
    NAMESPACE_LABEL,
    SUPPORT_LABEL,
    identify,
    own_identity,
    pid_namespace,
    state_of,
)
from cluster.values import valueclass

_PROC = Path("/proc")


@valueclass
class Labelled:
    """What a live process carries in its environment."""

    run_id: str
    harness: ProcessIdentity
    identity: ProcessIdentity
    supports: bool
    contained: bool


def labelled_processes() -> Iterator[Labelled]:
    """Yield all live processes with labels in an environment that we may read."""
    if sys.platform != "linux":
        return
    own_namespace = str(pid_namespace())
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        identity = identify(int(entry.name))
        try:
            contained = str((entry / "ns/pid").stat().st_ino) != own_namespace
            environment = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # gone, or another user's
        labels = dict(pair.split("=", 1) for pair in environment if "=" in pair)
        # A harness of another namespace has another pid here, and would seem dead.
        if identity is None or labels.get(NAMESPACE_LABEL) != own_namespace:
            continue
        run, harness = labels.get(RUN_LABEL), _parse_harness(labels.get(HARNESS_LABEL, ""))
        if run and harness is not None and identify(identity.pid) == identity:
            yield Labelled(run, harness, identity, SUPPORT_LABEL in labels, contained)


def titled_processes() -> dict[int, list[ProcessIdentity]]:
    """List live processes that wrote over their environments, labels too, by process group."""
    found: dict[int, list[ProcessIdentity]] = {}
    for entry in _PROC.iterdir() if sys.platform == "linux" else ():
        if entry.name.isdecimal() and environment_of(entry.name) == []:
            group, identity = group_of(entry.name), identify(int(entry.name))
            if group and identity is not None:
                found.setdefault(group, []).append(identity)
    return found


def _parse_harness(label: str) -> ProcessIdentity | None:
    pid, _, started = label.partition(":")
    return ProcessIdentity(int(pid), started) if pid.isdecimal() and started else None


def kill_process(identity: ProcessIdentity) -> None:
    """SIGKILL this very process, if it still lives. Raises OSError."""
    if sys.platform != "linux":
        if state_of(identity) is not NodeState.DEAD:
            os.kill(identity.pid, signal.SIGKILL)
        return
    handle = os.pidfd_open(identity.pid)  # from here on the handle means one process only
    try:
        if state_of(identity) is not NodeState.DEAD:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)


def end_escaped(run_id: str, *, supports: bool = False) -> None:
    """SIGKILL what nodes of this harness's run started in groups of their own.

    `supports`: what they leaned on instead.
    """
    own = own_identity()
    for seen in labelled_processes():
        of_run = (seen.run_id, seen.harness) == (run_id, own)
        if of_run and seen.supports is supports and not seen.contained:
            with contextlib.suppress(OSError):
                kill_process(seen.identity)
