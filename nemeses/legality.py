"""Which fault may act on a node in which state, so that composed faults do not contradict.

| fault             | running | paused                             | dead                        |
|-------------------|---------|------------------------------------|-----------------------------|
| kill              | yes     | yes: SIGKILL needs no cooperation  | no: nothing is left to kill |
| pause             | yes     | no: it would not be its own pause  | no: nothing is left to pause|
| restart           | yes     | yes, by SIGKILL                    | no: starting it would undo  |
| restart, graceful | yes     | no: SIGTERM waits for the resume   | the fault that killed it    |
| container-kill    | yes     | yes: it needs no cooperation       | no: as of a restart         |
| partition         | yes     | yes                                | yes: a link outlives a node |
| loss, delay, reorder, duplicate, bandwidth | yes | yes            | yes, for the same reason    |

The heals are legal in every state: each undoes what is left of its own fault, and no more.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.backends.base import Backend, NodeState

GRACEFUL_RESTART = "restart, graceful"

_REFUSALS: Mapping[tuple[str, NodeState], str] = {
    ("kill", NodeState.DEAD): "it is dead already",
    ("container-kill", NodeState.DEAD): "it is dead, and starting it is for the heal of its kill",
    ("pause", NodeState.PAUSED): "it is paused already",
    ("pause", NodeState.DEAD): "it is dead",
    ("restart", NodeState.DEAD): "it is dead, and starting it is for the heal of what killed it",
    (GRACEFUL_RESTART, NodeState.PAUSED): "it is paused and cannot stop gracefully",
    (GRACEFUL_RESTART, NodeState.DEAD): "it is dead, and starting it is for the heal of its kill",
}


def refusal(fault: str, state: NodeState) -> str | None:
    """Tell why the fault may not act on a node in this state, None when it may."""
    return _REFUSALS.get((fault, state))


async def refusals(fault: str, backend: Backend) -> dict[str, str]:
    """Name the nodes that the fault may not act on now, each with the reason, in node order."""
    states = {node: await backend.state(node) for node in backend.nodes}
    reasons = {node: refusal(fault, state) for node, state in states.items()}
    return {node: reason for node, reason in reasons.items() if reason is not None}
