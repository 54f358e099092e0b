"""Whether nodes traced the answers that clients got from them, and clients got what was traced.

An active controller traces an `ack` before it answers a write, and a `read` before it answers a
linearizable read (docs/evidence.md); the `read` of a write that changed nothing says `query` false,
and is none here. So:

- Every ok of the journal has such a line of the node that answered, between its invocation and its
  completion, and one of its own: lines are given to operations by the earliest end (Jackson's
  rule), which finds an assignment if there is any.
- That line's offset is that of the operation's record, where its record is known; and the value
  that was read is the one that the log holds up to the line's offset. The answer is made from the
  image in the same step as the line, so both are of one state, whatever was appended meanwhile.
- A read's line has no lower offset than any node took for committed before the read was invoked:
  a leader waits until it has replayed what was committed when the read arrived, and confirms its
  leadership after that; a later leader has replayed all that was committed before its epoch.
- Every `read` line before the heal is of an operation, which may have been refused or met a
  time-out: nobody else asks controllers linearizably then. A client that never got its answer may
  have been answered at any time after it asked.
- An answer comes soon after its line: within the client's time-out, and what a busy harness adds.

A line that lacks means that the trace lacks a part, or that the journal holds what was not; a line
too many, that the journal lacks operations. Both are evidence that is missing. A line that says
something else than the answer is a contradiction.

Sound where the node read the clock that the harness journals by (`Evidence.run_ns`). Operations
that need no event (`TRACED` does not name them) are not looked at. Complexity: O(n log n).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

import numpy as np

from checkers.evidence import Evidence, LogRecord, TraceEvent
from checkers.evidence.effects import RULES, Effects, Places, effects_of, elements_of
from checkers.history import INFINITY_NS, Event, EventType, Operation, seconds
from checkers.runs.faults import HEAL, phases
from checkers.verdict import Anomaly, anomaly

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
_REQUESTS: Final = {("partitions", "increment"): 3, ("append", "append"): 2}
"""How many requests an operation may make, where these are several."""
LATE_MS: Final = 10_000.0
"""How much later than its time-out a client may see an answer, if its machine is busy."""
MOSTLY_LATE_MS: Final = 1_000.0
"""How much later at most of all answers, but on a machine too busy to judge by."""
_FEW: Final = 20
SHOWN_MAX: Final = 10

Wanted = dict[tuple[str, str], list[tuple[int, Operation]]]
"""By node and event: the operations that it answered, with their rows; "" is no node."""
Fits = Callable[[int, Operation, int], bool]
"""(row, operation, offset of a line) -> whether the operation may have been answered there."""


@dataclass(frozen=True, slots=True)
class Joined:
    """What the comparison of answers with traces came to."""

    judged: bool
    """Whether all traces could be placed on the journal's axis."""
    lacking: Sequence[str] = ()
    """A sentence for each thing that is missing."""
    wrong: Sequence[Anomaly] = ()
    reads: Places | None = None
    """Where reads and what has no record of its own stand in the log, between two offsets."""


@dataclass(slots=True)
class _Found:
    lacking: list[str] = field(default_factory=list)
    wrong: list[Anomaly] = field(default_factory=list)
    bounds: list[tuple[int, int, int]] = field(default_factory=list)
    late_ns: list[int] = field(default_factory=list)


def join(
    operations: Sequence[Operation],
    evidence: Evidence,
    workload: str,
    log: Sequence[LogRecord],
    notes: Sequence[Event],
    places: Places | None,
    timeout_ms: float | None,
) -> Joined:
    """Compare the answers of the journal with the lines of the traces.

    `log`: the newest; empty where it is not known. `places`: the operations whose record it holds;
    `timeout_ms`: the client's, for one request.
    """
    wanted, asked = _by_node(operations, TRACED.get(workload, {}))
    if not wanted:
        return Joined(judged=False)
    found, judged = _Found(), True
    if nowhere := sum(len(each) for (node, _), each in wanted.items() if not node):
        found.lacking.append(f"the node that answered {nowhere} operations")
    fits = {ACK: _fits_write(workload, log, places), READ: _fits_read(workload, log)}
    marks = _Marks(evidence)
    for (node, event), answered in sorted((k, v) for k, v in wanted.items() if k[0]):
        lines = _lines(evidence, evidence.traces.get(node, ()), event)
        if lines is None:
            judged = False
        else:
            _compare(found, node, event, answered, lines, fits[event], marks)
    if judged and READ in TRACED[workload].values():
        for node in evidence.nodes:
            lines = _lines(evidence, evidence.traces.get(node, ()), READ)
            found.lacking += _describe_surplus(node, lines, asked, workload, notes)
    if timeout_ms is not None:
        most = max((n for (of, _), n in _REQUESTS.items() if of == workload), default=1)
        found.lacking += _late(found.late_ns, timeout_ms * most)
    bounds = zip(*found.bounds, strict=True) if found.bounds else ((), (), ())
    rows, first, last = (np.array(column, np.int64) for column in bounds)
    return Joined(judged, found.lacking, found.wrong, Places(rows, first, last))


def _by_node(
    operations: Sequence[Operation], events: Mapping[str, str]
) -> tuple[Wanted, dict[str | None, list[Operation]]]:
    """Sort what was answered by node and event, and all that was asked for by node."""
    wanted: Wanted = defaultdict(list)
    asked: dict[str | None, list[Operation]] = defaultdict(list)
    for row, operation in enumerate(operations if events else ()):
        event = events.get(operation.f)
        asked[operation.node].append(operation)
        if operation.type is EventType.OK and event is not None:
            wanted[operation.node or "", event].append((row, operation))
    return wanted, asked


def _compare(
    found: _Found,
    node: str,
    event: str,
    answered: Sequence[tuple[int, Operation]],
    lines: tuple[list[int], list[int]],
    fits: Fits,
    marks: _Marks,
) -> None:
    """Compare what a node answered with its lines of one kind."""
    times, offsets = lines
    lacking = _without_event([operation for _, operation in answered], times)
    if lacking:
        first = lacking[0]
        found.lacking.append(
            f"{node} (its trace: no {event!r} for {len(lacking)} of {len(answered)} answers, "
            f"such as that of operation {first.index} at {seconds(first.complete_ns)})"
        )
    for row, operation in answered:
        begin = bisect_left(times, operation.invoke_ns)
        end = bisect_right(times, operation.complete_ns)
        fit = [i for i in range(begin, end) if fits(row, operation, offsets[i])]
        floor = marks.before(operation.invoke_ns) - 1 if event == READ else -1
        fresh = [i for i in fit if offsets[i] >= floor]
        if fresh:
            found.late_ns.append(operation.complete_ns - times[fresh[-1]])
            there = [offsets[i] for i in fresh]
            found.bounds.append((row, min(there), max(there)))
        elif begin < end and len(found.wrong) < SHOWN_MAX:
            found.wrong.append(_unlike(node, event, operation, offsets[begin:end], fit, floor))


def _unlike(
    node: str,
    event: str,
    operation: Operation,
    offsets: Sequence[int],
    fit: Sequence[int],
    floor: int,
) -> Anomaly:
    what = (
        f"operation {operation.index} ({operation.f} of {operation.key!r}) was answered by {node}"
    )
    at = ", ".join(str(offset) for offset in sorted(set(offsets))[:3])
    place: dict[str, int] = {}
    if fit:
        kind = "stale-answer"
        place = {"answered_offset": max(offsets), "committed_offset": floor}
        why = f"from offset {at}, though all up to {floor} was committed before it was invoked"
    elif event == READ:
        kind = "answer-differs"
        why = f"with {operation.output!r:.80} at offset {at}, where the log holds another value"
    else:
        kind = "answer-differs"
        why = f"at offset {at}, where its record is not"
    return anomaly(kind, f"{what} {why}", operation, node=node, **place)


def _lines(
    evidence: Evidence, trace: Iterable[TraceEvent], name: str
) -> tuple[list[int], list[int]] | None:
    """Return times and offsets of a node's events of a name; None where one cannot be placed."""
    lines = [
        (evidence.run_ns(event), event.fields.get("offset"))
        for event in trace
        if event.event == name and event.fields.get("query") is not False
    ]
    placed = sorted(
        (time_ns, offset if isinstance(offset, int) else -1)
        for time_ns, offset in lines
        if time_ns is not None
    )
    if len(placed) < len(lines):
        return None
    return [time_ns for time_ns, _ in placed], [offset for _, offset in placed]


class _Marks:
    """What nodes took for committed, by time."""

    def __init__(self, evidence: Evidence) -> None:
        marks = [
            (time_ns, offset)
            for time_ns, event in evidence.placed_events
            if event.event == "hw" and isinstance(offset := event.fields.get("offset"), int)
        ]
        self._times = [time_ns for time_ns, _ in marks]
        self._highest = list(accumulate((offset for _, offset in marks), max))

    def before(self, time_ns: int) -> int:
        """Return the highest high watermark that was traced before a time; 0: none was."""
        place = bisect_left(self._times, time_ns)
        return self._highest[place - 1] if place else 0


# -- the log ---------------------------------------------------------------------------------------


def _fits_write(workload: str, log: Sequence[LogRecord], places: Places | None) -> Fits:
    """Whether an acknowledged offset is that of an operation's record, or ends its batch."""
    if workload == "partitions":
        effects = effects_of(RULES[workload], log)
        names = {i: name for i, name in zip(effects.keys, effects.values, strict=True) if name}
        owners = {
            offset: names.get(topic_id)
            for offset, topic_id in zip(effects.offsets.tolist(), effects.keys, strict=True)
        }
        begin = log[0].offset if log else 0
        end = log[-1].offset if log else -1
        # A topic whose own record a snapshot has replaced may be any.
        unnamed = {offset for offset, name in owners.items() if begin and name is None}
        return lambda _row, operation, offset: (
            not begin <= offset <= end or owners.get(offset) == operation.key or offset in unnamed
        )
    if places is None:
        return lambda _row, _operation, _offset: True
    ends = _ends_of_batches(log)
    known: dict[int, tuple[int, int]] = {
        row: (first, ends.get(last, last))
        for row, first, last in zip(
            places.rows.tolist(), places.first.tolist(), places.last.tolist(), strict=True
        )
    }

    def fits(row: int, _operation: Operation, offset: int) -> bool:
        first, end = known.get(row) or (offset, offset)
        return first <= offset <= end

    return fits


def _ends_of_batches(log: Sequence[LogRecord]) -> dict[int, int]:
    """Map the offset of each record to the last of its batch."""
    ends: dict[int, int] = {}
    after: LogRecord | None = None
    for record in reversed(log):
        same = after is not None and (after.epoch, after.batch_crc) == (
            record.epoch,
            record.batch_crc,
        )
        ends[record.offset] = ends[record.offset + 1] if same else record.offset
        after = record
    return ends


def _fits_read(workload: str, log: Sequence[LogRecord]) -> Fits:
    """Whether the log holds what was read up to the offset of a line.

    Of a log that begins behind a snapshot only what it sets itself is known.
    """
    rule, whole = RULES.get(workload), bool(log) and log[0].offset == 0
    if rule is None or READ not in TRACED.get(workload, {}).values() or not log:
        return lambda _row, _operation, _offset: True
    effects = effects_of(rule, log)
    if workload == "partitions" and not whole:
        return lambda _row, _operation, _offset: True
    states = _partition_counts(effects) if workload == "partitions" else _cells(effects)
    read = _READ[workload]

    def fits(_row: int, operation: Operation, offset: int) -> bool:
        offsets, values = states.get(str(operation.key), ((), ()))
        place = bisect_right(offsets, offset)
        if not place:
            return not whole or bool(operation.output == read(None))
        return bool(operation.output == read(values[place - 1]))

    return fits


States = Mapping[str, tuple[Sequence[int], Sequence[Any]]]
"""By key: the offsets of its changes, and what it was after each."""


def _cells(effects: Effects) -> States:
    states: dict[str, tuple[list[int], list[Any]]] = {}
    for key, text, offset in zip(
        effects.keys, effects.values, effects.offsets.tolist(), strict=True
    ):
        offsets, values = states.setdefault(key, ([], []))
        offsets.append(offset)
        values.append(text)
    return states


def _partition_counts(effects: Effects) -> States:
    names = {i: name for i, name in zip(effects.keys, effects.values, strict=True) if name}
    states: dict[str, tuple[list[int], list[Any]]] = {}
    for topic_id, name, offset in zip(
        effects.keys, effects.values, effects.offsets.tolist(), strict=True
    ):
        if name is None and topic_id in names:
            offsets, values = states.setdefault(names[topic_id], ([], []))
            offsets.append(offset)
            values.append(len(offsets))
    return states


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "register": lambda text: text,
    "reconfig": lambda text: text,
    "append": elements_of,
    "partitions": lambda count: max(0, (count or 0) - 1),
}
"""What a read shows of a state; None: nothing was set."""


# -- assignments -----------------------------------------------------------------------------------


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


def _describe_surplus(
    node: str,
    lines: tuple[list[int], list[int]] | None,
    asked: Mapping[str | None, Sequence[Operation]],
    workload: str,
    notes: Sequence[Event],
) -> list[str]:
    """Say how many reads a node answered that no operation asked for, while there were clients."""
    end_ns = dict(phases(notes)).get(HEAL, 0)
    asking = [*asked.get(node, ()), *asked.get(None, ())]
    waiting = sorted(asking, key=lambda operation: operation.invoke_ns, reverse=True)
    open_: list[tuple[int, int, int]] = []
    unasked: list[int] = []
    times = [time_ns for time_ns in (() if lines is None else lines[0]) if time_ns < end_ns]
    for time_ns in times:
        while waiting and waiting[-1].invoke_ns <= time_ns:
            operation = waiting.pop()
            requests = _REQUESTS.get((workload, operation.f), 1)
            # One of several requests may have met a time-out, and be answered later.
            waits = requests > 1 and operation.type is not EventType.OK
            end_of_it = INFINITY_NS if waits else operation.complete_ns
            heapq.heappush(open_, (end_of_it, operation.index, requests))
        while open_ and open_[0][0] < time_ns:
            heapq.heappop(open_)
        if not open_:
            unasked.append(time_ns)
            continue
        end, index, requests = heapq.heappop(open_)
        if requests > 1:
            heapq.heappush(open_, (end, index, requests - 1))
    if not unasked:
        return []
    sentence = (
        f"{len(unasked)} operations in the journal: {node} traced {len(times)} reads before the "
        f"heal, and nobody asked for so many, such as that at {seconds(unasked[0])}"
    )
    return [sentence]


def _late(late_ns: Sequence[int], timeout_ms: float) -> list[str]:
    """Say that completions come later than a client waits for an answer."""
    if not late_ns:
        return []
    latest_ms, middle_ms = max(late_ns) / 1e6, sorted(late_ns)[len(late_ns) // 2] / 1e6
    if latest_ms <= timeout_ms + LATE_MS and (
        len(late_ns) < _FEW or middle_ms <= timeout_ms + MOSTLY_LATE_MS
    ):
        return []
    sentence = (
        f"the times of completions: the latest comes {latest_ms / 1e3:.1f} s after the node traced "
        f"its answer, and half of them {middle_ms / 1e3:.1f} s or more, though a client waits "
        f"{timeout_ms / 1e3:.1f} s"
    )
    return [sentence]
