"""Below which offset a node's log was durable when its trace ends, as the trace itself says.

`flush` says that everything below an offset is durable. Afterwards the log may get shorter by what
the node itself traced: a truncation, or a log that was dropped for a snapshot, from the moment on
that it asked for one, as it may die before it traces more. A torn tail is above every `flush`. A
directory with another id is another log (its disk was replaced). Complexity: O(events).
"""

from __future__ import annotations

from collections.abc import Sequence

from checkers.evidence import Evidence, TraceEvent
from checkers.evidence.trace_fields import well_formed


def durable_end(trace: Sequence[TraceEvent]) -> int:
    """Return below which offset all was durable when a node's trace ends."""
    durable, directory = 0, None
    for event in trace:
        if event.event == "start":
            if event.fields.get("directory_id") != directory:
                durable = 0
            directory = event.fields.get("directory_id")
        durable = _durable_after(event, durable)
    return durable


def torn_too_far(evidence: Evidence) -> dict[str, str]:
    """Say of which logs the torn tail that was left out hides what had been flushed: {node: why}.

    A kill tears what was being written; what the node traced as flushed was written before. Such a
    log is damaged, and no check may judge it: what it lacks may have been committed.
    """
    found = {}
    known, _ = well_formed(evidence)
    for node, state in evidence.quorum_states.items():
        torn, end = state.get("tornTailBytes"), state.get("logEndOffset")
        flushed = durable_end(known.traces.get(node, ()))
        if isinstance(torn, int) and isinstance(end, int) and torn > 0 and end < flushed:
            found[node] = (
                f"{node}: its log is damaged: {torn} bytes behind offset {end} are no batch, "
                f"though it had flushed everything below {flushed}"
            )
    return found


def _durable_after(event: TraceEvent, durable: int) -> int:
    """Offset below which all is durable after an event, from what it was before."""
    if event.event == "flush":
        return max(durable, int(event.fields["end_offset"]))
    if event.event == "truncate":
        return min(durable, int(event.fields["end_offset"]))
    if event.event == "fetch-snapshot" and isinstance(event.fields.get("snapshot_offset"), int):
        return min(durable, int(event.fields["snapshot_offset"]))
    if event.event == "truncate-fully":
        return int(event.fields["start_offset"])
    return durable
