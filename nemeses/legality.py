"""Which fault may act on a node in which state, so that composed faults do not contradict.

| fault             | running | paused                             | dead                        |
|-------------------|---------|------------------------------------|-----------------------------|
| kill              | yes     | yes: SIGKILL needs no cooperation  | no: nothing is left to kill |
| stop              | yes     | no: SIGTERM waits for the resume   | no: nothing is left to end  |
| pause             | yes     | no: it would not be its own pause  | no: nothing is left to pause|
| restart           | yes     | yes, by SIGKILL                    | no: starting it would undo  |
| restart, graceful | yes     | no: SIGTERM waits for the resume   | the fault that killed it    |
| upgrade           | yes     | no, as of a graceful restart       | no: as of a restart         |
| address-change    | yes     | no, as of a graceful restart       | no: as of a restart         |
| role-change       | yes     | no, as of a graceful restart       | no: as of a restart         |
| container-kill    | yes     | yes: it needs no cooperation       | no: as of a restart         |
| partition         | yes     | yes                                | yes: a link outlives a node |
| loss, delay, reorder, duplicate, bandwidth, hold | yes | yes      | yes, for the same reason    |
| clock-...         | yes     | yes                                | no: nobody reads its clock  |
| timer-rate        | yes     | yes                                | no: it waits for nothing    |
| disk-stall, -slow | yes     | yes                                | no: nobody uses its disk    |
| disk-full, -error | yes     | no: it would not write             | no: nobody uses its disk    |
| log-dir-loss      | yes     | no: it would not notice            | no: nobody uses its disk    |
| log-dir-move      | yes     | no: it answers nobody              | no: it answers nobody       |
| power-loss        | yes     | yes: its un-fsynced writes go      | no: it has no power         |
| torn-write        | yes     | no: it would not write             | no: it has no power         |
| bit-flip,         | yes,    | yes, by SIGKILL                    | no: starting it is for the  |
| truncate-file,    | by      |                                    | heal of what killed it, and |
| disk-wipe         | SIGKILL |                                    | would meet damaged files    |
| limit             | yes     | yes                                | no: it has no process       |

Beside this table: two faults that would undo each other (two clock faults, twice the same disk
fault) do not act on one node at once, and never more than a minority of nodes is without its disk's
content (`nemeses.node_fault`, `nemeses.disks.damage`).

The heals are legal in every state: each undoes what is left of its own fault, and no more.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.backends.base import Backend, NodeState

GRACEFUL_RESTART = "restart, graceful"

_REFUSALS: Mapping[tuple[str, NodeState], str] = {
    ("kill", NodeState.DEAD): "it is dead already",
    ("stop", NodeState.DEAD): "it is dead already",
    ("stop", NodeState.PAUSED): "it is paused and cannot stop gracefully",
    ("container-kill", NodeState.DEAD): "it is dead, and starting it is for the heal of its kill",
    ("pause", NodeState.PAUSED): "it is paused already",
    ("pause", NodeState.DEAD): "it is dead",
    ("restart", NodeState.DEAD): "it is dead, and starting it is for the heal of what killed it",
    **{
        (fault, state): reason
        for fault in (GRACEFUL_RESTART, "upgrade", "address-change", "role-change")
        for state, reason in (
            (NodeState.PAUSED, "it is paused and cannot stop gracefully"),
            (NodeState.DEAD, "it is dead, and starting it is for the heal of its kill"),
        )
    },
    **{
        (fault, NodeState.DEAD): "it is dead"
        for fault in (
            *("clock-jump", "clock-skew", "clock-drift", "clock-strobe", "timer-rate", "limit"),
            *("disk-stall", "disk-slow", "disk-full", "disk-error", "power-loss", "torn-write"),
            *("log-dir-loss", "log-dir-move"),
        )
    },
    **{
        (fault, NodeState.DEAD): "it is dead, and starting it is for the heal of what killed it"
        for fault in ("bit-flip", "truncate-file", "disk-wipe")
    },
    **{
        (fault, NodeState.PAUSED): "it is paused and would not write"
        for fault in ("disk-full", "disk-error", "torn-write", "log-dir-loss", "log-dir-move")
    },
}


def refusal(fault: str, state: NodeState) -> str | None:
    """Say why the fault may not act on a node in this state, None when it may."""
    return _REFUSALS.get((fault, state))


async def refusals(fault: str, backend: Backend) -> dict[str, str]:
    """Name the nodes that the fault may not act on now, each with the reason, in node order."""
    states = {node: await backend.state(node) for node in backend.nodes}
    reasons = {node: refusal(fault, state) for node, state in states.items()}
    return {node: reason for node, reason in reasons.items() if reason is not None}
