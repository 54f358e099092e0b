"""Gives memory that is free back to the system, where a step has left much of it behind.

Parsing and pairing hold several times what they leave. Arrow keeps what it freed for its next
allocation. The C library keeps it because its threshold for a mapping of its own rises to 32 MiB
once such an array was freed (mallopt(3), M_MMAP_THRESHOLD): later arrays come from the heap, where
one that lives keeps all below it. Its `malloc_trim` gives back whole free pages anywhere.
"""

from __future__ import annotations

import ctypes
import sys

import pyarrow as pa


def give_back() -> None:
    """Give back what is free. Does nothing for a C library without `malloc_trim` (musl, macOS)."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
