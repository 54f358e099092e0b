"""How the compiled searches are built: one C library, with fixed flags.

The compiler is the machine's own, `cc`, if it makes a library for the processors that are meant;
else `ziglang` from PyPI, which `setup.py` then names as a requirement of the build. Python's
headers are not needed. The library knows the digest of the sources that it was built from. Needs
the standard library only, since `setup.py` runs this file where nothing is installed yet.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent
LIBRARY = FOLDER / "searches.so"
"""Where it is loaded from; by this name on macOS as well."""

_FLAGS = ("-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden")
_LINK_FLAGS = ("-shared", "-s")
_PROCESSORS = {"x86_64": "x86-64-v2", "amd64": "x86-64-v2"}
"""Not those of this very machine: an environment may be copied to another one."""
FETCHED = "ziglang==0.17.1"
"""The compiler where the machine has none."""
_TRIAL = "#include <stdlib.h>\nint trial(void) { return abs(-1); }\n"


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


@functools.cache
def own_compiler() -> tuple[str, ...] | None:
    """Return the command of the machine's compiler; None: it has none that makes a library."""
    processor = _PROCESSORS.get(platform.machine().lower())
    command = ("cc", *_FLAGS, *([f"-march={processor}"] if processor else []))
    with TemporaryDirectory() as folder:
        trial = Path(folder, "trial.c")
        trial.write_text(_TRIAL)
        made = [*command, *_LINK_FLAGS, "-o", f"{folder}/trial.so", str(trial)]
        try:
            subprocess.run(made, check=True, capture_output=True)  # noqa: S603  (our arguments)
        except (OSError, subprocess.CalledProcessError):
            return None
    return command


def _fetched_compiler() -> tuple[str, ...]:
    processor = _PROCESSORS.get(platform.machine().lower(), "baseline").replace("-", "_")
    return (sys.executable, "-m", "ziglang", "cc", *_FLAGS, f"-mcpu={processor}")


def compile_library(
    target: Path, files: Sequence[Path], flags: Sequence[str], link_flags: Sequence[str] = ()
) -> None:
    """Compile C files to a library. Raises CalledProcessError."""
    compiler = own_compiler() or _fetched_compiler()
    with TemporaryDirectory() as folder:  # ziglang's own cache would stay in the user's home
        caches = {"ZIG_GLOBAL_CACHE_DIR": folder, "ZIG_LOCAL_CACHE_DIR": folder}
        objects = []
        # Apart from the link: ziglang has headers of a C library for what is linked with one only.
        for file in files:
            objects.append(f"{folder}/{file.stem}.o")
            _run([*compiler, *flags, "-c", "-o", objects[-1], str(file)], caches)
        _run([*compiler, *_LINK_FLAGS, *link_flags, "-o", str(target), *objects], caches)


def _run(command: Sequence[str], variables: Mapping[str, str]) -> None:
    subprocess.run(command, check=True, env={**os.environ, **variables})  # noqa: S603  (ours)
