"""Acts: what a player did, when, and to which nodes in which role. For coverage and stories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from checkers.evidence.standings import Standings
from checkers.runs.coverage import cells
from cluster.values import valueclass
from harness.plan.step_verbs import is_fault


@valueclass
class Act:
    """One executed step, or the end of one's fault."""

    at_ms: float
    """Of the run's time."""
    strand: int
    step: int
    kind: str
    targets: tuple[str, ...]
    roles: tuple[str, ...]
    """What the targets were: leader, follower, voter, dead."""
    phase: str
    """Of the protocol (`Standings.phase`)."""
    detail: Mapping[str, Any]
    undone: bool = False
    """It is the end of a fault, not its beginning."""

    def hit(self, targets: tuple[str, ...], detail: Mapping[str, Any]) -> Act:
        """Narrow the act to the nodes that it hit; before that it holds the roles of all nodes."""
        roles = dict(zip(self.targets, self.roles, strict=True))
        own = tuple(roles[node] for node in targets)
        return replace(self, targets=targets, roles=own, detail=detail)


def begin_act(at_ms: float, place: tuple[int, int], kind: str, standings: Standings) -> Act:
    """Record the roles and the phase just before a step acts."""
    nodes = tuple(standings.nodes)
    roles = tuple(standings.role(node) for node in nodes)
    return Act(at_ms, *place, kind, nodes, roles, standings.phase(), {})


def coverage(acts: Iterable[Act]) -> dict[str, int]:
    """Count the cells (`checkers.runs.coverage`) of the faults that acted."""
    found: Counter[str] = Counter()
    for act in acts:
        if is_fault(act.kind) and not act.undone:
            found.update(cells(act.kind, act.roles, act.phase))
    return dict(found)
