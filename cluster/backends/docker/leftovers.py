"""Containers and networks of runs: found by their labels, removed, and nothing else touched."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
from docker.errors import NotFound

from cluster.backends.base import BackendError, ProcessIdentity
from cluster.backends.docker import engine
from cluster.backends.docker.engine import EngineErrors
from cluster.backends.processes.records import TRIAL, may_live
from cluster.values import valueclass

_AT_ONCE = 8
_GONE_TIMEOUT_S = 20.0
_POLL_S = 0.1


@valueclass
class LeftThing:
    """A container or network that a run made and nobody looks after."""

    run_id: str
    kind: str
    """"container" or "network"."""
    id: str
    name: str


def find_things(
    client: docker.DockerClient, runs: Path | None = None, run_id: str | None = None
) -> list[LeftThing]:
    """List what dead harnesses left, containers before networks.

    `runs`, `run_id`: as in `cluster.backends.cleanup.find_leftovers`. Raises BackendError.
    """
    found = []
    try:
        containers = client.api.containers(all=True, filters={"label": engine.RUN_LABEL})
        networks = client.api.networks(filters={"label": engine.RUN_LABEL})
    except EngineErrors as error:
        raise engine.backend_error(error) from error
    for kind, things in (("container", containers), ("network", networks)):
        for thing in things:
            marks: Mapping[str, str] = thing.get("Labels") or {}
            if _is_left(marks, runs, run_id):
                names = thing.get("Names") or [thing.get("Name", "")]
                name = str(names[0]).lstrip("/")
                found.append(LeftThing(marks[engine.RUN_LABEL], kind, thing["Id"], name))
    return found


def remove_things(client: docker.DockerClient, things: list[LeftThing]) -> list[LeftThing]:
    """Remove them, containers at once and before the networks; returns those that would not go."""
    left = []
    for kind in ("container", "network"):
        some = [thing for thing in things if thing.kind == kind]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            gone = list(pool.map(lambda thing: _remove(client, thing), some))
        left += [thing for thing, is_gone in zip(some, gone, strict=True) if not is_gone]
    return left


def remove_run(client: docker.DockerClient, run_id: str) -> None:
    """Remove all that carries this run's label, of whatever harness; again if some was being made.

    Raises BackendError when something stays.
    """
    for _ in range(3):
        things = find_things(client, None, run_id)
        if not things:
            return
        remove_things(client, things)
    if left := find_things(client, None, run_id):
        names = ", ".join(thing.name for thing in left)
        raise BackendError(f"docker does not remove {names}")


def _is_left(marks: Mapping[str, str], runs: Path | None, run_id: str | None) -> bool:
    run = marks.get(engine.RUN_LABEL, "")
    if run_id is not None:
        return run == run_id
    if runs is not None and not run.startswith(TRIAL):
        folder = Path(marks.get(engine.FOLDER_LABEL, "/"))
        if not folder.is_relative_to(runs.absolute()):
            return False
    pid, _, started = marks.get(engine.HARNESS_LABEL, "").partition(":")
    if not pid.isdecimal() or not started:
        return False  # not one of ours
    return not may_live(ProcessIdentity(int(pid), started), marks.get(engine.PLACE_LABEL, ""))


def _remove(client: docker.DockerClient, thing: LeftThing) -> bool:
    """Remove it; whether it is gone.

    The engine refuses for a moment what another of its threads still holds: a container whose
    process has just been killed, whose filesystem is busy or whose removal somebody else has asked
    for, and a network while such a container is on it.
    """
    deadline = time.monotonic() + _GONE_TIMEOUT_S
    while True:
        try:
            if thing.kind == "container":
                client.api.remove_container(thing.id, force=True, v=True)
            else:
                client.api.remove_network(thing.id)
        except NotFound:
            return True
        except EngineErrors:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        else:
            return True
