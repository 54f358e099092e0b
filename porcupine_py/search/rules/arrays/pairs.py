"""Queues and stacks in columns: values and when they were inside (see `rules.pairs`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from porcupine_py.columns import FAIL, INFO, OK, Columns, Int64s
from porcupine_py.models.queues import EMPTY_ERRORS
from porcupine_py.operations import INFINITY_NS
from porcupine_py.search.decoded import NONE, Rows


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Values that went in, one entry each, in order of their insertion's invocation."""

    into: Rows
    out: Int64s
    """NONE: it stayed."""
    into_from: Int64s
    into_by: Int64s
    """Not later than the value came out."""
    out_from: Int64s
    """Not earlier than the value went in."""
    out_by: Int64s
    empties: Rows
    """Removals that found nothing."""
    moments: Int64s
    """For each of these: when nothing was surely inside."""


def values_of(columns: Columns, into: str, out_of: str) -> Values | None:
    """Sort a history out; None where something is wrong with one value, or it does not apply."""
    inserting = columns.f == columns.function(into)
    removing = columns.f == columns.function(out_of)
    made = np.flatnonzero(inserting & (columns.type != FAIL))
    taken = np.flatnonzero(removing & (columns.type == OK) & (columns.output != 0))
    owner = _owners(columns, made, taken)
    if owner is None or np.any(owner < 0):
        return None
    removal = np.full(len(made), NONE, np.int64)
    removal[owner] = taken
    if not np.array_equal(removal[owner], taken):
        return None  # one came out twice
    kept = (removal >= 0) | (columns.type[made] != INFO)
    made, removal = made[kept], removal[kept]
    never = removal < 0
    out_from = np.where(never, INFINITY_NS, columns.invoke_ns[removal])
    out_by = np.where(never, INFINITY_NS, columns.complete_ns[removal])
    into_from = columns.invoke_ns[made]
    if np.any(out_by < into_from):
        return None
    into_by = np.minimum(columns.complete_ns[made], out_by)
    out_from = np.maximum(out_from, into_from)
    saw_nothing = np.array([error in EMPTY_ERRORS for error in columns.errors], np.bool_)
    refused = (columns.type == FAIL) & saw_nothing[columns.error]
    found_nothing = (columns.type == OK) & (columns.output == 0)
    empties = np.flatnonzero(removing & (refused | found_nothing))
    moments = _moments(columns, empties, into_by, out_from)
    if moments is None:
        return None
    return Values(made, removal, into_from, into_by, out_from, out_by, empties, moments)


def _owners(columns: Columns, made: Rows, taken: Rows) -> Int64s | None:
    """Return for each of `taken` which of `made` put its value in; None: one went in twice."""
    codes, wanted = columns.input[made].astype(np.int64), columns.output[taken].astype(np.int64)
    size = len(columns.values)
    if np.any(codes == 0):
        return None  # None went in: nothing distinguishes it from an empty container
    if size > 4 * len(columns) + 1024:  # a small part of a large history
        known, both = np.unique(np.concatenate([codes, wanted]), return_inverse=True)
        size, codes, wanted = len(known), both[: len(made)], both[len(made) :]
    table = np.full(size, NONE, np.int64)
    table[codes] = np.arange(len(made))
    if not np.array_equal(table[codes], np.arange(len(made))):
        return None
    return table[wanted]


def _moments(columns: Columns, empties: Rows, into_by: Int64s, out_from: Int64s) -> Int64s | None:
    """Choose for each of `empties` a time at which no value is surely inside; None: one has none.

    A value is surely inside strictly between `into_by` and `out_from`.
    """
    sure = np.flatnonzero(into_by < out_from)
    at = columns.invoke_ns[empties].copy()
    if not len(sure) or not len(empties):
        return at
    sure = sure[np.argsort(into_by[sure], kind="stable")]
    begins, ends = into_by[sure], np.maximum.accumulate(out_from[sure])
    first = np.concatenate([[True], begins[1:] >= ends[:-1]])
    last = np.concatenate([first[1:], [True]])
    begins, ends = begins[first], ends[last]
    place = np.searchsorted(begins, at, side="left") - 1
    covered = (place >= 0) & (at < ends[np.maximum(place, 0)])
    at[covered] = ends[place[covered]]
    return None if np.any(at > columns.complete_ns[empties]) else at
