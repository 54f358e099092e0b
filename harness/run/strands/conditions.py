"""Resolves the words of a step to nodes and links, and evaluates its condition.

On the nodes' states now, or at the instruction of a trace event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from checkers.evidence.standings import Standings
from cluster.backends.base import Link
from harness.plan.strands import Condition, Step
from nemeses.links.grudges import ends_of


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


def choose(
    words: str, standings: Standings, names: Cast, random: Random, avoid: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Resolve target words (`@A,@B`, `minority`) to nodes, in their order."""
    chosen: list[str] = []
    for word in words.split(","):
        for name in _resolve(word, standings, names, random, avoid):
            if name not in chosen:
                chosen.append(name)
    return tuple(chosen)


def _resolve(
    word: str, standings: Standings, names: Cast, random: Random, avoid: tuple[str, ...]
) -> tuple[str, ...]:
    if word.startswith(("@", "node:")):
        return candidates(word, standings, names)
    everyone = [name for name in standings.nodes if name not in avoid]
    leader = standings.leader()
    if word == "leader":
        return () if leader is None or leader in avoid else (leader,)
    followers = [name for name in everyone if name != leader]
    if word == "follower":
        running = [name for name in followers if name in standings.running()]
        return (random.choice(running or followers),) if followers else ()
    if word == "followers":
        return tuple(followers)
    if word == "all":
        return tuple(everyone)
    total = len(standings.nodes)
    count = {"minority": max(1, (total - 1) // 2), "majority": total // 2 + 1}.get(word, 1)
    picked = random.sample(everyone, min(count, len(everyone)))
    return tuple(name for name in everyone if name in picked)


def links_of(text: str, standings: Standings, names: Cast, random: Random) -> list[Link]:
    """Resolve links of names and words to links of nodes."""
    links: list[Link] = []
    for start, end, both in ends_of(text):
        sources, targets = (choose(word, standings, names, random) for word in (start, end))
        found = [(a, b) for a in sources for b in targets if a != b]
        links += found + ([(b, a) for a, b in found] if both else [])
    return links


def parameters_of(
    step: Step, standings: Standings, names: Cast, random: Random
) -> dict[str, Any] | None:
    """Put nodes in the place of names in a fault's parameters; None where a name has no node.

    Other target words are the fault's to resolve, which knows which nodes it may hit.
    """
    parameters = step.parameters
    if "@" in step.targets:
        nodes = choose(step.targets, standings, names, random)
        if not nodes:
            return None
        parameters["targets"] = ",".join(f"node:{node}" for node in nodes)
    if step.options.get("links"):
        links = links_of(step.options["links"], standings, names, random)
        if not links:
            return None
        parameters["links"] = ",".join(f"{source}>{target}" for source, target in links)
    return parameters
