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
compare-and-set that took effect, took effect itself; any other is left out.

A refused compare-and-set saw any value but one; it stands anywhere outside of that value's reign.
The order found is tried first: each refused one goes to the earliest gap that real time allows. If
each finds one the order is right. If some does not, the history is wrong when the operations of the
value's own cluster enclose it (f < invocation and completion < s). Otherwise another order of the
chains, or an indeterminate operation that was left out, might explain it: this algorithm then has
no answer, and a search must judge.

A history without compare-and-set is the case in which each chain is one cluster (`checkers.zones`).
Complexity: O(n log n) time, O(n) memory; all keys at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkers.clusters import Found, Judged, Layout, Zones, conflicts, zones
from checkers.columns import Int64s
from checkers.encoding import Encoded

_NONE = -1


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
    else:
        for m in np.flatnonzero(root[root] != root):
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
    """Put groups by min(f, s), backward ones first; clusters by depth; the maker, then reads."""
    used, count = chains.used, len(layout.makers)
    root = used if chains.root is None else chains.root[used]
    f, s = chains.f[root], chains.s[root]
    keys = (
        [f < s, np.minimum(f, s)]
        if chains.root is None
        else [*(chains.depth[used], root, f < s, np.minimum(f, s))]
    )
    order = used[np.lexsort(keys)]
    place = np.full(len(found.f), _NONE, np.int64)
    place[order] = np.arange(len(order))
    known = layout.read_cluster >= 0
    reads, cluster = layout.reads[known], layout.read_cluster[known]
    size = np.bincount(place[cluster], minlength=len(order))
    has_maker = order < count
    start = np.concatenate([[0], np.cumsum(size + has_maker)])
    result = np.empty(start[-1], np.int64)
    result[start[:-1][has_maker]] = layout.makers[order[has_maker]]
    by_place = np.argsort(place[cluster], kind="stable")
    free = np.ones(len(result), np.bool_)
    free[start[:-1][has_maker]] = False
    result[free] = reads[by_place]
    if len(layout.refused):
        result = _with_refused(layout, found, judged, order, start, result)
    judged.order = result


def _with_refused(
    layout: Layout,
    found: Zones,
    judged: Judged,
    order: Int64s,
    start: Int64s,
    result: Int64s,
) -> Int64s:
    """Insert the refused compare-and-sets; note keys in which one of them has no place."""
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
    gap = _gaps(begin, end, low, first, until)
    for q in np.flatnonzero(gap > high):
        key, row = layout.key_of(int(refused[q])), int(refused[q])
        value = cluster[q]
        enclosed = value >= 0 and found.f[value] < begin[q] and end[q] < found.s[value]
        if enclosed:
            rows = tuple(sorted({row, *_extremes(layout, int(value))}))
            judged.wrong.setdefault(key, Found("refused-cas", rows))
        else:
            judged.undecided.add(key)
    judged.undecided -= judged.wrong.keys()
    gap = np.minimum(gap, high)
    by_gap = np.argsort(gap, kind="stable")
    return np.insert(result, gap[by_gap], refused[by_gap])


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
