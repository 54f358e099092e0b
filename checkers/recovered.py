"""Durability of one node: it comes back with what its own trace told to be fsynced.

`flush` tells that everything below an offset is durable, `recovered` where the log ends when the
node is up again. In between the log may get shorter by what the node itself traced: a truncation,
or a log that was dropped for a snapshot, from the moment on that it asked for one, as it may die
before it tells more. A torn tail is above every `flush`. A node that comes back with less has lost,
or cut off, what it may have acknowledged to its leader.

A directory with another id is another log (its disk was replaced), and a node whose storage the
nemesis damaged is not judged by this rule: whether it may start at all is judged by who damaged it.
Complexity: O(events).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from checkers.evidence import Evidence, TraceEvent
from checkers.evidence_result import Anomaly
from checkers.trace_fields import well_formed


def durable_lost(evidence: Evidence, damaged: Collection[str]) -> Iterator[Anomaly]:
    """Tell the first time that each node came back with less; `damaged`: who is not judged."""
    for node, trace in evidence.traces.items():
        if node not in damaged:
            lost = (lost for disk in disks(trace) for lost in _lost_on(evidence, disk))
            yield from islice(lost, 1)


def disks(trace: Sequence[TraceEvent]) -> Iterator[list[TraceEvent]]:
    """Split a trace where a process started with another directory id: that is another log."""
    events: list[TraceEvent] = []
    directory = None
    for event in trace:
        if event.event == "start":
            told = event.fields.get("directory_id")
            if told != directory:
                yield events
                events = []
            directory = told
        events.append(event)
    yield events


def _lost_on(evidence: Evidence, disk: Sequence[TraceEvent]) -> Iterator[Anomaly]:
    durable = 0
    for event in disk:
        if event.event == "recovered" and int(event.fields["end_offset"]) < durable:
            yield _lost(evidence, event, durable)
        durable = durable_after(event, durable)


def durable_end(trace: Sequence[TraceEvent]) -> int:
    """Return below which offset all was durable when a node's trace ends."""
    durable = 0
    for disk in disks(trace):
        durable = 0
        for event in disk:
            durable = durable_after(event, durable)
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


def durable_after(event: TraceEvent, durable: int) -> int:
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


def _lost(evidence: Evidence, event: TraceEvent, durable: int) -> Anomaly:
    end_offset = int(event.fields["end_offset"])
    told = (
        f"{event.node} came back at {evidence.when(event)}, in incarnation {event.incarnation}, "
        f"with a log that ends at {end_offset}, though everything below {durable} was fsynced"
    )
    return {"kind": "durable-lost", "explanation": told, **evidence.place(event)}
