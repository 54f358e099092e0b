"""Events of a run as short sentences: faults, clients, nodes; for the stories of both worlds.

A story holds what a reader needs to follow a failure: faults, leaders and their epochs, appends and
acknowledged writes. Fetches, heartbeats and other periodic events are left out. All values come
from a run and may be anything: they are put into texts, which whoever makes a page escapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from checkers.history import Event, EventType
from checkers.runs.statistics import READS

FAULT, NODE, CLIENT, VIOLATION = range(4)
"""Order of what happens at the same time: a cause comes before its consequence."""


@dataclass(frozen=True, slots=True)
class Line:
    """One event of a story."""

    at_ns: int
    order: int
    """FAULT, NODE, CLIENT or VIOLATION."""
    text: str
    node: str | None = None
    detail: int = 0
    """0: no story can do without it; the higher, the sooner it is left out of a long one."""
    routine: str | None = None
    """Verb of a frequent event with `{offsets}` or `{last}`; those in a row are joined."""
    offsets: tuple[int, int] = (0, 0)
    source: str = ""
    """Where the event is recorded."""

    @property
    def place(self) -> tuple[int, int]:
        """By what a story is sorted."""
        return self.at_ns, self.order


def join_frequent(lines: Sequence[Line]) -> list[Line]:
    """Return the lines in order, the frequent events of each node between two others as one."""
    found: list[Line] = []
    open_: dict[tuple[str | None, str], Line] = {}

    def close() -> None:
        found.extend(sorted(open_.values(), key=lambda line: line.place))
        open_.clear()

    for line in sorted(lines, key=lambda line: line.place):
        if line.routine is None:
            close()
            found.append(line)
            continue
        before = open_.get((line.node, line.routine), line)
        first = min(before.offsets[0], line.offsets[0])
        last = max(before.offsets[1], line.offsets[1])
        span = f"offsets {first} to {last}" if first != last else f"offset {first}"
        text = f"{line.node} {line.routine.format(offsets=span, last=last)}"
        # Appends stand where they begin and commits where they end: causes before effects.
        placed = line if "{last}" in line.routine else before
        joint = replace(placed, text=text, offsets=(first, last))
        open_[line.node, line.routine] = joint
    close()
    return found


def shorten(lines: Sequence[Line], most: int) -> list[Line]:
    """Cut a long story to so many lines: details first, then those behind the first ten.

    The last lines matter most: there the violation is.
    """
    kept = join_frequent(lines)
    for detail in sorted({line.detail for line in lines}, reverse=True):
        if len(kept) <= most or not detail:
            break
        kept = join_frequent([line for line in lines if line.detail < detail])
    if len(kept) <= most:
        return kept
    left_out = len(kept) - most + 1
    gap = Line(kept[10].at_ns, FAULT, f"... {left_out} events more ...")
    return [*kept[:10], gap, *kept[10 + left_out :]]


# -- faults ---------------------------------------------------------------------------------------

_TRUE_AGAIN = "the wall clock of {nodes} was true again"
_VERBS: Mapping[str, tuple[str, str]] = {
    "kill": ("{nodes} lost power", "{nodes} was started"),
    "stop": ("{nodes} was asked to stop (SIGTERM)", "{nodes} was started"),
    "restart": ("{nodes} was restarted", "the restart of {nodes} was over"),
    "upgrade": ("{nodes} was made another release", "the upgrade of {nodes} was over"),
    "address-change": (
        "{nodes} was started at another address",
        "the change of address of {nodes} was over",
    ),
    "role-change": (
        "{nodes} was started as a broker alone",
        "{nodes} was started as a controller again",
    ),
    "pause": ("{nodes} was stopped (SIGSTOP)", "{nodes} went on"),
    "partition": ("{nodes} was cut off", "{nodes} was connected again"),
    "hold": ("messages were held", "the held messages were delivered"),
    "loss": ("links began to lose messages", "the links lost nothing more"),
    "duplicate": ("links began to repeat messages", "the links repeated nothing more"),
    "reorder": ("links began to reorder messages", "the links kept the order again"),
    "delay": ("links became slow", "the links were as before"),
    "bandwidth": ("links were throttled", "the links were as before"),
    "resign": ("{nodes} was made to resign", "the resignation of {nodes} was over"),
    "snapshot": ("{nodes} was made to snapshot", "the snapshot of {nodes} was over"),
    "finalize": ("another level of a feature was asked for", "the finalization was over"),
    "voters": ("the voters were changed", "the change of voters was over"),
    "disk-stall": ("the disk of {nodes} stalled", "the disk of {nodes} went on"),
    "disk-slow": ("the disk of {nodes} became slow", "the disk of {nodes} was as before"),
    "disk-full": ("the disk of {nodes} became full", "the disk of {nodes} had room again"),
    "disk-error": ("the disk of {nodes} will fail", "the disk of {nodes} works again"),
    "log-dir-loss": ("{nodes} lost a log directory", "{nodes} got it back and was restarted"),
    "log-dir-move": (
        "a replica of {nodes} was sent to another log directory",
        "the move of a replica of {nodes} was over",
    ),
    "timer-rate": ("the clock of {nodes} changed its rate", "the clock of {nodes} was true again"),
    "clock-jump": ("the wall clock of {nodes} jumped", _TRUE_AGAIN),
    "clock-skew": ("the wall clock of {nodes} went wrong", _TRUE_AGAIN),
    "clock-drift": ("the wall clock of {nodes} changed its rate", _TRUE_AGAIN),
    "clock-strobe": ("the wall clock of {nodes} jumped to and fro", _TRUE_AGAIN),
    "power-loss": ("{nodes} lost power", "{nodes} was started"),
    "torn-write": ("{nodes} lost power in a write", "{nodes} was started"),
    "bit-flip": ("{nodes} was killed, and a file of it damaged", "{nodes} got its file back"),
    "truncate-file": ("{nodes} was stopped, and its log cut", "{nodes} got its file back"),
    "disk-wipe": ("{nodes} lost its disk", "{nodes} was replaced"),
    "limit": ("the files of {nodes} were limited", "the files of {nodes} were free again"),
    "heal": ("everything at {nodes} was healed", ""),
    "release": ("the held messages were delivered", ""),
}
"""Fault -> what it does, and what its end does. A kill of the simulated world is a power loss."""
_KEPT = {"nothing": "all that was not synced was lost", "everything": "nothing was lost"}


def fault_text(
    kind: str,
    targets: Sequence[str],
    roles: Sequence[str],
    detail: Mapping[str, Any],
    *,
    undone: bool,
) -> str:
    """Say what a fault did to which nodes, or, when it is undone, that it is over."""
    verbs = _VERBS.get(kind, (f"{kind}: {{nodes}}", f"the end of {kind}: {{nodes}}"))
    text = verbs[undone]
    if kind == "kill" and not undone and detail.get("keep") == "everything":
        text = "{nodes} was killed (SIGKILL)"
        detail = {name: value for name, value in detail.items() if name != "keep"}
    elif kind == "heal":
        healed = _VERBS.get(str(detail.get("fault", "")).split(",")[0], ("", text))
        text = healed[1] if targets else "everything was healed"
    elif kind == "partition" and detail.get("shape") == "links":
        text = ("links were cut", "the links worked again")[undone]
    elif kind == "partition" and detail.get("shape", "isolate") != "isolate":
        text = ("the network was split", "the network was whole again")[undone]
    if targets and "links" not in detail:
        text = re.sub(r"\blinks\b", "links of {nodes}", text)
    if len(targets) > 1:
        text = re.sub(r"^\{nodes\} was\b", "{nodes} were", text)
    text = text.replace("{nodes}", " and ".join(targets) or "no node")
    if undone or kind in ("heal", "release"):
        return text + _detail(detail) if kind == "release" else text
    named = ", ".join(dict.fromkeys(roles))
    return f"{text} (a {named}){_detail(detail)}" if named else f"{text}{_detail(detail)}"


def _detail(parameters: Mapping[str, Any]) -> str:
    """Render the parameters of a fault."""
    parts = []
    for key, value in parameters.items():
        if key == "keep":
            parts.append(_KEPT.get(str(value), "some of what was not synced was lost"))
        elif key == "links":
            links = value if isinstance(value, list) else str(value).split(",")
            if links:
                parts.append(f"on {', '.join(str(link).replace('>', ' to ') for link in links)}")
        elif key == "types":
            parts.append(f"of type {str(value).replace(',', ', ')}")
        elif key == "direction":
            words = {"outgoing": "what it sends", "incoming": "what is sent to it"}
            parts.append(words.get(str(value), str(value)))
        elif isinstance(value, bool):
            parts += [key.replace("_", " ")] if value else []
        elif key not in ("shape", "targets"):
            parts.append(f"{key} {value}")
    return f": {'; '.join(parts)}" if parts else ""


# -- clients --------------------------------------------------------------------------------------


def operation_text(begun: Event, ended: Event) -> str:
    """Say how a node answered; "" where it changed nothing and showed nothing."""
    what = asked_text(begun)
    where = ended.node or begun.node or "a node"
    if ended.type is EventType.OK:
        if begun.f in READS:
            epoch = "" if ended.epoch is None else f" in leader epoch {ended.epoch}"
            return f"{where} answered {what} with {answer_text(ended.value)}{epoch}"
        offset = "" if ended.offset is None else f" at offset {ended.offset}"
        is_echo = ended.value is None or ended.value == begun.value
        answer = "" if is_echo else f", answering {value_text(ended.value)}"
        return f"{where} acknowledged {what}{offset}{answer}"
    if ended.type is EventType.INFO and begun.f not in READS:
        return f"{where} left {what} indeterminate ({ended.error})"
    return ""


def asked_text(begun: Event) -> str:
    """Say what was asked: `write k0 = "a"`."""
    key = "" if begun.key is None else f" {begun.key}"
    return f"{begun.f}{key}" + ("" if begun.value is None else f" = {value_text(begun.value)}")


def answer_text(value: object) -> str:
    """Return what a read answered; of a poll how many records, from where to where."""
    records = value.get("records") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(records, list):
        return value_text(value)
    mark = f"high watermark {value_text(value.get('high_watermark'), 40)}"
    if not records:
        return f"no record, {mark}"
    first, last = records[0], records[-1]
    if not all(isinstance(record, list | tuple) and record for record in (first, last)):
        return value_text(value)
    if len(records) == 1:
        return f"the record at offset {value_text(first[0], 40)}, {mark}"
    ends = f"offsets {value_text(first[0], 40)} to {value_text(last[0], 40)}"
    return f"{len(records)} records, {ends}, {mark}"


def value_text(value: object, most: int = 200) -> str:
    """Return a value as JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[:most]}…"


# -- nodes ----------------------------------------------------------------------------------------


def node_line(
    at_ns: int, name: str, event: str, fields: Mapping[str, Any], source: str = ""
) -> Line | None:
    """Return the line of a node's trace event; None where a story has no use for it."""
    match event:
        case "append":
            verb = "appended" if fields["role"] == "leader" else "copied"
            text = f"{verb} {{offsets}} in epoch {fields['epoch']}"
            span = fields["base_offset"], fields["last_offset"]
            return Line(at_ns, NODE, "", name, 2, text, span, source)
        case "hw" if fields["role"] == "leader":
            text = f"counted everything below {{last}} as committed in epoch {fields['epoch']}"
            return Line(at_ns, NODE, "", name, 2, text, (fields["offset"],) * 2, source)
    text, detail = _trace_text(event, fields)
    return Line(at_ns, NODE, f"{name} {text}", name, detail, source=source) if text else None


def partition_line(
    at_ns: int, name: str, event: str, fields: Mapping[str, Any], partition: str, source: str = ""
) -> Line | None:
    """Return the line of a trace event in the story of a partition; None: it has none.

    Offsets and appends of the metadata log are left out: they only look like the partition's.
    """
    found = {key: value_text(value, 60) for key, value in fields.items()}
    epochs = f"in leader epoch {found.get('leader_epoch', '?')}"
    change = f"partition epoch {found.get('partition_epoch', '?')}, ISR {_brokers(fields)}"
    mark = f"high watermark {found.get('high_watermark', '?')}"
    text, detail = "", 0
    match event:
        case "replica-leader":
            text = f"leads {partition} {epochs}, which begins at offset "
            text += f"{found.get('start_offset', '?')}: {mark}, {change}"
        case "replica-follower":
            leader = fields.get("leader_id")
            of = "nobody" if leader == -1 else f"n{found.get('leader_id', '?')}"
            text, detail = f"follows {of} in {partition} {epochs}, its log ends at offset ", 1
            text += found.get("end_offset", "?")
        case "replica-isr":
            text, detail = f"learns of {partition} {epochs}: {change}", 1
        case "replica-truncated":
            text = f"cut its log of {partition} back from offset {found.get('from_offset', '?')} "
            text += f"to {found.get('to_offset', '?')} {epochs}; {mark} before"
        case "replica-begun":
            text = f"dropped its log of {partition} {epochs}: its leader's begins at offset "
            text += found.get("start_offset", "?")
        case "state" if fields.get("state") == "Leader":
            text = f"became the active controller, in metadata epoch {found['epoch']}"
        case "state" if fields.get("state") == "Resigned":
            text = f"resigned as the active controller of metadata epoch {found['epoch']}"
        case "start":
            text = "started"
        case "fatal" | "fault":
            text, detail = _trace_text(event, fields)
    return Line(at_ns, NODE, f"{name} {text}", name, detail, source=source) if text else None


def _brokers(fields: Mapping[str, Any]) -> str:
    isr = fields.get("isr")
    if not isinstance(isr, list):
        return value_text(isr, 60)
    return ", ".join(f"n{value_text(broker, 20)}" for broker in isr) or "nobody"


_STATES = {
    "Candidate": ("stood for election in", 1),
    "Leader": ("became leader of", 0),
    "Resigned": ("resigned as leader of", 0),
}


def _trace_text(event: str, fields: Mapping[str, Any]) -> tuple[str, int]:
    match event:
        case "recovered":
            return f"started with a log up to offset {fields['end_offset']}", 0
        case "vote" if fields["granted"] and not fields["pre_vote"]:
            return f"voted for n{fields['candidate_id']} in epoch {fields['epoch']}", 1
        case "state" if fields["state"] in _STATES:
            verb, detail = _STATES[fields["state"]]
            return f"{verb} epoch {fields['epoch']}", detail
        case "truncate":
            return f"cut its log back to offset {fields['end_offset']}", 0
        case "voters":
            ids = ", ".join(f"n{voter}" for voter in sorted(fields["voters"], key=int))
            # Of Kafka's raft it is not known whether the raft client has read what its log holds.
            offset = fields["offset"]
            source = "its configuration" if offset < 0 else f"its log at offset {offset}"
            return f"had the voters {ids or 'nobody'} in {source}", 1
        case "fatal":
            return f"ended itself: {fields['reason']}", 0
        case "fault":
            return f"reported a {fields['reason']}", 0
    return "", 0
