"""The rules of `rules` for long histories in columns: they find orders only.

Each looks for an order, rows of the columns, by the theory in the plain rule's file, or
says None. An order is not believed but verified (`search.replay`), so a mistake here
can only cost time. The plain rule is not a second form of the same: it judges what finds no order
that is accepted here, finds what is wrong, shows it in a small window, and needs no compiled
library.

Lists and growing sets are ladders: every operation has a rung, rungs stand one above the other, and
operations of one rung stand in order of invocation, which is the order of the rows. Of queues
values are looked at, and when they were inside (`rules.queue`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from porcupine_py.columns import FAIL, INFO, OK, Columns, Int64s
from porcupine_py.kernels import Kernels, load
from porcupine_py.models.queues import EMPTY_ERRORS
from porcupine_py.operations import INFINITY_NS
from porcupine_py.search.decoded import (
    NONE,
    Rows,
    amounts,
    append_offsets,
    decode,
    integers,
    starts,
)
from porcupine_py.search.rules.log import LogColumns, judge_columns

_FEW_READS = 1_000
"""Up to so many reads of a set are gone through one by one."""


def arrange_counter(columns: Columns) -> Int64s | None:
    """Find an order of a counter to which one amount is added again and again. O(n log n)."""
    kernels = load()
    reading = columns.calls("read")
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


def arrange_list(columns: Columns) -> Int64s | None:
    """Put appends in the order of the longest read. O(n log n + total length of all reads)."""
    seen = decode(columns, "append", "read")
    if seen is None:
        return None
    sizes = np.diff(seen.bounds)
    place = np.full(len(seen.made), -1, np.int64)
    length = 0
    if len(sizes):
        longest = int(np.argmax(sizes))
        length = int(sizes[longest])
        read = seen.source[seen.bounds[longest] : seen.bounds[longest + 1]]
        if np.any(read < 0):
            return None
        place[read] = np.arange(length)
    at = np.where(place < 0, -1, 2 * place + 1)
    return _climb(columns, seen.made, at, seen.reads, 2 * sizes, 2 * length + 2)


def arrange_set(columns: Columns) -> Int64s | None:
    """Put adds before the smallest read that shows them. O(n log n + total size of all reads)."""
    seen = decode(columns, "add", "read")
    if seen is None or np.any(seen.source < 0):
        return None
    sizes = np.diff(seen.bounds)
    by_size = np.argsort(sizes, kind="stable")
    rung = np.empty(len(sizes), np.int64)
    ordered = sizes[by_size]
    steps = np.concatenate([[0], ordered[1:] != ordered[:-1]])[: len(ordered)]
    rung[by_size] = np.cumsum(steps)
    first = np.full(len(seen.made), -1, np.int64)
    # From the largest to the smallest, so that the smallest is written last.
    for read in by_size[::-1].tolist() if len(sizes) <= _FEW_READS else ():
        first[seen.source[seen.bounds[read] : seen.bounds[read + 1]]] = rung[read]
    if len(sizes) > _FEW_READS:
        of_element = np.repeat(rung, sizes)
        downwards = np.argsort(-of_element, kind="stable")
        first[seen.source[downwards]] = of_element[downwards]
    top = 2 * len(sizes) + 2
    return _climb(
        columns, seen.made, np.where(first < 0, -1, 2 * first), seen.reads, 2 * rung + 1, top
    )


def _climb(
    columns: Columns, made: Int64s, at: Int64s, reads: Int64s, at_read: Int64s, top: int
) -> Int64s:
    """Sort by rung, then by row; insertions that nobody saw (rung below 0) stand at the top."""
    rung = np.full(len(columns), -1, np.int64)
    rung[made] = np.where(at < 0, np.where(columns.type[made] == INFO, -1, top), at)
    rung[reads] = at_read
    rows = np.flatnonzero(rung >= 0)
    levels = rung[rows].astype(np.uint16) if top < 1 << 16 else rung[rows]  # a third of the time
    return rows[np.argsort(levels, kind="stable")]


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


def values_of(columns: Columns) -> Values | None:
    """Sort a history out; None where something is wrong with one value, or it does not apply."""
    removing = columns.calls("dequeue")
    made = np.flatnonzero(columns.calls("enqueue") & (columns.type != FAIL))
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


def arrange_queue(columns: Columns) -> Int64s | None:
    """Find an order of a queue of unique values. O(n log n)."""
    kernels = load()
    values = None if kernels is None else values_of(columns)
    if kernels is None or values is None:
        return None
    # What found nothing goes in and out at its moment.
    times = [
        np.concatenate([span, values.moments])
        for span in (values.into_from, values.into_by, values.out_from, values.out_by)
    ]
    order = kernels.fifo(times, [np.argsort(span, kind="stable") for span in times])
    if len(order) < len(times[0]):
        return None
    return _in_time(kernels, values, order)


def _in_time(kernels: Kernels, values: Values, order: Int64s) -> Int64s:
    """Give every operation its time (see the proof), and sort by it."""
    count = len(values.into)
    empty = order >= count
    value = np.where(empty, 0, order)
    begins = np.concatenate([values.into_from, values.moments])[order]
    into_ns = np.maximum.accumulate(begins)
    segment: Int64s = np.cumsum(empty) - empty
    out = np.full(len(order), -1, np.int64) if count == 0 else values.out[value]
    has_out = ~empty & (out >= 0)
    # An empty moment holds back what comes out behind it, as the one that came out before does.
    latest = np.where(has_out, np.concatenate([values.out_from, values.moments])[order], 0)
    out_ns = np.maximum.accumulate(np.where(has_out | empty, np.maximum(latest, into_ns), 0))
    at_left, at_right = kernels.merge(
        (into_ns, segment), empty, (out_ns[has_out], segment[has_out])
    )
    result = np.empty(len(at_left) + len(at_right), np.int64)
    result[at_left] = np.concatenate([values.into, values.empties])[order]
    result[at_right] = out[has_out]
    return result
