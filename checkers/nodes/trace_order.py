"""Whether a trace can be what one node wrote: its processes in order, its time, each line once.

A node numbers its processes from 0, each begins with `start`, and its lines follow each other by a
monotonic clock: that of one kernel, or of a simulated world. No line is written twice in one
nanosecond, unless the world's time stands still. A trace that is otherwise was cut, doubled or put
together from parts: it is described in a sentence, and what needs it is UNKNOWN.

And where the journal says that a fault ended a node, one that served later started behind it; one
that was dead or paused traced nothing as long as that was so; and one that ended and started again
was met by a fault that is journaled, or says itself why it ended.

For nodes that trace everything themselves. Traces that are made from a node's output have the times
of its log lines, which are coarse, and may begin anywhere.

A `start` says which node, variant and time-out its process has. The plan gives all three: a trace
that says otherwise is of another run, or of nodes that were not configured as the run was planned.
Where the nodes share the harness's process ids (`pids`), the journal names the process that a fault
met and the one that it left running; each of them is one that traced its start:

- What a fault leaves *running* answered before the harness measured it, and a node answers after it
  traced its `start`.
- What a fault *met* had answered by then if nothing else touched the node since its last start was
  measured to work. A process that is killed while it starts may trace nothing, so a fault behind
  one that was not verified, or of which only the end is known (a step of a script), is not asked.

Contradictions are reported as sentences: the trace is not that of the run, which is then UNKNOWN.
Fields that a start lacks are not looked at. Complexity: O(events + notes).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from checkers.evidence import Evidence, TraceEvent
from checkers.history import Event, EventType, seconds
from checkers.history.recorded import statements
from checkers.run_input import RunInput
from checkers.runs import coverage
from checkers.runs.faults import targets_of


def find_disorder(evidence: Evidence, nodes: Collection[str]) -> dict[str, str]:
    """Return those of these nodes with a trace that no node wrote so, and a sentence for each."""
    found = {}
    for node in nodes:
        trace = evidence.traces.get(node, ())
        wrong = next(_wrong(trace), None) if trace else None
        if wrong is not None:
            found[node] = f"{node} (its trace: {wrong})"
    return found


ENDING: Final = coverage.ENDING | {"restart", "upgrade", "address-change", "role-change"}
"""Faults that end the processes of their targets, where they were verified."""


_FIRST: Final = ("start", "fatal")
"""What a process traces first; it may have to say at once why it cannot start."""


def not_started(run: RunInput, evidence: Evidence, nodes: Collection[str]) -> dict[str, str]:
    """Return those of these nodes that served after a fault ended them, with no start behind it.

    A verified fault ended its targets between its invocation and its completion, and a final read
    is served by a process. Where times cannot be placed on the journal's axis nothing is returned,
    nor for a step of a script: that is journaled when it is done, and may have started the node.
    """
    found = {}
    faults = fault_notes(run)
    for note, begun_ns in zip(faults, begins(faults), strict=True):
        value = note.value
        if note.f not in ENDING or note.type is EventType.INVOKE or begun_ns is None:
            continue
        if value.get("phase") != "inject" or value.get("verified") is not True:
            continue
        for node in {*nodes} & {*targets_of(note)}:
            starts = [e for e in evidence.traces.get(node, ()) if e.event == "start"]
            times = [evidence.run_ns(event) for event in starts]
            placed = [time_ns for time_ns in times if time_ns is not None]
            if len(placed) < len(times) or not times or node not in evidence.final_reads:
                continue
            if max(placed) < begun_ns:
                found[node] = (
                    f"{node} (its trace: no start behind the {note.f} at {seconds(note.time_ns)})"
                )
    return found


_STILL: Final = frozenset({"dead", "paused"})
_Placed = tuple[int | None, TraceEvent]
"""A line of a trace, and its time on the journal's axis."""
_Window = tuple[int, float, Collection[str] | None]
"""Begin and end of a time in which nodes may have been started, and which: None, any."""


def unlike_faults(run: RunInput, evidence: Evidence, nodes: Collection[str]) -> dict[str, str]:
    """Return those of these nodes with traces that contradict the faults of the journal.

    A line has the time before it is written, so a process that was seen dead or stopped has no
    line of a later time, until somebody heals it or injects something else. Of a step of a script
    the journal has the end alone: when it began to touch a node is not known. Processes are started
    again by the harness alone, for a fault or its heal: behind a fault that was asked for.
    """
    faults = fault_notes(run)
    begun = begins(faults)
    windows = _windows(faults, begun)
    found = {}
    for node in nodes:
        placed = [(evidence.run_ns(event), event) for event in evidence.traces.get(node, ())]
        wrong = next(_though_still(node, placed, faults, begun), None)
        wrong = wrong or next(_unmeant_starts(node, placed, windows), None)
        if wrong is not None:
            found[node] = f"{node} (its trace: {wrong})"
    return found


def _though_still(
    node: str, placed: Sequence[_Placed], faults: Sequence[Event], begun: Sequence[int | None]
) -> Iterator[str]:
    """Find lines of a process that was dead or paused."""
    for place, note in enumerate(faults):
        state = _states(note).get(node)
        later = range(place + 1, len(faults))
        touched = next((i for i in later if node in targets_of(faults[i])), None)
        if state not in _STILL or (touched is not None and begun[touched] is None):
            continue
        end_ns = min((faults[i].time_ns for i in later), default=note.time_ns)
        for time_ns, event in placed:
            if time_ns is not None and note.time_ns < time_ns < end_ns:
                yield (
                    f"a {event.event!r} at {seconds(time_ns)}, when the {note.f} at "
                    f"{seconds(note.time_ns)} had left it {state}"
                )


def _unmeant_starts(
    node: str, placed: Sequence[_Placed], windows: Sequence[_Window]
) -> Iterator[str]:
    """Find starts of a process that no fault had ended."""
    for (_, before), (time_ns, event) in pairwise(placed):
        if event.event != "start" or time_ns is None or before.event == "fatal":
            continue
        if not any(
            begin <= time_ns <= end and (targets is None or node in targets)
            for begin, end, targets in windows
        ):
            yield f"a start at {seconds(time_ns)}, though no fault in the journal had ended it"


def _states(note: Event) -> dict[str, object]:
    """Return how an injection that was verified left its nodes."""
    value = note.value if isinstance(note.value, dict) else {}
    detail = value.get("detail")
    states = detail.get("states") if isinstance(detail, dict) else None
    verified = value.get("phase") == "inject" and value.get("verified") is True
    return states if verified and isinstance(states, dict) else {}


def fault_notes(run: RunInput) -> list[Event]:
    """Return what the journal says of faults."""
    return [note for note in statements(run.notes) if "phase" in note.value]


def begins(faults: Sequence[Event]) -> list[int | None]:
    """Return of each note when what it says began; None: it ended then, and was not asked for.

    Steps of a script are journaled so, and other attempts of an entry of a schedule.
    """
    asked: dict[tuple[object, ...], int] = {}
    found: list[int | None] = []
    for note in faults:
        attempt = note.f, note.value.get("entry"), note.value.get("phase")
        if note.type is EventType.INVOKE:
            asked[attempt] = note.time_ns
            found.append(note.time_ns)
        else:
            found.append(asked.pop(attempt, None))
    return found


def _windows(faults: Sequence[Event], begun: Sequence[int | None]) -> list[_Window]:
    """Return when each fault may have restarted which nodes: None, any.

    From where it was asked for to where its heal was measured; of a script's, at any time; what was
    left at the end, without an entry in the plan, from then on.
    """
    begin: dict[object, int] = {}
    end: dict[object, int] = {}
    targets: dict[object, set[str]] = {}
    rest: list[_Window] = []
    for note, begun_ns in zip(faults, begun, strict=True):
        entry, phase = (note.f, note.value.get("entry")), note.value.get("phase")
        if entry[1] is None:
            rest.append((note.time_ns, math.inf, None))
        elif note.type is EventType.INVOKE:
            begin.setdefault(entry, note.time_ns)
            end.pop(entry, None)
        elif begun_ns is None and phase == "inject":
            rest.append((0, math.inf, targets_of(note)))
        elif entry in begin:
            if isinstance(note.value.get("targets"), list):
                targets.setdefault(entry, set()).update(targets_of(note))
            if phase == "heal":
                end[entry] = note.time_ns
    return rest + [
        (since, end.get(entry, math.inf), targets.get(entry)) for entry, since in begin.items()
    ]


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


def unlike_starts(
    run: RunInput, evidence: Evidence, planned: Mapping[str, Any], *, pids: bool
) -> dict[str, str]:
    """Return the nodes with starts that plan or journal contradict, and a sentence for each.

    `planned`: fields of a `start` as the plan has them.
    """
    found = {}
    notes = fault_notes(run)
    begun = begins(notes)
    for node, trace in evidence.traces.items():
        starts = [event for event in trace if event.event == "start"]
        wrong = next(_unplanned_starts(node, starts, planned), None)
        if wrong is None and pids:
            wrong = next(_unknown_processes(node, starts, notes, begun), None)
        if wrong is not None:
            found[node] = f"{node} (its trace: {wrong})"
    return found


def _unplanned_starts(
    node: str, starts: Sequence[TraceEvent], planned: Mapping[str, Any]
) -> Iterator[str]:
    for start in starts:
        if f"n{start.fields['node_id']}" != node:
            yield f"a start of n{start.fields['node_id']}"
        for name, value in planned.items():
            if name in start.fields and start.fields[name] != value:
                yield f"a start says {name} {start.fields[name]!r}, where the plan has {value!r}"


def _unknown_processes(
    node: str, starts: Sequence[TraceEvent], notes: Sequence[Event], begun: Sequence[int | None]
) -> Iterator[str]:
    """Find processes of the journal that must have traced a start, and did not."""
    traced = {str(start.fields["pid"]) for start in starts if "pid" in start.fields}
    if not traced or any("pid" not in start.fields for start in starts):
        return
    ready_ns = 0
    for note, begun_ns in zip(notes, begun, strict=True):
        if note.type is EventType.INVOKE or node not in targets_of(note):
            continue
        detail = note.value.get("detail")
        detail = detail if isinstance(detail, dict) else {}
        verified = note.value.get("verified") is True
        named = {}
        if note.value.get("phase") == "inject" and verified:
            if begun_ns is not None and ready_ns <= begun_ns:
                named["before"] = _pid(detail, "processes_before", node)
            if _of(detail, "states", node) == "running" and not detail.get("errors"):
                named["after"] = _pid(detail, "processes_after", node)
        for when, pid in named.items():
            if pid is not None and pid not in traced:
                yield (
                    f"no start of process {pid}, which was there {when} the {note.f} at "
                    f"{seconds(note.time_ns)}"
                )
        ready_ns = note.time_ns if verified else ready_ns
        if not verified or begun_ns is None:
            return


def _pid(detail: Mapping[str, Any], name: str, node: str) -> str | None:
    """Return the id of a node's process, which the journal holds with its start time."""
    process = _of(detail, name, node)
    return process.partition(":")[0] if isinstance(process, str) else None


def _of(detail: Mapping[str, Any], name: str, node: str) -> Any:
    by_node = detail.get(name)
    return by_node.get(node) if isinstance(by_node, dict) else None
