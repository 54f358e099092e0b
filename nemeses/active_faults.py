"""What acts on a node, or is about to, and which fault keeps it down.

The heal of the fault that keeps a node down, and of no other, starts the node.

Faults overlap, and one that was injected while a node ran may be healed when another one has taken
the node's life or its disk since. A node that is started on an empty disk as the voter that it was
breaks safety by design.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from cluster.backends.base import Backend
from nemeses.base import Injection, View, others
from nemeses.queries import POLL_S
from nemeses.restarts import return_of

DISK_WIPE = "disk-wipe"
DAMAGES = frozenset({"bit-flip", "truncate-file", DISK_WIPE})
"""Faults after which the disk of a target has lost its contents."""
HOLDS_DOWN = DAMAGES | {"kill", "stop", "container-kill", "power-loss", "torn-write"}
"""Faults whose targets are down until their heal."""

_applying: WeakKeyDictionary[Backend, Counter[tuple[str, str]]] = WeakKeyDictionary()
"""How often each (fault, node) is being applied."""
_left: WeakKeyDictionary[Backend, set[tuple[object, str]]] = WeakKeyDictionary()
"""Key of each injection whose heal left a node to another one's, and that node."""


@contextmanager
def applying(view: View, fault: str, nodes: Collection[str]) -> Iterator[None]:
    """Count the nodes as hit from the decision on, for what is decided before the fault is active.

    Some faults look at the quorum for a second before they act. A change of voters that began
    meanwhile would make a voter of a node that is about to lose its disk for good.
    """
    begun = _applying.setdefault(view.backend, Counter())
    pairs = [(fault, node) for node in nodes]
    begun.update(pairs)
    try:
        yield
    finally:
        begun.subtract(pairs)


def hit(view: View) -> set[tuple[str, str]]:
    """Pairs (fault, node) that are in force, or are about to be."""
    return _begun_lives(view) | {
        (active.fault, node) for active in view.active for node in active.targets
    }


async def keeper(view: View, node: str, injection: Injection) -> str:
    """Name another fault in force that holds the node down; empty where none does.

    Waits for what is being applied there: it may have taken the node's life and disk already.
    """
    while _comes_down(view, node):  # noqa: ASYNC110  (whoever applies it knows of no waiters)
        await asyncio.sleep(POLL_S)
    left = _left.get(view.backend, set())
    holds = [other for other in others(view, injection) if (other.key, node) not in left]
    return _first(view, node, HOLDS_DOWN, holds)


async def leave_to_keeper(view: View, node: str, injection: Injection) -> str:
    """Leave the node down if another fault keeps it so, and name that; empty where none does.

    Of two that are healed at one time one leaves it, and the other one starts it.
    """
    other = await keeper(view, node, injection)
    if other:
        _left.setdefault(view.backend, set()).add((injection.key, node))
    return other


def held_down(view: View, node: str) -> bool:
    """Whether a fault in force, or one that is about to be, holds the node down."""
    return _comes_down(view, node) or _first(view, node, HOLDS_DOWN, view.active) != ""


def is_damaged(view: View, node: str) -> bool:
    """Whether a fault damaged the disk of a node that is down, or is about to."""
    about_to = any(fault in DAMAGES and target == node for fault, target in _begun_lives(view))
    return about_to or _first(view, node, DAMAGES, view.active) != ""


def _comes_down(view: View, node: str) -> bool:
    return any(fault in HOLDS_DOWN and target == node for fault, target in _begun_lives(view))


def _begun_lives(view: View) -> set[tuple[str, str]]:
    return {pair for pair, count in _applying.get(view.backend, Counter()).items() if count}


def _first(view: View, node: str, faults: Collection[str], active: Iterable[Injection]) -> str:
    ours = (other.fault for other in active if other.fault in faults and node in other.targets)
    return next((name for name in ours if name != DISK_WIPE or not _is_back(view, node)), "")


def _is_back(view: View, node: str) -> bool:
    way = return_of(view.backend, node)
    return way is not None and way.has_begun
