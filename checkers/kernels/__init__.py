"""Searches compiled by Numba: optional, loaded on first use, cached on disk.

Everything works without: `load()` then returns None and the plain Python algorithms judge. Numba is
switched off by KRAFTPROBE_NUMBA=0. Compiling takes some ten seconds once; the cache lies beside the
sources or, where that folder is read-only, where Numba finds a writable place (NUMBA_CACHE_DIR
overrides); where there is none, each process compiles anew. Loading from the cache takes well under
a second, most of it Numba's own import.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import NamedTuple


class Kernels(NamedTuple):
    """The compiled modules."""

    wgl: ModuleType
    frontier: ModuleType
    orders: ModuleType


SWITCH = "KRAFTPROBE_NUMBA"
"""Environment variable; "0" switches the kernels off."""


@cache
def _import() -> Kernels | None:
    try:
        wgl = import_module("checkers.kernels.wgl")  # here, since numba takes 0.4 s to import
        frontier = import_module("checkers.kernels.frontier")
        orders = import_module("checkers.kernels.orders")
    except ImportError:
        return None
    return Kernels(wgl, frontier, orders)


def load() -> Kernels | None:
    """Return the compiled searches; None where Numba is missing or switched off."""
    return None if os.environ.get(SWITCH) == "0" else _import()
