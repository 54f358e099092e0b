"""Which fault hit nodes of which role in which phase of the protocol: what a run has tried.

A cell is `fault/role of the target/phase` (`evidence.standings`), counted once for each role that
an injection which bit hit; a fault of no node has the role `-`. A stored run is counted from its
journal and its nodes' traces, where these can be placed on the journal's axis; a node whose process
a fault ended is dead from then on until its trace says that it starts. Nothing here judges.

Complexity O(events log events).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from checkers.evidence.standings import Standings
from checkers.evidence.trace_fields import well_formed
from checkers.run_input import RunInput
from checkers.runs.faults import fault_spans

PHASES = ("steady", "catching-up", "establishing", "electing")
"""Of the protocol: with a leader, behind it, before its epoch is committed, without one."""
ENDING = frozenset(
    {*("kill", "stop", "power-loss", "torn-write"), *("bit-flip", "truncate-file", "disk-wipe")}
)
"""Faults with which the process of a target ends, of which its trace says nothing."""


def cells(fault: str, roles: Sequence[str], phase: str) -> list[str]:
    """Name the cells of one injection; `roles` are those of its targets."""
    return [f"{fault}/{role}/{phase}" for role in sorted(set(roles)) or ["-"]]


def coverage(run: RunInput) -> dict[str, int]:
    """Count the cells of a stored run; empty where no trace can be placed in it."""
    if run.evidence is None:
        return {}
    evidence, _ = well_formed(run.evidence)
    placed = evidence.placed_events
    if not placed:
        return {}
    standings = Standings(evidence.nodes)
    found: Counter[str] = Counter()
    position = 0
    bit = [span for span in fault_spans(run.notes) if span.verified]
    for at_ns, fault, targets in sorted((s.begin_ns, s.fault, s.targets) for s in bit):
        while position < len(placed) and placed[position][0] <= at_ns:
            event = placed[position][1]
            if event.event == "start":
                standings.note_start(event.node)
            standings.take_event(event.node, event.event, event.fields)
            position += 1
        nodes = [node for node in targets if node in standings.nodes]
        found.update(cells(fault, [standings.role(node) for node in nodes], standings.phase()))
        for node in nodes if fault in ENDING else ():
            standings.note_end(node)
    return dict(sorted(found.items()))
