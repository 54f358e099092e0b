"""What a player did, when, to which nodes in which role: for coverage and for stories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from cluster.values import valueclass
from harness.standings import Standings
from harness.verbs import is_fault


@valueclass
class Act:
    """One thing that was done."""

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
        """Say which nodes it hit, once that is known; until then it holds the roles of all."""
        roles = dict(zip(self.targets, self.roles, strict=True))
        own = tuple(roles[node] for node in targets)
        return replace(self, targets=targets, roles=own, detail=detail)


def begun(at_ms: float, place: tuple[int, int], kind: str, standings: Standings) -> Act:
    """Note the moment before something is done."""
    nodes = tuple(standings.nodes)
    roles = tuple(standings.role(node) for node in nodes)
    return Act(at_ms, *place, kind, nodes, roles, standings.phase(), {})


def cells(acts: Iterable[Act]) -> dict[str, int]:
    """Coverage: `fault/role of the target/phase of the protocol` -> how often it came to that."""
    found: dict[str, int] = {}
    for act in acts:
        if is_fault(act.kind) and not act.undone:
            for role in sorted(set(act.roles)) or ["-"]:
                cell = f"{act.kind}/{role}/{act.phase}"
                found[cell] = found.get(cell, 0) + 1
    return found
