"""Which fault holds a node down: its heal starts the node, and no other's does.

Faults overlap, and one that was injected while a node ran may be healed when another one has taken
the node's life or its disk since. A node that is started on an empty disk as the voter that it was
breaks safety by design.
"""

from __future__ import annotations

from nemeses.base import Injection, View, others
from nemeses.returns import return_of

DISK_WIPE = "disk-wipe"
HOLDS_DOWN = frozenset(
    {
        *("kill", "stop", "container-kill", "power-loss", "torn-write"),
        *("bit-flip", "truncate-file", DISK_WIPE),
    }
)
"""Faults whose targets are down until their heal."""


def keeper(view: View, node: str, injection: Injection) -> str:
    """Name another fault in force that holds the node down; empty where none does."""
    return next(
        (
            other.fault
            for other in others(view, injection)
            if other.fault in HOLDS_DOWN
            and node in other.targets
            and not (other.fault == DISK_WIPE and _has_come_back(view, node))
        ),
        "",
    )


def _has_come_back(view: View, node: str) -> bool:
    way = return_of(view.backend, node)
    return way is not None and way.has_begun
