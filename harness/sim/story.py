"""Renders a simulated run as a numbered story in plain English, from its acts and traces."""

from __future__ import annotations

from collections.abc import Iterator

from checkers.history import NEMESIS, Event, EventType
from harness.plan.plan import Plan
from harness.plan.system_request import system_unlike_real
from harness.sim.findings import Violation
from harness.sim.play import Played
from results.report.narration import (
    CLIENT,
    FAULT,
    Line,
    fault_text,
    node_line,
    operation_text,
    shorten,
)

_LINES_MAX = 60


def story_of(played: Played, violation: Violation | None) -> list[str]:
    """Render the story, a numbered line for each event."""
    end_ms = violation.at_ms if violation is not None and violation.at_ms else float("inf")
    lines = [*_acts(played), *_clients(played), *_nodes(played)]
    kept = shorten([line for line in lines if line.at_ns <= end_ms * 1e6], _LINES_MAX)
    texts = [f"{line.at_ns / 1e9:9.4f} s  {line.text}" for line in kept]
    tail = [] if violation is None else [f"VIOLATED {violation.property}: {violation.explanation}"]
    return [
        _setting(played.plan),
        *(f"{number:3}. {text}" for number, text in enumerate(texts, start=1)),
        *tail,
    ]


def _setting(plan: Plan) -> str:
    mutant = "" if plan.mutant is None else f" of the mutant {plan.mutant}"
    system = system_unlike_real(plan)
    of = f" of system {system}" if system else ""
    return f"{plan.nodes} nodes{of}{mutant}, seed {plan.seed}, workload {plan.workload}"


def _acts(played: Played) -> Iterator[Line]:
    for act in played.acts:
        if act.kind not in ("op", "cast", "wait"):
            text = fault_text(act.kind, act.targets, act.roles, act.detail, undone=act.undone)
            yield Line(_ns(act.at_ms), FAULT, text)


def _clients(played: Played) -> Iterator[Line]:
    asked: dict[int | str, Event] = {}
    for event in played.events:
        if event.process == NEMESIS:
            continue
        if event.type is EventType.INVOKE:
            asked[event.process] = event
            continue
        text = operation_text(asked.pop(event.process), event)
        if text:
            yield Line(event.time_ns, CLIENT, text)


def _nodes(played: Played) -> Iterator[Line]:
    for name, noted in played.watch.noted.items():
        for at_ms, _, event, fields in noted:
            line = node_line(_ns(at_ms), name, event, fields)
            if line is not None:
                yield line


def _ns(at_ms: float) -> int:
    return round(at_ms * 1e6)
