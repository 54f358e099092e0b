"""Figures of many runs: rolled up by what they have in common, and held against a baseline.

A run is one observation, in both: a roll-up has the median and the worst of the runs' figures, and
a trend is the rank-sum test of `results.comparison` between the runs and those of a baseline which
did the same (campaign, workload, system, backend, number of nodes). All comparisons share the level
(Bonferroni), as in the gate: `worse` means beyond noise and by more than the tolerance, `unknown`
that so few runs could show nothing. A run of a mutant, or one that did not PASS, is no observation
of a trend.

The figures are those of the catalogue, which are stored with the runs; the gate computes its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa

from results.catalogue import Entry, Row
from results.comparison import compare

FIGURES = ("write_p99_ms", "read_p99_ms", "unavailability_s", "recovery_s")
"""Of `results.catalogue`; higher is worse."""
BY = ("campaign", "workload", "system", "build", "backend", "fault")
"""By what figures can be rolled up."""
_STRATUM = ("campaign", "workload", "system", "backend", "nodes")


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
    new, old = _strata(entries), _strata(baseline)
    wanted = [(stratum, figure) for stratum in {**new, **old} for figure in FIGURES]
    samples = [
        (
            stratum,
            figure,
            _sample(new.get(stratum, ()), figure),
            _sample(old.get(stratum, ()), figure),
        )
        for stratum, figure in wanted
    ]
    samples = [each for each in samples if each[2] or each[3]]
    return [_trend(*each, level / len(samples), tolerance) for each in samples]


def roll_up(
    entries: Iterable[Entry], figures: dict[str, pa.Table], by: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a row for each group of runs. `figures`: of `results.fault_figures`."""
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


def _strata(entries: Iterable[Entry]) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in (entry.row for entry in entries):
        if row.mutant is None and row.verdict.partition(" WITHOUT ")[0] == "PASS":
            found.setdefault(tuple(getattr(row, name) for name in _STRATUM), []).append(row)
    return found


def _sample(rows: Iterable[Row], figure: str) -> list[float]:
    found = (getattr(row, figure) for row in rows)
    return [value for value in found if value is not None]


def _trend(
    stratum: tuple[Any, ...],
    figure: str,
    new: Sequence[float],
    old: Sequence[float],
    level: float,
    tolerance: float,
) -> Trend:
    campaign, workload, system, backend, nodes = stratum
    what = f"{campaign}: {workload} on {nodes} nodes of {system}, {backend}"
    counts = what, figure, len(new), len(old)
    if not new or not old:
        return Trend(*counts, _median(new), _median(old), None, None, "unknown")
    found = compare(new, old, higher_is_worse=True)
    verdict = "not worse" if found.is_conclusive(level) else "unknown"
    if found.is_regression(level, tolerance, higher_is_worse=True):
        verdict = "worse"
    medians = found.new_median, found.baseline_median
    return Trend(*counts, *medians, found.ratio, found.p, verdict)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
