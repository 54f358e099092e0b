"""Whom a fault hits: target names of a plan, resolved when the fault is injected.

`leader`, `followers` (all but the leader), `partition-leader` (the broker that leads most topic
partitions; refused when none does), `random` (one node), `minority` ((n - 1) // 2 nodes),
`majority` (n // 2 + 1), `all`, `untouched` (those that no active fault has among its targets),
`node:n2`. Of a group as many are hit as its name says or none, with one exception: `followers`,
`all` and `untouched` mean whoever of them can be hit.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from cluster.names import unknown
from cluster.values import valueclass
from nemeses.base import ParameterError, Parameters, View

TARGETS = (
    *("leader", "followers", "partition-leader", "random", "minority", "majority", "all"),
    "untouched",
)
_NODE = "node:"


@valueclass
class Choice:
    """The nodes to hit, or why none."""

    nodes: tuple[str, ...]
    reason: str = ""


def check_keys(fault: str, parameters: Parameters, known: Sequence[str]) -> None:
    """Refuse keys that the fault does not know: ParameterError."""
    for key in parameters:
        if key not in known:
            raise ParameterError(unknown(f"parameter of {fault}", key, known))


def check_target(target: object, nodes: Sequence[str]) -> None:
    """Refuse a target that no cluster of these nodes can have: ParameterError."""
    known = (*TARGETS, *(f"{_NODE}{node}" for node in nodes))
    if target not in known:
        raise ParameterError(unknown("target", target, known))
    if target == "minority" and len(nodes) < 3:
        raise ParameterError(f"a cluster of {len(nodes)} has no minority to hit")


async def choose(view: View, target: str, refused: Mapping[str, str]) -> Choice:
    """Pick the nodes for a target among those that are not refused."""
    nodes = view.backend.nodes
    able = [node for node in nodes if node not in refused]
    if target in ("leader", "followers"):
        leader = await view.leader()
        if leader is None:
            return Choice((), "no leader is known")
        if target == "leader":
            return _named(leader, refused)
        able = [node for node in able if node != leader]
    if target == "partition-leader":
        broker = await view.partition_leader()
        if broker is None:
            return Choice((), "no topic partition has a leader")
        return _named(broker, refused)
    if target == "untouched":
        touched = {node for one in view.active for node in one.targets}
        able = [node for node in able if node not in touched]
    if target.startswith(_NODE):
        return _named(target.removeprefix(_NODE), refused)
    count = {"random": 1, "minority": (len(nodes) - 1) // 2, "majority": len(nodes) // 2 + 1}
    wanted = count.get(target, len(able))
    if not able or wanted > len(able):
        why = "; ".join(f"{node}: {reason}" for node, reason in refused.items())
        return Choice((), f"{target} is {max(wanted, 1)} nodes and {len(able)} can be hit ({why})")
    return Choice(_sample(view.random, able, wanted))


def _named(node: str, refused: Mapping[str, str]) -> Choice:
    return Choice((), f"{node}: {refused[node]}") if node in refused else Choice((node,))


def _sample(generator: random.Random, nodes: Sequence[str], count: int) -> tuple[str, ...]:
    chosen = set(generator.sample(nodes, count))
    return tuple(node for node in nodes if node in chosen)
