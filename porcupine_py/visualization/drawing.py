"""The drawing of one part: rows of clients, bars of operations, one order as a line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from porcupine_py.linearization import PartInfo
from porcupine_py.model import Model
from porcupine_py.visualization.scale import Scale, escape
from porcupine_py.visualization.steps import Steps

_ROW_PX, _BAR_PX, _TOP_PX = 38, 28, 10
_LINE_PX = 22
"""Where in a bar the line passes, below its text."""


@dataclass(frozen=True, slots=True)
class _Bar:
    """An operation with its beginning and end, in the row of its client."""

    client_id: int
    start: float
    end: float | None
    operation: int
    """Position in the part."""

    @property
    def until(self) -> float:
        return math.inf if self.end is None else self.end


def draw_part(
    number: int, part: PartInfo, steps: Steps, model: Model[Any, Any, Any], scale: Scale
) -> str:
    """Return a section of the page."""
    bars = [
        _Bar(operation.client_id, operation.call, operation.return_, position)
        for position, operation in enumerate(part.operations)
    ]
    lanes, heads = _lanes(bars)
    texts = [model.operation_text(operation) for operation in part.operations]
    height = _TOP_PX + _ROW_PX * max(1, len(set(lanes)))
    pieces = [_head(client_id, lane) for lane, client_id in heads.items()]
    pieces += [
        _operation(bar, lane, scale, texts[bar.operation], part, steps, model)
        for bar, lane in zip(bars, lanes, strict=True)
    ]
    ys = [_line_y(lane) for lane in lanes]
    state = {True: "legal", False: "illegal", None: "unknown"}[part.legal]
    word = {True: "linearizable", False: "not linearizable", None: "not decided"}[part.legal]
    return "\n".join(
        [
            f'<section class="part {state}" data-part="{number}">',
            f"<h2>Part {number + 1}: {word}</h2>",
            f"<p>{escape(_legend(steps))}</p>",
            '<div class="scroll">',
            f'<svg width="{scale.width:g}" height="{height}" role="img">',
            *pieces,
            f'<g class="line">{_line(steps, scale, ys)}</g>',
            "</svg>",
            "</div>",
            _table(steps, texts),
            "</section>",
        ]
    )


def _lanes(bars: Sequence[_Bar]) -> tuple[list[int], dict[int, int]]:
    """Return the lane of each bar, and the client whose row begins at a lane.

    What overlaps in one row (clients whose ids were not given) goes side by side.
    """
    lanes = [0] * len(bars)
    heads: dict[int, int] = {}
    used = 0
    rows: dict[int, list[int]] = {}
    for i, bar in enumerate(bars):
        rows.setdefault(bar.client_id, []).append(i)
    for client_id in sorted(rows, key=lambda client_id: (str(type(client_id)), client_id)):
        heads[used] = client_id
        ends: list[float] = []
        for i in sorted(rows[client_id], key=lambda i: bars[i].start):
            free = (lane for lane, end in enumerate(ends) if end < bars[i].start)
            lane = next(free, len(ends))
            ends[lane : lane + 1] = [bars[i].until]
            lanes[i] = used + lane
        used += len(ends)
    return lanes, heads


def _top(lane: int) -> int:
    return _TOP_PX + _ROW_PX * lane


def _line_y(lane: int) -> int:
    return _top(lane) + _LINE_PX


def _head(client_id: int, lane: int) -> str:
    return (
        f'<svg x="0" y="{_top(lane)}" width="90" height="{_BAR_PX}"><text x="4" y="14">'
        f"{escape(f'client {client_id}')}</text></svg>"
    )


def _operation(
    bar: _Bar,
    lane: int,
    scale: Scale,
    text: str,
    part: PartInfo,
    steps: Steps,
    model: Model[Any, Any, Any],
) -> str:
    operation = part.operations[bar.operation]
    end = "never returned" if bar.end is None else f"return {bar.end}"
    about = [text, f"call {bar.start}, {end}", model.metadata_text(operation.metadata)]
    kind = "operation"
    if bar.end is None:
        kind += " pending"
    if steps.orders and bar.operation in steps.orders[0].refused:
        kind += " refused"
    left, right = scale.begin(bar.start), scale.end(bar.end)
    title = "\n".join(escape(line) for line in about if line)
    return (
        f'<g class="{kind}" data-operation="{bar.operation}" data-y="{_line_y(lane)}" tabindex="0">'
        f"<title>{title}</title>"
        f'<svg x="{left:g}" y="{_top(lane)}" width="{right - left:g}" height="{_BAR_PX}">'
        f'<rect width="100%" height="100%" rx="4"/><text x="6" y="14">{escape(text)}</text>'
        "</svg></g>"
    )


def _line(steps: Steps, scale: Scale, ys: Sequence[int]) -> str:
    """Draw the longest order; the page's script draws others in the same way."""
    if not steps.orders:
        return ""
    positions = steps.orders[0].positions
    points = scale.points(steps.part, positions)
    places = [(x, ys[position]) for x, position in zip(points, positions, strict=True)]
    path = " ".join(f"{x:g},{y}" for x, y in places)
    dots = "".join(f'<circle cx="{x:g}" cy="{y}" r="3.5"/>' for x, y in places)
    return f'<polyline points="{path}"/>{dots}'


def _legend(steps: Steps) -> str:
    total = len(steps.part.operations)
    if not steps.orders:
        return f"No operation of {total} could be placed" if total else "No operations"
    longest = len(steps.orders[0].positions)
    text = f"The longest order found places {longest} of {total} operations."
    if longest == total:
        text = "The order places every operation."
    if len(steps.orders) > 1 or steps.left_out:
        text += f" {len(steps.orders)} orders are shown"
        text += f", {steps.left_out} shorter ones are not." if steps.left_out else "."
    return text


def _table(steps: Steps, texts: Sequence[str]) -> str:
    """List the steps of the longest order; the page's script fills in others."""
    if not steps.orders:
        return ""
    order = steps.orders[0]
    rows = [f"<tr><td>0</td><td></td><td>{escape(order.states[0])}</td></tr>"]
    rows += [
        f"<tr><td>{i}</td><td>{escape(texts[position])}</td><td>{escape(state)}</td></tr>"
        for i, (position, state) in enumerate(
            zip(order.positions, order.states[1:], strict=True), start=1
        )
    ]
    rows += [
        f'<tr class="refused"><td></td><td>{escape(texts[position])}</td><td>refused here</td></tr>'
        for position in order.refused
    ]
    head = "<tr><th>step</th><th>operation</th><th>state after it</th></tr>"
    return (
        "<details><summary>Steps of the order shown</summary>"
        f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table></details>"
    )
