"""Whether nodes traced the answers that clients got from them.

An active controller traces an `ack` before it answers a write, and a `read` before it answers a
linearizable read (docs/evidence.md). So every ok of the journal has such an event of the node that
answered, between its invocation and its completion, and one of its own: events are given to
operations by the earliest end (Jackson's rule), which finds an assignment if there is any. An
answer without an event means that the trace lacks a part, or that the journal holds what was not.

Sound where the node read the clock that the harness journals by (`Evidence.run_ns`). Operations
that need no event (`TRACED` does not name them) are not looked at. Complexity: O(n log n).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from checkers.evidence import Evidence, TraceEvent
from checkers.history import EventType, Operation, seconds

ACK: Final = "ack"
READ: Final = "read"
TRACED: Final[Mapping[str, Mapping[str, str]]] = {
    "register": {"write": ACK, "read": READ},
    "reconfig": {"write": ACK, "read": READ},
    "append": {"append": ACK, "read": READ},
    "partitions": {"increment": ACK, "read": READ},
    "set": {"add": ACK},
    "topics": {"create": ACK, "delete": ACK},
    "brokers": {"register": ACK},
    "unique-ids": {"allocate": ACK},
}
"""By workload and operation: the event that an answer of ok follows."""


def untraced(
    operations: Sequence[Operation], evidence: Evidence, workload: str
) -> tuple[list[str], bool]:
    """Return a sentence for each node that did not trace an answer, and whether it was judged.

    It is not where a node's trace cannot be placed on the journal's axis.
    """
    wanted: dict[tuple[str, str], list[Operation]] = defaultdict(list)
    for operation in operations:
        event = TRACED.get(workload, {}).get(operation.f)
        if operation.type is EventType.OK and operation.node is not None and event is not None:
            wanted[operation.node, event].append(operation)
    found, judged = [], bool(wanted)
    for (node, event), answered in sorted(wanted.items()):
        times = _times(evidence, evidence.traces.get(node, ()), event)
        if times is None:
            judged = False
            continue
        lacking = _without_event(answered, times)
        if lacking:
            first = lacking[0]
            found.append(
                f"{node} (its trace: no {event!r} for {len(lacking)} of {len(answered)} answers, "
                f"such as that of operation {first.index} at {seconds(first.complete_ns)})"
            )
    return found, judged


def _times(evidence: Evidence, trace: Iterable[TraceEvent], name: str) -> list[int] | None:
    """Return when a node traced events of a name; None where one cannot be placed."""
    times = [evidence.run_ns(event) for event in trace if event.event == name]
    placed = [time_ns for time_ns in times if time_ns is not None]
    return sorted(placed) if len(placed) == len(times) else None


def _without_event(operations: Sequence[Operation], times: Sequence[int]) -> list[Operation]:
    """Give each event to an open operation, that which ends first; return those without one."""
    waiting = sorted(operations, key=lambda operation: operation.invoke_ns, reverse=True)
    open_: list[tuple[int, int, Operation]] = []
    lacking: list[Operation] = []
    for time_ns in times:
        while waiting and waiting[-1].invoke_ns <= time_ns:
            operation = waiting.pop()
            heapq.heappush(open_, (operation.complete_ns, operation.index, operation))
        while open_ and open_[0][0] < time_ns:
            lacking.append(heapq.heappop(open_)[2])
        if open_:
            heapq.heappop(open_)
    return lacking + [operation for _, _, operation in sorted(open_)] + waiting[::-1]
