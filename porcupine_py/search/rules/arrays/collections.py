"""Lists and growing sets in columns; theory in `rules.lists` and `.sets`.

Both are ladders: every operation has a rung, rungs stand one above the other, and operations of one
rung stand in order of invocation, which is the order of the rows.
"""

from __future__ import annotations

import numpy as np

from porcupine_py.columns import INFO, Columns, Int64s
from porcupine_py.search.decoded import decode


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


_FEW_READS = 1_000
"""Up to so many reads are gone through one by one."""


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
