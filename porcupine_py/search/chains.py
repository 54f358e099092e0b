"""Compare-and-set with unique values: chains of clusters instead of search.

Theory. Where every value is made at most once, a compare-and-set from `a` to `b` that succeeded
stands directly behind the cluster of `a` (the operation that made `a`, then its reads) and begins
the cluster of `b`. Clusters so linked form a chain, and in any linearization a chain stands
together: between its operations no other value can be made, or the compare-and-set would fail. What
holds of clusters (`search.clusters`) holds of any groups that stand together, since only
the earliest completion f and the latest invocation s of a group enter: an order of the groups
exists exactly when no two have f(A) < s(B) and f(B) < s(A). So a history is linearizable exactly
when

- every value that was read or compared with was made, and no cluster has two successors,
- no read completes before its value is made, links form no circle,
- within a chain no operation of a later cluster precedes one of an earlier cluster, and
- no two chains conflict.

Indeterminate operations are exact: one with a value that was read, or was compared with by a
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

A history without compare-and-set is the case in which each chain is one cluster
(the algorithm `zones`). Complexity: O(n log n) time, O(n) memory; all keys at once.
"""

from __future__ import annotations

import numpy as np

from porcupine_py.columns import Int64s
from porcupine_py.operations import INFINITY_NS
from porcupine_py.search.clusters import (
    Chains,
    Found,
    Judged,
    Layout,
    Zones,
    conflicts,
    witnesses,
    zones,
)
from porcupine_py.search.encoding import Encoded
from porcupine_py.search.refused import Gaps, Helpers, make_room

_NONE = -1
_ATTEMPTS_MAX = 6
"""Orders that are tried for refused compare-and-sets."""


def judge(encoded: Encoded, value_count: int) -> Judged | None:
    """Judge keys of which `search.clusters.unique_keys` holds.

    None when the times of all keys do not fit one after another; judge them singly then.
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
    _order(layout, found, chains, judged)
    return judged


def _link(layout: Layout, found: Zones, judged: Judged) -> Chains:
    if not layout.is_cas.any():
        used = np.flatnonzero(found.effective)
        none = np.zeros(0, np.int64)
        return Chains(used, None, none, found.f, found.s, none)
    _spread_effect(layout, found)
    effective, total = found.effective, len(found.f)
    count = len(layout.makers)
    links = np.flatnonzero(effective[:count] & layout.is_cas)
    before = layout.needs[links]
    phantoms = links[before < 0]
    links, before = links[before >= 0], before[before >= 0]
    successor = np.full(total, _NONE, np.int64)
    successor[before] = links
    for m in phantoms.tolist():
        rows = tuple(sorted(witnesses(layout, successor, m)))
        judged.wrong.setdefault(layout.key_of(int(layout.makers[m])), Found("phantom-cas", rows))
    for m, previous in zip(links, before, strict=True) if len(links) else ():
        other = successor[previous]
        if other != m:
            both = {row for c in (m, other) for row in witnesses(layout, successor, int(c))}
            key = layout.key_of(int(layout.makers[m]))
            judged.wrong.setdefault(key, Found("forked-cas", tuple(sorted(both))))
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
    for m in np.flatnonzero(parent[root] != root).tolist():
        rows = tuple(sorted(witnesses(layout, successor, m)))
        judged.wrong.setdefault(layout.key_of(int(layout.makers[m])), Found("circular-cas", rows))
    used = np.flatnonzero(effective)
    f, s = found.f.copy(), found.s.copy()
    np.minimum.at(f, root[used], found.f[used])
    np.maximum.at(s, root[used], found.s[used])
    chains = Chains(used, root, depth, f, s, successor)
    _within(layout, found, chains, judged)
    return chains


def _spread_effect(layout: Layout, found: Zones) -> None:
    """An indeterminate operation took effect when a cas that took effect needed its value."""
    count = len(layout.makers)
    new = np.flatnonzero(found.effective[:count] & layout.is_cas)
    while len(new):
        needed = layout.needs[new]
        needed = needed[needed >= 0]
        needed = np.unique(needed[~found.effective[needed]])
        found.effective[needed] = True
        needed = needed[needed < count]
        new = needed[layout.is_cas[needed]]


def _within(layout: Layout, found: Zones, chains: Chains, judged: Judged) -> None:
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
        rows = (
            *witnesses(layout, chains.successor, later),
            *witnesses(layout, chains.successor, before),
        )
        judged.wrong.setdefault(
            layout.key_of_cluster(later), Found("stale-cas", tuple(sorted(set(rows))))
        )


def _between(layout: Layout, found: Zones, chains: Chains, judged: Judged) -> None:
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
                rows.update(witnesses(layout, chains.successor, int(cluster)))
        shift = key * layout.span
        judged.wrong[key] = Found(
            "stale-read",
            tuple(sorted(rows)),
            tuple(t if t == INFINITY_NS else max(-1, t - shift) for t in times),
        )


def _order(layout: Layout, found: Zones, chains: Chains, judged: Judged) -> None:
    """Find an order in which each refused compare-and-set has a place too."""
    f, s = chains.f, chains.s.copy()
    groups = chains.used
    if chains.root is not None:
        groups = groups[chains.root[groups] == groups]
    helpers = Helpers(layout, found, chains)
    gaps = Gaps(layout, found) if len(layout.refused) else None
    stuck: set[int] = set()
    misfits = np.zeros(0, np.intp)
    for _ in range(_ATTEMPTS_MAX if len(layout.refused) else 1):
        order, start, result = _arrange(layout, chains, f, s)
        if gaps is None:
            break
        gap, at_end, misfits = gaps.fit(helpers, order, start, result)
        result = helpers.insert(result, gap, at_end)
        judged.undecided = {layout.key_of(int(layout.refused[q])) for q in misfits}
        judged.undecided -= judged.wrong.keys()
        if not judged.undecided:
            break
        before = s.copy()
        left = [q for q in misfits.tolist() if not helpers.help(q)]
        make_room(layout, chains, order, (f, s), left, stuck)
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
            rows = tuple(sorted({row, *witnesses(layout, chains.successor, value)}))
            judged.wrong.setdefault(layout.key_of(row), Found("refused-cas", rows))
    judged.undecided -= judged.wrong.keys()
    judged.order = result


def _arrange(layout: Layout, chains: Chains, f: Int64s, s: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Put groups by min(f, s), backward ones first; clusters by depth; the maker, then reads.

    Returns (clusters in order, where the operations of each begin, operations in order).
    """
    used, count = chains.used, len(layout.makers)
    root = used if chains.root is None else chains.root[used]
    keys = [f[root] < s[root], np.minimum(f[root], s[root])]
    if chains.root is not None:
        keys = [chains.depth[used], root, *keys]
    order = used[np.lexsort(keys)]
    # Half as wide as other numbers: at 10^7 operations this is memory traffic and nothing else.
    place = np.empty(len(f), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    known = layout.read_cluster >= 0
    reads, cluster = layout.reads, layout.read_cluster
    if not np.all(known):
        reads, cluster = reads[known], cluster[known]
    at = place[cluster]
    size = np.bincount(at, minlength=len(order))
    has_maker = order < count
    start = np.concatenate([[0], np.cumsum(size + has_maker)])
    result = np.empty(start[-1], np.int64)
    result[start[:-1][has_maker]] = layout.makers[order[has_maker]]
    free = np.ones(len(result), np.bool_)
    free[start[:-1][has_maker]] = False
    result[free] = reads[np.argsort(at, kind="stable")]
    return order, start, result
