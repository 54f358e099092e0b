"""Compiles the C libraries of this project; all else is in its pyproject.toml.

packages/porcupine-py has this file by a link: it builds the searches, Kraftprobe the faked clock.
"""

import sys
import tomllib
from pathlib import Path
from runpy import run_path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

KERNELS = "porcupine_py/kernels"
COMPILER = run_path(f"{KERNELS}/build.py")
CLOCK_FLAGS = ("-std=c11", "-O2", "-fno-stack-protector"), ("-nostdlib",)
"""No C library is named: the program that preloads it has one, glibc or musl."""
CLOCK = Path("cluster/backends/machine/faked_clock.c")
"""Preloaded into nodes on Linux."""
PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]


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
            COMPILER["compile_library"](target, [CLOCK], *CLOCK_FLAGS)
        else:
            COMPILER["build"](target)


class AnyPython(bdist_wheel):
    """Tags the wheel with the platform, and with no version of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag: any Python 3, no ABI of Python's, this platform."""
        return "py3", "none", super().get_tag()[2]


libraries = []
if "porcupine_py*" in PACKAGES:
    name = f"{KERNELS.replace('/', '.')}.{COMPILER['LIBRARY'].stem}"
    sources = [f"{KERNELS}/{path.name}" for path in COMPILER["sources"]()]
    libraries.append(Extension(name, sources=sources))
if "cluster*" in PACKAGES and sys.platform == "linux":
    libraries.append(Extension(".".join(CLOCK.with_suffix("").parts), sources=[str(CLOCK)]))
setup(
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": AnyPython},
    ext_modules=libraries,
    setup_requires=[] if COMPILER["own_compiler"]() else [COMPILER["FETCHED"]],
)
