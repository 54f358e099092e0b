"""Compare-and-set with unique values: chains of clusters instead of search.

Theory. Where every value is made at most once, a compare-and-set from `a` to `b` that succeeded
stands directly behind the cluster of `a` (the operation that made `a`, then its reads) and begins
the cluster of `b`. Clusters so linked form a chain, and in any linearization a chain stands
together: between its operations no other value can be made, or the compare-and-set would fail. What
Gibbons and Korach (1997) prove of clusters with one write holds of any groups that stand together,
since only the earliest completion f and the latest invocation s of a group enter: an order of the
groups exists exactly when no two have f(A) < s(B) and f(B) < s(A). So a history is linearizable
exactly when

- every value that was read or compared with was made, and no cluster has two successors,
- no read completes before its value is made, links form no circle,
- within a chain no operation of a later cluster precedes one of an earlier cluster, and
- no two chains conflict.

Indeterminate operations are exact: one whose value was read, or was compared with by a
compare-and-set that took effect, took effect itself; any other is left out, unless it can help a
refused one.

A refused compare-and-set saw any value but one; it stands anywhere outside of that value's reign.
The order found is tried first: each refused one goes to the earliest gap that real time allows. If
each finds one the order is right. If some does not, the history is wrong when the operations of the
value's own cluster enclose it (f < invocation and completion < s). Otherwise the chain of the value
is asked to come later (as if it had an operation invoked with the refused one), or another chain to
come behind it, which is more than the history demands, so that what is found stays an order; it is
tried some times. In the end another order of the chains, or an indeterminate operation
that was left out, might still explain it: this algorithm then has no answer, and a search must
judge.

A history without compare-and-set is the case in which each chain is one cluster (`checkers.zones`).
Complexity: O(n log n) time, O(n) memory; all keys at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkers.clusters import Found, Judged, Layout, Zones, conflicts, zones
from checkers.columns import Bools, Int64s
from checkers.encoding import Encoded

_NONE = -1
_ATTEMPTS_MAX = 6
"""Orders that are tried for refused compare-and-sets."""
_NEIGHBOURS_MAX = 1000
"""Clusters that are looked at for one to move behind another."""


def judge(encoded: Encoded, value_count: int, *, with_order: bool = True) -> Judged | None:
    """Judge keys of which `checkers.clusters.unique_keys` holds.

    None when the times of all keys do not fit one after another; judge them singly then.
    `with_order`: whether `order` is wanted, the proof of what is right.
    """
    judged = Judged(encoded)
    if len(encoded.code) == 0:
        return judged
    layout = Layout.of(encoded, value_count)
    if layout is None:
        return None
    found = zones(layout, judged)
    chains = _link(layout, found, judged)
    _between(layout, found, chains, judged)
    if with_order or len(layout.refused):
        _order(layout, found, chains, judged)
    return judged


@dataclass(slots=True, eq=False)
class _Chains:
    used: NDArray[np.intp]
    """Clusters whose value ever was there."""
    root: Int64s | None
    """Of each cluster: the first one of its chain; None when each is its own."""
    depth: Int64s
    f: Int64s
    """Of each root: of the whole chain; of other clusters meaningless."""
    s: Int64s


def _link(layout: Layout, found: Zones, judged: Judged) -> _Chains:
    if not layout.is_cas.any():
        used = np.flatnonzero(found.effective)
        return _Chains(used, None, np.zeros(0, np.int64), found.f, found.s)
    _spread_effect(layout, found)
    effective, total = found.effective, len(found.f)
    count = len(layout.makers)
    links = np.flatnonzero(effective[:count] & layout.is_cas)
    before = layout.needs[links]
    for m in links[before < 0]:
        row = int(layout.makers[m])
        judged.wrong.setdefault(layout.key_of(row), Found("phantom-cas", (row,)))
    links, before = links[before >= 0], before[before >= 0]
    successor = np.full(total, _NONE, np.int64)
    successor[before] = links
    for m, previous in zip(links, before, strict=True) if len(links) else ():
        other = successor[previous]
        if other != m:
            pair = tuple(sorted((int(layout.makers[m]), int(layout.makers[other]))))
            judged.wrong.setdefault(layout.key_of(pair[0]), Found("forked-cas", pair))
    parent = np.arange(total)
    parent[links] = before
    depth = np.zeros(total, np.int64)
    depth[links] = 1
    root = parent.copy()
    for _ in range(int(total).bit_length() + 1):
        depth += depth[root]
        further = root[root]
        if np.array_equal(further, root):
            break
        root = further
    for m in np.flatnonzero(parent[root] != root):
        row = int(layout.makers[m])
        judged.wrong.setdefault(layout.key_of(row), Found("circular-cas", (row,)))
    used = np.flatnonzero(effective)
    f, s = found.f.copy(), found.s.copy()
    np.minimum.at(f, root[used], found.f[used])
    np.maximum.at(s, root[used], found.s[used])
    chains = _Chains(used, root, depth, f, s)
    _within(layout, found, chains, judged)
    return chains


def _spread_effect(layout: Layout, found: Zones) -> None:
    """An indeterminate operation took effect when a cas that took effect needed its value."""
    count = len(layout.makers)
    new = np.flatnonzero(found.effective[:count] & layout.is_cas)
    while len(new):
        needed = layout.needs[new]
        needed = np.unique(needed[needed >= 0])
        needed = needed[~found.effective[needed]]
        found.effective[needed] = True
        needed = needed[needed < count]
        new = needed[layout.is_cas[needed]]


def _within(layout: Layout, found: Zones, chains: _Chains, judged: Judged) -> None:
    """Note chains in which a later cluster has an operation that precedes one of an earlier."""
    assert chains.root is not None
    used = chains.used
    order = used[np.lexsort((chains.depth[used], chains.root[used]))]
    root = chains.root[order]
    segment = np.cumsum(np.concatenate([[0], root[1:] != root[:-1]]))
    # Running maximum of s within each segment: by rank, each segment above all before it.
    by_s = np.argsort(found.s[order], kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[by_s] = np.arange(len(order))
    highest = np.maximum.accumulate(segment * len(order) + rank) % len(order)
    earlier = by_s[highest][:-1]
    same = segment[1:] == segment[:-1]
    bad = same & (found.f[order[1:]] < found.s[order[earlier]])
    for place in np.flatnonzero(bad):
        later, before = int(order[place + 1]), int(order[earlier[place]])
        rows = (*_extremes(layout, later), *_extremes(layout, before))
        judged.wrong.setdefault(
            layout.key_of_cluster(later), Found("stale-cas", tuple(sorted(set(rows))))
        )


def _between(layout: Layout, found: Zones, chains: _Chains, judged: Judged) -> None:
    groups = chains.used
    if chains.root is not None:
        groups = groups[chains.root[groups] == groups]
        judged.longest = int(chains.depth.max()) + 1
    f, s = chains.f[groups], chains.s[groups]
    judged.clusters, judged.forward = len(chains.used), int(np.count_nonzero(f < s))
    for left, right in groups[conflicts(f, s)]:
        key = layout.key_of_cluster(int(left))
        if key in judged.wrong:
            continue
        times = [int(t) for g in (left, right) for t in (chains.f[g], chains.s[g])]
        rows: set[int] = set()
        for group in (left, right):
            members = [group]
            if chains.root is not None:
                members = chains.used[chains.root[chains.used] == group]
                early, late = np.argmin(found.f[members]), np.argmax(found.s[members])
                members = [group, members[early], members[late]]
            for cluster in members:
                rows.update(_extremes(layout, int(cluster)))
        shift = key * layout.span
        judged.wrong[key] = Found(
            "stale-read", tuple(sorted(rows)), tuple(max(-1, t - shift) for t in times)
        )


def _extremes(layout: Layout, cluster: int) -> list[int]:
    """Return the maker of a cluster and the operations that make its f and s."""
    rows = layout.reads[layout.read_cluster == cluster].tolist()
    if cluster < len(layout.makers):
        rows.append(int(layout.makers[cluster]))
    if not rows:
        return []
    first = min(rows, key=lambda row: (layout.end[row], row))
    last = max(rows, key=lambda row: (layout.begin[row], row))
    if cluster >= len(layout.makers):
        return [last]  # the initial value was there before everything
    return sorted({int(layout.makers[cluster]), first, last})


def _order(layout: Layout, found: Zones, chains: _Chains, judged: Judged) -> None:
    """Find an order in which each refused compare-and-set has a place too."""
    f, s = chains.f, chains.s.copy()
    groups = chains.used
    if chains.root is not None:
        groups = groups[chains.root[groups] == groups]
    helpers = _Helpers(layout, found, chains)
    stuck: set[int] = set()
    misfits = np.zeros(0, np.intp)
    for _ in range(_ATTEMPTS_MAX if len(layout.refused) else 1):
        order, start, result = _arranged(layout, chains, f, s)
        if not len(layout.refused):
            break
        gap, at_end, misfits = _gaps_of_refused(layout, found, helpers, order, start, result)
        result = helpers.inserted(result, gap, at_end)
        judged.undecided = {layout.key_of(int(layout.refused[q])) for q in misfits}
        judged.undecided -= judged.wrong.keys()
        if not judged.undecided:
            break
        before = s.copy()
        left = [q for q in misfits.tolist() if not helpers.help(q)]
        _move(layout, chains, order, (f, s), left, stuck)
        for group in np.unique(groups[conflicts(f[groups], s[groups])]).tolist():
            if s[group] != before[group]:
                s[group] = before[group]
                stuck.add(group)
        moved = groups[conflicts(f[groups], s[groups])[:, 0]]
        if {layout.key_of_cluster(int(group)) for group in moved} - judged.wrong.keys():
            break
    for q in misfits:
        row, value = int(layout.refused[q]), int(layout.refused_cluster[q])
        begin, end = layout.begin[row], layout.end[row]
        if value >= 0 and found.f[value] < begin and end < found.s[value]:
            rows = tuple(sorted({row, *_extremes(layout, value)}))
            judged.wrong.setdefault(layout.key_of(row), Found("refused-cas", rows))
    judged.undecided -= judged.wrong.keys()
    judged.order = result


class _Helpers:
    """Indeterminate writes that nobody read: each may end one value's reign for a refused cas.

    It is put directly before the refused one, which was invoked no earlier, where the value's chain
    has ended and the next has not begun: so nothing needs the value after it.
    """

    def __init__(self, layout: Layout, found: Zones, chains: _Chains) -> None:
        self._layout = layout
        self.helper = np.full(len(layout.refused), _NONE, np.int64)
        """For each refused one: the row of its helper."""
        count = len(layout.makers)
        idle = layout.makers[~found.effective[:count] & ~layout.is_cas]
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


def _move(
    layout: Layout,
    chains: _Chains,
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


def _arranged(
    layout: Layout, chains: _Chains, f: Int64s, s: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    """Put groups by min(f, s), backward ones first; clusters by depth; the maker, then reads.

    Returns (clusters in order, where the operations of each begin, operations in order).
    """
    used, count = chains.used, len(layout.makers)
    root = used if chains.root is None else chains.root[used]
    keys = [f[root] < s[root], np.minimum(f[root], s[root])]
    if chains.root is not None:
        keys = [chains.depth[used], root, *keys]
    order = used[np.lexsort(keys)]
    place = np.full(len(f), _NONE, np.int64)
    place[order] = np.arange(len(order))
    known = layout.read_cluster >= 0
    reads, cluster = layout.reads[known], layout.read_cluster[known]
    size = np.bincount(place[cluster], minlength=len(order))
    has_maker = order < count
    start = np.concatenate([[0], np.cumsum(size + has_maker)])
    result = np.empty(start[-1], np.int64)
    result[start[:-1][has_maker]] = layout.makers[order[has_maker]]
    free = np.ones(len(result), np.bool_)
    free[start[:-1][has_maker]] = False
    result[free] = reads[np.argsort(place[cluster], kind="stable")]
    return order, start, result


def _gaps_of_refused(
    layout: Layout,
    found: Zones,
    helpers: _Helpers,
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
