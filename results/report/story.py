"""What happened: the numbered story of a run's first violation, as its report begins with it.

It follows from the journal and the nodes' traces, where these can be placed on the journal's axis:
the faults that were there, who led in which epoch, what the nodes did with their logs, the
operations of the counter-example with their values and the nodes that answered, and at its end the
violation. What happened at the same time stands in the order of causes: faults, nodes, clients.
A trace of another clock has no place in it; the story says of which nodes it knows nothing.

Complexity O(events log events).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from checkers.evidence import Evidence, TraceEvent
from checkers.evidence.assisted import OPEN_END_NS
from checkers.evidence.standings import Standings
from checkers.evidence.trace_fields import well_formed
from checkers.history import Event, EventType, Operation, seconds
from checkers.history.recorded import by_index, end_of, notes_of, statements
from checkers.runs.faults import APPLIED, active_between, began_ns, fault_spans
from checkers.verdict import CheckResult, Status
from results.report.leaders import partition_of
from results.report.narration import (
    CLIENT,
    FAULT,
    VIOLATION,
    Line,
    asked_text,
    fault_text,
    node_line,
    operation_text,
    partition_line,
    shorten,
)

LINES_MAX = 60
OPERATIONS_MAX = 30
"""Of one counter-example; the last ones matter most."""
_HISTORY = "history.jsonl"

Placed = tuple[int, TraceEvent]
"""A trace event and when it happened, on the journal's axis."""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a story, as the page shows it."""

    at: str
    node: str
    role: str
    """`leader of epoch 3`, of the node just before; "" where no trace says."""
    text: str
    source: str
    """File and line, or file and time, where it is recorded."""
    violation: bool


@dataclass(frozen=True, slots=True)
class Story:
    """The way to a violation."""

    check: str
    steps: tuple[Step, ...]
    begin_ns: int
    end_ns: int
    silent: tuple[str, ...]
    """Nodes without a trace that can be placed in the run."""
    anomaly: Mapping[str, Any]
    """The violation that it leads to."""
    operations: tuple[Operation, ...]
    """Those of the violation, in the order of their ends."""
    partition: str | None
    """The partition that it is about; None: it is about the metadata."""


@dataclass(frozen=True, slots=True)
class _Focus:
    """The violation that a story leads to."""

    check: CheckResult
    anomaly: Mapping[str, Any]
    operations: Sequence[Operation]
    begin_ns: int
    end_ns: int


def story_of(
    checks: Sequence[CheckResult],
    plan: Mapping[str, Any],
    events: Sequence[Event],
    operations: Sequence[Operation],
    evidence: Evidence | None,
    placed: Sequence[Placed] | None = None,
) -> Story | None:
    """Return the story of the violation nearest to the cause; None where no check failed."""
    placed = placed_events(evidence) if placed is None else placed
    focus = _focus(checks, by_index(operations), placed, max(0, end_of(events)))
    if focus is None:
        return None
    key = str(subject_of(focus.anomaly))
    partition = key if any(partition_of(event) == key for _, event in placed) else None
    focus = replace(focus, end_ns=_lost_ns(focus, placed, partition))
    notes = notes_of(events)
    begin_ns = _begin_ns(notes, focus)
    lines = [
        *_faults(notes, str(plan.get("backend")), begin_ns, focus.end_ns),
        *_leader_before(placed, begin_ns, partition),
        *(
            line
            for at_ns, event in placed
            if begin_ns <= at_ns <= focus.end_ns
            and (line := _node_line(at_ns, event, partition)) is not None
        ),
        *_clients(events, focus),
        *_violations(checks, focus),
    ]
    # A system whose nodes leave no traces at all has none that could be missed.
    traced = () if evidence is None or not any(evidence.traces.values()) else evidence.nodes
    silent = set(traced) - {event.node for _, event in placed}
    steps = _steps(shorten(lines, LINES_MAX), placed, partition)
    return Story(
        focus.check.checker,
        steps,
        begin_ns,
        focus.end_ns,
        tuple(sorted(silent)),
        focus.anomaly,
        tuple(focus.operations),
        partition,
    )


# -- which violation, and since when --------------------------------------------------------------


def _focus(
    checks: Sequence[CheckResult],
    operations: Mapping[int, Operation],
    placed: Sequence[Placed],
    end_ns: int,
) -> _Focus | None:
    """Choose the violation nearest to the cause: the earliest that clients saw, if any did.

    An answer of an old state is no wrong answer yet where the value is still the same, so one that
    only the nodes' files show comes behind what clients saw; then what has a time; then the rest.
    """
    found = [
        _focus_on(check, anomaly, operations, placed, end_ns)
        for check in checks
        if check.status is Status.FAIL
        for anomaly in check.anomalies
    ]
    ranked = min(found, key=lambda each: (each[0], each[1].end_ns), default=None)
    return None if ranked is None else ranked[1]


_SEEN, _SEEN_IN_FILES, _TIMED, _UNTIMED = range(4)


def _focus_on(
    check: CheckResult,
    anomaly: Mapping[str, Any],
    by_index: Mapping[int, Operation],
    placed: Sequence[Placed],
    run_ns: int,
) -> tuple[int, _Focus]:
    """Return a violation with its place in time, and how near to the cause its kind is."""
    seen = [by_index[index] for index in indexes_of(anomaly) if index in by_index]
    seen.sort(key=_ended_ns)
    at_ns = anomaly.get("at_ns")
    times = (
        [at_ns]
        if type(at_ns) is int and at_ns >= 0
        else list(_append_span(anomaly, placed, run_ns))
    )
    rank = _TIMED if times else _UNTIMED
    if seen:
        rank = _SEEN_IN_FILES if anomaly.get("kind") == "stale-answer" else _SEEN
    elif not times:
        times = [run_ns]  # what is found in final states and logs is certain at the end
    begin_ns = min([*times, *(operation.invoke_ns for operation in seen)])
    end_ns = max([*times, *map(_ended_ns, seen)])
    return rank, _Focus(check, anomaly, seen[-OPERATIONS_MAX:], begin_ns, end_ns)


def subject_of(anomaly: Mapping[str, Any]) -> object:
    """Return the key or the partition that an anomaly is about; None: it names none."""
    return anomaly.get("key", anomaly.get("partition"))


def _append_span(
    anomaly: Mapping[str, Any], placed: Sequence[Placed], run_ns: int
) -> tuple[int, ...]:
    """Return between which times the record of an anomaly was appended; empty: nobody says.

    That is the time of its append, or of a voter set, which takes effect at once, when a node first
    had it. Nodes that trace no appends, as Kafka's, show when the leader of its epoch began, and by
    when it was committed, another began or the run ended.
    """
    offset, epoch = anomaly.get("offset"), anomaly.get("epoch")
    if type(offset) is not int or type(epoch) is not int:
        return ()
    began_ns: int | None = None
    for at_ns, event in placed:
        fields = event.fields
        if event.event == "append" and fields["role"] == "leader":
            there = fields["base_offset"] <= offset <= fields["last_offset"]
            if there and fields["epoch"] == epoch:
                return (at_ns,)
        elif event.event == "voters" and fields["offset"] == offset:
            return (at_ns,)
        elif event.event == "state" and fields["state"] == "Leader" and fields["epoch"] >= epoch:
            if fields["epoch"] > epoch:
                return () if began_ns is None else (began_ns, at_ns)
            began_ns = at_ns
        elif event.event == "hw" and began_ns is not None and fields["offset"] > offset:
            return began_ns, at_ns
    return () if began_ns is None else (began_ns, run_ns)


def indexes_of(anomaly: Mapping[str, Any]) -> list[int]:
    """Return the operations that an anomaly shows or names."""
    window, named = anomaly.get("window"), anomaly.get("operations")
    if isinstance(window, list):
        named = [entry.get("index") for entry in window if isinstance(entry, dict)]
    if not isinstance(named, list):
        return []
    return list(dict.fromkeys(index for index in named if type(index) is int))


def _ended_ns(operation: Operation) -> int:
    return operation.invoke_ns if operation.complete_ns >= OPEN_END_NS else operation.complete_ns


def _lost_ns(focus: _Focus, placed: Sequence[Placed], partition: str | None) -> int:
    """Return when what was lost was cut off a log or written over, or a leader began.

    The end of the violation where none of it can be seen.
    """
    kind = str(focus.anomaly.get("kind"))
    if not focus.operations or not ("lost" in kind or kind == "acknowledged-missing"):
        return focus.end_ns
    last = focus.operations[-1]
    offset = last.offset
    if offset is None and partition is None:  # then at most what its leader had by then
        ends = (
            event.fields["last_offset"]
            for at_ns, event in placed
            if at_ns <= focus.end_ns and event.node == last.node and _writes(event)
        )
        offset = max(ends, default=None)
    later = [(at_ns, event) for at_ns, event in placed if at_ns > focus.end_ns]
    losses = (at_ns for at_ns, event in later if _loses(event, partition, offset))
    leads = (at_ns for at_ns, event in later if _leads(event, partition))
    return next(losses, next(leads, focus.end_ns))


_BEGINS = {
    "truncate": "end_offset",
    "truncate-fully": "start_offset",
    "recovered": "end_offset",
    "append": "base_offset",
    "replica-truncated": "to_offset",
    "replica-leader": "start_offset",
}
"""Event -> where what a log lacks from then on, or has anew, begins."""


def _loses(event: TraceEvent, partition: str | None, offset: int | None) -> bool:
    """Whether a log was cut, or a leader wrote it anew, at this offset; None: somewhere."""
    writes = event.event == "replica-leader" or _writes(event)
    if event.event not in _BEGINS or partition_of(event) != partition:
        return False
    if event.event == "append" and not writes:
        return False  # a copy
    if event.event == "recovered" and not event.fields.get("truncated_bytes"):
        return False
    if offset is None:
        return not writes
    return bool(event.fields[_BEGINS[event.event]] <= offset)


def _writes(event: TraceEvent) -> bool:
    return event.event == "append" and event.fields["role"] == "leader"


def _leads(event: TraceEvent, partition: str | None) -> bool:
    if partition is not None:
        return event.event == "replica-leader" and partition_of(event) == partition
    return event.event == "state" and event.fields["state"] == "Leader"


def _begin_ns(events: Sequence[Event], focus: _Focus) -> int:
    """Return when the faults began that were there at the violation, else the last one before."""
    spans = fault_spans(events)
    active = active_between(spans, focus.begin_ns, focus.end_ns)
    if not active:
        before = [span for span in spans if span.verified and span.begin_ns <= focus.begin_ns]
        active = before[-1:]
    return min([focus.begin_ns, *(span.begin_ns for span in active)])


# -- its lines ------------------------------------------------------------------------------------


def placed_events(evidence: Evidence | None) -> list[Placed]:
    """Return the trace events that can be placed in the run, in order."""
    if evidence is None:
        return []
    sound, _ = well_formed(evidence)
    return sound.placed_events


def _leader_before(
    placed: Sequence[Placed], begin_ns: int, partition: str | None
) -> Iterator[Line]:
    """Yield who led when the story begins: the metadata quorum, and the partition."""
    last: dict[str, Placed] = {}
    for at_ns, event in placed:
        if at_ns >= begin_ns:
            break
        if event.event == "state" and event.fields["state"] == "Leader":
            last["quorum"] = at_ns, event
        elif event.event == "replica-leader" and partition_of(event) == partition:
            last["partition"] = at_ns, event
    yield from filter(None, (_node_line(*each, partition) for each in last.values()))


def _node_line(at_ns: int, event: TraceEvent, partition: str | None) -> Line | None:
    source = f'nodes/{event.node}/trace.jsonl, "t":{event.time_ns}'
    if partition is None:
        return node_line(at_ns, event.node, event.event, event.fields, source)
    if partition_of(event) not in (None, partition):
        return None
    return partition_line(at_ns, event.node, event.event, event.fields, partition, source)


def _faults(events: Sequence[Event], backend: str, begin_ns: int, end_ns: int) -> Iterator[Line]:
    """Yield the beginning of each fault, and the end of its heal."""
    begun: dict[tuple[str, object], Event] = {}
    refused_ns: dict[tuple[str, object], int] = {}  # an injection that was refused is tried again
    for event in statements(events):
        value = event.value
        if value.get("phase") not in ("inject", "heal"):
            continue  # it marks or observes
        undone = value["phase"] == "heal"
        place = event.f, value.get("entry")
        if event.type is EventType.INVOKE:
            if not undone:
                begun[place] = event
            continue
        if value.get(APPLIED) is False:
            refused_ns[place] = event.time_ns
            continue
        first = event if undone else begun.get(place, event)
        at_ns = max(began_ns(first), refused_ns.get(place, 0))
        if not begin_ns <= at_ns <= end_ns:
            continue
        text = fault_text(
            event.f, _names(value.get("targets")), (), _parameters(first, backend), undone=undone
        )
        if value.get("verified") is not True:
            text += ", but this was not measured to be so"
        yield Line(at_ns, FAULT, text, source=_line_of(first))


def _names(targets: object) -> list[str]:
    return [str(target) for target in targets] if isinstance(targets, list) else []


def _parameters(invoked: Event, backend: str) -> dict[str, Any]:
    """Return what a fault was asked to be; a kill on a real backend keeps what was written."""
    value = invoked.value
    found = value.get("parameters") if isinstance(value, dict) else None
    parameters = dict(found) if isinstance(found, dict) else {}
    if invoked.f == "kill" and backend != "sim":
        parameters.setdefault("keep", "everything")
    return parameters


def _clients(events: Sequence[Event], focus: _Focus) -> Iterator[Line]:
    """Yield the operations of the counter-example: as they were answered, or else asked."""
    journaled = by_index(events)
    for operation in focus.operations:
        begun = journaled.get(operation.index)
        ended = journaled.get(-1 if operation.end_index is None else operation.end_index)
        if begun is None:
            continue
        if (
            operation.complete_ns >= OPEN_END_NS
            or operation.type is EventType.INFO
            or ended is None
        ):
            where = operation.node or "a node"
            text = f"process {operation.process} asked {where} to {asked_text(begun)}"
            yield Line(begun.time_ns, CLIENT, text, operation.node, source=_line_of(begun))
        if ended is not None and ended.time_ns <= focus.end_ns:
            text = operation_text(begun, ended) or (
                f"{operation.node or 'a node'} refused {asked_text(begun)} ({ended.error})"
            )
            text += f", asked by process {operation.process} at {seconds(begun.time_ns, 4)}"
            yield Line(ended.time_ns, CLIENT, text, operation.node, source=_line_of(ended))


def _line_of(event: Event) -> str:
    return f"{_HISTORY}, index {event.index}"


def _violations(checks: Sequence[CheckResult], focus: _Focus) -> Iterator[Line]:
    """Yield what each other check found first on the way, then the violation itself."""
    for check in checks:
        if check.status is not Status.FAIL or check is focus.check:
            continue
        timed = [
            (anomaly["at_ns"], anomaly)
            for anomaly in check.anomalies
            if type(anomaly.get("at_ns")) is int
            and focus.begin_ns <= anomaly["at_ns"] <= focus.end_ns
        ]
        for at_ns, anomaly in sorted(timed, key=itemgetter(0))[:1]:
            yield _violation(at_ns, check, anomaly)
    yield _violation(focus.end_ns, focus.check, focus.anomaly)


def _violation(at_ns: int, check: CheckResult, anomaly: Mapping[str, Any]) -> Line:
    node = anomaly.get("node")
    text = f"{check.checker}, {anomaly.get('kind')}: {anomaly.get('explanation')}"
    return Line(at_ns, VIOLATION, text, node if isinstance(node, str) else None)


# -- its steps ------------------------------------------------------------------------------------


_ROLES = {"replica-leader": "leader", "replica-follower": "follower"}


def _steps(
    lines: Sequence[Line], placed: Sequence[Placed], partition: str | None
) -> tuple[Step, ...]:
    """Give each line the role and epoch that its node had just before; a violation those then."""
    standings = Standings(sorted({event.node for _, event in placed}))
    replicas: dict[str, str] = {}
    position = 0
    steps = []
    for line in lines:
        violated = line.order == VIOLATION
        while position < len(placed) and placed[position][0] < line.at_ns + violated:
            event = placed[position][1]
            if event.event == "start":
                standings.note_start(event.node)
            standings.take_event(event.node, event.event, event.fields)
            if event.event in _ROLES and partition_of(event) == partition:
                epoch = event.fields.get("leader_epoch")
                replicas[event.node] = f"{_ROLES[event.event]} of {partition}, leader epoch {epoch}"
            position += 1
        standing = standings.nodes.get(line.node or "")
        role = "" if standing is None else f"{standing.state} in epoch {standing.epoch}".lower()
        if partition is not None:
            role = replicas.get(line.node or "", "")
        steps.append(
            Step(seconds(line.at_ns, 4), line.node or "", role, line.text, line.source, violated)
        )
    return tuple(steps)
