"""Consistency levels: what each forbids, which imply which, and what a set of anomalies leaves.

Names, implications and what each level forbids are those of Adya (1999), Adya, Liskov and O'Neil
(2000), Bailis and others (2013), Cerone, Bernardi and Gotsman (2015), Cerone and Gotsman (2016) and
Daudjee and Salem (2004, 2006), as Elle arranges them; a history gets the weakest violated levels
that Elle gives it.

There are no predicates here, so every anti-dependency is one of items, and kinds of cycles are
named without `-item`; `elle_name` adds it. `G-nonadjacent` is a cycle of several anti-dependencies
of which no two follow each other: snapshot isolation forbids it, and allows G2 else. `lost-update`:
two transactions read one version of a key, and both replaced it. `write-skew`: two transactions of
which each read what the other replaced, of different keys. `no-serial-order`: no order of the
transactions explains what they read, though no cycle of known dependencies says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ALWAYS = ("garbage", "internal", "duplicate", "append-order", "cyclic-versions")
"""What contradicts every level here, since no history of Adya's can have it: values that nobody
wrote, a read behind own writes that does not show them, versions in two orders. Elle leaves some of
it to the stronger ones, and has one name, internal, for `internal` and `non-repeatable-read`."""

_STRONGER = {
    "G0": ("G1c",),
    "G1a": ("G1",),
    "G1b": ("G1",),
    "G1c": ("G1",),
    "G1": (),
    "G-single": ("G-nonadjacent", "G-single-predicate"),
    "G-nonadjacent": ("G2", "G-nonadjacent-predicate"),
    "G2": ("G2-predicate",),
    "no-serial-order": ("G2",),
    "no-snapshot-order": ("G-nonadjacent",),
    "non-repeatable-read": ("fractured-read",),
    "fractured-read": ("G-single",),
    "incompatible-order": ("G1a",),
    "dirty-update": ("G1a",),
    "future-read": ("G1c",),
    "lost-update": ("write-skew",),
    "write-skew": ("G2",),
}
"""Anomaly -> what it is a case of. The forms with predicates are there because levels forbid them:
what is forbidden of all data is forbidden of items."""
_CYCLES = (
    *("G0", "G1c", "G1", "G-single", "G-single-predicate", "G-nonadjacent"),
    *("G-nonadjacent-predicate", "G2", "G2-predicate", "no-serial-order"),
    "no-snapshot-order",
)

_IMPLIES: dict[str, tuple[str, ...]] = {
    "read-uncommitted": (),
    "read-committed": ("read-uncommitted",),
    "monotonic-view": ("read-committed",),
    "monotonic-snapshot-read": ("read-committed",),
    "monotonic-atomic-view": ("read-committed",),
    "cursor-stability": ("read-committed",),
    "consistent-view": ("cursor-stability", "monotonic-view"),
    "forward-consistent-view": ("consistent-view",),
    "read-atomic": ("monotonic-atomic-view",),
    "causal-cerone": ("read-atomic",),
    "prefix": ("causal-cerone",),
    "update-atomic": ("read-atomic",),
    "parallel-snapshot-isolation": ("causal-cerone", "update-atomic"),
    "snapshot-isolation": (
        *("forward-consistent-view", "monotonic-atomic-view", "monotonic-snapshot-read"),
        *("parallel-snapshot-isolation", "prefix"),
    ),
    "update-serializable": ("forward-consistent-view",),
    "repeatable-read": ("cursor-stability", "monotonic-atomic-view"),
    "serializable": ("repeatable-read", "snapshot-isolation", "update-serializable"),
    "strong-session-read-uncommitted": ("read-uncommitted",),
    "strong-session-read-committed": ("read-committed", "strong-session-read-uncommitted"),
    "strong-session-snapshot-isolation": ("snapshot-isolation", "strong-session-read-committed"),
    "strong-session-serializable": ("serializable", "strong-session-snapshot-isolation"),
    "strong-read-uncommitted": ("strong-session-read-uncommitted",),
    "strong-read-committed": ("strong-session-read-committed", "strong-read-uncommitted"),
    "strong-snapshot-isolation": ("strong-session-snapshot-isolation", "strong-read-committed"),
    "strict-serializable": ("strong-session-serializable", "strong-snapshot-isolation"),
}
"""Level -> weaker levels that it implies."""

_DIRECTLY: dict[str, tuple[str, ...]] = {
    "read-uncommitted": ("G0", *ALWAYS),
    "read-committed": ("G1",),
    "read-atomic": ("fractured-read", "G1a", "future-read"),
    "update-atomic": ("lost-update",),
    "cursor-stability": ("lost-update",),
    "consistent-view": ("G-single-predicate",),
    "snapshot-isolation": ("G-nonadjacent-predicate",),
    "repeatable-read": ("G2", "lost-update"),
    "serializable": ("G2-predicate",),
    "strong-session-read-uncommitted": ("G0-process",),
    "strong-session-read-committed": ("G1-process",),
    "strong-session-snapshot-isolation": ("G-nonadjacent-predicate-process",),
    "strong-session-serializable": ("G2-predicate-process",),
    "strong-read-uncommitted": ("G0-realtime",),
    "strong-read-committed": ("G1-realtime",),
    "strong-snapshot-isolation": ("G-nonadjacent-predicate-realtime",),
    "strict-serializable": ("G2-predicate-realtime",),
}
"""Level -> what it forbids beyond the levels that it implies."""

SERIALIZABLE: Mapping[str, tuple[str, ...]] = {
    "repeatable-read": (),
    "serializable": (),
    "strong-session-serializable": ("process",),
    "strict-serializable": ("process", "realtime"),
}
"""Level of which an order of all transactions is the proof -> which orders it keeps. Without
predicates repeatable read is serializable."""
SNAPSHOT: Mapping[str, tuple[str, ...]] = {
    "snapshot-isolation": (),
    "strong-session-snapshot-isolation": ("process",),
    "strong-snapshot-isolation": ("process", "realtime"),
}
"""Level of which an order of all snapshots and commits is the proof -> which orders it keeps."""
_COMMITTED = tuple(
    f"{strong}read-{name}"
    for strong in ("", "strong-session-", "strong-")
    for name in ("uncommitted", "committed")
)
NOT_LOOKED_FOR = (
    *("cursor-stability", "monotonic-view", "monotonic-snapshot-read", "monotonic-atomic-view"),
    *("forward-consistent-view", "update-serializable", "update-atomic", "causal-cerone"),
    *("prefix", "parallel-snapshot-isolation"),
)
"""Levels that forbid more than is looked for. A history may violate them by what they forbid with
weaker levels, or keep them since it keeps a stronger level; else it stays open."""

ALIASES: Mapping[str, str] = {
    "PL-1": "read-uncommitted",
    "PL-2": "read-committed",
    "PL-CS": "cursor-stability",
    "PL-2L": "monotonic-view",
    "PL-MSR": "monotonic-snapshot-read",
    "PL-2+": "consistent-view",
    "PL-FCV": "forward-consistent-view",
    "PL-SI": "snapshot-isolation",
    "PL-2.99": "repeatable-read",
    "PL-3U": "update-serializable",
    "PL-3": "serializable",
    "conflict-serializable": "serializable",
    "PL-SS": "strict-serializable",
    "strong-serializable": "strict-serializable",
    **{
        f"strong-session-PL-{n}": f"strong-session-read-{c}committed"
        for n, c in ((1, "un"), (2, ""))
    },
    **{f"strong-PL-{n}": f"strong-read-{c}committed" for n, c in ((1, "un"), (2, ""))},
}
"""Other names of levels."""


def _with_orders() -> dict[str, tuple[str, ...]]:
    """Return `_STRONGER` with cycles that need an order; that of a process is one of real time."""
    result = dict.fromkeys(ALWAYS, ()) | _STRONGER
    for kind in _CYCLES:
        more = tuple(k for k in _STRONGER.get(kind, ()) if k in _CYCLES)
        result[kind] = (*_STRONGER.get(kind, ()), f"{kind}-process")
        result[f"{kind}-process"] = (*(f"{k}-process" for k in more), f"{kind}-realtime")
        result[f"{kind}-realtime"] = tuple(f"{k}-realtime" for k in more)
    return result


def _closure(graph: Mapping[str, Iterable[str]], name: str) -> frozenset[str]:
    found, todo = {name}, [name]
    while todo:
        for other in graph.get(todo.pop(), ()):
            if other not in found:
                found.add(other)
                todo.append(other)
    return frozenset(found)


_CASES = {kind: _closure(_with_orders(), kind) for kind in _with_orders()}
"""Anomaly -> itself and all that it is a case of."""
_WEAKER = {level: _closure(_IMPLIES, level) for level in _IMPLIES}
"""Level -> itself and all that it implies."""


def _forbids(level: str, kind: str) -> bool:
    direct = {name for weaker in _WEAKER[level] for name in _DIRECTLY.get(weaker, ())}
    return bool(_CASES[kind] & direct)


_FOUND = tuple(
    kind for kind in _CASES if "predicate" not in kind and kind.partition("-")[0] != "G1"
)
FORBIDDEN: dict[str, tuple[str, ...]] = {
    level: tuple(kind for kind in _FOUND if _forbids(level, kind)) for level in _IMPLIES
}
"""Level -> the anomalies that it forbids beside `ALWAYS`."""


def level_key(level: str) -> str:
    """Return the name under which `FORBIDDEN` has a level."""
    return ALIASES.get(level, level)


def elle_name(kind: str) -> str:
    """Return what Elle calls an anomaly."""
    base = next((c for c in ("G-single", "G-nonadjacent", "G2") if kind.startswith(c)), None)
    if base is not None:
        return f"{base}-item{kind.removeprefix(base)}"
    names = {"duplicate": "duplicate-elements", "non-repeatable-read": "internal"}
    return names.get(kind, kind)


def weakest_violated(kinds: Iterable[str]) -> list[str]:
    """Return the violated levels that imply no other violated one."""
    violated = _violated_levels(kinds)
    return [n for n in violated if not any(o in _WEAKER[n] for o in violated if o != n)]


def also_violated(kinds: Iterable[str]) -> list[str]:
    """Return the other violated levels: those that imply a violated one."""
    kinds = list(kinds)
    weakest = weakest_violated(kinds)
    return [name for name in _violated_levels(kinds) if name not in weakest]


def proven(
    kinds: Iterable[str],
    *,
    is_clear: bool,
    is_list: bool,
    is_total: bool,
    found: Iterable[str] = (),
) -> frozenset[str]:
    """Return the levels that are kept for sure.

    A level is proven where the dependencies are complete for it and have no forbidden cycle: then
    versions can be ordered as any order of transactions says that keeps the dependencies.

    - Read uncommitted and read committed (and with orders): they forbid cycles of what reads and
      writes show (ww, wr), which such an order of versions never closes.
    - Read atomic: also what follows from reads that see transactions whole (`atomic` edges).
    - The serializable levels, of lists: an order by reads is one by all dependencies, as what no
      read shows comes last, in whatever order. Of registers: where `found` says so.
    - Snapshot isolation and consistent view: `is_total`, since what no read shows of one key may
      have one order for one key only (Cerone and Gotsman 2016); else where `found` says so.

    `found`: levels of which an order was found; alone where values were written twice (not
    `is_clear`). What a proven level implies is proven.
    """
    complete = {*found}
    if is_clear:
        complete |= {*_COMMITTED, "read-atomic"}
    if is_list:
        complete |= {*SERIALIZABLE}
    if is_total:
        complete |= {*SNAPSHOT, "consistent-view"}
    kept = complete.difference(_violated_levels(kinds))
    return frozenset(weaker for level in kept for weaker in _WEAKER[level])


def strongest(levels: Iterable[str]) -> list[str]:
    """Return the levels of these that no other one of them implies."""
    levels = set(levels)
    return [n for n in FORBIDDEN if n in levels and not any(n in _WEAKER[o] for o in levels - {n})]


def implied_by(level: str, proven_levels: Iterable[str]) -> str | None:
    """Return the weakest other one of these levels that implies a level; None: none does."""
    found = [n for n in proven_levels if level in _WEAKER[n] and n not in NOT_LOOKED_FOR]
    return min(found, key=lambda n: (len(_WEAKER[n]), n), default=None)


def proof_of(level: str) -> str:
    """Return the level of which an order of transactions, or of snapshots, would prove this one.

    An order of snapshots, where snapshot isolation or a stronger form of it implies the level.
    """
    return next(n for n in (*SNAPSHOT, *SERIALIZABLE) if level in _WEAKER[n])


def _violated_levels(kinds: Iterable[str]) -> list[str]:
    seen = set(kinds)
    return [name for name, forbidden in FORBIDDEN.items() if seen & set(forbidden)]
