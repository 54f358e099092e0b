"""A run told as a numbered story in plain English, made from what was done and traced.

What a person needs to follow a failure: what the faults did, who became leader of which epoch,
which writes were acknowledged at which offset, what was cut off or lost, and what is wrong in the
end. Fetches, heartbeats and everything that happens all the time are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from checkers.history import NEMESIS, Event, EventType
from harness.sim.driver import Act
from harness.sim.findings import Violation
from harness.sim.runner import Played
from harness.sim.scenario import Scenario

_LINES_MAX = 60


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened."""

    at_ms: float
    order: int
    text: str


def tell(played: Played, violation: Violation | None) -> list[str]:
    """The story, one numbered line a thing."""
    scenario = played.scenario
    end_ms = violation.at_ms if violation is not None and violation.at_ms else float("inf")
    lines = [*_acts(played), *_clients(played), *_nodes(played)]
    ordered = sorted(
        (line for line in lines if line.at_ms <= end_ms), key=lambda line: (line.at_ms, line.order)
    )
    told = [f"{line.at_ms / 1000.0:9.4f} s  {line.text}" for line in _shortened(ordered)]
    head = [_setting(scenario)]
    tail = [] if violation is None else [f"VIOLATED {violation.property}: {violation.explanation}"]
    return [
        *head,
        *(f"{number:3}. {text}" for number, text in enumerate(told, start=1)),
        *tail,
    ]


def _setting(scenario: Scenario) -> str:
    mutant = "" if scenario.mutant is None else f" of the mutant {scenario.mutant}"
    return (
        f"{scenario.nodes} nodes{mutant}, seed {scenario.seed}, workload {scenario.workload.name}"
    )


def _shortened(lines: list[Line]) -> list[Line]:
    """Leave out the middle of what nobody would read; what comes last matters most."""
    if len(lines) <= _LINES_MAX:
        return lines
    left_out = len(lines) - _LINES_MAX + 1
    gap = Line(lines[10].at_ms, 0, f"... {left_out} things more ...")
    return [*lines[:10], gap, *lines[10 + left_out :]]


# -- faults ---------------------------------------------------------------------------------------


def _acts(played: Played) -> Iterator[Line]:
    for act in played.acts:
        if act.kind not in ("op", "cast", "wait"):
            yield Line(act.at_ms, 0, _act_text(act))


_VERBS: Mapping[str, tuple[str, str]] = {
    "kill": ("{who} lost power", "{who} was started"),
    "restart": ("{who} was restarted", ""),
    "pause": ("{who} was stopped (SIGSTOP)", "{who} went on"),
    "resume": ("{who} went on", ""),
    "start": ("{who} was started", ""),
    "partition": ("{who} was cut off", "{who} was connected again"),
    "cut": ("links were cut", "the links worked again"),
    "join": ("{who} was connected again", ""),
    "hold": ("messages were held", "the held messages were delivered"),
    "release": ("the held messages were delivered", ""),
    "drop_held": ("the held messages were lost", ""),
    "lossy": ("all links became unreliable", "the links were reliable again"),
    "disk_stall": ("the disk of {who} stalled", "the disk of {who} went on"),
    "disk_slow": ("the disk of {who} became slow", "the disk of {who} was as before"),
    "disk_error": ("the disk of {who} will fail", ""),
    "clock_rate": ("the clock of {who} changed its rate", "the clock of {who} was true again"),
    "clock_jump": ("the wall clock of {who} jumped", ""),
    "bit_rot": ("a file of {who} was damaged while it was down", ""),
    "heal": ("everything was healed", ""),
}


def _act_text(act: Act) -> str:
    verbs = _VERBS.get(act.kind, (act.kind, act.kind))
    who = " and ".join(act.targets) or "nobody"
    if act.kind == "partition" and not act.targets:
        verbs = ("the network was split", "the network was whole again")
    text = verbs[act.undone].format(who=who)
    if act.undone:
        return text
    if act.roles and not act.undone:
        text += f" (a {', '.join(dict.fromkeys(act.roles))})" if set(act.roles) else ""
    detail = _detail(act.kind, act.detail)
    return f"{text}{detail}"


def _detail(kind: str, detail: Mapping[str, Any]) -> str:
    told = []
    keep = {"nothing": "all that was not synced was lost", "any": "some of it unsynced was lost"}
    for key, value in detail.items():
        if key == "keep":
            told.append(keep.get(value, "nothing was lost"))
        elif key == "links":
            told.append(f"on {', '.join(str(link).replace('>', ' to ') for link in value)}")
        elif key == "types":
            told.append(f"of type {str(value).replace(',', ', ')}")
        elif key == "down_ms":
            told.append(f"down for {value:g} ms")
        elif key == "one_way" and value:
            told.append("what it sends" if value == "out" else "what is sent to it")
        elif value not in (False, "", "targets") and key != "graceful":
            told.append(f"{key} {value}")
        elif key == "graceful" and value:
            told.append("asked to stop")
    del kind
    return f": {'; '.join(told)}" if told else ""


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
        return f"{where} left it open whether {what} was done ({ended.error})"
    return ""


# -- nodes ----------------------------------------------------------------------------------------


def _nodes(played: Played) -> Iterator[Line]:
    world = played.backend.world
    for name, node in world.nodes.items():
        for at_ms, incarnation, event, fields in played.watch.told.get(name, ()):
            del incarnation
            text = _trace_text(name, event, fields)
            if text:
                yield Line(at_ms, 1, text)
        del node


def _trace_text(name: str, event: str, fields: Mapping[str, Any]) -> str:  # noqa: C901  (a table)
    match event:
        case "recovered":
            return f"{name} started with a log up to offset {fields['end_offset']}"
        case "vote" if fields["granted"] and not fields["pre_vote"]:
            return f"{name} voted for n{fields['candidate_id']} in epoch {fields['epoch']}"
        case "state" if fields["state"] == "Candidate":
            return f"{name} stood for election in epoch {fields['epoch']}"
        case "state" if fields["state"] == "Leader":
            return f"{name} became leader of epoch {fields['epoch']}"
        case "state" if fields["state"] == "Resigned":
            return f"{name} resigned as leader of epoch {fields['epoch']}"
        case "append" if fields["role"] == "leader":
            first, last = fields["base_offset"], fields["last_offset"]
            return f"{name} appended offsets {first} to {last} in epoch {fields['epoch']}"
        case "append":
            first, last = fields["base_offset"], fields["last_offset"]
            return f"{name} copied offsets {first} to {last} (epoch {fields['epoch']})"
        case "truncate":
            return f"{name} cut its log back to offset {fields['end_offset']}"
        case "hw" if fields["role"] == "leader":
            return f"{name} counted everything below offset {fields['offset']} as committed"
        case "ack":
            return f"{name} answers the write at offset {fields['offset']}: committed"
        case "fatal":
            return f"{name} ended itself: {fields['reason']}"
        case _:
            return ""
