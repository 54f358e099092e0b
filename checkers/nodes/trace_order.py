"""Whether a trace can be what one node wrote: its processes in order, its time, each line once.

A node numbers its processes from 0, each begins with `start`, and its lines follow each other by a
monotonic clock: that of one kernel, or of a simulated world. No line is written twice in one
nanosecond, unless the world's time stands still. A trace that is otherwise was cut, doubled or put
together from parts: it is described in a sentence, and what needs it is UNKNOWN.

And where the journal says that a fault ended a node, one that served later started behind it.

For nodes that trace everything themselves. Traces that are made from a node's output have the times
of its log lines, which are coarse, and may begin anywhere. Complexity: O(events).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Final

from checkers.evidence import Evidence, TraceEvent
from checkers.history import NEMESIS, EventType, seconds
from checkers.run_input import RunInput


def disordered(evidence: Evidence, nodes: Collection[str]) -> dict[str, str]:
    """Return those of these nodes with a trace that no node wrote so, and a sentence for each."""
    found = {}
    for node in nodes:
        trace = evidence.traces.get(node, ())
        wrong = next(_wrong(trace), None) if trace else None
        if wrong is not None:
            found[node] = f"{node} (its trace: {wrong})"
    return found


ENDING: Final = frozenset(
    {
        *("kill", "stop", "restart", "container-kill", "power-loss", "torn-write"),
        *("bit-flip", "truncate-file", "disk-wipe"),
    }
)
"""Faults that end the processes of their targets, where they were verified."""


_FIRST: Final = ("start", "fatal")
"""What a process traces first; it may have to say at once why it cannot start."""


def not_started(run: RunInput, evidence: Evidence, nodes: Collection[str]) -> dict[str, str]:
    """Return those of these nodes that served after a fault ended them, with no start behind it.

    A verified fault ended its targets between its invocation and its completion, and a final read
    is served by a process. Where times cannot be placed on the journal's axis nothing is returned.
    """
    found = {}
    begun: dict[tuple[str, object], int] = {}
    for note in run.notes:
        value = note.value
        if note.process != NEMESIS or note.f not in ENDING or not isinstance(value, dict):
            continue
        if value.get("phase") != "inject":
            continue
        entry = note.f, value.get("entry")
        if note.type is EventType.INVOKE:
            begun[entry] = note.time_ns
            continue
        if value.get("verified") is not True:
            continue
        for node in set(nodes) & {str(target) for target in value.get("targets") or ()}:
            starts = [e for e in evidence.traces.get(node, ()) if e.event == "start"]
            times = [evidence.run_ns(event) for event in starts]
            placed = [time_ns for time_ns in times if time_ns is not None]
            if len(placed) < len(times) or not times or node not in evidence.final_reads:
                continue
            if max(placed) < begun.get(entry, note.time_ns):
                found[node] = (
                    f"{node} (its trace: no start behind the {note.f} at {seconds(note.time_ns)})"
                )
    return found


def _wrong(trace: Sequence[TraceEvent]) -> Iterator[str]:
    if trace[0].incarnation != 0:
        yield f"it begins with process {trace[0].incarnation}"
    if trace[0].event not in _FIRST:
        yield "it does not begin with a start"
    clocks = [event.fields.get("clock") for event in trace if event.event == "start"]
    one_clock = len(set(clocks)) <= 1
    for number, (before, after) in enumerate(pairwise(trace), start=2):
        same = after.incarnation == before.incarnation
        # A process of a simulated world may end before it has traced anything, and yet counts.
        hidden = after.world_ns is not None and after.incarnation > before.incarnation
        if not same and not hidden and after.incarnation != before.incarnation + 1:
            yield f"event {number} is of process {after.incarnation}, behind {before.incarnation}"
        if same and after.event == "start":
            yield f"event {number} is a second start of a process"
        if not same and after.event not in _FIRST:
            yield f"event {number} is no start of a process"
        if _goes_back(before, after, same=same or one_clock):
            yield f"event {number} is earlier than the one before"
        if after == before and after.world_ns is None:
            yield f"event {number} is there twice"


def _goes_back(before: TraceEvent, after: TraceEvent, *, same: bool) -> bool:
    if before.world_ns is not None and after.world_ns is not None:
        return after.world_ns < before.world_ns
    return same and after.time_ns < before.time_ns
