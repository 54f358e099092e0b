"""Evaluates a step's condition, on the nodes' states now or at the instruction of a trace event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checkers.evidence.standings import Standings
from harness.plan.strands import Condition


@dataclass(slots=True)
class Cast:
    """Names that a strand has given to nodes."""

    names: dict[str, str] = field(default_factory=dict)
    epoch: int = 0
    """Highest epoch when a name was last given."""


Outcomes = dict[str, str]
"""How the operations with an id ended: id -> ok, fail, info."""
TraceEvent = tuple[str, str, Mapping[str, Any]]
"""(node, event, fields)"""


def candidates(word: str, standings: Standings, names: Cast) -> tuple[str, ...]:
    """Nodes that a condition looks at; for a word that means several, any of them."""
    if word.startswith("@"):
        name = names.names.get(word[1:])
        return () if name is None else (name,)
    if word.startswith("node:"):
        return (word.removeprefix("node:"),)
    leader = standings.leader()
    if word == "leader":
        return () if leader is None else (leader,)
    if word in ("follower", "followers"):
        return tuple(name for name in standings.nodes if name != leader)
    return tuple(standings.nodes)


def holds(
    condition: Condition,
    standings: Standings,
    names: Cast,
    outcomes: Outcomes,
    event: TraceEvent | None = None,
) -> bool:
    """Whether it holds now; with `event` at that event."""
    if condition.event is not None and (event is None or event[1] != condition.event):
        return False  # nearly always: asked at every event of every node
    if condition.ok is not None and outcomes.get(condition.ok) != "ok":
        return False
    if condition.ended is not None and condition.ended not in outcomes:
        return False
    among = candidates(condition.at, standings, names)
    if condition.event is not None and event is not None:
        if event[0] not in among or not _fields_match(condition.where, event[2], names):
            return False
        among = (event[0],)
    return any(_is_so(condition, name, standings, names) for name in among)


def _is_so(condition: Condition, name: str, standings: Standings, names: Cast) -> bool:
    standing = standings.nodes[name]
    return (
        (condition.state is None or standing.state == condition.state)
        and (condition.not_state is None or standing.state != condition.not_state)
        and (condition.epoch != "same" or standing.epoch <= names.epoch)
        and (condition.epoch != "later" or standing.epoch > names.epoch)
        and (not condition.established or (standing.established and standing.state == "Leader"))
        and (not condition.synced or standing.durable_offset >= standing.end_offset)
    )


def _fields_match(wanted: Mapping[str, Any], fields: Mapping[str, Any], names: Cast) -> bool:
    for key, value in wanted.items():
        if isinstance(value, str) and value.startswith("@"):
            name = names.names.get(value[1:])
            if name is None or fields.get(key) != int(name.removeprefix("n")):
                return False
        elif fields.get(key) != value:
            return False
    return True
