"""The node's code with all that it imports, as one archive that a host can run from.

It is made of what this very process runs: the package `cluster` and the installed distributions
that nodes need, with what these need. Compiled modules are among them, so a host's interpreter must
be of the same version, machine and C library family (`requirement`), which is checked first. An
archive is named by the digest of its sources: a host that has it is sent nothing. What Python has
compiled of them goes along, for a host would need seconds for that.
"""

from __future__ import annotations

import functools
import hashlib
import io
import platform
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import cluster
from cluster.backends.dependencies import with_requirements
from cluster.backends.machine.clocks import library

_ROOTS = ("aiokafka", "click", "cramjam", "crc32c", "cryptography", "kio", "mfusepy", "scramp")
"""What nodes and the faults beside them import; those that are not installed here are left out."""


def requirement() -> tuple[str, str, str]:
    """Version of the interpreter, machine and C library that a host must share with this one."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return version, platform.machine(), platform.libc_ver()[0]


@functools.cache
def digest() -> str:
    """Name the content."""
    summed = hashlib.sha256()
    for name, path in _files():
        if path.suffix == ".pyc":
            continue  # says no more than its source, but also when that was compiled
        content = path.read_bytes()
        summed.update(f"{name}\0{len(content)}\0".encode())
        summed.update(content)
    return summed.hexdigest()[:32]


@functools.cache
def archive() -> bytes:
    """Pack it: a gzipped tar archive, a few megabytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        for name, path in _files():
            tar.add(path, name, recursive=False)
    return packed.getvalue()


def _files() -> Iterator[tuple[str, Path]]:
    """Yield (path in the bundle, file), in a fixed order."""
    package = Path(cluster.__file__).parent
    ours = [*package.rglob("*.py"), *package.rglob(f"*.{sys.implementation.cache_tag}.pyc")]
    ours += (package / "node").rglob("*.json")
    ours += [path for path in [library()] if path is not None]
    found = {f"cluster/{path.relative_to(package).as_posix()}": path for path in ours}
    for distribution in with_requirements(_ROOTS).values():
        for file in distribution.files or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and path.is_file():
                found[file.as_posix()] = path
    yield from sorted(found.items())
