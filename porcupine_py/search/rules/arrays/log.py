"""Histories of logs as the columns that `rules.log` judges."""

from __future__ import annotations

import numpy as np

from porcupine_py.columns import Columns, Int64s
from porcupine_py.search.decoded import append_offsets, decode, starts
from porcupine_py.search.rules.log import LogColumns, judge_columns


def arrange(columns: Columns) -> Int64s | None:
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
