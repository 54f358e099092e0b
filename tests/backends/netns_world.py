"""Clusters of fake nodes on backend netns, for tests."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path

import pytest
from fake_system import FakeSystem

from cluster.backends.base import Ability, Probe
from cluster.backends.hosted import HostedBackend
from cluster.backends.netns.provider import NetnsProvider


@functools.cache
def probe_namespaces() -> Probe:
    return asyncio.run(NetnsProvider(Path("/nowhere"), "probe").probe(Ability.LINKS))


def require_namespaces() -> None:
    """Skip where this machine makes no namespaces."""
    probe = probe_namespaces()
    if not probe.possible:
        pytest.skip(probe.reason)


def netns_backend(folder: Path, count: int, run_id: str = "run-1", mode: str = "") -> HostedBackend:
    return HostedBackend(NetnsProvider(folder, run_id), FakeSystem(mode), folder, count, run_id)
