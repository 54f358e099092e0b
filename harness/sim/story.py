"""Renders a simulated run as a numbered story in plain English, from its acts and traces.

The story holds what a reader needs to follow a failure: faults, leaders and their epochs, appends
and acknowledged writes, and the violation at the end. Fetches, heartbeats and other periodic events
are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkers.history import NEMESIS, Event, EventType
from cluster.values import valueclass
from harness.acts import Act
from harness.plan import Plan
from harness.sim.findings import Violation
from harness.sim.play import Played

_LINES_MAX = 60


@valueclass
class Line:
    """One event of the story."""

    at_ms: float
    order: int
    text: str
    routine: tuple[str, str] | None = None
    """(node, verb) of a frequent event; consecutive lines of the same kind are joined."""
    offsets: tuple[int, int] = (0, 0)


def story_of(played: Played, violation: Violation | None) -> list[str]:
    """Render the story, a numbered line for each event."""
    end_ms = violation.at_ms if violation is not None and violation.at_ms else float("inf")
    lines = [*_acts(played), *_clients(played), *_nodes(played)]
    ordered = sorted(
        (line for line in lines if line.at_ms <= end_ms), key=lambda line: (line.at_ms, line.order)
    )
    texts = [f"{line.at_ms / 1000.0:9.4f} s  {line.text}" for line in _shortened(_joined(ordered))]
    tail = [] if violation is None else [f"VIOLATED {violation.property}: {violation.explanation}"]
    return [
        _setting(played.plan),
        *(f"{number:3}. {text}" for number, text in enumerate(texts, start=1)),
        *tail,
    ]


def _joined(lines: list[Line]) -> list[Line]:
    """Join the frequent events of each node between two other events."""
    joined: list[Line] = []
    open_: dict[tuple[str, str], Line] = {}

    def close() -> None:
        joined.extend(sorted(open_.values(), key=lambda line: (line.at_ms, line.order)))
        open_.clear()

    for line in lines:
        if line.routine is None:
            close()
            joined.append(line)
            continue
        before = open_.get(line.routine)
        first = line.offsets[0] if before is None else min(before.offsets[0], line.offsets[0])
        last = line.offsets[1] if before is None else max(before.offsets[1], line.offsets[1])
        at_ms = line.at_ms if before is None else before.at_ms
        span = f"offsets {first} to {last}" if first != last else f"offset {first}"
        node, verb = line.routine
        text = f"{node} {verb.format(offsets=span, last=last)}"
        open_[line.routine] = Line(at_ms, line.order, text, line.routine, (first, last))
    close()
    return joined


def _shortened(lines: list[Line]) -> list[Line]:
    """Cut a long story after its first ten lines; the last lines matter most."""
    if len(lines) <= _LINES_MAX:
        return lines
    left_out = len(lines) - _LINES_MAX + 1
    gap = Line(lines[10].at_ms, 0, f"... {left_out} events more ...")
    return [*lines[:10], gap, *lines[10 + left_out :]]


def _setting(plan: Plan) -> str:
    mutant = "" if plan.mutant is None else f" of the mutant {plan.mutant}"
    return f"{plan.nodes} nodes{mutant}, seed {plan.seed}, workload {plan.workload}"


# -- faults ---------------------------------------------------------------------------------------


def _acts(played: Played) -> Iterator[Line]:
    for act in played.acts:
        if act.kind not in ("op", "cast", "wait"):
            yield Line(act.at_ms, 0, _act_text(act))


_VERBS: Mapping[str, tuple[str, str]] = {
    "kill": ("{nodes} lost power", "{nodes} was started"),
    "stop": ("{nodes} was asked to stop (SIGTERM)", "{nodes} was started"),
    "restart": ("{nodes} was restarted", ""),
    "pause": ("{nodes} was stopped (SIGSTOP)", "{nodes} went on"),
    "partition": ("{nodes} was cut off", "{nodes} was connected again"),
    "hold": ("messages were held", "the held messages were delivered"),
    "loss": ("links began to lose messages", "the links lost nothing more"),
    "duplicate": ("links began to repeat messages", "the links repeated nothing more"),
    "delay": ("links became slow", "the links were as before"),
    "disk-stall": ("the disk of {nodes} stalled", "the disk of {nodes} went on"),
    "disk-slow": ("the disk of {nodes} became slow", "the disk of {nodes} was as before"),
    "disk-error": ("the disk of {nodes} will fail", "the disk of {nodes} works again"),
    "timer-rate": ("the clock of {nodes} changed its rate", "the clock of {nodes} was true again"),
    "clock-jump": ("the wall clock of {nodes} jumped", "the wall clock of {nodes} was true again"),
    "bit-flip": ("{nodes} was killed, and a file of it damaged", "{nodes} got its file back"),
    "disk-wipe": ("{nodes} lost its disk", "{nodes} was replaced"),
    "heal": ("everything at {nodes} was healed", ""),
    "release": ("the held messages were delivered", ""),
}
_HEALED = {
    "partition": "{nodes} was connected again",
    "kill": "{nodes} was started",
    "pause": "{nodes} went on",
    "hold": "the held messages were delivered",
}
"""Kind of fault -> text of a step `heal` for it."""


def _act_text(act: Act) -> str:
    verbs = _VERBS.get(act.kind, (f"{act.kind}: {{nodes}}", f"the end of {act.kind}: {{nodes}}"))
    text = verbs[act.undone]
    if act.kind == "heal":
        fault = str(act.detail.get("fault", "")).split(",")[0]
        text = _HEALED.get(fault, text) if act.targets else "everything was healed"
    elif act.kind == "partition" and act.detail.get("shape") == "links":
        text = ("links were cut", "the links worked again")[act.undone]
    elif act.kind == "partition" and act.detail.get("shape", "isolate") != "isolate":
        text = ("the network was split", "the network was whole again")[act.undone]
    text = text.format(nodes=" and ".join(act.targets) or "no node")
    if act.undone or act.kind in ("heal", "release"):
        return text + _detail(act) if act.kind == "release" else text
    roles = ", ".join(dict.fromkeys(act.roles))
    return f"{text} (a {roles}){_detail(act)}" if roles else f"{text}{_detail(act)}"


_KEPT = {"nothing": "all that was not synced was lost", "everything": "nothing was lost"}


def _detail(act: Act) -> str:
    """Render the parameters of an act."""
    parts = []
    for key, value in act.detail.items():
        if key == "keep":
            parts.append(_KEPT.get(value, "some of what was not synced was lost"))
        elif key == "links":
            links = value if isinstance(value, list) else str(value).split(",")
            if links:
                parts.append(f"on {', '.join(link.replace('>', ' to ') for link in links)}")
        elif key == "types":
            parts.append(f"of type {str(value).replace(',', ', ')}")
        elif key == "direction":
            parts.append({"outgoing": "what it sends", "incoming": "what is sent to it"}[value])
        elif key != "shape":
            parts.append(f"{key} {value}")
    return f": {'; '.join(parts)}" if parts else ""


# -- clients --------------------------------------------------------------------------------------


def _clients(played: Played) -> Iterator[Line]:
    asked: dict[int | str, Event] = {}
    for event in played.events:
        if event.process == NEMESIS:
            continue
        at_ms = event.time_ns / 1e6
        if event.type is EventType.INVOKE:
            asked[event.process] = event
            continue
        begun = asked.pop(event.process)
        text = _operation(begun, event)
        if text:
            yield Line(at_ms, 2, text)


def _operation(begun: Event, ended: Event) -> str:
    what = f"{begun.f} {begun.key}" + ("" if begun.value is None else f" = {begun.value}")
    where = ended.node or "a node"
    if ended.type is EventType.OK:
        result = f" with {ended.value}" if begun.f in ("read", "describe") else ""
        return f"{where} acknowledged {what}{result}"
    if ended.type is EventType.INFO and begun.f not in ("read", "describe"):
        return f"{where} left {what} indeterminate ({ended.error})"
    return ""


# -- nodes ----------------------------------------------------------------------------------------


def _nodes(played: Played) -> Iterator[Line]:
    for name, noted in played.watch.noted.items():
        for at_ms, _, event, fields in noted:
            routine = _routine(event, fields)
            if routine is not None:
                verb, first, last = routine
                yield Line(at_ms, 1, "", (name, verb), (first, last))
            elif text := _trace_text(name, event, fields):
                yield Line(at_ms, 1, text)


def _routine(event: str, fields: Mapping[str, Any]) -> tuple[str, int, int] | None:
    """Return (verb, first offset, last offset) of a frequent event, else None."""
    match event:
        case "append":
            verb = "appended" if fields["role"] == "leader" else "copied"
            text = f"{verb} {{offsets}} in epoch {fields['epoch']}"
            return text, fields["base_offset"], fields["last_offset"]
        case "hw" if fields["role"] == "leader":
            offset = fields["offset"]
            text = f"counted everything below {{last}} as committed in epoch {fields['epoch']}"
            return text, offset, offset
        case _:
            return None


def _trace_text(name: str, event: str, fields: Mapping[str, Any]) -> str:
    match event:
        case "recovered":
            return f"{name} started with a log up to offset {fields['end_offset']}"
        case "vote" if fields["granted"] and not fields["pre_vote"]:
            return f"{name} voted for n{fields['candidate_id']} in epoch {fields['epoch']}"
        case "state":
            verb = _STATES.get(fields["state"])
            return f"{name} {verb} epoch {fields['epoch']}" if verb else ""
        case "truncate":
            return f"{name} cut its log back to offset {fields['end_offset']}"
        case "fatal":
            return f"{name} ended itself: {fields['reason']}"
        case _:
            return ""


_STATES = {
    "Candidate": "stood for election in",
    "Leader": "became leader of",
    "Resigned": "resigned as leader of",
}
