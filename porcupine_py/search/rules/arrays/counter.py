"""A counter with equal additions in columns; theory in `rules.counter`."""

from __future__ import annotations

import numpy as np

from porcupine_py.columns import FAIL, OK, Columns, Int64s
from porcupine_py.kernels import load
from porcupine_py.search.decoded import amounts, integers


def arrange(columns: Columns) -> Int64s | None:
    """Find an order of a counter to which one amount is added again and again. O(n log n)."""
    kernels = load()
    reading = columns.f == columns.function("read")
    reads = np.flatnonzero(reading & (columns.type == OK))
    adds = np.flatnonzero(~reading & (columns.type != FAIL))
    added, totals = amounts(columns, adds), integers(columns, columns.output[reads])
    if kernels is None or added is None or totals is None:
        return None
    amount = int(added[0]) if len(added) else 1
    if amount <= 0 or np.any(added != amount) or np.any(totals % amount):
        return None
    by_value = np.argsort(totals, kind="stable")  # rows are in order of invocation
    reads, wanted = reads[by_value], totals[by_value] // amount
    begin, end = columns.invoke_ns, columns.complete_ns
    if not len(reads):
        return np.asarray(adds[columns.type[adds] == OK], np.int64)
    earliest = np.minimum.accumulate(end[reads][::-1])[::-1]
    latest = np.maximum.accumulate(begin[reads])
    due = np.searchsorted(latest, end[adds], side="right")
    released = np.searchsorted(begin[adds], earliest, side="right")
    placed = kernels.places(due, released, wanted)
    if placed is None:
        return None
    before, behind = adds[placed], np.ones(len(adds), np.bool_)
    behind[placed] = False
    behind &= columns.type[adds] == OK
    result = np.empty(len(placed) + len(reads), np.int64)
    at_read = wanted + np.arange(len(reads))
    free = np.ones(len(result), np.bool_)
    free[at_read] = False
    result[at_read], result[free] = reads, before
    return np.concatenate([result, adds[behind]])
