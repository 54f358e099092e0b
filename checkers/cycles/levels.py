"""Consistency levels: what each forbids, which imply which, and what a set of anomalies leaves.

Names and implications are those of Adya, Liskov and O'Neil (2000), Cerone, Bernardi and Gotsman
(2015, update atomicity and snapshot isolation) and Daudjee and Salem (2006, the session and strong
forms), as Elle arranges them. There are no predicates here, so every anti-dependency is one of
items: G-single, G-nonadjacent and G2 are what Elle calls G-single-item and so on.

`G-nonadjacent` is a cycle of several anti-dependencies of which no two follow each other: snapshot
isolation forbids it (Cerone and Gotsman 2016), and allows G2 else. `lost-update`: two transactions
read one version of a key, and both replaced it.
"""

from __future__ import annotations

from collections.abc import Iterable

ALWAYS = ("garbage", "internal", "duplicate", "incompatible-order", "cyclic-versions")
"""What contradicts every level."""

_READ_UNCOMMITTED = ("G0",)
_READ_COMMITTED = (*_READ_UNCOMMITTED, "G1a", "G1b", "G1c", "future-read", "dirty-update")
_UPDATE_ATOMIC = (*_READ_COMMITTED, "lost-update")
_SNAPSHOT = (*_UPDATE_ATOMIC, "G-single", "G-nonadjacent")
_SERIALIZABLE = (*_SNAPSHOT, "G2")
_CYCLES = ("G0", "G1c", "G-single", "G-nonadjacent", "G2")


def _with_order(kinds: Iterable[str], *orders: str) -> tuple[str, ...]:
    """Return the anomalies, and those cycles among them that need an order."""
    kinds = tuple(kinds)
    return (*kinds, *(f"{kind}-{order}" for kind in kinds if kind in _CYCLES for order in orders))


_ORDERS = ("process", "realtime")
FORBIDDEN: dict[str, tuple[str, ...]] = {
    "read-uncommitted": _READ_UNCOMMITTED,
    "read-committed": _READ_COMMITTED,
    "update-atomic": _UPDATE_ATOMIC,
    "snapshot-isolation": _SNAPSHOT,
    "repeatable-read": _SERIALIZABLE,
    "serializable": _SERIALIZABLE,
    "strong-session-read-uncommitted": _with_order(_READ_UNCOMMITTED, "process"),
    "strong-session-read-committed": _with_order(_READ_COMMITTED, "process"),
    "strong-session-snapshot-isolation": _with_order(_SNAPSHOT, "process"),
    "strong-session-serializable": _with_order(_SERIALIZABLE, "process"),
    "strong-read-uncommitted": _with_order(_READ_UNCOMMITTED, *_ORDERS),
    "strong-read-committed": _with_order(_READ_COMMITTED, *_ORDERS),
    "strong-snapshot-isolation": _with_order(_SNAPSHOT, *_ORDERS),
    "strict-serializable": _with_order(_SERIALIZABLE, *_ORDERS),
}
"""Level -> the anomalies that it forbids beside `ALWAYS`. What a level implies forbids a part."""


def weakest_violated(kinds: Iterable[str]) -> list[str]:
    """Return the violated levels that imply no other violated one."""
    violated = _violated(kinds)
    return [name for name in violated if not any(_implies(name, other) for other in violated)]


def strongest_satisfied(kinds: Iterable[str]) -> list[str]:
    """Return the levels that are kept, as far as was seen, and that no other such one implies."""
    violated = _violated(kinds)
    kept = [name for name in FORBIDDEN if name not in violated]
    return [name for name in kept if not any(_implies(other, name) for other in kept)]


def _violated(kinds: Iterable[str]) -> list[str]:
    seen = set(kinds)
    if seen & set(ALWAYS):
        return list(FORBIDDEN)
    return [name for name, forbidden in FORBIDDEN.items() if seen & set(forbidden)]


def _implies(stronger: str, weaker: str) -> bool:
    """Return whether a level forbids all that another one does, and more.

    Of items alone repeatable read and serializability forbid the same; of predicates the second
    forbids more, and the first less than snapshot isolation.
    """
    if (stronger, weaker) == ("serializable", "repeatable-read"):
        return True
    if (stronger, weaker) == ("repeatable-read", "snapshot-isolation"):
        return False
    return set(FORBIDDEN[weaker]) < set(FORBIDDEN[stronger])
