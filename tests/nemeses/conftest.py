import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "cluster" / "backends"))

from fake_system import FakeSystem
from hosted_nodes import run_up
from netns_world import netns_backend, require_namespaces

from cluster.backends.local.local_backend import LocalBackend
from cluster.node.runtime import network
from nemeses.disks import damage, io_faults, wipe
from nemeses.links import partition, shaping
from nemeses.quorum import requests, voters
from tests.views import StubView

PATIENCE_S = 120.0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let faults wait as long as a busy machine needs; each goes on as soon as it has what it wants."""
    monkeypatch.setattr(network, "SETUP_TIMEOUT_MS", PATIENCE_S * 1000)
    for module, name in (
        (partition, "WORKS_TIMEOUT_S"),
        (shaping, "_HEALED_TIMEOUT_S"),
        (io_faults, "HIT_TIMEOUT_S"),
        (io_faults, "DEATH_TIMEOUT_S"),
        (damage, "NOTICED_S"),
        (requests, "EFFECT_TIMEOUT_S"),
        (voters, "CHANGE_TIMEOUT_S"),
        (wipe, "CHANGE_TIMEOUT_S"),
    ):
        monkeypatch.setattr(module, name, PATIENCE_S)


@pytest.fixture
def with_view(tmp_path: Path, patient: None):
    """Run an async test body on a view of a cluster of fake nodes, and take it down after."""

    def run(body: Callable[[StubView], Awaitable[None]], node_count: int = 3) -> None:
        backend = LocalBackend(FakeSystem(), tmp_path, node_count, "run-1")
        run_up(backend, lambda up: body(StubView(up)))

    return run


@pytest.fixture
def with_hosts_view(tmp_path: Path, patient: None):
    """Run an async test body on a view of fake nodes in hosts of their own (backend netns)."""
    require_namespaces()

    def run(body: Callable[[StubView], Awaitable[None]], node_count: int = 3) -> None:
        run_up(netns_backend(tmp_path, node_count), lambda up: body(StubView(up)))

    return run
