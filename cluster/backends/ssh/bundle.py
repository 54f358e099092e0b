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
import re
import sys
import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import cluster
from cluster.backends.machine.clocks import library

_ROOTS = (
    "aiokafka",
    "click",
    "cramjam",
    "crc32c",
    "cryptography",
    "kio",
    "mfusepy",
    "scramp",
)
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
    for name in sorted(_closure(_ROOTS)):
        for file in metadata.distribution(name).files or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and path.is_file():
                found[file.as_posix()] = path
    yield from sorted(found.items())


def _closure(roots: tuple[str, ...]) -> set[str]:
    """Name the distributions that are installed of these, and all that they need."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            required = metadata.distribution(name).requires or ()
        except metadata.PackageNotFoundError:
            continue
        found.add(name)
        for line in required:
            spec, _, marker = line.partition(";")
            if "extra" not in marker:
                waiting.append(re.split(r"[^A-Za-z0-9._-]", spec.strip(), maxsplit=1)[0])
    return found
