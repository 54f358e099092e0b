"""Voter changes: steps that clients were answered are in the logs, and none that nobody asked for.

Answers (`{"change": "add" or "remove", "voter": id}` of `change-voters`) come once the new set is
committed, and committed records are never lost; steps that nobody was answered are at most as many
as operations of unknown outcome may have made. docs/checkers.md#voter-changes has the blind spots.
That sets follow each other by one voter is judged by the invariant `one-voter-change`. Complexity:
O(records + operations).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from checkers.evidence import LogRecord
from checkers.evidence.evidence_result import evidence_result, without_log
from checkers.evidence.trace_fields import VOTERS
from checkers.history import Event, EventType, Operation
from checkers.nodes.in_sync import newest_records
from checkers.run_input import RunInput
from checkers.verdict import Anomaly, CheckResult, anomaly
from porcupine_py.search.outcome import Cancelled, never

NAME = "voter-changes"
CHANGE = "change-voters"
"""The operation of clients that is judged."""

_CHANGING = frozenset({"disk-wipe", "voters"})
"""Faults that add and remove voters themselves."""

Step = tuple[str, int]
"""("add" or "remove", voter id)."""


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Judge the answers to clients by the newest log."""
    del options
    evidence = run.required_evidence
    newest = newest_records(evidence)
    answered = Counter(filter(None, map(_step_of, run.operations)))
    missing = without_log(evidence)
    whole = bool(newest) and newest[0].offset == 0
    steps = list(_steps(newest))
    made = Counter(step for _, step in steps)
    found = list(_surplus_steps(answered, steps, run.operations, run.notes))
    found += _losses(answered, made, run.operations) if whole else ()
    sure = run.extent.finished and not missing  # else another log may be the one that counts
    sets = [record for record in newest if record.kind == VOTERS]
    return evidence_result(
        NAME,
        found if sure else [],
        missing=missing,
        doubts=[] if sure else found,
        cancelled=cancelled(),
        exercised=bool(answered),
        good=f"{len(sets)} voter sets hold all of {answered.total()} answers"
        if whole
        else f"{answered.total()} answers; whether a snapshot's log has forgotten one is unjudged",
        looked_at=len(sets),
        statistics={"voter_sets": len(sets), "answered": answered.total()},
        idle="no change of voters was acknowledged",
    )


def _voters(record: LogRecord) -> dict[int, str]:
    return {int(v["voterId"]): str(v["directoryId"]) for v in record.value.get("voters", ())}


def _steps(log: Sequence[LogRecord]) -> Iterator[tuple[LogRecord, Step]]:
    """Yield record and step of each change of a log."""
    sets = [record for record in log if record.kind == VOTERS]
    for before, after in pairwise(sets):
        old, new = set(_voters(before)), set(_voters(after))
        for voter in sorted(new - old):
            yield after, ("add", voter)
        for voter in sorted(old - new):
            yield after, ("remove", voter)


def _step_of(operation: Operation, kind: EventType = EventType.OK) -> Step | None:
    """Return the step that an operation was answered to have made, or asked for."""
    value = operation.output
    if operation.f == CHANGE and operation.type is kind and isinstance(value, dict):
        return str(value["change"]), int(value["voter"])
    return None


def _losses(
    answered: Counter[Step], made: Counter[Step], operations: Sequence[Operation]
) -> Iterator[Anomaly]:
    for (change, voter), count in sorted(answered.items()):
        if made[change, voter] < count:
            times = made[change, voter]
            explanation = (
                f"{change} of voter {voter} was acknowledged {_times(count)}, and the newest log "
                + (f"holds it {_times(times)} only" if times else "holds no such change")
            )
            asked = [o.index for o in operations if _step_of(o) == (change, voter)]
            place = {"voter": voter, "operations": asked}
            yield anomaly("change-lost", explanation, **place)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _surplus_steps(
    answered: Counter[Step],
    made: Sequence[tuple[LogRecord, Step]],
    operations: Sequence[Operation],
    events: Sequence[Event],
) -> Iterator[Anomaly]:
    if any(event.f in _CHANGING for event in events):
        return
    asked = [operation for operation in operations if operation.f == CHANGE]
    unknown = [_step_of(op, EventType.INFO) for op in asked if op.type is EventType.INFO]
    possible = answered + Counter(filter(None, unknown))
    excess = Counter(step for _, step in made) - possible
    if excess.total() <= unknown.count(None):  # each of these may have made one step, whichever
        return
    record, step = _first_beyond(possible, made)
    change, voter = step
    steps = ", ".join(
        f"{change} of voter {voter} ({_times(count)})"
        for (change, voter), count in sorted(excess.items())
    )
    without_answer = f"; the outcome of {len(unknown)} requests is unknown" if unknown else ""
    text = (
        f"{change} of voter {voter} at offset {record.offset} of epoch {record.epoch}, "
        f"which no answer to a client explains (in all: {steps}{without_answer})"
    )
    yield anomaly(
        "change-uninvited",
        text,
        voter=voter,
        offset=record.offset,
        epoch=record.epoch,
        operations=_undone(record, step, made, asked),
    )


def _first_beyond(
    possible: Counter[Step], made: Sequence[tuple[LogRecord, Step]]
) -> tuple[LogRecord, Step]:
    """Return the first step that was made more often than is possible; there is one."""
    made_until: Counter[Step] = Counter()
    for record, step in made:
        made_until[step] += 1
        if made_until[step] > possible[step]:
            return record, step
    raise AssertionError("more steps were made than possible")


def _undone(
    record: LogRecord,
    step: Step,
    made: Sequence[tuple[LogRecord, Step]],
    asked: Sequence[Operation],
) -> list[int]:
    """Return the operation whose answered change this step takes back; none if there is none."""
    opposite = ("remove" if step[0] == "add" else "add", step[1])
    times = sum(other == opposite and before.offset < record.offset for before, other in made)
    answered = [operation.index for operation in asked if _step_of(operation) == opposite]
    return answered[times - 1 : times] if times else []
