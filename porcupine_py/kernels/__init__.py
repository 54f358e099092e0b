"""Searches in C, built when the package is installed (`kernels.build`), loaded on first use.

Everything but the frontier works without: `load()` then returns None and plain Python judges, more
slowly; a warning says once why and what to do, and so does the summary of each key that was
searched. That is so where the library is missing, cannot be loaded, or was built from other sources
than those that lie beside it. KRAFTPROBE_COMPILED=0 switches it off, without a warning.
"""

from __future__ import annotations

import os
import warnings
from functools import cache

from porcupine_py.kernels.build import LIBRARY, digest
from porcupine_py.kernels.library import Kernels, LibraryError

__all__ = ["SWITCH", "Kernels", "load", "why_not"]

SWITCH = "KRAFTPROBE_COMPILED"
"""Environment variable; "0" switches the library off."""

_TO_DO = "install the package again"


@cache
def _load() -> Kernels | str:
    """Return the library, or why there is none."""
    try:
        kernels = Kernels(LIBRARY)
        if kernels.sources != digest():
            return f"{LIBRARY} was built from other sources than those beside it: {_TO_DO}"
    except (LibraryError, OSError) as error:
        return f"{error}: {_TO_DO}"
    return kernels


@cache
def _warn(reason: str) -> None:
    warnings.warn(f"searches run in plain Python: {reason}", RuntimeWarning, stacklevel=4)


def load() -> Kernels | None:
    """Return the compiled searches; None where they are missing or switched off."""
    if os.environ.get(SWITCH) == "0":
        return None
    found = _load()
    if isinstance(found, str):
        _warn(found)
        return None
    return found


def why_not() -> str:
    """Say why `load` returns None."""
    if os.environ.get(SWITCH) == "0":
        return f"the compiled searches are switched off by {SWITCH}=0"
    found = _load()
    assert isinstance(found, str), "asked for where nothing was loaded"
    return found
