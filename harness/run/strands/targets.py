"""Resolves the target words of a step to nodes and links."""

from __future__ import annotations

from random import Random
from typing import Any

from checkers.evidence.standings import Standings
from cluster.backends.base import Link
from harness.plan.strands import Step
from harness.run.strands.conditions import Cast, candidates
from nemeses.links.grudges import ends_of


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
