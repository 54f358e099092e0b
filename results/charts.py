"""The report's chart over time: faults and leaders, latency, throughput, on one time axis.

Colours are CSS variables here (`var(--ok)`), which have a value in the page's light and one in its
dark scheme. Plotly knows no variables, so the page's script puts the values in.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from checkers.faults import FaultSpan, Reign, fault_spans, reigns
from checkers.history import Event, EventType, Operation
from checkers.history.recorded import end_of, notes_of
from results.points import latencies, percentiles, throughput

_NS = 1e9
_SHORTEST = 400
"""A bar is at least so small a part of the run long."""
_TEXT_MAX = 60
_ROLE = {EventType.OK: "var(--ok)", EventType.FAIL: "var(--fail)", EventType.INFO: "var(--info)"}
_FAULT_ROLES = ("var(--fault1)", "var(--fault2)", "var(--fault3)", "var(--fault4)")


def over_time(
    events: Sequence[Event], operations: Sequence[Operation], nodes: Sequence[str]
) -> dict[str, Any]:
    """Return the chart as plotly's JSON document."""
    duration_ns = max(0, end_of(events))
    spans = fault_spans(notes_of(events))
    ruled = reigns(notes_of(events), duration_ns)
    lanes = _lanes(nodes, spans, ruled)
    height = 40 + 26 * max(1, len(lanes))
    heights = [height, 260, 170]
    figure = make_subplots(
        rows=3,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.05,
        row_heights=heights,
    )
    _draw_lanes(figure, lanes, spans, ruled, duration_ns)
    _draw_latency(figure, operations, events, duration_ns)
    _draw_throughput(figure, operations, events, duration_ns)
    _draw_bands(figure, spans, duration_ns)
    _lay_out(figure, lanes, sum(heights) + 90, duration_ns)
    document: dict[str, Any] = json.loads(figure.to_json())
    return document


def _lanes(nodes: Sequence[str], spans: list[FaultSpan], ruled: list[Reign]) -> list[str]:
    """Rows of the strip from the top: nodes, then faults."""
    names = list(nodes) + [reign.node for reign in ruled] + [span.fault for span in spans]
    return list(dict.fromkeys(_text(name) for name in names))


def _draw_lanes(
    figure: go.Figure,
    lanes: list[str],
    spans: list[FaultSpan],
    ruled: list[Reign],
    duration_ns: int,
) -> None:
    colours = _fault_colours(spans)
    bars: list[dict[str, Any]] = [
        {
            "lane": _text(reign.node),
            "begin": reign.begin_ns,
            "end": reign.end_ns,
            "text": f"epoch {reign.epoch}",
            "hover": f"{_text(reign.node)} leads epoch {reign.epoch}",
            "colour": "var(--leader)",
        }
        for reign in ruled
    ] + [
        {
            "lane": _text(span.fault),
            "begin": span.begin_ns,
            "end": duration_ns if span.end_ns is None else span.end_ns,
            "text": _text(", ".join(span.targets)) + ("" if span.verified else " (did not bite)"),
            "hover": f"{_text(span.fault)} on {_text(', '.join(span.targets)) or 'nothing'}",
            "colour": colours[span.fault] if span.verified else "var(--fail)",
        }
        for span in spans
    ]
    shortest_ns = duration_ns / _SHORTEST  # what is over at once is seen, too
    # A lane without a bar still has its row: an invisible bar of no length stands in each.
    figure.add_trace(
        go.Bar(x=[0] * len(lanes), y=lanes, orientation="h", hoverinfo="skip", showlegend=False),
        row=1,
        col=1,
    )
    figure.add_trace(
        go.Bar(
            x=[max(shortest_ns, bar["end"] - bar["begin"]) / _NS for bar in bars],
            base=[bar["begin"] / _NS for bar in bars],
            y=[bar["lane"] for bar in bars],
            text=[bar["text"] for bar in bars],
            hovertext=[_with_times(bar) for bar in bars],
            hoverinfo="text",
            marker={"color": [bar["colour"] for bar in bars], "line": {"width": 0}},
            textposition="inside",
            insidetextanchor="start",
            textangle=0,
            textfont={"color": "var(--on-bar)"},
            orientation="h",
            showlegend=False,
        ),
        row=1,
        col=1,
    )


def _with_times(bar: dict[str, Any]) -> str:
    return f"{bar['hover']}<br>{bar['begin'] / _NS:.2f} s to {bar['end'] / _NS:.2f} s"


def _draw_latency(
    figure: go.Figure, operations: Sequence[Operation], events: Sequence[Event], duration_ns: int
) -> None:
    for group in latencies(operations, events):
        shown = len(group.invoked_s)
        note = "" if shown == group.shown_of else f" ({shown:,} of {group.shown_of:,} shown)"
        figure.add_trace(
            go.Scatter(
                x=group.invoked_s.round(4).tolist(),
                y=group.latency_ms.round(3).tolist(),
                mode="markers",
                name=f"{group.type}{note}",
                legendgroup=str(group.type),
                marker={"color": _ROLE[group.type], "size": 4, "opacity": 0.55},
                hovertemplate="%{x:.2f} s: %{y:.2f} ms<extra>%{fullData.name}</extra>",
            ),
            row=2,
            col=1,
        )
    lines = percentiles(operations, duration_ns)
    for name, values, dash in (("p50", lines.p50_ms, "solid"), ("p99", lines.p99_ms, "dot")):
        figure.add_trace(
            go.Scatter(
                x=lines.time_s.round(3).tolist(),
                y=[None if np.isnan(value) else round(value, 3) for value in values.tolist()],
                mode="lines",
                name=f"{name} of ok",
                line={"color": "var(--text)", "width": 1.5, "dash": dash},
                hovertemplate="%{y:.2f} ms<extra>" + name + "</extra>",
            ),
            row=2,
            col=1,
        )


def _draw_throughput(
    figure: go.Figure, operations: Sequence[Operation], events: Sequence[Event], duration_ns: int
) -> None:
    rates = throughput(operations, events, duration_ns)
    for kind, values in rates.rate.items():
        figure.add_trace(
            go.Scatter(
                x=rates.time_s.round(3).tolist(),
                y=values.round(3).tolist(),
                mode="lines",
                name=str(kind),
                legendgroup=str(kind),
                showlegend=False,
                line={"color": _ROLE[kind], "width": 1.5, "shape": "hvh"},
                hovertemplate="%{y:.1f}/s<extra>" + str(kind) + "</extra>",
            ),
            row=3,
            col=1,
        )


def _draw_bands(figure: go.Figure, spans: list[FaultSpan], duration_ns: int) -> None:
    colours = _fault_colours(spans)
    lasting = [
        (span, duration_ns if span.end_ns is None else span.end_ns)
        for span in spans
        if span.verified and span.end_ns != span.begin_ns
    ]
    # Where many lie over each other at most times, each is fainter, or nothing else would be seen.
    crowd = sum(end_ns - span.begin_ns for span, end_ns in lasting) / max(1, duration_ns)
    bands = [
        {
            "type": "rect",
            "x0": span.begin_ns / _NS,
            "x1": end_ns / _NS,
            "y0": 0,
            "y1": 1,
            "xref": f"x{row}",
            "yref": f"y{row} domain",
            "fillcolor": colours[span.fault],
            "opacity": round(0.13 / max(1.0, crowd / 2), 3),
            "line": {"width": 0},
            "layer": "below",
        }
        for span, end_ns in lasting
        for row in (2, 3)
    ]
    figure.update_layout(shapes=bands)  # at once: add_shape looks at all that are there


def _lay_out(figure: go.Figure, lanes: list[str], height: int, duration_ns: int) -> None:
    figure.update_layout(
        template="none",
        height=height,
        barmode="overlay",
        bargap=0.25,
        margin={"l": 90, "r": 20, "t": 10, "b": 80},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": "var(--text)", "size": 12, "family": "system-ui, sans-serif"},
        legend={"orientation": "h", "y": -0.09, "x": 0, "yanchor": "top", "itemsizing": "constant"},
        hoverlabel={"bgcolor": "var(--raised)", "font": {"color": "var(--text)"}},
        hovermode="closest",
    )
    figure.update_xaxes(
        range=[0, max(duration_ns / _NS, 0.001)], gridcolor="var(--line)", zeroline=False
    )
    figure.update_yaxes(gridcolor="var(--line)", zeroline=False, automargin=True)
    figure.update_xaxes(title_text="seconds since the run began", row=3, col=1)
    figure.update_yaxes(
        type="category",
        categoryorder="array",
        categoryarray=lanes[::-1],
        range=[-0.5, max(1, len(lanes)) - 0.5],
        showgrid=False,
        row=1,
        col=1,
    )
    figure.update_yaxes(title_text="latency, ms", type="log", dtick=1, row=2, col=1)
    figure.update_yaxes(title_text="completions/s", rangemode="tozero", row=3, col=1)


def _fault_colours(spans: list[FaultSpan]) -> dict[str, str]:
    names = sorted({span.fault for span in spans})
    return {name: _FAULT_ROLES[at % len(_FAULT_ROLES)] for at, name in enumerate(names)}


def _text(value: str) -> str:
    """Return the text as plotly shows it as it is: it takes some tags for formatting."""
    short = value if len(value) <= _TEXT_MAX else value[:_TEXT_MAX] + "…"
    return html.escape(short, quote=False)
