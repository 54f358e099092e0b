"""Figures of many runs: rolled up by what they have in common, and held against a baseline.

A run is one observation, in both: a roll-up has the median and the worst of the runs' figures, and
a trend is the rank-sum test of `results.catalogue.comparison` between the runs and those of a
baseline which did the same: by the same plan, but for its name and seed (`results.store.facts`).
All comparisons share the level (Bonferroni), as in the gate: `worse` means beyond noise and by
more than the tolerance, `unknown` that so few runs could show nothing. A run of a mutant, or one
that did not PASS, is no observation of a trend.

The figures are those of the catalogue, which are stored with the runs; the gate computes its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa

from checkers.verdict import Status
from results.catalogue.comparison import Compared, compare_all
from results.catalogue.rows import Entry, Row
from results.store.facts import Stratum, by_stratum

STORED_FIGURES = ("write_p99_ms", "read_p99_ms", "unavailability_s", "recovery_s")
"""Those of `results.catalogue.comparison.FIGURES` that the catalogue has."""
BY = ("campaign", "workload", "system", "build", "backend", "fault")
"""By what figures can be rolled up."""
LEVEL = 0.05
"""Probability of a false alarm, over all comparisons together."""
TOLERANCE = 0.1
"""A change by less than this share is of no interest."""
_VERDICTS = {Status.FAIL: "worse", Status.PASS: "not worse", Status.UNKNOWN: "unknown"}


@dataclass(frozen=True, slots=True)
class Trend:
    """One figure of runs that did the same, against the baseline."""

    what: str
    figure: str
    runs: int
    baseline_runs: int
    median: float | None
    baseline_median: float | None
    ratio: float | None
    """Hodges-Lehmann estimate."""
    p: float | None
    verdict: str
    """`worse`, `not worse`, or `unknown`."""


def trends(
    entries: Sequence[Entry], baseline: Sequence[Entry], *, level: float, tolerance: float
) -> list[Trend]:
    """Compare each figure of each kind of run that either side has."""
    new, old = by_stratum(_figures(entries)), by_stratum(_figures(baseline))
    names = [
        (stratum, figure)
        for stratum in {**new, **old}
        for figure in STORED_FIGURES
        if figure in new.get(stratum, {}) or figure in old.get(stratum, {})
    ]
    return [_trend(each) for each in compare_all(names, new, old, level=level, tolerance=tolerance)]


def roll_up(
    entries: Iterable[Entry], figures: dict[str, pa.Table], by: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a row for each group of runs. `figures`: of `results.catalogue.fault_figures`."""
    rows = {entry.row.run: entry.row for entry in entries}
    groups: dict[tuple[str, ...], dict[str, Any]] = {}

    def group(run: str, fault: str) -> dict[str, Any]:
        row = rows[run]
        name = tuple(fault if field == "fault" else str(getattr(row, field)) for field in by)
        kept = groups.setdefault(
            name, {"runs": set(), "read": [], "write": [], "gaps": [], "back": []}
        )
        kept["runs"].add(run)
        return kept

    for row in figures["latencies"].to_pylist():
        group(row["run"], row["fault"])[row["kind"]].append(row["p99_ms"])
    for row in figures["windows"].to_pylist():
        group(row["run"], row["fault"])["gaps"].append(row["lasted_s"])
    for row in figures["recoveries"].to_pylist():
        if row["recovery_s"] is not None:
            group(row["run"], row["fault"])["back"].append(row["recovery_s"])
    return [
        {
            **dict(zip(by, name, strict=True)),
            "runs": len(kept["runs"]),
            "read_p99_ms": _median(kept["read"]),
            "write_p99_ms": _median(kept["write"]),
            "windows": len(kept["gaps"]),
            "unavailable_max_s": max(kept["gaps"], default=0.0),
            "recovery_s": _median(kept["back"]),
            "recovery_max_s": max(kept["back"], default=None),
        }
        for name, kept in sorted(groups.items())
    ]


def _figures(entries: Iterable[Entry]) -> Iterator[tuple[Stratum, dict[str, float]]]:
    for row in (entry.row for entry in entries):
        if is_observation(row):
            yield stratum_of(row), figures_of(row)


def is_observation(row: Row) -> bool:
    """Whether a run says something of a build: a PASS of a node that is not a mutant."""
    return row.mutant is None and row.verdict.partition(" WITHOUT ")[0] == Status.PASS


def stratum_of(row: Row) -> Stratum:
    """Return what a run of the catalogue did."""
    return Stratum(row.campaign, row.workload, row.system, row.backend, row.nodes, row.asked)


def figures_of(row: Row) -> dict[str, float]:
    """Return the figures that a run has."""
    found = {name: getattr(row, name) for name in STORED_FIGURES}
    return {name: value for name, value in found.items() if value is not None}


def _trend(each: Compared) -> Trend:
    counts = f"{each.stratum}", each.figure, len(each.new), len(each.baseline)
    found, verdict = each.found, _VERDICTS[each.status]
    if found is None:
        return Trend(*counts, _median(each.new), _median(each.baseline), None, None, verdict)
    medians = found.new_median, found.baseline_median
    return Trend(*counts, *medians, found.ratio, found.p, verdict)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
