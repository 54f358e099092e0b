from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "cluster" / "backends"))

from fake_system import FakeSystem
from hosted_nodes import run_up
from netns_world import netns_backend, require_namespaces

from cluster.backends.local.local_backend import LocalBackend
from tests.views import StubView


@pytest.fixture
def with_view(tmp_path: Path):
    """Run an async test body on a view of a cluster of fake nodes, and take it down after."""

    def run(body: Callable[[StubView], Awaitable[None]], node_count: int = 3) -> None:
        backend = LocalBackend(FakeSystem(), tmp_path, node_count, "run-1")
        run_up(backend, lambda up: body(StubView(up)))

    return run


@pytest.fixture
def with_hosts_view(tmp_path: Path):
    """Run an async test body on a view of fake nodes in hosts of their own (backend netns)."""
    require_namespaces()

    def run(body: Callable[[StubView], Awaitable[None]], node_count: int = 3) -> None:
        run_up(netns_backend(tmp_path, node_count), lambda up: body(StubView(up)))

    return run
