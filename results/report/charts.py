"""The report's chart over time as data: leaders and faults, percentiles, throughput.

The page's script draws it (`templates/chart.js`), with a dot for each operation from the columns
that the page holds (`results.report.packed`). Colours are names of CSS variables, which have a
value in the page's light and one in its dark scheme. Texts come from a run, and are drawn as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
from jinja2 import Environment, PackageLoader, StrictUndefined

from checkers.evidence.assisted import OPEN_END_NS
from checkers.history import Event, EventType, Operation, seconds
from checkers.history.recorded import columns_of, end_of, ended_ns, notes_of
from checkers.runs.faults import FaultSpan, Reign, fault_spans
from porcupine_py.columns import KINDS, OK
from results.report.leaders import Overlap, overlap_text, overlaps

_NS = 1e9
Floats = npt.NDArray[np.float64]
BARS_MAX = 2_000
"""Reigns and faults that are drawn, of each; the table of faults and the journal have the rest."""
_LABEL_MAX = 60
_FAULT_ROLES = ("--fault1", "--fault2", "--fault3", "--fault4")


def over_time(
    events: Sequence[Event],
    operations: Sequence[Operation],
    nodes: Sequence[str],
    ruled: Sequence[Reign],
) -> dict[str, Any]:
    """Return what the chart draws beside the operations, in seconds since the run began."""
    duration_ns = max(0, end_of(events))
    spans = fault_spans(notes_of(events))[:BARS_MAX]
    ruled = ruled[:BARS_MAX]
    p50_ms, p99_ms = percentiles(operations, duration_ns)
    rates = throughput(operations, events, duration_ns)
    return {
        "duration_s": max(duration_ns / _NS, 0.001),
        "lanes": _lanes(nodes, spans, ruled),
        "bars": [
            *map(_reign_bar, ruled),
            *(bar for overlap in overlaps(ruled)[:BARS_MAX] for bar in _overlap_bars(overlap)),
            *_fault_bars(spans, duration_ns),
        ],
        "bucket_s": bucket_s(duration_ns),
        "p50_ms": _numbers(p50_ms),
        "p99_ms": _numbers(p99_ms),
        "rates": {str(kind): _numbers(values) for kind, values in rates.items()},
    }


def _lanes(nodes: Sequence[str], spans: Sequence[FaultSpan], ruled: Sequence[Reign]) -> list[str]:
    """Rows of the strip from the top: nodes, then faults."""
    names = list(nodes) + [reign.node for reign in ruled] + [span.fault for span in spans]
    return list(dict.fromkeys(_text(name) for name in names))


def _bar(
    lane: str, span_ns: tuple[int, int], text: str, title: str, colour: str, *, band: bool = False
) -> dict[str, Any]:
    begin_ns, end_ns = span_ns
    return {
        "lane": _text(lane),
        "from": begin_ns / _NS,
        "to": end_ns / _NS,
        "text": text,
        "title": title,
        "colour": colour,
        "band": band,
    }


def _reign_bar(reign: Reign) -> dict[str, Any]:
    title = f"{_text(reign.node)} says that it leads epoch {reign.epoch}"
    span_ns = reign.begin_ns, reign.end_ns
    return _bar(reign.node, span_ns, f"epoch {reign.epoch}", title, "--leader")


def _overlap_bars(overlap: Overlap) -> list[dict[str, Any]]:
    """Mark in the lane of each node that said so that another one said so, too."""
    title, span_ns = overlap_text(overlap), (overlap.begin_ns, overlap.end_ns)
    return [_bar(reign.node, span_ns, "", title, "--overlap") for reign in overlap.ruled]


def _fault_bars(spans: list[FaultSpan], duration_ns: int) -> Iterator[dict[str, Any]]:
    names = sorted({span.fault for span in spans})
    colours = {name: _FAULT_ROLES[at % len(_FAULT_ROLES)] for at, name in enumerate(names)}
    for span in spans:
        targets = _text(", ".join(span.targets))
        text = targets + ("" if span.verified else " (did not bite)")
        title = f"{_text(span.fault)} on {targets or 'nothing'}"
        title += "" if span.healed else ", never measured to be healed"
        colour = colours[span.fault] if span.verified else "--fail"
        span_ns = span.begin_ns, duration_ns if span.end_ns is None else span.end_ns
        band = span.verified and span.end_ns != span.begin_ns
        yield _bar(span.fault, span_ns, text, title, colour, band=band)


def _numbers(values: Floats) -> list[float | None]:
    """Return numbers as JSON has them, to four digits after the point."""
    return [None if np.isnan(value) else round(value, 4) for value in values.tolist()]


def _text(value: str) -> str:
    return shorten(value, _LABEL_MAX)


_TEXT_MAX = 2_000
"""Characters of one untrusted text that are shown; what was cut is said."""


def environment() -> Environment:
    """Return the environment of all templates, which escapes every text."""
    made = Environment(
        loader=PackageLoader("results.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.tests["open_end"] = lambda time_ns: time_ns >= OPEN_END_NS
    made.filters["short"] = shorten
    made.filters["seconds"] = seconds
    made.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False, default=str)
    return made


def shorten(value: object, limit: int = _TEXT_MAX) -> str:
    """Return the text, cut where it is very long, saying how long it was."""
    text = str(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def template_text(name: str) -> str:
    """Return a file of the templates as it is."""
    return resources.files("results.report").joinpath("templates", name).read_text(encoding="utf-8")


def percentiles(operations: Sequence[Operation], duration_ns: int) -> Floats:
    """Return p50 and p99 in ms, by time of invocation, of ok operations in each bucket.

    NaN where it has none.
    """
    columns = columns_of(operations)
    done = columns.type == OK
    width_s = bucket_s(duration_ns)
    invoked = columns.invoke_ns[done] / _NS
    took = (columns.complete_ns[done] - columns.invoke_ns[done]) / 1e6
    buckets = (invoked // width_s).astype(int)
    order = np.argsort(buckets, kind="stable")
    names, starts = np.unique(buckets[order], return_index=True)
    count = int(duration_ns / _NS // width_s) + 1
    figures: Floats = np.full((2, count), np.nan)
    for name, part in zip(names, np.split(took[order], starts[1:]), strict=False):
        figures[:, name] = np.percentile(part, (50, 99))
    return figures


def throughput(
    operations: Sequence[Operation], events: Sequence[Event], duration_ns: int
) -> Mapping[EventType, Floats]:
    """Return the completions a second, by type, in each bucket."""
    width_s = bucket_s(duration_ns)
    count = int(duration_ns / _NS // width_s) + 1
    edges = np.arange(count + 1) * width_s
    rate = {}
    columns = columns_of(operations)
    end_ns = ended_ns(operations, events)
    for code, kind in enumerate(KINDS):
        ends = end_ns[(columns.type == code) & (end_ns >= 0)] / _NS
        rate[kind] = np.histogram(ends, edges)[0] / width_s
    return rate


def bucket_s(duration_ns: int) -> float:
    """Return a width that cuts the run into at most 120 buckets: 0.5, 1, 2, 5, 10, 20, ... s."""
    width, steps = 0.5, (2.0, 2.0, 2.5)
    turn = 0
    while duration_ns / _NS / width > 120:
        width *= steps[turn % 3]
        turn += 1
    return width
