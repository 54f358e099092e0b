"""Edits of plans that the shrinker tries: each gives a new plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from checkers.history import EventType
from harness.plan.document import FIND_BROKERS
from harness.plan.plan import Plan
from harness.plan.strands import Condition, ScriptedOp, Step
from harness.run.clients import STRAND_WORKERS
from harness.sim.play import Played

_IDLE_MS = 1_000.0
"""A shorter idle time at the beginning is not worth a run to remove it."""


def rounder(value: float) -> Iterator[float]:
    """Yield simpler numbers than this, the simplest first."""
    seen = {value}
    for simpler in (0.0, *(float(round(value / unit) * unit) for unit in (1000, 100, 10, 1))):
        if simpler not in seen and simpler >= 0:
            seen.add(simpler)
            yield simpler


def operations_in_faults(played: Played) -> Iterator[ScriptedOp]:
    """Yield the stream's operations that began in the fault phase, with the node of each."""
    streamed = played.plan.concurrency
    total = streamed + STRAND_WORKERS
    ends: dict[int, str | None] = {}
    open_at: dict[int | str, int] = {}
    for event in played.events:
        if event.process == "nemesis":
            continue
        if event.type is EventType.INVOKE:
            open_at[event.process] = event.index
        else:
            ends[open_at[event.process]] = event.node
    for event in played.events:
        if event.process == "nemesis" or event.type is not EventType.INVOKE:
            continue
        assert isinstance(event.process, int), "clients are numbered"
        worker = event.process % total
        at_ms = event.time_ns / 1e6 - played.fault_phase_ms
        if worker < streamed and 0 <= at_ms < played.plan.duration_ms:
            finds = played.plan.workload in FIND_BROKERS
            node = None if finds else ends.get(event.index)
            yield ScriptedOp(event.f, round(at_ms, 6), worker, event.key, event.value, node)


def in_order(plan: Plan) -> Plan:
    """Sort operations by time, which changes no run."""
    operations = tuple(sorted(plan.operations, key=lambda op: op.at_ms))
    return replace(plan, operations=operations)


def moved_earlier(plan: Plan, from_ms: float, by_ms: float) -> Plan:
    """Move everything from a moment on to an earlier time, including the end."""

    def move(at_ms: float) -> float:
        return round(at_ms - by_ms, 3) if at_ms >= from_ms else at_ms

    strands = tuple(replace(strand, at_ms=move(strand.at_ms)) for strand in plan.strands)
    operations = tuple(replace(op, at_ms=move(op.at_ms)) for op in plan.operations)
    duration_s = max(1.0, plan.duration_ms - by_ms) / 1000.0
    return replace(plan, strands=strands, operations=operations, duration_s=duration_s)


def without_late(plan: Plan) -> Plan:
    """Drop strands and operations that begin after the end."""
    strands = tuple(strand for strand in plan.strands if strand.at_ms < plan.duration_ms)
    operations = tuple(op for op in plan.operations if op.at_ms < plan.duration_ms)
    return replace(plan, strands=strands, operations=operations)


def halves(plan: Plan) -> Iterator[Plan]:
    """Yield plans with much less load, time, strands or clients."""
    strands = plan.strands
    for part in (8, 2):
        if plan.rate_per_s > part:
            yield replace(plan, rate_per_s=plan.rate_per_s / part)
    middle_ms = plan.duration_ms / 2
    if middle_ms > _IDLE_MS:
        yield without_late(replace(plan, duration_s=middle_ms / 1000.0))
    size = len(strands)
    while size > 1:
        size //= 2
        for start in range(0, len(strands), size):
            yield replace(plan, strands=strands[:start] + strands[start + size :])
    first_ms = min((strand.at_ms for strand in strands), default=0.0)
    if first_ms > _IDLE_MS:
        yield moved_earlier(plan, first_ms, first_ms - _IDLE_MS / 2)
    if plan.concurrency > 1:
        yield replace(plan, concurrency=plan.concurrency // 2)


def with_step(plan: Plan, number: int, position: int, step: Step) -> Plan:
    """Replace a step."""
    steps = list(plan.strands[number].steps)
    steps[position] = step
    return with_strand(plan, number, steps=tuple(steps))


def with_strand(plan: Plan, number: int, **changes: Any) -> Plan:
    """Change fields of a strand."""
    strands = list(plan.strands)
    strands[number] = replace(strands[number], **changes)
    return replace(plan, strands=tuple(strands))


def without_step(plan: Plan, number: int, position: int) -> Plan:
    """Drop a step; the next one waits for both pauses."""
    steps = list(plan.strands[number].steps)
    gone = steps.pop(position)
    if position < len(steps):
        later = steps[position]
        steps[position] = replace(later, after_ms=round(later.after_ms + gone.after_ms, 3))
    return with_strand(plan, number, steps=tuple(steps))


def retarget(plan: Plan, number: int, position: int, targets: tuple[str, ...]) -> Plan:
    """Aim a step at the nodes that it hit."""
    step = plan.strands[number].steps[position]
    words = ",".join(f"node:{name}" for name in targets)
    if step.targets == words or not step.targets:
        return plan
    return with_step(plan, number, position, replace(step, targets=words))


def name_casts(plan: Plan, played: Played) -> Plan:
    """Replace cast names by their nodes, also in links and conditions, and drop the casts."""
    strands = []
    for number, strand in enumerate(plan.strands):
        names: dict[str, str] = dict(played.casts.get(number, {}))
        steps = [resolve_casts(step, names) for step in strand.steps]
        kept: list[Step] = []
        owed_ms = 0.0
        for step in steps:
            if step.kind == "cast" and step.until is None:
                owed_ms += step.after_ms
                continue
            kind = "wait" if step.kind == "cast" else step.kind
            options = {} if step.kind == "cast" else step.options
            kept.append(
                replace(
                    step, kind=kind, options=options, after_ms=round(step.after_ms + owed_ms, 3)
                )
            )
            owed_ms = 0.0
        strands.append(replace(strand, steps=tuple(kept)))
    return replace(plan, strands=tuple(strands))


def resolve_casts(step: Step, names: dict[str, str]) -> Step:
    """Replace a step's cast names by their nodes."""

    def word(text: Any) -> Any:
        if isinstance(text, str):
            for name, node in sorted(names.items(), key=lambda item: -len(item[0])):
                text = text.replace(f"@{name}", f"node:{node}")
        return text

    options = dict(step.options)
    if "links" in options:
        options["links"] = word(options["links"])
    until = step.until
    if isinstance(until, Condition):
        until = replace(until, at=word(until.at))
    return replace(step, targets=word(step.targets), options=options, until=until)


def act_time(played: Played, number: int, position: int) -> float | None:
    """Return the world time at which a step acted; None if it did not act."""
    for act in played.acts:
        if (act.strand, act.step) == (number, position) and not act.undone:
            return act.at_ms
    return None


def with_a_node_less(plan: Plan) -> Plan | None:
    """Drop the last node; None if a strand or an operation names it."""
    last = f"n{plan.nodes}"
    names = repr(plan.strands) + repr(plan.operations)
    if last in names:
        return None
    return replace(plan, nodes=plan.nodes - 1)
