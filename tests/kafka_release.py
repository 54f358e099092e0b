"""The release of Apache Kafka that tests put beside ours."""

from __future__ import annotations

import os

import pytest

from cluster.systems.kafka import fetch
from cluster.systems.kafka.installation import home_of

VERSION = "4.3.1"


def release() -> str:
    """Return the version, once the release is there; CI fetches it, elsewhere the test is skipped."""
    if home_of(VERSION) is None:
        if os.environ.get("CI") != "true":
            pytest.skip(f"Apache Kafka is not there; kraftprobe kafka fetch {VERSION}")
        fetch.fetch(VERSION, None, lambda _: None)
    return VERSION
