"""Clusters of fake nodes on backend netns, for tests."""

import asyncio
import functools
import tempfile
from pathlib import Path

import pytest
from fake_system import FakeSystem

from cluster.backends.base import BackendError, Probe
from cluster.backends.hosted import HostedBackend
from cluster.backends.netns.netns_hosts import NetnsProvider
from tests.running import running


@functools.cache
def probe_namespaces() -> Probe:
    async def up_and_down(folder: Path) -> None:
        async with running(netns_backend(folder, 1, "probe")):
            pass

    with tempfile.TemporaryDirectory() as folder:
        try:
            asyncio.run(up_and_down(Path(folder)))
        except BackendError as error:
            return Probe(possible=False, reason=str(error))
    return Probe(possible=True)


def require_namespaces() -> None:
    """Skip where this machine makes no namespaces."""
    probe = probe_namespaces()
    if not probe.possible:
        pytest.skip(probe.reason)


def netns_backend(folder: Path, count: int, run_id: str = "run-1", mode: str = "") -> HostedBackend:
    return HostedBackend(NetnsProvider(folder, run_id), FakeSystem(mode), folder, count, run_id)
