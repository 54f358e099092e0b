"""The release of Apache Kafka that tests put beside ours."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cluster.systems.kafka import fetch
from cluster.systems.kafka.installation import home_of, raft_libraries

VERSION = "4.3.1"


def release(version: str = VERSION) -> str:
    """Return the version, once the release is there; CI fetches it, elsewhere the test is skipped."""
    if home_of(version) is None:
        if os.environ.get("CI") != "true":
            pytest.skip(f"Apache Kafka is not there; kraftprobe kafka fetch {version}")
        fetch.fetch(version, None, lambda _: None)
    return version


def raft_jars(version: str) -> tuple[Path, ...]:
    """Return the jar files of a release's raft module, as `release` does with a whole release."""
    if raft_libraries(version) is None:
        if os.environ.get("CI") != "true":
            pytest.skip(f"the raft module of Apache Kafka {version} is not there")
        fetch.fetch_raft(version, None, lambda _: None)
    found = raft_libraries(version)
    assert found is not None
    return found


def javac() -> None:
    """Skip a test that compiles where there is no compiler; CI has one."""
    if shutil.which("javac") is None and os.environ.get("CI") != "true":
        pytest.skip("there is no javac on the PATH")
