"""A digest of the source code: seeds run by different code prove nothing together."""

from __future__ import annotations

import hashlib
from importlib import import_module
from pathlib import Path

PACKAGES = (
    *("checkers", "cluster", "extensions", "harness", "nemeses", "porcupine_py", "results"),
    "workloads",
)

_SOURCES = {".py", ".c", ".h"}


def source_digest() -> str:
    """Return a digest of all sources of Kraftprobe, the first 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        file = import_module(package).__file__
        assert file is not None, f"{package} is a package with a file"
        root = Path(file).parent
        for path in sorted(root.rglob("*")):
            if path.suffix not in _SOURCES or "__pycache__" in path.parts or not path.is_file():
                continue
            source = path.read_bytes()
            name = f"{package}/{path.relative_to(root).as_posix()}"
            digest.update(f"{name}\0{len(source)}\0".encode() + source)
    return digest.hexdigest()[:16]
