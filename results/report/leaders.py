"""Reigns: which node said of itself that it leads, since when and until when.

The observer of a run asks from outside and journals a leader when it first sees one, so by its
notes a reign would end where the next begins. A leader that is cut off believes that it leads until
it resigns or hears of a later epoch, and that time is what stale reads come from. So a reign is
taken from its node's own trace where that can be placed on the journal's axis: from its state
Leader to its next other state or to the end of its process. The observer's notes stand in for nodes
without such a trace.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from checkers.evidence import TraceEvent
from checkers.history import Event, EventType
from checkers.history.recorded import statements
from checkers.runs.faults import Reign, phases, reigns, targets_of

EVENTS = frozenset({"start", "state", "fatal"})
"""Events of a trace that begin or end a reign over the metadata quorum."""
_OF_PARTITION = frozenset({"start", "fatal", "replica-leader", "replica-follower"})
_STATES = {"replica-leader": "Leader"}
_ENDS_PROCESS = frozenset({"kill", "power-loss", "torn-write", "disk-wipe"})
"""Faults by which a process ends, and traces nothing more until it is healed."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """A time in which several nodes said that they lead."""

    begin_ns: int
    end_ns: int
    ruled: tuple[Reign, ...]


def leaderships(
    notes: Sequence[Event],
    placed: Iterable[tuple[int, TraceEvent]],
    end_ns: int,
    partition: str | None = None,
) -> list[Reign]:
    """Return all reigns by their beginning: over the metadata quorum, or over a partition.

    `placed`: trace events with their times, in order. The epochs are those of the metadata quorum,
    or the partition's leader epochs.
    """
    stop_ns = next((at for name, at in phases(notes) if name == "stop"), end_ns)
    by_node: dict[str, list[tuple[int, TraceEvent]]] = {}
    for at_ns, event in placed:
        of_it = partition is None or partition_of(event) in (None, partition)
        if event.event in (EVENTS if partition is None else _OF_PARTITION) and of_it:
            by_node.setdefault(event.node, []).append((at_ns, event))
    seen = reigns(notes, stop_ns) if partition is None else []
    found = [reign for reign in seen if reign.node not in by_node]
    for node, events in by_node.items():
        found += _reigns_of(node, events, _deaths(node, notes), max(stop_ns, events[-1][0]))
    return sorted(found, key=lambda reign: (reign.begin_ns, reign.node))


def overlaps(ruled: Sequence[Reign]) -> list[Overlap]:
    """Return the times in which more than one node said that it leads, in order."""
    marks = sorted({at for reign in ruled for at in (reign.begin_ns, reign.end_ns)})
    begins = sorted(ruled, key=lambda reign: reign.begin_ns)
    active: list[Reign] = []
    found: list[Overlap] = []
    position = 0
    for begin_ns, end_ns in itertools.pairwise(marks):
        active = [reign for reign in active if reign.end_ns > begin_ns]
        while position < len(begins) and begins[position].begin_ns <= begin_ns:
            active.append(begins[position])
            position += 1
        if len({reign.node for reign in active}) > 1:
            found.append(Overlap(begin_ns, end_ns, tuple(active)))
    return found


def partition_of(event: TraceEvent) -> str | None:
    """Name the partition that a trace event is about, as clients do: `d0-3`."""
    if not event.event.startswith("replica-"):
        return None
    return f"{event.fields.get('topic')}-{event.fields.get('partition')}"


def overlap_text(overlap: Overlap) -> str:
    """Say which nodes lead at the same time, and in which epochs."""
    named = (f"{reign.node} (epoch {reign.epoch})" for reign in overlap.ruled)
    return f"{' and '.join(named)} say that they lead"


def _reigns_of(
    node: str, events: Sequence[tuple[int, TraceEvent]], deaths: Sequence[int], stop_ns: int
) -> list[Reign]:
    found: list[Reign] = []
    current: Reign | None = None

    def end(at_ns: int) -> None:
        if current is not None:
            found.append(replace(current, end_ns=max(current.begin_ns, at_ns)))

    for at_ns, event in events:
        if event.event == "start":
            # A trace does not show when its process was killed: the journal does.
            began_ns = 0 if current is None else current.begin_ns
            end(max((ns for ns in deaths if began_ns <= ns <= at_ns), default=at_ns))
            current = None
            continue
        epoch = event.fields.get("epoch", event.fields.get("leader_epoch"))
        leads = "Leader" in (event.fields.get("state"), _STATES.get(event.event))
        leads = leads and type(epoch) is int
        if leads and current is not None and current.epoch == epoch:
            continue
        end(at_ns)
        current = Reign(node, int(epoch or 0), at_ns, at_ns) if leads else None
    if current is not None:
        end(min((ns for ns in deaths if ns >= current.begin_ns), default=stop_ns))
    return found


def _deaths(node: str, notes: Sequence[Event]) -> list[int]:
    """Return when the journal says that a process of this node ended."""
    found = []
    for event in statements(notes):
        killed = event.f in _ENDS_PROCESS and node in targets_of(event)
        killed = killed and event.value.get("phase") == "inject"
        crashed = event.f == "crash" and event.value.get("node") == node
        if crashed or (killed and event.type is not EventType.INVOKE):
            found.append(event.time_ns)
    return found
