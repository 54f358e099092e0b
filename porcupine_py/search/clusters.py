"""Unique values in NumPy: clusters, chains of clusters, and where they conflict.

Theory (Gibbons and Korach 1997, section 5; Golab, Li and Shah 2011 name the zones) of a register
without compare-and-set; `search.chains` adds that. A cluster is a write with the reads of
its value; in any linearization its operations stand together, the write first. Let f be its
earliest completion and s its latest invocation. An operation of cluster A precedes one of cluster B
in real time exactly when f(A) < s(B), so A must come before B. The history is linearizable exactly
when

- every value read was written (or is the initial one, written before everything),
- no read completes before its write is invoked, and
- no two clusters must each come before the other: f(A) < s(B) and f(B) < s(A).

Two are enough: on any cycle of such demands take the cluster A with the smallest f and the one B
that it must follow; f(B) < s(A), and f(A) <= f(predecessor of B) < s(B). In terms of zones: with
f < s the zone [f, s] is forward, else backward, [s, f]; no two forward zones overlap and no
backward zone lies inside a forward one.

Indeterminate writes are exact: one that was read took effect, and its completion is not the
earliest of its cluster; one that nobody read is left out, since nothing shows its effect.
Times are compared strictly, since intervals are closed.

All keys are judged at once, laid one after another in time: what belongs to different keys then
never conflicts, and a key is judged exactly as if it were alone. A single key of 10 operations
takes 210 microseconds with its proof, where objects would take 45; of 300 operations both take 900.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from porcupine_py.columns import Bools, Int64s
from porcupine_py.operations import INFINITY_NS
from porcupine_py.search.encoding import CAS, NOT, READ, WRITE, Encoded

_NONE = -1

Find = Callable[[NDArray[np.intp]], Int64s]


@dataclass(slots=True, eq=False)
class Found:
    """What is wrong with one key."""

    kind: str
    rows: tuple[int, ...]
    """Positions, in the `Encoded` that was judged, of the operations that show it."""
    times_ns: tuple[int, ...] = ()
    """For `stale-read`: f and s of the two groups that must each come first."""


@dataclass(slots=True, eq=False)
class Judged:
    """The verdict on every key. A key is right when it is neither in `wrong` nor in `undecided`."""

    encoded: Encoded
    wrong: dict[int, Found] = field(default_factory=dict)
    undecided: set[int] = field(default_factory=set)
    """Keys of refused compare-and-sets that this order does not explain; another one might."""
    clusters: int = 0
    forward: int = 0
    longest: int = 1
    """Clusters in the longest chain."""
    order: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """Positions in the `Encoded`, in an order that proves all right keys; grouped by key."""


def unique_keys(encoded: Encoded, value_count: int) -> Bools:
    """Return for each key whether every value is made at most once, and the initial one never."""
    keys = len(encoded.bounds) - 1
    makers = np.flatnonzero((encoded.code == WRITE) | (encoded.code == CAS))
    made = encoded.b[makers]
    if keys == 1:
        enough = len(makers) <= value_count
        unique = enough and not np.any(np.bincount(made, minlength=1) > 1)
        return np.array([unique and not np.any(made == encoded.initial)])
    key = np.searchsorted(encoded.bounds, makers, side="right") - 1
    result = np.ones(keys, np.bool_)
    result[key[made == encoded.initial]] = False
    result[np.bincount(key, minlength=keys) > value_count] = False
    left = result[key]
    pairs = key[left] * value_count + made[left]
    if keys * value_count <= 4 * len(encoded.code) + 1024:
        twice = np.flatnonzero(np.bincount(pairs, minlength=1) > 1)
    else:
        pairs.sort()
        twice = pairs[1:][pairs[1:] == pairs[:-1]]
    result[twice // value_count] = False
    return result


@dataclass(slots=True, eq=False)
class Layout:
    """Rows and clusters.

    With M makers, cluster m < M is that of maker m, cluster M + k the initial one of key k.
    """

    begin: Int64s
    end: Int64s
    info: Bools
    key: Int64s | None
    """Of each row; None when there is one key."""
    makers: NDArray[np.intp]
    reads: NDArray[np.intp]
    refused: NDArray[np.intp]
    read_cluster: Int64s
    refused_cluster: Int64s
    needs: Int64s
    """For each maker: the cluster that a cas compares with, -1 for a write or a phantom."""
    is_cas: Bools
    keys: int
    span: int

    @classmethod
    def of(cls, e: Encoded, value_count: int) -> Layout | None:
        """Lay the keys one after another; None when their times do not fit."""
        keys = len(e.bounds) - 1
        begin, end, key, span = e.invoke_ns, e.complete_ns, None, 0
        if keys > 1:
            key = np.repeat(np.arange(keys), np.diff(e.bounds))
            # A completion behind the last invocation precedes nothing, however late it is: as that
            # of an operation of which only the logs say that it took effect.
            latest_ns = int(begin.max()) + 1
            span = latest_ns + 1
            if span * keys >= INFINITY_NS // 2:
                return None
            begin = begin + key * span
            end = np.where(e.info, INFINITY_NS, np.minimum(end, latest_ns) + key * span)
        makers = np.flatnonzero((e.code == WRITE) | (e.code == CAS))
        reads = np.flatnonzero(e.code == READ)
        refused = np.flatnonzero(e.code == NOT)
        find = _owners(e, value_count, key, makers, keys)
        is_cas = e.code[makers] == CAS
        needs = np.full(len(makers), _NONE, np.int64)
        if is_cas.any():
            needs[is_cas] = find(makers[is_cas])
        return cls(
            *(begin, end, e.info, key, makers, reads, refused),
            *(find(reads), find(refused), needs, is_cas, keys, span),
        )

    def key_of(self, row: int) -> int:
        """Return the key of a row."""
        return 0 if self.key is None else int(self.key[row])

    def key_of_cluster(self, cluster: int) -> int:
        """Return the key of a cluster."""
        count = len(self.makers)
        return cluster - count if cluster >= count else self.key_of(int(self.makers[cluster]))


def _owners(
    e: Encoded, value_count: int, key: Int64s | None, makers: NDArray[np.intp], keys: int
) -> Find:
    """Return a function: rows -> the clusters of the values that they need, -1: nobody made it."""
    made = e.b[makers]
    index = np.arange(len(makers), dtype=np.int64)
    size = value_count
    if key is None or keys * value_count <= 4 * len(e.code) + 1024:
        table = np.full(keys * size, _NONE, np.int64)
        table[made if key is None else key[makers] * size + made] = index
        sorted_pairs = None
    else:
        pairs = key[makers] * size + made
        table = np.argsort(pairs, kind="stable")
        sorted_pairs = pairs[table]

    def find(rows: NDArray[np.intp]) -> Int64s:
        needed = e.a[rows]
        at = needed if key is None else key[rows] * size + needed
        if sorted_pairs is None:
            found = table[at]
        elif len(sorted_pairs):
            place = np.minimum(np.searchsorted(sorted_pairs, at), len(sorted_pairs) - 1)
            found = np.where(sorted_pairs[place] == at, table[place], _NONE)
        else:
            found = np.full(len(rows), _NONE, np.int64)
        initial = needed == e.initial
        if initial.any():
            found[initial] = len(makers) + (0 if key is None else key[rows[initial]])
        return found

    return find


@dataclass(slots=True, eq=False)
class Zones:
    """f and s of every cluster, and whether its value ever was there (`effective`)."""

    f: Int64s
    s: Int64s
    effective: Bools


def zones(layout: Layout, judged: Judged) -> Zones:
    """Measure the clusters; note reads of what nobody wrote, or had not written yet."""
    makers, count = layout.makers, len(layout.makers)
    cluster, reads = layout.read_cluster, layout.reads
    phantom = cluster < 0
    if phantom.any():
        for row in reads[phantom]:
            judged.wrong.setdefault(layout.key_of(row), Found("phantom-read", (int(row),)))
        cluster, reads = cluster[~phantom], reads[~phantom]
    f = np.full(count + layout.keys, INFINITY_NS, np.int64)
    s = np.full(count + layout.keys, _NONE, np.int64)
    f[:count] = layout.end[makers]
    s[:count] = layout.begin[makers]
    early = layout.end[reads] < s[cluster]
    if early.any():
        for row, made in zip(reads[early], cluster[early], strict=True):
            pair = (int(row), int(makers[made]))
            judged.wrong.setdefault(layout.key_of(row), Found("read-before-write", pair))
    effective = np.ones(count + layout.keys, np.bool_)
    effective[:count] = ~layout.info[makers]
    effective[cluster] = True
    np.minimum.at(f, cluster, layout.end[reads])
    # Rows are in order of invocation, so the last read of a cluster is the latest.
    latest = layout.begin[reads]
    s[cluster] = latest
    s[:count] = np.maximum(s[:count], layout.begin[makers])
    f[count:] = np.arange(layout.keys) * layout.span - 1
    s[count:] = np.maximum(s[count:], f[count:])  # also where nobody read it
    return Zones(f, s, effective)


@dataclass(slots=True, eq=False)
class Chains:
    """Clusters linked by compare-and-sets that took effect."""

    used: NDArray[np.intp]
    """Clusters with a value that ever was there."""
    root: Int64s | None
    """Of each cluster: the first one of its chain; None when each is its own."""
    depth: Int64s
    f: Int64s
    """Of each root: of the whole chain; of other clusters meaningless."""
    s: Int64s
    successor: Int64s
    """Of each cluster: one with a cas that follows it, -1: none."""


def conflicts(f: Int64s, s: Int64s) -> NDArray[np.int64]:
    """Return pairs of groups that must each come before the other, at least one for each key.

    f is the earliest completion of a group of operations that stand together in any order, s the
    latest invocation.
    """
    is_forward = f < s
    forward = np.flatnonzero(is_forward)
    forward = forward[np.argsort(f[forward], kind="stable")]
    starts, ends = f[forward], s[forward]
    overlap = np.flatnonzero(starts[1:] < ends[:-1])
    backward = np.flatnonzero(~is_forward)
    if len(forward) == 0 or len(backward) == 0:
        return np.stack([forward[overlap], forward[overlap + 1]], axis=1)
    # Of overlapping forward zones only the one found above is reported; the others are disjoint, so
    # only the last that starts before can contain a backward one.
    at = np.searchsorted(starts, s[backward]) - 1
    inside = (at >= 0) & (f[backward] < ends[np.maximum(at, 0)])
    contained = np.stack([forward[at[inside]], backward[inside]], axis=1)
    return np.concatenate([np.stack([forward[overlap], forward[overlap + 1]], axis=1), contained])


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


def witnesses(layout: Layout, successor: Int64s, cluster: int) -> list[int]:
    """Return `_extremes`; of an indeterminate maker that nobody read also those of what follows."""
    rows = set(_extremes(layout, cluster))
    seen = {cluster}
    while cluster < len(layout.makers) and len(successor):
        if not layout.info[layout.makers[cluster]] or np.any(layout.read_cluster == cluster):
            break
        cluster = int(successor[cluster])
        if cluster < 0 or cluster in seen:
            break
        seen.add(cluster)
        rows.update(_extremes(layout, cluster))
    return sorted(rows)
