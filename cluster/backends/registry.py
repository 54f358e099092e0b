"""Backends by name, so that a plan can name them. Each is imported when it is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.backends.base import Backend
from cluster.backends.terms import Need
from cluster.systems.base import System
from cluster.values import valueclass
from extensions import Registry

if TYPE_CHECKING:
    from cluster.backends.hosts import HostProvider


@valueclass
class BackendRequest:
    """What a run asks of the place of its nodes."""

    system: System
    folder: Path
    """Of the run; the nodes' folders go below it. Its name is the run's id."""
    nodes: int
    needs: frozenset[Need]
    """What must be in place around nodes before they start."""
    inventory: Path | None
    """Of hosts; the plan's."""
    say: Callable[[str], None]
    """To be called with a line before each slow step."""

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self.folder.name


@valueclass
class BackendKind:
    """A place where nodes run in real time; SIM alone has a time of its own."""

    name: str
    create: Callable[[BackendRequest], Backend]
    """Starts nothing yet. Raises BackendError."""


def _local(asked: BackendRequest) -> Backend:
    from cluster.backends.local.local_backend import LocalBackend  # noqa: PLC0415

    return LocalBackend(asked.system, asked.folder, asked.nodes, asked.run_id, needs=asked.needs)


def _of_provider(provider: HostProvider, asked: BackendRequest) -> Backend:
    from cluster.backends.hosted import HostedBackend  # noqa: PLC0415

    return HostedBackend(
        provider, asked.system, asked.folder, asked.nodes, asked.run_id, needs=asked.needs
    )


def _netns(asked: BackendRequest) -> Backend:
    from cluster.backends.netns.netns_hosts import NetnsProvider  # noqa: PLC0415

    return _of_provider(NetnsProvider(asked.folder, asked.run_id), asked)


def _docker(asked: BackendRequest) -> Backend:
    from cluster.backends.docker.docker_backend import DockerBackend  # noqa: PLC0415

    return DockerBackend(
        asked.system, asked.folder, asked.nodes, asked.run_id, needs=asked.needs, say=asked.say
    )


def _ssh(asked: BackendRequest) -> Backend:
    from cluster.backends.ssh.inventory import read_inventory  # noqa: PLC0415
    from cluster.backends.ssh.ssh_hosts import SshProvider  # noqa: PLC0415

    assert asked.inventory is not None, "the plan was checked"
    inventory = read_inventory(asked.inventory)
    return _of_provider(SshProvider(inventory, asked.folder, asked.run_id), asked)


def _sim(asked: BackendRequest) -> Backend:
    raise AssertionError(f"{asked.run_id}: harness.run.plan_backend makes the simulated world")


DOCKER = BackendKind("docker", _docker)
SIM = BackendKind("sim", _sim)
BACKENDS = Registry(
    "kraftprobe.backends",
    BackendKind,
    (
        BackendKind("local", _local),
        BackendKind("netns", _netns),
        DOCKER,
        BackendKind("ssh", _ssh),
        SIM,
    ),
)
