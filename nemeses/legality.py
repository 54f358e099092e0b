"""Which fault may act on a node in which state, so that composed faults do not contradict.

The table below says what is refused; all else may act. SIGKILL, and what kills a container, need no
cooperation of a paused node; a power loss takes its un-fsynced writes; a link outlives a node; and
to start a node is for the heal of what took its life.

Beside this table: two faults that would undo each other (two clock faults, twice the same disk
fault) do not act on one node at once, and never more than a minority of nodes is without its disk's
content (`nemeses.node_fault`, `nemeses.disks.damage`).

The heals are legal in every state: each undoes what is left of its own fault, and no more.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.backends.base import Backend, NodeState

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
        ("restart", "container-kill", "bit-flip", "truncate-file", "disk-wipe"),
        (_ANY, _STARTED_BY_HEAL),
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
