"""A digest of the source code: seeds run by different code prove nothing together."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import import_module
from pathlib import Path

PACKAGES = (
    *("checkers", "cluster", "extensions", "harness", "nemeses", "porcupine_py", "results"),
    "workloads",
)

_SOURCES = {".py", ".c", ".h", ".jar", ".java", ".json", ".txt"}
"""Kafka's definitions of configurations, and which files its releases are, decide as code does."""
_NOT_INSTALLED = {"__pycache__", "org"}
"""What is compiled from sources, and the sources of jars."""


def source_digest() -> str:
    """Return a digest of all sources of Kraftprobe, the first 16 hexadecimal digits.

    A process reads them once: what was changed since is not what it runs.
    """
    return _digest(
        tuple((each, Path(str(import_module(each).__file__)).parent) for each in PACKAGES)
    )


@cache
def _digest(folders: tuple[tuple[str, Path], ...]) -> str:
    digest = hashlib.sha256()
    for package, root in folders:
        for path in sorted(root.rglob("*")):
            inside = path.relative_to(root)
            is_source = path.suffix in _SOURCES and _NOT_INSTALLED.isdisjoint(inside.parts)
            if not is_source or not path.is_file():
                continue
            source = path.read_bytes()
            name = f"{package}/{inside.as_posix()}"
            digest.update(f"{name}\0{len(source)}\0".encode() + source)
    return digest.hexdigest()[:16]
