"""The versions that a run stores, for its repetition."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Mapping
from importlib import metadata

_PACKAGES = ("kraftprobe", "pyspark", "pyarrow", "pandas", "numpy", "kio", "aiokafka")


def versions() -> Mapping[str, str]:
    """Return the versions of Python and packages, the platform, and the number of processors."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    found["cpus"] = str(os.cpu_count())
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
