"""The rules of `rules` for long histories in columns: they find orders only.

Each looks for an order, rows of the columns, by the theory in the plain rule's file, or
says None. An order is not believed but verified (`search.replay`), so a mistake here
can only cost time. The plain rule is not a second form of the same: it judges what finds no order
that is accepted here, finds what is wrong, shows it in a small window, and needs no compiled
library.
"""

from __future__ import annotations

import numpy as np

from porcupine_py.columns import FAIL, OK, Columns, Int64s
from porcupine_py.kernels import load
from porcupine_py.search.decoded import amounts, append_offsets, decode, integers, starts
from porcupine_py.search.rules.log import LogColumns, judge_columns


def arrange_counter(columns: Columns) -> Int64s | None:
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


def arrange_ids(columns: Columns) -> Int64s | None:
    """Return the operations that got an identifier, in order of invocation. O(n)."""
    return np.flatnonzero(columns.type == OK)


def arrange_log(columns: Columns) -> Int64s | None:
    """Find an order of a log of unique values. O(n log n)."""
    seen = decode(columns, "append", "read", "read-all", records=True)
    if seen is None or np.any(seen.source < 0):
        return None
    offset, begin = append_offsets(columns, seen.made), starts(columns, seen.reads)
    if offset is None or begin is None:
        return None
    verdict = judge_columns(
        LogColumns(
            offset=offset,
            append_invoke=columns.invoke_ns[seen.made],
            append_complete=columns.complete_ns[seen.made],
            read_from=begin,
            read_invoke=columns.invoke_ns[seen.reads],
            read_complete=columns.complete_ns[seen.reads],
            read_all=columns.f[seen.reads] == columns.function("read-all"),
            first_record=seen.bounds,
            shown_offset=seen.offset,
            shown_value=seen.source,
        )
    )
    if verdict is None or verdict.order is None:
        return None
    return np.concatenate([seen.made, seen.reads])[verdict.order]
