"""The nodes that a fault hits: target names of a plan, resolved when the fault is injected.

`leader`, `follower` (one that runs, if one does), `followers` (all but the leader),
`partition-leader` (the broker that leads most topic partitions; refused when none does), `random`
(one node), `minority` ((n - 1) // 2 nodes), `majority` (n // 2 + 1), `all`, `untouched` (those that
no active fault has among its targets), `node:n2`. Where some nodes never vote, `follower`,
`followers`, `minority` and `majority` are of the others. Of a group as many are hit as its name
says or none, with one exception: `followers`, `all` and `untouched` mean whoever of them can be
hit.

Words may be joined by commas: each is resolved by itself, in order, and what some of them name is
hit, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster.backends.base import NodeState
from cluster.names import unknown
from nemeses.base import ParameterError, Parameters, Refusal, View

TARGETS = (
    *("leader", "follower", "followers", "partition-leader", "random", "minority", "majority"),
    *("all", "untouched"),
)
_OF_QUORUM = frozenset({"leader", "follower", "followers", "minority", "majority"})
"""Targets that are nodes which can vote, where others never do; the other words mean any node."""
NODE = "node:"


def check_keys(fault: str, parameters: Parameters, known: Sequence[str]) -> None:
    """Refuse keys that the fault does not know: ParameterError."""
    for key in parameters:
        if key not in known:
            raise ParameterError(unknown(f"parameter of {fault}", key, known))


def words_of(target: object) -> tuple[object, ...]:
    """Split joined words; a value that is no text is returned as a single word."""
    return tuple(target.split(",")) if isinstance(target, str) else (target,)


def check_target(target: object, nodes: Sequence[str]) -> None:
    """Refuse a target that no cluster of these nodes can have: ParameterError."""
    known = (*TARGETS, *(f"{NODE}{node}" for node in nodes))
    for word in words_of(target):
        if word not in known:
            raise ParameterError(unknown("target", word, known))
        if word == "minority" and len(nodes) < 3:
            raise ParameterError(f"a cluster of {len(nodes)} has no minority to hit")


async def choose(view: View, target: str, refused: Mapping[str, str]) -> tuple[str, ...]:
    """Pick the nodes for a target among those that are not refused. Raises Refusal for none."""
    nodes: dict[str, None] = {}
    reasons: dict[str, None] = {}
    for word in target.split(","):
        try:
            nodes |= dict.fromkeys(await _choose_word(view, word, refused))
        except Refusal as refusal:
            reasons[str(refusal)] = None
    if not nodes:
        raise Refusal("; ".join(reasons))
    return tuple(nodes)


async def _choose_word(view: View, target: str, refused: Mapping[str, str]) -> tuple[str, ...]:
    voters = view.controllers
    if target.startswith(NODE):
        return _choose_named(target.removeprefix(NODE), refused)
    among = voters if target in _OF_QUORUM else view.backend.nodes
    able = [node for node in among if node not in refused]
    if target in ("leader", "follower", "followers"):
        leader = await view.leader()
        if leader is None and target != "follower":
            raise Refusal("no leader is known")
        if leader is not None and target == "leader":
            return _choose_named(leader, refused)
        able = [node for node in able if node != leader]
        if target == "follower":
            run = [n for n in able if await view.backend.state(n) is NodeState.RUNNING]
            able = run or able
    if target == "partition-leader":
        broker = await view.partition_leader()
        if broker is None:
            raise Refusal("no topic partition has a leader")
        return _choose_named(broker, refused)
    if target == "untouched":
        touched = {node for injection in view.active for node in injection.targets}
        able = [node for node in able if node not in touched]
    count = {
        "follower": 1,
        "random": 1,
        "minority": (len(voters) - 1) // 2,
        "majority": len(voters) // 2 + 1,
    }
    wanted = count.get(target, len(able))
    if not able or not 0 < wanted <= len(able):
        why = "; ".join(f"{node}: {reason}" for node, reason in refused.items())
        raise Refusal(
            f"{target} is {count.get(target, 1)} nodes and {len(able)} can be hit ({why})"
        )
    chosen = set(view.random.sample(able, wanted))
    return tuple(node for node in able if node in chosen)


def _choose_named(node: str, refused: Mapping[str, str]) -> tuple[str, ...]:
    if node in refused:
        raise Refusal(f"{node}: {refused[node]}")
    return (node,)
