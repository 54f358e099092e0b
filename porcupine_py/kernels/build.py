"""How the compiled searches are built: one C library, by one compiler, with fixed flags.

The compiler is `ziglang` from PyPI, which `pyproject.toml` names as a requirement of the build, so
that neither a compiler nor Python's headers are needed on the machine. The library knows the digest
of the sources that it was built from. Needs the standard library only, since `setup.py` runs this
file where nothing is installed yet.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent
LIBRARY = FOLDER / "searches.so"
"""Where it is loaded from; by this name on macOS as well."""

_FLAGS = ("-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-shared", "-s")
_PROCESSORS = {"x86_64": "x86_64_v2", "amd64": "x86_64_v2"}
"""Not those of this very machine: an environment may be copied to another one."""


def sources() -> list[Path]:
    """Return the C files, sorted."""
    return sorted(path for path in FOLDER.iterdir() if path.suffix in {".c", ".h"})


def digest() -> str:
    """Return a digest of the sources, the first 16 hexadecimal digits."""
    found = hashlib.sha256()
    for path in sources():
        data = path.read_bytes()
        found.update(f"{path.name}\0{len(data)}\0".encode() + data)
    return found.hexdigest()[:16]


def build(target: Path) -> None:
    """Compile the searches. Raises CalledProcessError."""
    files = [path for path in sources() if path.suffix == ".c"]
    compile_library(target, files, ["-std=c99", "-O3", f'-DSOURCES="{digest()}"'])


def compile_library(target: Path, files: Sequence[Path], flags: Sequence[str]) -> None:
    """Compile C files to a library. Raises CalledProcessError."""
    processor = _PROCESSORS.get(platform.machine().lower(), "baseline")
    command = [sys.executable, "-m", "ziglang", "cc", *_FLAGS, f"-mcpu={processor}", *flags]
    command += ["-o", str(target), *map(str, files)]
    with TemporaryDirectory() as cache:  # the compiler's own would stay in the user's home
        caches = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
        subprocess.run(command, check=True, env=os.environ | caches)  # noqa: S603  (our arguments)
