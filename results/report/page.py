"""The report of one run: a single HTML file that needs nothing from anywhere.

The verdict, the checks and the violating windows are plain HTML and inline SVG, readable without
scripts. The chart over time is drawn by a script of ours from the operations that the page holds,
packed (`results.report.packed`): no library, so that a page of some thousand operations is a tenth
of a megabyte and can be copied, mailed and kept by itself. A content security policy forbids every
request, so that opening a report that came with a bug sends nothing to anybody.

All that comes from a run is untrusted: names, values and errors may hold anything that a client or
a broken node made up. Jinja2 escapes them in HTML; in the chart's JSON the characters that could
end a script are escaped; scripts show texts as text; nothing is ever evaluated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from markupsafe import Markup

from checkers.evidence import Evidence, run_clock
from checkers.history import Event, Operation
from checkers.history.recorded import by_index, end_of, notes_of
from checkers.runs.coverage import PHASES
from checkers.runs.faults import FaultSpan, Reign, fault_spans, phases, reigns
from checkers.verdict import ALLOWED, CheckResult, Status
from results.report import leaders
from results.report.advice import advice_of, tool_text
from results.report.brief import brief_of, headline_of
from results.report.charts import BARS_MAX, environment, over_time, shorten, template_text
from results.report.node_output import KINDS_MAX, errors_logged, lines_around
from results.report.packed import Packed, cut, pack
from results.report.story import Placed, Story, indexes_of, placed_events, story_of
from results.report.timeline import Timeline, draw, zones_of
from results.store.files import StoreError, write_atomically
from results.store.model import RunResults, system_shown
from results.store.run_store import RunStore
from results.store.tables import RunName

_SHOWN_OTHERWISE = frozenset({"kind", "key", "explanation", "window", "window_operations"})
"""Beside times in nanoseconds, which the explanation has in seconds."""
_ROWS_MAX = 200
_ANOMALIES_MAX = 20
"""Anomalies of one check that the page shows; results.json has all that the check kept."""
_PICTURES_MAX = 6
"""Anomalies of one check that have a picture; each has its table."""
_SUSPECTS_MAX = 2_000
"""Operations that are marked as part of a violation."""
_SCRIPTS = ("columns.js", "chart.js", "keys.js", "report.js")
"""In this order: each uses what those before it define."""
_OF_CONTENT = (
    *(TemplateError, TypeError, ValueError),
    *(LookupError, AttributeError, ArithmeticError),
)
"""What a page of results or a journal of unknown origin may raise."""
_WORST_FIRST = (Status.FAIL, Status.UNKNOWN, Status.UNDER_EXERCISED, Status.PASS)


@dataclass(frozen=True, slots=True)
class AnomalyView:
    """One thing that is wrong, as the page shows it."""

    kind: str
    key: str | None
    explanation: str
    details: tuple[tuple[str, str], ...]
    timeline: Timeline | None
    window: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class CheckView:
    """One check, as the page shows it."""

    result: CheckResult
    anomalies: tuple[AnomalyView, ...]
    left_out: int
    """How many more the results hold."""
    allowed: tuple[AnomalyView, ...]
    statistics: str
    certificate: str


def write_report(store: RunStore, results: RunResults) -> None:
    """Render the report of a judged run into its folder.

    Raises StoreError when the run or its results are not what they should be; OSError.
    """
    plan = store.plan()
    history = store.tables(RunName(str(plan.get("campaign")), store.folder.name))
    failed = results.status is Status.FAIL  # nothing else has a story to be looked for there
    left = store.evidence(plan).evidence if failed else store.trace_events(plan, leaders.EVENTS)
    evidence = replace(left, run_clock=run_clock(notes_of(history.events)))
    nodes = store.node_names(plan)
    try:
        page = render(
            results, plan, history.events, history.operations, nodes, evidence, store.nodes_path
        )
    except _OF_CONTENT as error:
        reason = f"{type(error).__name__}: {error}"
        raise StoreError(f"{store.folder}: no report can be made of it ({reason})") from error
    write_atomically(store.report_path, page.encode("utf-8", "replace"))


def render(
    results: RunResults,
    plan: Mapping[str, Any],
    events: Sequence[Event],
    operations: Sequence[Operation],
    nodes: Sequence[str],
    evidence: Evidence | None = None,
    nodes_path: Path | None = None,
) -> str:
    """Return the report as HTML; `evidence` is what story and leaders are taken from."""
    duration_ns = max(0, end_of(events))
    notes = notes_of(events)
    spans = fault_spans(notes)
    measured = (check.statistics for check in results.checks if check.checker == "statistics")
    figures: Mapping[str, Any] = next(measured, {})
    placed = placed_events(evidence)
    ruled = leaders.leaderships(notes, placed, duration_ns)
    story = story_of(results.checks, plan, events, operations, evidence, placed)
    reigning = _Reigns(notes, placed, duration_ns, ruled)
    context = _Context(by_index(operations), reigning, spans)
    first = None if story is None else story.check
    ordered = sorted(
        results.checks, key=lambda check: (_WORST_FIRST.index(check.status), check.checker != first)
    )
    clock = None if evidence is None else evidence.run_clock
    origin_ns = None if clock is None else clock.origin_ns
    packed = pack(operations, events, None if story is None else (story.begin_ns, story.end_ns))
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            results=results,
            status=results.status,
            headline=_headline(results, ordered, story, context),
            brief=brief_of(story, ordered, reigning.of(story.partition), spans) if story else [],
            advice=[] if results.status is Status.FAIL else advice_of(ordered, notes),
            system=system_shown(plan),
            tool=tool_text(plan, notes, operations),
            plan=plan,
            plan_json=json.dumps(plan, indent=2),
            checks=[_check_view(check, context, story) for check in ordered],
            story=story,
            written=lines_around(nodes_path, nodes, results.run, story.end_ns, origin_ns)
            if story is not None and nodes_path is not None
            else {},
            errors=errors_logged(nodes_path, nodes) if nodes_path is not None else [],
            kinds_max=KINDS_MAX,
            figures=figures,
            coverage=_coverage(results),
            phases_of_protocol=PHASES,
            engine=results.judged_with.get("spark"),
            recoveries=_recoveries(figures, spans),
            facts=_facts(results, plan, spans, notes, duration_ns),
            warnings=_warnings(results, notes),
            skipped=_skipped_faults(results),
            spans=spans[:_ROWS_MAX],
            spans_left_out=max(0, len(spans) - _ROWS_MAX),
            chart=as_chart(
                {**over_time(events, operations, nodes, ruled), "focus": _focus(results, story)}
            )
            if operations
            else None,
            count=len(operations),
            packed=packed.text,
            summarised=_describe_summary(
                packed, spans, "first" if story is None else "nearest to the violation"
            ),
            scripts=[Markup(template_text(name)) for name in _SCRIPTS],  # noqa: S704  (our own)
            style=Markup(template_text("report.css")),  # noqa: S704  (our own file)
        )
    )


def as_script_data(value: Any) -> str:
    """Return JSON that is safe inside a script element: it cannot end it, nor open a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII: no U+2028 either
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _headline(
    results: RunResults, ordered: Sequence[CheckResult], story: Story | None, context: _Context
) -> str:
    if not ordered:
        return "Nothing was checked."
    if results.status is Status.PASS:
        operations = results.statistics.get("operations", 0)
        return (
            f"{len(ordered):,} check{'s' * (len(ordered) != 1)} over {operations:,} operations "
            "found nothing wrong"
            + (f", but without {', '.join(results.skipped)}." if results.skipped else ".")
        )
    if story is not None:
        return headline_of(story.check, story.anomaly, story.operations)
    if results.status is Status.FAIL and ordered[0].anomalies:
        anomaly = ordered[0].anomalies[0]
        found = (context.operations.get(index) for index in indexes_of(anomaly))
        return headline_of(ordered[0].checker, anomaly, [o for o in found if o is not None])
    return f"{ordered[0].checker}: {ordered[0].summary}"


def _warnings(results: RunResults, events: Sequence[Event]) -> list[str]:
    """Say what a reader has to know before believing the verdict."""
    warnings = []
    dropped = results.statistics.get("dropped_bytes", 0)
    if dropped:
        warnings.append(f"The journal ends in a torn line, of which {dropped} bytes were dropped.")
    if "final-reads" not in {name for name, _ in phases(events)}:
        warnings.append("The run was cut short: it never came to its final reads.")
    return warnings


def _skipped_faults(results: RunResults) -> list[tuple[str, str, str]]:
    """Return fault, reason and remedy of what was left out as impossible."""
    rows = results.plan.get("skipped") or []
    found = [row if isinstance(row, dict) else {} for row in rows] if isinstance(rows, list) else []
    found += [{}] * (len(results.skipped) - len(found))
    return [
        (fault, str(row.get("reason", "")), str(row.get("remedy", "")))
        for fault, row in zip(results.skipped, found, strict=True)
    ]


def _facts(
    results: RunResults,
    plan: Mapping[str, Any],
    spans: Sequence[FaultSpan],
    events: Sequence[Event],
    duration_ns: int,
) -> list[tuple[str, str]]:
    counts = results.statistics.get("by_type", {})
    words = {"ok": "ok", "fail": "failed", "info": "indeterminate"}
    outcomes = " · ".join(f"{counts.get(kind, 0):,} {word}" for kind, word in words.items())
    bit = sum(span.verified for span in spans)
    changes = max(0, len({reign.epoch for reign in reigns(events, duration_ns)}) - 1)
    return [
        ("operations", f"{results.statistics.get('operations', 0):,}"),
        ("outcomes", outcomes),
        ("faults that took effect", f"{bit} of {len(spans)}"),
        ("leader changes", str(changes)),
        ("duration", f"{duration_ns / 1e9:.0f} s"),
        ("nodes", str(plan.get("nodes", "?"))),
        ("system", system_shown(plan)),
        ("workload", str(plan.get("workload", "?"))),
        ("seed", str(plan.get("seed", "?"))),
    ]


def _coverage(results: RunResults) -> list[tuple[str, str, list[int]]]:
    """Return (fault, role, how often in each phase): cells of `checkers.runs.coverage` as rows."""
    found = results.statistics.get("coverage")
    counts = found if isinstance(found, dict) else {}
    rows: dict[tuple[str, str], list[int]] = {}
    for cell, count in sorted(counts.items()):
        fault, role, phase = (*str(cell).split("/"), "", "")[:3]
        if phase in PHASES and type(count) is int:
            row = rows.setdefault((fault, role), [0] * len(PHASES))
            row[PHASES.index(phase)] += count
    return [(*names, row) for names, row in rows.items()]


def _recoveries(figures: Mapping[str, Any], spans: Sequence[FaultSpan]) -> list[str]:
    """Return how long after each fault's injection writes were served again, "" if unknown."""
    recoveries = figures.get("recoveries")
    known = recoveries if isinstance(recoveries, list) else []
    injected = [entry for entry in known if entry.get("phase") == "inject"]
    if [entry.get("fault") for entry in injected] != [span.fault for span in spans]:
        return [""] * len(spans)
    times = (entry.get("recovery_ms") for entry in injected)
    return ["never" if time_ms is None else f"{time_ms / 1000:.3f} s" for time_ms in times]


@dataclass(frozen=True, slots=True)
class _Context:
    """What stands around the operations of an anomaly."""

    operations: Mapping[int, Operation]
    """By index."""
    reigning: _Reigns
    spans: Sequence[FaultSpan]


class _Reigns:
    """Who led the metadata quorum, and each partition that is asked for."""

    def __init__(
        self, notes: Sequence[Event], placed: Sequence[Placed], end_ns: int, ruled: Sequence[Reign]
    ) -> None:
        self._notes, self._placed, self._end_ns = notes, placed, end_ns
        self._partitions = {leaders.partition_of(event) for _, event in placed}
        self._known: dict[str | None, Sequence[Reign]] = {None: ruled}

    def of(self, key: object) -> Sequence[Reign]:
        """Return the reigns over the partition of this name, else over the metadata quorum."""
        name = str(key) if key is not None and str(key) in self._partitions else None
        if name not in self._known:
            self._known[name] = leaders.leaderships(self._notes, self._placed, self._end_ns, name)
        return self._known[name]


def _check_view(check: CheckResult, context: _Context, story: Story | None) -> CheckView:
    anomalies = list(check.anomalies)
    if story is not None and story.anomaly in anomalies:  # what the headline says comes first
        anomalies.sort(key=lambda anomaly: anomaly != story.anomaly)
    return CheckView(
        result=check,
        anomalies=_anomaly_views(anomalies[:_ANOMALIES_MAX], context),
        left_out=max(0, len(check.anomalies) - _ANOMALIES_MAX),
        allowed=_anomaly_views(check.allowed, context),
        statistics=_pretty({k: v for k, v in check.statistics.items() if k != ALLOWED}),
        certificate=_pretty(check.certificate),
    )


def _anomaly_views(
    anomalies: Sequence[Mapping[str, Any]], context: _Context
) -> tuple[AnomalyView, ...]:
    return tuple(
        _anomaly_view(anomaly, context, pictured=number < _PICTURES_MAX)
        for number, anomaly in enumerate(anomalies)
    )


def _anomaly_view(anomaly: Mapping[str, Any], context: _Context, *, pictured: bool) -> AnomalyView:
    operations = _operations_of(anomaly, context.operations)
    zones = zones_of(operations) if anomaly.get("kind") == "stale-read" else []
    timeline = draw(operations, context.reigning.of(anomaly.get("key")), context.spans, zones)
    return AnomalyView(
        kind=str(anomaly.get("kind", "anomaly")),
        key=None if anomaly.get("key") is None else str(anomaly["key"]),
        explanation=str(anomaly.get("explanation", "")),
        details=tuple(
            (str(name), value if isinstance(value, str) else json.dumps(value, default=str))
            for name, value in anomaly.items()
            if name not in _SHOWN_OTHERWISE and not name.endswith("_ns") and value is not None
        ),
        timeline=timeline if pictured else None,
        window=tuple(operations[:_ROWS_MAX]) if timeline is not None else (),
    )


def _operations_of(
    anomaly: Mapping[str, Any], by_index: Mapping[int, Operation]
) -> list[Mapping[str, Any]]:
    """Return the operations that an anomaly shows, or only names by their indexes."""
    window = anomaly.get("window")
    if isinstance(window, list):
        return [entry for entry in window if isinstance(entry, dict)]
    named = anomaly.get("operations")
    if not isinstance(named, list):
        return []
    known = (by_index.get(index) for index in named if isinstance(index, int))
    return [asdict(operation) for operation in known if operation is not None]


def _pretty(value: Any) -> str:
    return shorten(json.dumps(value, indent=1, default=str), 20_000) if value else ""


def as_chart(chart: Mapping[str, Any]) -> Markup:
    """Return the chart's data as a script element holds them."""
    return Markup(as_script_data(chart))  # noqa: S704  (escaped for where it stands)


def _focus(results: RunResults, story: Story | None) -> dict[str, Any]:
    """Return which keys and operations were violated, and when the first violation was."""
    found = [a for c in results.checks if c.status is Status.FAIL for a in c.anomalies]
    keys = dict.fromkeys(cut(str(a["key"])) for a in found if a.get("key") is not None)
    named = dict.fromkeys(index for anomaly in found for index in indexes_of(anomaly))
    return {
        "keys": list(keys)[:_ROWS_MAX],
        "operations": list(named)[:_SUSPECTS_MAX],
        "at_s": 0 if story is None else story.end_ns / 1e9,
    }


def _describe_summary(packed: Packed, spans: Sequence[FaultSpan], which: str) -> list[str]:
    """Say what of the run the chart and the search do not show one by one."""
    lines = []
    if packed.rows < packed.of:
        lines.append(
            f"Chart and search have {packed.rows:,} of {packed.of:,} operations, those {which}; "
            "percentiles and rates of the whole run are those of all."
        )
    if packed.detailed < packed.rows:
        lines.append(
            f"Values and errors are here for {packed.detailed:,} operations, those {which}, and "
            "stand as … for the others; history.jsonl and history.parquet have all."
        )
    if packed.quantum_ns > 1000:
        lines.append(f"Times in chart and search are rounded down to {packed.quantum_ns / 1e6} ms.")
    if len(spans) > BARS_MAX:
        lines.append(f"The first {BARS_MAX:,} of {len(spans):,} faults are drawn.")
    return lines
