"""The versions that a run stores, for its repetition."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata

from harness.source_digest import source_digest

_PACKAGES = ("kraftprobe", "pyspark", "pyarrow", "pandas", "numpy", "kio", "aiokafka")


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of Python and packages, the platform, and the number of processors.

    `code` is a digest of the sources of Kraftprobe, which a release's number does not distinguish.
    """
    found = {
        "code": source_digest(),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    found["cpus"] = str(os.cpu_count())
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
