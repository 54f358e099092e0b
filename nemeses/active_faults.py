"""What acts on a node, or is about to, and which fault keeps it down.

The heal of the fault that keeps a node down, and of no other, starts the node.

Faults overlap, and one that was injected while a node ran may be healed when another one has taken
the node's life or its disk since. A node that is started on an empty disk as the voter that it was
breaks safety by design.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from cluster.backends.base import Backend, NodeState
from nemeses.base import Injection, View, others
from nemeses.queries import POLL_S
from nemeses.restarts import return_of

DISK_WIPE = "disk-wipe"
DAMAGES = frozenset({"bit-flip", "truncate-file", DISK_WIPE})
"""Faults after which the disk of a target has lost its contents."""
HOLDS_DOWN = DAMAGES | {"kill", "stop", "power-loss", "torn-write"}
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


# Which fault may act on a node in which state, so that composed faults do not contradict.
#
# The table below says what is refused; all else may act. SIGKILL needs
# no cooperation of a paused node; a power loss takes its un-fsynced writes; a link outlives a
# node; and to start a node is for the heal of what took its life.
#
# Beside this table: two faults that would undo each other (two clock faults, twice the same disk
# fault) do not act on one node at once, and never more than a minority of nodes is without its
# disk's content (`nemeses.node_fault`, `nemeses.disks.damage`).
#
# The heals are legal in every state: each undoes what is left of its own fault, and no more.


GRACEFUL_RESTART = "restart, graceful"

_ANY = ""
_NOT_ASKED = "it is paused and cannot stop gracefully"
_WRITES_NOT = "it is paused and would not write"
_DEAD = "it is dead"
_ALREADY = "it is dead already"
_STARTED_BY_HEAL = "it is dead, and starting it is for the heal of what killed it"
_REFUSALS: Mapping[str, tuple[str, str]] = {
    "kill": (_ANY, _ALREADY),
    "stop": (_NOT_ASKED, _ALREADY),
    "pause": ("it is paused already", _DEAD),
    **dict.fromkeys(
        ("restart", "bit-flip", "truncate-file", "disk-wipe"), (_ANY, _STARTED_BY_HEAL)
    ),
    **dict.fromkeys(
        (GRACEFUL_RESTART, "upgrade", "address-change", "role-change"),
        (_NOT_ASKED, _STARTED_BY_HEAL),
    ),
    **dict.fromkeys(
        (
            *("clock-jump", "clock-skew", "clock-drift", "clock-strobe", "timer-rate", "limit"),
            *("disk-stall", "disk-slow", "power-loss"),
        ),
        (_ANY, _DEAD),
    ),
    **dict.fromkeys(
        ("disk-full", "disk-error", "torn-write", "log-dir-loss", "log-dir-move"),
        (_WRITES_NOT, _DEAD),
    ),
}
"""Fault -> why not on a paused node, why not on a dead one; empty: it may."""


def refusal(fault: str, state: NodeState) -> str:
    """Say why the fault may not act on a node in this state; empty when it may."""
    paused, dead = _REFUSALS.get(fault, (_ANY, _ANY))
    return {NodeState.PAUSED: paused, NodeState.DEAD: dead}.get(state, _ANY)


async def refusals(fault: str, backend: Backend) -> dict[str, str]:
    """Name the nodes that the fault may not act on now, each with the reason, in node order."""
    states = {node: await backend.state(node) for node in backend.nodes}
    reasons = {node: refusal(fault, state) for node, state in states.items()}
    return {node: reason for node, reason in reasons.items() if reason}
