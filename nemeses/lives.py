"""Which fault keeps a node down: the heal of that fault, and of no other, starts the node.

Faults overlap, and one that was injected while a node ran may be healed when another one has taken
the node's life or its disk since. A node that is started on an empty disk as the voter that it was
breaks safety by design.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nemeses.base import Injection, View, others
from nemeses.returns import return_of

DISK_WIPE = "disk-wipe"
DAMAGES = frozenset({"bit-flip", "truncate-file", DISK_WIPE})
"""Faults after which the disk of a target has lost its contents."""
HOLDS_DOWN = DAMAGES | {"kill", "stop", "container-kill", "power-loss", "torn-write"}
"""Faults whose targets are down until their heal."""


def keeper(view: View, node: str, injection: Injection) -> str:
    """Name another fault in force that holds the node down; empty where none does."""
    return _first(view, node, HOLDS_DOWN, others(view, injection))


def is_damaged(view: View, node: str) -> bool:
    """Whether a fault in force damaged the disk of a node that is down."""
    return _first(view, node, DAMAGES, view.active) != ""


def _first(view: View, node: str, faults: Collection[str], active: Iterable[Injection]) -> str:
    ours = (other.fault for other in active if other.fault in faults and node in other.targets)
    return next((name for name in ours if name != DISK_WIPE or not _is_back(view, node)), "")


def _is_back(view: View, node: str) -> bool:
    way = return_of(view.backend, node)
    return way is not None and way.has_begun
