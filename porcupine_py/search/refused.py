"""Places for refused compare-and-sets in an order of chains; see `chains` for the theory.

A gap g is before position g of the order. A refused one may stand in any gap that real time allows,
except while its value reigns: from behind the operation that makes the value until the next value
is made.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from porcupine_py.columns import Bools, Int64s
from porcupine_py.search.clusters import Chains, Layout, Zones

_NONE = -1
_NEIGHBOURS_MAX = 1000
"""Clusters that are looked at for one to move behind another."""
_ROUNDS_MAX = 16
"""Times that all gaps are raised at once before they are raised one by one."""


class Helpers:
    """Indeterminate writes that nobody read: each may end one value's reign for a refused cas.

    It is put directly before the refused one, which was invoked no earlier, where the value's chain
    has ended and the next has not begun: so nothing needs the value after it.
    """

    def __init__(self, layout: Layout, found: Zones, chains: Chains) -> None:
        self._layout = layout
        self.helper = np.full(len(layout.refused), _NONE, np.int64)
        """For each refused one: the row of its helper."""
        count = len(layout.makers)
        unused = ~found.effective[:count] & ~layout.is_cas
        compared = layout.refused_cluster  # such a value would be refused itself
        unused[compared[(compared >= 0) & (compared < count)]] = False
        idle = layout.makers[unused]
        self._spare: dict[int, list[int]] = {}
        for row in idle[::-1].tolist() if len(layout.refused) else ():
            self._spare.setdefault(layout.key_of(row), []).append(row)
        self._followed = np.zeros(len(found.f), np.bool_)
        """Clusters that a cas of their chain follows."""
        if chains.root is not None:
            links = chains.used[chains.depth[chains.used] > 0]
            self._followed[layout.needs[links]] = True

    def help(self, q: int) -> bool:
        """Give a refused one a helper, if one is left that was invoked in time."""
        row, value = int(self._layout.refused[q]), int(self._layout.refused_cluster[q])
        spare = self._spare.get(self._layout.key_of(row), [])
        if self.helper[q] >= 0 or self._followed[value] or not spare:
            return False
        if self._layout.begin[spare[-1]] > self._layout.begin[row]:
            return False
        self.helper[q] = spare.pop()
        return True

    def insert(self, result: Int64s, gap: Int64s, at_end: Bools) -> Int64s:
        """Return the order with the refused ones in their gaps, those `at_end` behind a helper."""
        by_gap = np.argsort(gap, kind="stable")
        rows = np.stack(
            [np.where(at_end, self.helper, _NONE)[by_gap], self._layout.refused[by_gap]], axis=1
        ).ravel()
        gaps = np.repeat(gap[by_gap], 2)
        there = rows >= 0
        return np.insert(result, gaps[there], rows[there])


def make_room(
    layout: Layout,
    chains: Chains,
    order: Int64s,
    times: tuple[Int64s, Int64s],
    misfits: Iterable[int],
    stuck: set[int],
) -> None:
    """Move what keeps refused ones from a place: their value's chain later, or another behind it.

    To move a chain later is to say that it has an operation invoked together with the refused one.
    """
    f, s = times
    for q in misfits:
        row, value = int(layout.refused[q]), int(layout.refused_cluster[q])
        begin = int(layout.begin[row])
        group = value if chains.root is None else int(chains.root[value])
        if f[group] >= begin > s[group] and group not in stuck:
            s[group] = begin
            continue
        stands = min(f[group], s[group])
        places = np.flatnonzero(order == value)
        if not len(places):
            continue  # only an earlier refused one keeps it from its place
        place = int(places[0])
        for other in order[max(0, place - _NEIGHBOURS_MAX) : place][::-1]:
            moved = int(other) if chains.root is None else int(chains.root[other])
            free = moved != group and f[moved] > stands and f[moved] >= s[group]
            if free and other < len(layout.makers) and moved not in stuck:
                s[moved] = max(s[moved], stands + 1)
                break


class Gaps:
    """Where the refused ones may stand in one order after another."""

    def __init__(self, layout: Layout, found: Zones) -> None:
        self._layout, self._found = layout, found
        # Rows are in order of invocation already; times do not change from order to order.
        self._by_end = np.argsort(layout.end, kind="stable")
        begin, end = layout.begin[layout.refused], layout.end[layout.refused]
        self._ended_before = np.searchsorted(layout.end[self._by_end], begin)
        self._begun_by = np.searchsorted(layout.begin, end, side="right")
        by_end = np.argsort(end, kind="stable")
        self._in_time = by_end, np.searchsorted(end[by_end], begin)

    def fit(
        self, helpers: Helpers, order: Int64s, start: Int64s, result: Int64s
    ) -> tuple[Int64s, Bools, NDArray[np.intp]]:
        """Return (the gap of each refused one, is it the last of a reign, misfits).

        `order`, `start` and `result` are what `search.chains` arranged.
        """
        layout = self._layout
        position = np.full(len(layout.begin), _NONE, np.int64)
        position[result] = np.arange(len(result))
        low = np.concatenate([[0], np.maximum.accumulate(position[self._by_end]) + 1])
        low = low[self._ended_before]
        position[position == _NONE] = len(result)
        ahead = np.concatenate([np.minimum.accumulate(position[::-1])[::-1], [len(result)]])
        high = ahead[self._begun_by]
        place = np.full(len(self._found.f), _NONE, np.int64)
        place[order] = np.arange(len(order))
        cluster = layout.refused_cluster
        reigns = np.where(cluster >= 0, place[cluster], _NONE)
        # The value reigns from behind its maker until before the next maker.
        has_maker = order[np.maximum(reigns, 0)] < len(layout.makers)
        first = np.where(reigns >= 0, start[np.maximum(reigns, 0)] + has_maker, len(result) + 2)
        until = np.where(
            reigns >= 0, start[np.minimum(np.maximum(reigns, 0) + 1, len(order))], _NONE
        )
        gap = self._earliest(low, first, until - (helpers.helper >= 0))
        return np.minimum(gap, high), gap == until, np.flatnonzero(gap > high)

    def _earliest(self, low: Int64s, first: Int64s, until: Int64s) -> Int64s:
        """Return the earliest gap for each: what precedes in real time does not come later.

        Gap g is before position g. Not allowed are gaps before `low` and from `first` to `until`.

        What a gap may not come before are gaps of operations that ended earlier, so there is one
        solution, and raising gaps from `low` until none is too early finds it: in a few rounds,
        unless each refused one pushes the next; then a loop in order of time is cheaper.
        """
        by_end, ended_before = self._in_time
        gap = _outside(low, first, until)
        for _ in range(_ROUNDS_MAX):
            floors = np.concatenate([[0], np.maximum.accumulate(gap[by_end])])[ended_before]
            if np.all(gap >= floors):
                return gap
            gap = _outside(np.maximum(gap, floors), first, until)
        gaps, done, floor = gap.tolist(), 0, 0
        ended = by_end.tolist()
        for q, before in enumerate(ended_before.tolist()):
            while done < before:
                floor = max(floor, gaps[ended[done]])
                done += 1
            at = max(gaps[q], floor)
            gaps[q] = int(until[q]) + 1 if first[q] <= at <= until[q] else at
        return np.array(gaps, np.int64)


def _outside(gap: Int64s, first: Int64s, until: Int64s) -> Int64s:
    """Move gaps that are between `first` and `until` behind it."""
    moved: Int64s = np.where((gap >= first) & (gap <= until), until + 1, gap)
    return moved
