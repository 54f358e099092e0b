"""Queues and stacks in columns; theory and proof in `rules.queue` and `.stack`."""

from __future__ import annotations

import numpy as np

from porcupine_py.columns import Columns, Int64s
from porcupine_py.kernels import Kernels, load
from porcupine_py.search.decoded import Rows
from porcupine_py.search.rules.arrays.pairs import Values, values_of


def arrange_queue(columns: Columns) -> Int64s | None:
    """Find an order of a queue of unique values. O(n log n)."""
    kernels = load()
    values = None if kernels is None else values_of(columns, "enqueue", "dequeue")
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


def arrange_stack(columns: Columns) -> Int64s | None:
    """Find an order of a stack of unique values. O(n log n + n c), c clients at a time."""
    kernels = load()
    values = None if kernels is None else values_of(columns, "push", "pop")
    if kernels is None or values is None:
        return None
    sure = np.flatnonzero(values.into_by < values.out_from)
    sure = sure[np.argsort(values.into_by[sure], kind="stable")]
    begin, end = values.into_by[sure], values.out_from[sure]
    points = np.unique(np.concatenate([begin, end]))
    word = kernels.nest(
        np.searchsorted(points, values.into_from[sure], side="left"),
        np.searchsorted(points, begin),
        np.searchsorted(points, end),
        np.searchsorted(points, values.out_by[sure], side="right") - 1,
        len(points),
    )
    return None if len(word) < 2 * len(sure) else _with_moments(values, sure, word)


def _with_moments(values: Values, sure: Rows, word: Int64s) -> Int64s:
    """Add what found nothing before the first part that begins then or later, and sort by time.

    Values that are not surely inside at any time go in and out at one moment.
    """
    begin, end = values.into_by[sure], values.out_from[sure]
    first = np.ones(len(sure), np.bool_)
    first[1:] = begin[1:] >= np.maximum.accumulate(end)[:-1]
    part_begins = begin[first][np.cumsum(first) - 1]
    item, pops = word % max(1, len(sure)), word >= len(sure)
    row = np.where(pops, values.out[sure[item]], values.into[sure[item]])
    at_least = np.where(pops, values.out_from[sure[item]], values.into_from[sure[item]])
    kept = row >= 0  # what stayed does not come out
    item, row, at_least = item[kept], row[kept], at_least[kept]
    shown = np.argsort(values.moments, kind="stable")
    places = np.searchsorted(part_begins[item], values.moments[shown], side="left")
    rows = np.insert(row, places, values.empties[shown])
    times = np.maximum.accumulate(np.insert(at_least, places, values.moments[shown]))
    passing = np.flatnonzero(values.into_by >= values.out_from)
    pairs = np.stack([values.into[passing], values.out[passing]], axis=1).ravel()
    both = np.concatenate([rows, pairs])
    moments = np.repeat(values.out_from[passing], 2)
    order: Int64s = both[np.argsort(np.concatenate([times, moments]), kind="stable")]
    return order
