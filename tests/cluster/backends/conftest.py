from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from fake_system import FakeSystem
from hosted_nodes import run_up

from cluster.backends.local.local_backend import LocalBackend

Body = Callable[[LocalBackend], Awaitable[None]]


@pytest.fixture
def with_cluster(tmp_path: Path):
    """Run an async test body on a cluster of fake nodes, and take it down after."""

    def run(body: Body, node_count: int = 3, mode: str = "") -> None:
        run_up(LocalBackend(FakeSystem(mode), tmp_path, node_count, "run-1"), body)

    return run
