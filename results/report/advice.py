"""What a reader should do next: after a verdict that decides nothing, and about the tool itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkers.evidence.assisted import OPEN_END_NS
from checkers.history import NEMESIS, Event, EventType, Operation, seconds
from checkers.history.recorded import columns_of, statements
from checkers.runs import answers
from checkers.runs.faults import OWN_DELAYS, phases
from checkers.verdict import CheckResult, Status

_LINES_MAX = 5
_LATE_S = 1.0
"""A fault that begins later than this after its time in the plan is named."""


_LACKING = (
    "Look into nodes/*/stdout.log for what is missing and run the plan again; if it ran out of "
    "time, judge the same run on an idle machine: kraftprobe check RUN"
)
_UNREAD = (
    "See whether a node answers what its client does not know, or wrongly, or correct the client, "
    "such as the driver of a package; then run the plan again"
)

STARVED_LOAD = 2.0
"""Load average for each processor from which operations are likely to have waited for one."""
STARVED_MS = 1_000.0
"""Of the harness's own loop: no load shows a quota of processor time, or a stolen one."""
_STARVED = (
    "the machine was starved: {}; repeat the run where others leave it more, or at a lower --rate"
)


def describe_starvation(load: float, processors: int, late_ms: float = 0.0) -> str:
    """Say that this machine, or its last minute, was short of processor time; empty if not."""
    if load >= STARVED_LOAD * processors:
        return _STARVED.format(
            f"in the last minute {load:.1f} processes wanted its {processors} processors"
        )
    if late_ms >= STARVED_MS:
        return _STARVED.format(f"the harness stood still for {late_ms / 1e3:.1f} s")
    return ""


def starvation_of(notes: Iterable[Event]) -> str:
    """Say it of a run, by what the harness journaled of itself; empty if nothing shows it."""
    return next(filter(None, map(_describe_note, notes)), "")


def advice_of(checks: Sequence[CheckResult], notes: Sequence[Event] = ()) -> list[str]:
    """Return a line for each check that decided nothing: what it lacks, and what to do.

    Behind them, that the machine was starved, where the run's notes show it.
    """
    lines = []
    for check in checks:
        if check.status is Status.UNKNOWN:
            what = f"{check.checker} could not decide: {check.summary}."
            lines.append(f"{what} {_UNREAD if check.checker == answers.NAME else _LACKING}")
        elif check.status is Status.UNDER_EXERCISED:
            lines.append(
                f"{check.checker}: {check.summary}. Run it longer or faster: kraftprobe run "
                "--campaign RUN/plan.json --duration S --rate R; of a fault that did not take "
                "effect, kraftprobe doctor says why it cannot work here"
            )
    scarce = starvation_of(notes)
    return lines[:_LINES_MAX] + [scarce] * bool(lines and scarce)


def _describe_note(note: Event) -> str:
    load, processors = _own(note, "load"), _own(note, "processors")
    if load is None or processors is None:
        return ""
    return describe_starvation(load, int(processors), _own(note, "late_ms") or 0.0)


def _own(note: Event, name: str) -> float | None:
    """Return a number of a note of the harness on itself."""
    if note.process != NEMESIS or note.f != OWN_DELAYS or not isinstance(note.value, dict):
        return None
    value = note.value.get(name)
    return float(value) if isinstance(value, int | float) else None


def tool_text(
    plan: Mapping[str, Any], notes: Sequence[Event], operations: Sequence[Operation]
) -> str:
    """Say what the journal shows of delays of the harness itself."""
    parts = []
    late_s = _latest_fault_s(plan, notes)
    if late_s is not None:
        late = "late" if late_s >= _LATE_S else "on time"
        parts.append(f"faults began {late}, the latest {late_s:.3f} s after its time in the plan")
    lag_ms = _overrun_ms(plan, operations)
    if lag_ms is not None:
        parts.append(f"no operation ran over its time-out by more than {lag_ms:.0f} ms")
    late_ms = [ms for note in notes if (ms := _own(note, "late_ms")) is not None]
    parts += [f"its event loop was late by {ms:.0f} ms at most" for ms in late_ms[-1:]]
    parts += [text for note in notes if (text := _describe_note(note))]
    parts += [
        f"at {seconds(note.time_ns, 3)} the wall clock of the machine that ran the harness was set "
        f"by {step_s:+.3f} s"
        for note in notes
        if (step_s := _own(note, "clock_step_s")) is not None
    ][:_LINES_MAX]
    parts.append("all times here are of one monotonic clock, which no step of a wall clock moves")
    return "; ".join(parts)


def _latest_fault_s(plan: Mapping[str, Any], notes: Sequence[Event]) -> float | None:
    """Return how late the latest fault of the schedule began; None where the plan has no times."""
    schedule = plan.get("schedule")
    began_ns = next((at for name, at in phases(notes) if name == "faults"), None)
    if not isinstance(schedule, list) or began_ns is None:
        return None
    late: dict[object, float] = {}
    for event in statements(notes):
        value = event.value
        if event.type is not EventType.INVOKE or value.get("phase") != "inject":
            continue
        entry = value.get("entry")
        if type(entry) is not int or not 0 <= entry < len(schedule) or entry in late:
            continue
        planned = schedule[entry]
        at_s = planned.get("at_s") if isinstance(planned, dict) else None
        if isinstance(at_s, int | float) and planned.get("fault") == event.f:
            late[entry] = (event.time_ns - began_ns) / 1e9 - at_s
    return max(late.values(), default=None)


def _overrun_ms(plan: Mapping[str, Any], operations: Sequence[Operation]) -> float | None:
    """Return by how much an operation outlasted its time-out at most: the harness was late by it.

    The loop that runs the clients ends them, so what delays the loop delays these ends.
    """
    bound_ms = plan.get("operation_timeout_ms")
    if not isinstance(bound_ms, int | float) or not len(operations):
        return None
    columns = columns_of(operations)
    done = columns.complete_ns < OPEN_END_NS
    if not done.any():
        return None
    took_ms = float((columns.complete_ns[done] - columns.invoke_ns[done]).max()) / 1e6
    return max(0.0, took_ms - bound_ms)
