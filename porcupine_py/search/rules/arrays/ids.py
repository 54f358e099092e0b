"""Unique identifiers in columns: any order that respects real time will do, if none repeats."""

from __future__ import annotations

import numpy as np

from porcupine_py.columns import OK, Columns, Int64s


def arrange(columns: Columns) -> Int64s | None:
    """Return the operations that got an identifier, in order of invocation. O(n)."""
    return np.flatnonzero(columns.type == OK)
