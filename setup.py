"""Compiles the searches of the checkers and the faked clock; all else is in pyproject.toml.

Also those of packages/porcupine-py, by a link. KRAFTPROBE_CFLAGS adds flags, for the tests.
"""

import os
import sys
from pathlib import Path
from runpy import run_path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

KERNELS = "checkers/linearizability/kernels"
COMPILER = run_path(f"{KERNELS}/build.py")
CLOCK_FLAGS = ("-std=c11", "-O2", "-fno-stack-protector", "-nostdlib")
"""No C library is named: the program that preloads it has one, glibc or musl."""
CLOCK = Path("cluster/backends/machine/faked_clock.c")
"""Preloaded into nodes on Linux; porcupine-py has none."""


class BuildLibrary(build_ext):
    """Builds a library that is loaded by its path: no module, so nothing of Python is in it."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return where it lies."""
        return str(Path(*fullname.split(".")).with_suffix(COMPILER["LIBRARY"].suffix))

    def build_extension(self, ext: Extension) -> None:
        """Compile it."""
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.stem == CLOCK.stem:
            COMPILER["compile_library"](target, [CLOCK], CLOCK_FLAGS)
        else:
            COMPILER["build"](target, os.environ.get("KRAFTPROBE_CFLAGS", "").split())


class AnyPython(bdist_wheel):
    """Tags the wheel with the platform, and with no version of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag: any Python 3, no ABI of Python's, this platform."""
        return "py3", "none", super().get_tag()[2]


searches = Extension(
    f"{KERNELS.replace('/', '.')}.{COMPILER['LIBRARY'].stem}",
    sources=[f"{KERNELS}/{path.name}" for path in COMPILER["sources"]()],
)
clock = Extension(".".join(CLOCK.with_suffix("").parts), sources=[str(CLOCK)])
setup(
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": AnyPython},
    ext_modules=[searches, *([clock] if CLOCK.exists() and sys.platform == "linux" else [])],
)
