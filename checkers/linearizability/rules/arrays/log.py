"""Histories of logs as the columns that `linearizability.rules.log` judges."""

from __future__ import annotations

import numpy as np

from checkers.history.columns import Columns, Int64s
from checkers.linearizability.decoded import offsets_told, shown, starts
from checkers.linearizability.rules.log import LogColumns, judge_columns


def arrange(columns: Columns) -> Int64s | None:
    """Find an order of a log whose values are unique. O(n log n)."""
    told = shown(columns, "append", "read", "read-all", records=True)
    if told is None or np.any(told.source < 0):
        return None
    offset, begin = offsets_told(columns, told.made), starts(columns, told.reads)
    if offset is None or begin is None:
        return None
    verdict = judge_columns(
        LogColumns(
            offset=offset,
            append_invoke=columns.invoke_ns[told.made],
            append_complete=columns.complete_ns[told.made],
            read_from=begin,
            read_invoke=columns.invoke_ns[told.reads],
            read_complete=columns.complete_ns[told.reads],
            read_all=columns.f[told.reads] == columns.function("read-all"),
            first_record=told.bounds,
            shown_offset=told.offset,
            shown_value=told.source,
        )
    )
    if verdict is None or verdict.order is None:
        return None
    return np.concatenate([told.made, told.reads])[verdict.order]
