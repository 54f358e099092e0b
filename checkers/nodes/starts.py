"""Whether the `start` lines of traces are of the processes that plan and journal name.

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
Fields that a start lacks are not looked at. Complexity: O(starts + notes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkers.evidence import Evidence, TraceEvent
from checkers.history import Event, EventType, seconds
from checkers.nodes.trace_order import begins, fault_notes
from checkers.run_input import RunInput
from checkers.runs.faults import targets_of


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
