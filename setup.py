"""Compiles the searches of the checkers; everything else is in pyproject.toml.

Also that of packages/porcupine-py, by a link. KRAFTPROBE_CFLAGS adds flags, for the tests.
"""

import os
from pathlib import Path
from runpy import run_path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

KERNELS = "checkers/linearizability/kernels"
COMPILER = run_path(f"{KERNELS}/build.py")


class BuildLibrary(build_ext):
    """Builds a library that is loaded by its path: no module, so nothing of Python is in it."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return where it lies."""
        return str(Path(*fullname.split(".")).with_suffix(COMPILER["LIBRARY"].suffix))

    def build_extension(self, ext: Extension) -> None:
        """Compile it."""
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        COMPILER["build"](target, os.environ.get("KRAFTPROBE_CFLAGS", "").split())


class AnyPython(bdist_wheel):
    """Tags the wheel with the platform, and with no version of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag: any Python 3, no ABI of Python's, this platform."""
        return "py3", "none", super().get_tag()[2]


setup(
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": AnyPython},
    ext_modules=[
        Extension(
            f"{KERNELS.replace('/', '.')}.{COMPILER['LIBRARY'].stem}",
            sources=[f"{KERNELS}/{path.name}" for path in COMPILER["sources"]()],
        )
    ],
)
