"""Places for refused compare-and-sets in an order of chains; see `checkers.chains` for the theory.

A gap g is before position g of the order. A refused one may stand in any gap that real time allows,
except while its value reigns: from behind the operation that makes the value until the next value
is made.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from checkers.clusters import Chains, Layout, Zones
from checkers.columns import Bools, Int64s

_NONE = -1
_NEIGHBOURS_MAX = 1000
"""Clusters that are looked at for one to move behind another."""


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

    def inserted(self, result: Int64s, gap: Int64s, at_end: Bools) -> Int64s:
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


def gaps_of_refused(
    layout: Layout,
    found: Zones,
    helpers: Helpers,
    order: Int64s,
    start: Int64s,
    result: Int64s,
) -> tuple[Int64s, Bools, NDArray[np.intp]]:
    """Return (the gap of each refused compare-and-set, is it the last of a reign, misfits)."""
    refused, cluster = layout.refused, layout.refused_cluster
    begin, end = layout.begin[refused], layout.end[refused]
    position = np.arange(len(result))
    by_end = np.argsort(layout.end[result], kind="stable")
    reached = np.concatenate([[0], np.maximum.accumulate(position[by_end]) + 1])
    low = reached[np.searchsorted(layout.end[result][by_end], begin)]
    by_begin = np.argsort(layout.begin[result], kind="stable")
    ahead = np.minimum.accumulate(position[by_begin][::-1])[::-1]
    ahead = np.concatenate([ahead, [len(result)]])
    high = ahead[np.searchsorted(layout.begin[result][by_begin], end, side="right")]
    place = np.full(len(found.f), _NONE, np.int64)
    place[order] = np.arange(len(order))
    reigns = np.where(cluster >= 0, place[cluster], _NONE)
    # The value reigns from behind its maker until before the next maker.
    has_maker = order[np.maximum(reigns, 0)] < len(layout.makers)
    first = np.where(reigns >= 0, start[np.maximum(reigns, 0)] + has_maker, len(result) + 2)
    until = np.where(reigns >= 0, start[np.minimum(np.maximum(reigns, 0) + 1, len(order))], _NONE)
    gap = _gaps(begin, end, low, first, until - (helpers.helper >= 0))
    return np.minimum(gap, high), gap == until, np.flatnonzero(gap > high)


def _gaps(begin: Int64s, end: Int64s, low: Int64s, first: Int64s, until: Int64s) -> Int64s:
    """Return the earliest gap for each, such that what precedes in real time does not come later.

    Gap g is before position g. Not allowed are gaps before `low` and from `first` to `until`.
    """
    gap: Int64s = np.where((low >= first) & (low <= until), until + 1, low)
    by_end = np.argsort(end, kind="stable")
    floors = np.concatenate([[0], np.maximum.accumulate(gap[by_end])])
    if np.all(gap >= floors[np.searchsorted(end[by_end], begin)]):
        return gap
    ends, done, floor = end[by_end].tolist(), 0, 0
    chosen = low.tolist()
    for q, began in enumerate(begin.tolist()):
        while ends[done] < began:
            floor = max(floor, chosen[by_end[done]])
            done += 1
        at = max(chosen[q], floor)
        chosen[q] = int(until[q]) + 1 if first[q] <= at <= until[q] else at
    return np.array(chosen, np.int64)
