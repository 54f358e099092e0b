"""Searches compiled by Numba: optional, loaded on first use, cached on disk.

Everything but the frontier works without: `load()` then returns None and plain Python judges. It is
switched off by KRAFTPROBE_NUMBA=0. Compiling takes some ten seconds once; the cache lies beside the
sources, in a folder of this very state of them, since Numba does not notice that a module which
another one imports has changed; where that is read-only, where Numba finds a writable place
(NUMBA_CACHE_DIR overrides); where there is none, each process compiles anew. Loading from the cache
takes well under a second, most of it Numba's own import.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple


class Kernels(NamedTuple):
    """The compiled modules."""

    wgl: ModuleType
    frontier: ModuleType
    orders: ModuleType
    replaying: ModuleType


SWITCH = "KRAFTPROBE_NUMBA"
"""Environment variable; "0" switches the kernels off."""


def cache_folder(sources: Path) -> Path:
    """Return where what is compiled from these sources is kept."""
    digest = hashlib.sha256()
    for source in sorted(sources.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return sources / "__pycache__" / f"numba-{digest.hexdigest()[:16]}"


@cache
def _import() -> Kernels | None:
    try:
        numba = import_module("numba")
        if "NUMBA_CACHE_DIR" not in os.environ:
            numba.config.CACHE_DIR = str(cache_folder(Path(__file__).parent))
        # Here, since numba takes 0.4 s to import.
        wgl = import_module("checkers.linearizability.kernels.wgl")
        frontier = import_module("checkers.linearizability.kernels.frontier")
        orders = import_module("checkers.linearizability.kernels.orders")
        replaying = import_module("checkers.linearizability.kernels.replaying")
    except ImportError:
        return None
    return Kernels(wgl, frontier, orders, replaying)


def load() -> Kernels | None:
    """Return the compiled searches; None where Numba is missing or switched off."""
    return None if os.environ.get(SWITCH) == "0" else _import()
