"""A violating window as a picture: operations as bars over time, a row for each process.

Drawn here as SVG rather than by the chart library, since it is a diagram of a handful of bars with
text on them, and is the one picture that has to be there without scripts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from checkers.evidence.assisted import OPEN_END_NS
from checkers.history import INFINITY_NS, seconds
from checkers.runs.faults import FaultSpan, Reign
from results.report.leaders import overlap_text, overlaps
from results.report.narration import value_text

WIDTH = 1000
LEFT = 90
"""Space for the names of the processes."""
ROW = 30
BAR = 22
_CHARACTER = 7.0
"""Width of a character of the labels, in SVG units."""
_LABEL_MAX = 40
OPERATIONS_MAX = 60


@dataclass(frozen=True, slots=True)
class Bar:
    """One operation, in SVG units."""

    x: float
    y: float
    width: float
    kind: str
    """ok, fail or info; leader, overlap or fault above the operations."""
    open: bool
    """It never completed, and may take effect at any time later."""
    label: str
    label_x: float
    anchor: str
    """`start`, or `end` where the label would leave the picture and stands before the bar."""
    title: str
    """The text under a pointer that rests on it."""


@dataclass(frozen=True, slots=True)
class Zone:
    """When a value must have been there."""

    value: str
    begin_ns: int
    end_ns: int
    throughout: bool
    """From begin to end without a break; else at some moment between them."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything that the template draws."""

    height: int
    rows: tuple[tuple[float, str], ...]
    """Height and name of each row: leader, faults, processes."""
    lines: tuple[float, ...]
    """Heights of the lines between processes."""
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]
    left_out: int
    """Operations beyond OPERATIONS_MAX."""
    has_zones: bool
    """Whether rows say which value must have been there, and when."""


def operation_text(operation: Mapping[str, Any]) -> str:
    """Say in a few words what an operation did: `write "a"`, `read -> "b"`."""
    words = str(operation.get("f"))
    asked, got = operation.get("input"), operation.get("output")
    if asked is not None:
        words += f" {value_text(asked)}"
    kind = operation.get("type")
    if kind == "ok":
        return (
            words if asked is not None and got in (None, asked) else f"{words} → {value_text(got)}"
        )
    error = operation.get("error")
    return f"{words}: {kind}" + (f" ({error})" if error else "")


def _label(operation: Mapping[str, Any]) -> str:
    """Return what an operation did, and which node was asked."""
    text, node = operation_text(operation), operation.get("node")
    text = text if len(text) <= _LABEL_MAX else text[:_LABEL_MAX] + "…"
    return f"{text} ({value_text(node).strip(chr(34))[:_LABEL_MAX]})" if node else text


def draw(
    window: Sequence[Mapping[str, Any]],
    ruled: Sequence[Reign] = (),
    faults: Sequence[FaultSpan] = (),
    zones: Sequence[Zone] = (),
) -> Timeline | None:
    """Lay out a window below who led, the faults that were there and zones; None: no operations."""
    try:
        operations = sorted(window, key=lambda o: (int(o["invoke_ns"]), int(o["index"])))
        known = [o for o in operations if 0 <= int(o["invoke_ns"]) <= int(o["complete_ns"])]
    except (KeyError, TypeError, ValueError):
        return None
    shown = known[:OPERATIONS_MAX]
    if not shown:
        return None
    begin = min(int(o["invoke_ns"]) for o in shown)
    ends = [int(o["complete_ns"]) for o in shown if int(o["complete_ns"]) < OPEN_END_NS]
    last = max([*ends, *(int(o["invoke_ns"]) for o in shown)])
    scale = (WIDTH - LEFT - 60) / max(1, last - begin)
    rows: list[tuple[float, str]] = []
    lines: list[float] = []
    bars: list[Bar] = []
    top = 8.0
    for name, spans in {**_context(ruled, faults), **_zone_rows(zones)}.items():
        inside = [span for span in spans if span[1] <= last and span[2] >= begin]
        if inside:
            bars += [_context_bar(*span, top, begin, last, scale) for span in inside]
            rows.append((top + BAR * 0.7, name))
            top += ROW
            lines.append(top - (ROW - BAR) / 2)
    for process, mine in _by_process(shown).items():
        lanes: list[float] = []
        for operation in mine:
            bar, taken_from, taken_to = _bar(operation, begin, scale)
            lane = next((at for at, free in enumerate(lanes) if free <= taken_from), len(lanes))
            lanes[lane : lane + 1] = [taken_to + 6]
            y = top + lane * ROW
            bars.append(replace(bar, y=y))
        rows.append((top + BAR * 0.7, process))
        top += len(lanes) * ROW
        lines.append(top - (ROW - BAR) / 2)
    ticks = _ticks(begin, last, scale)
    return Timeline(
        int(top) + 30,
        tuple(rows),
        tuple(lines),
        tuple(bars),
        ticks,
        len(window) - len(shown),
        bool(zones),
    )


def zones_of(window: Sequence[Mapping[str, Any]]) -> list[Zone]:
    """Return when each value of a register must have been there, as far as a window shows it.

    A value that is written once is there without a break from the end of the first operation that
    shows it to the beginning of the last one; if that beginning comes first, then at some moment
    between the two. Where the times of two values meet in the picture of a stale read, no order
    can have both: this is the impossible pair, drawn.
    """
    found: dict[str, tuple[int, int]] = {}
    if any(operation.get("f") not in ("read", "write") for operation in window):
        return []  # a compare-and-set may bring a value back
    for operation in window:
        shown = {"read": "output", "write": "input"}.get(str(operation.get("f")))
        begin, end = operation.get("invoke_ns"), operation.get("complete_ns")
        if shown is None or operation.get("type") != "ok":
            continue
        if type(begin) is int and type(end) is int and end < OPEN_END_NS:
            value = value_text(operation.get(shown))
            ended, began = found.get(value, (end, begin))
            found[value] = min(ended, end), max(began, begin)
    return [
        Zone(value, min(times), max(times), throughout=times[0] <= times[1])
        for value, times in found.items()
    ]


def _zone_rows(zones: Sequence[Zone]) -> dict[str, list[tuple[str, int, int]]]:
    return {
        f"value {number}": [
            (
                f"zone: {zone.value[:_LABEL_MAX]} must be there "
                + ("all this time" if zone.throughout else "at a moment in this time"),
                zone.begin_ns,
                zone.end_ns,
            )
        ]
        for number, zone in enumerate(zones, start=1)
    }


def _context(
    ruled: Sequence[Reign], faults: Sequence[FaultSpan]
) -> dict[str, list[tuple[str, int, int]]]:
    """Return (text, from, to) of what stands above the operations, by the names of its rows."""
    rows: dict[str, list[tuple[str, int, int]]] = {}
    for reign in ruled:
        text = f"leader: {reign.node}, epoch {reign.epoch}"
        rows.setdefault(f"{reign.node} leads", []).append((text, reign.begin_ns, reign.end_ns))
    for overlap in overlaps(ruled):
        for reign in overlap.ruled:
            text = f"overlap: {overlap_text(overlap)}"
            rows[f"{reign.node} leads"].append((text, overlap.begin_ns, overlap.end_ns))
    for fault in faults:
        text = f"fault: {fault.fault} of {', '.join(fault.targets) or 'the cluster'}"
        end_ns = INFINITY_NS if fault.end_ns is None else fault.end_ns
        rows.setdefault(fault.fault, []).append((text, fault.begin_ns, end_ns))
    return rows


def _context_bar(
    text: str, from_ns: int, to_ns: int, top: float, begin: int, last: int, scale: float
) -> Bar:
    x = LEFT + max(0, from_ns - begin) * scale
    width = max(3.0, (WIDTH - 4.0 if to_ns > last else LEFT + (to_ns - begin) * scale) - x)
    kind, label = text.split(": ", 1)
    length = 12 + _CHARACTER * len(label)
    title = f"{text}, from {seconds(from_ns, 3)}"
    place, anchor = x + 6, "start"
    if kind == "zone" and length > width:  # its row has nothing else: the text stands beside it
        place, anchor = (x + width + 6, "start") if x < WIDTH / 2 else (x - 6, "end")
    elif kind == "overlap" or length > width:
        label = ""
    return Bar(x, top, width, kind, False, label, place, anchor, title)  # noqa: FBT003


def _by_process(operations: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for operation in operations:
        groups.setdefault(value_text(operation.get("process")).strip('"'), []).append(operation)
    return groups


def _bar(operation: Mapping[str, Any], begin: int, scale: float) -> tuple[Bar, float, float]:
    """Return the bar at height 0, and how far it and its label reach to the left and right."""
    x = LEFT + (int(operation["invoke_ns"]) - begin) * scale
    complete_ns = int(operation["complete_ns"])
    is_open = complete_ns >= OPEN_END_NS
    end = WIDTH - 4.0 if is_open else LEFT + (complete_ns - begin) * scale
    width = max(3.0, end - x)
    text = operation_text(operation)
    label = _label(operation)
    kind = str(operation.get("type"))
    kind = kind if kind in ("ok", "fail", "info") else "info"
    title = f"operation {operation['index']}: {text[:400]}"
    length = 8 + _CHARACTER * len(label)
    before = x + length > WIDTH and x - length > LEFT
    label_x, anchor = (x - 6, "end") if before else (x + 6, "start")
    bar = Bar(x, 0.0, width, kind, is_open, label, label_x, anchor, title)
    if before:
        return bar, x - length, x + width
    return bar, x, max(x + width, x + length)


def _ticks(begin: int, last: int, scale: float) -> tuple[tuple[float, str], ...]:
    span = max(1, last - begin)
    step = 10 ** (len(str(span)) - 1)
    while span // step > 6:
        step *= 2
    while span // step < 3 and step % 2 == 0:
        step //= 2
    first = -(-begin // step) * step
    zeros = len(str(step)) - len(str(step).rstrip("0"))
    digits = max(1, 9 - zeros)
    return tuple(
        (LEFT + (at - begin) * scale, f"{at / 1e9:.{digits}f} s")
        for at in range(first, last + 1, step)
    )
