"""The page of many runs: which workload met which fault, with which verdict, and how it went on.

One HTML file in the folder of the runs, `index.html`, that needs nothing from anywhere and links to
the report of each run. It is made from the catalogue (`results.catalogue.rows`), so it shows what
the runs say about themselves. All of that is untrusted: Jinja2 escapes it, links are quoted paths
below the folder, and nothing is evaluated.

Its charts are of figures run by run, with the build since which one is another. Of a folder of runs
nobody said which are the baseline, so every build could be the first of a change. For each figure
of runs that did the same (`results.store.facts`) the runs are parted before each build, in the
order of the builds' first runs, and the parting is taken at which the ranks of the two sides differ
most. The rank-sum test of `results.catalogue.comparison` says whether that is noise: all partings
of all figures, each for a rise and for a fall, share one level (Bonferroni), so that it is sound to
test the most telling alone. One change is found at most, the clearest; where so few runs could show
none at that level, that is said instead. Only runs that PASS, and no mutants, are observations; the
charts show all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import quote

from markupsafe import Markup

from checkers.verdict import Status
from extensions.plain_files import open_plain
from results.catalogue.comparison import Comparison, compare, rank_sum_p
from results.catalogue.rows import DAMAGED, NOT_JUDGED, Entry, Row
from results.report.charts import environment, template_text
from results.store.facts import Stratum
from results.store.files import StoreError, write_atomically

RUNS_MIN = 3
"""Runs from which on a figure is drawn."""
_BUILDS_MAX = 50
"""The newest partings that are looked at: each takes some ms."""
_WIDTH, _EDGE, _BOTTOM = 320.0, 5.0, 55.0
"""Of a chart, in SVG units."""
_TITLES = {
    "write_p99_ms": "p99 of writes, ms",
    "read_p99_ms": "p99 of reads, ms",
    "unavailability_s": "longest time without an ok, or an ok write, s",
    "recovery_s": "longest recovery from a fault, s",
}
"""Those of `results.catalogue.comparison.FIGURES` that the catalogue has, with their titles."""
_LEVEL = 0.05
"""Probability of a false alarm, over all comparisons together."""
_TOLERANCE = 0.1
"""A change by less than this share is of no interest."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a figure."""

    text: str
    worse: bool | None
    """None: no change that could be shown."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One run, in SVG units."""

    x: float
    y: float
    row: Row
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure over the runs of one stratum, oldest first."""

    what: str
    """The stratum."""
    title: str
    highest: float
    dots: tuple[Dot, ...]
    summary: str
    """The chart in words."""
    change: Change


def charts_of(rows: Iterable[Row]) -> list[Chart]:
    """Draw every figure of every stratum that has enough runs, by stratum and figure."""
    groups: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (str(row.started), row.run)):
        if row.started is not None:
            groups.setdefault(kind_of(row), []).append(row)
    drawn = [
        (what, figure, having)
        for what, found in sorted(groups.items())
        for figure in _TITLES
        if len(having := [row for row in found if figure in _figures_of(row)]) >= RUNS_MIN
    ]
    samples = [_samples(runs, figure) for _, figure, runs in drawn]
    tests = sum(2 * len(_partings(by_build)) for by_build in samples)
    return [
        _chart(*each, _change(by_build, _LEVEL / max(tests, 1)))
        for each, by_build in zip(drawn, samples, strict=True)
    ]


def kind_of(row: Row) -> str:
    """Say what a run did, equal for runs by the same plan."""
    did = Stratum(row.campaign, row.workload, row.system, row.backend, row.nodes, row.asked)
    return f"{did}, mutant {row.mutant}" if row.mutant else str(did)


def _figures_of(row: Row) -> dict[str, float]:
    """Return the figures that a run has."""
    found = {name: getattr(row, name) for name in _TITLES}
    return {name: value for name, value in found.items() if value is not None}


def _samples(rows: Iterable[Row], figure: str) -> dict[str, list[float]]:
    """Return the figure of runs that PASS, but of mutants, by build, oldest build first."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.mutant is None and _verdict(row) == Status.PASS:
            found.setdefault(row.build, []).append(_figures_of(row)[figure])
    return found


def _partings(by_build: Mapping[str, Sequence[float]]) -> range:
    """Return the numbers of builds before which the runs are parted."""
    return range(max(1, len(by_build) - _BUILDS_MAX), len(by_build))


def _change(by_build: Mapping[str, Sequence[float]], level: float) -> Change:
    """Find the parting that differs most, and say what it shows."""
    builds, values = list(by_build), list(by_build.values())

    def sides(at: int) -> tuple[list[float], list[float]]:
        return [x for of in values[at:] for x in of], [x for of in values[:at] for x in of]

    def noise(at: int) -> float:
        p = rank_sum_p(*sides(at), exact_max=0)
        return min(p, 1 - p)

    if not by_build:
        return Change("mutants, and runs that did not pass, are not compared", None)
    if not _partings(by_build):
        return Change("of one build, so there is no change to look for", None)
    at = min(_partings(by_build), key=noise)
    new, old = sides(at)
    for higher_is_worse in (True, False):
        found = compare(new, old, higher_is_worse=higher_is_worse)
        status = found.status(level, _TOLERANCE, higher_is_worse=higher_is_worse)
        if status is Status.FAIL:
            return Change(_sentence(found, builds[at], len(new), len(old)), higher_is_worse)
    if status is Status.UNKNOWN:
        return Change(f"{len(new) + len(old)} runs are too few to show a change", None)
    return Change(f"no change beyond noise over {len(builds)} builds", None)


def _sentence(found: Comparison, build: str, new: int, old: int) -> str:
    return (
        f"{found.ratio:.2f} times as high since build {build}: median {found.new_median:.4g} of "
        f"{new} runs, {found.baseline_median:.4g} of {old} before, p {found.p:.2g}"
    )


def _chart(what: str, figure: str, runs: Sequence[Row], change: Change) -> Chart:
    values = [_figures_of(row)[figure] for row in runs]
    highest = max(values)
    step = (_WIDTH - 2 * _EDGE) / (len(values) - 1)
    dots = tuple(
        Dot(
            _EDGE + step * at,
            _BOTTOM - (_BOTTOM - _EDGE) * value / (highest or 1.0),
            row,
            f"{row.run}, build {row.build}: {value:.2f}",
        )
        for at, (row, value) in enumerate(zip(runs, values, strict=True))
    )
    summary = (
        f"{_TITLES[figure]}, of {len(values)} runs, {runs[0].started:%Y-%m-%d} to "
        f"{runs[-1].started:%Y-%m-%d}: first {values[0]:.2f}, last {values[-1]:.2f}, median "
        f"{median(values):.2f}, highest {highest:.2f}; {change.text}"
    )
    return Chart(what, _TITLES[figure], highest, dots, summary, change)


FILE = "index.html"
_MARK = b'<meta name="generator" content="Kraftprobe index">'
_MARK_WITHIN = 2_000
"""Bytes of a page in which its mark stands."""
_VERDICTS = (
    *(str(status) for status in (Status.FAIL, Status.UNKNOWN, Status.UNDER_EXERCISED)),
    *(DAMAGED, NOT_JUDGED, str(Status.PASS)),
)
"""Worst first."""
_NO_FAULT = "no fault"


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs of one workload in which one kind of fault bit."""

    verdict: str | None
    """The worst of those whose node was meant to be right; None where there is none."""
    counts: tuple[tuple[str, int], ...]
    """Verdict -> how many of them, worst first."""
    mutants: tuple[int, int]
    """Runs of deliberately faulty nodes: in how many the fault was found, of how many."""
    duration_s: float
    """How long clients acted in all."""


def write_index(
    folder: Path, entries: Sequence[Entry], unread: Sequence[tuple[Path, str]] = ()
) -> Path:
    """Write the page into the folder of the runs and return its path.

    Raises StoreError where a file is in its place that is no such page; OSError.
    """
    path = folder / FILE
    if path.exists():
        with open_plain(path, follow=False) as file:
            if _MARK not in file.read(_MARK_WITHIN):
                raise StoreError(f"{path}: this is not an index of ours, so it stays as it is")
    write_atomically(path, render_index(folder, entries, unread).encode("utf-8"))
    return path


def render_index(
    folder: Path, entries: Sequence[Entry], unread: Sequence[tuple[Path, str]] = ()
) -> str:
    """Return the page as HTML; links are relative to `folder`.

    `unread` has what was not looked into and what it is: a run that is not listed may lie there.
    """
    rows = [entry.row for entry in entries]
    judged = [row for row in rows if _verdict(row) not in (DAMAGED, NOT_JUDGED)]
    faults = list(dict.fromkeys(fault for row in judged for fault in faults_of(row)))
    return (
        environment()
        .get_template("index.html.j2")
        .render(
            folder=folder.absolute().name,
            class_of=class_of,
            counts=_counts(rows),
            mutants=_mutants(rows),
            faults=sorted(faults, key=lambda fault: (fault == _NO_FAULT, fault)),
            matrix=_matrix(judged),
            flaky=_flaky(judged),
            charts=charts_of(judged),
            style_of=_style,
            unread=[(os.path.relpath(path, folder), what) for path, what in unread],
            runs=[(entry.row, _style(entry.row), _link(folder, entry)) for entry in entries],
            style=Markup(template_text("report.css")),  # noqa: S704  (our own file)
            script=Markup(template_text("index.js")),  # noqa: S704  (our own file)
        )
    )


def faults_of(row: Row) -> list[str]:
    """Return the kinds of fault that bit: of `kill 2, pause 1` kill and pause."""
    kinds = [part.rpartition(" ")[0] for part in row.faults.split(", ")]
    return [kind for kind in kinds if kind] or [_NO_FAULT]


def _verdict(row: Row) -> str:
    """Return the verdict without what was left out; what is none of ours counts as damaged."""
    verdict = row.verdict.partition(" WITHOUT ")[0]
    return verdict if verdict in _VERDICTS else DAMAGED


def _style(row: Row) -> str:
    """Return what the page colours a run by: its verdict, unless it is a mutant's."""
    return "mutant-run" if row.mutant else class_of(_verdict(row))


def class_of(verdict: str) -> str:
    """Return a verdict as the name of a style."""
    return verdict.lower().replace("-", "_").replace(" ", "_")


def _matrix(rows: Iterable[Row]) -> dict[str, dict[str, Cell]]:
    """Return workload -> fault -> cell."""
    groups: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        for fault in faults_of(row):
            groups.setdefault(row.workload, {}).setdefault(fault, []).append(row)
    return {
        workload: {fault: _cell(found) for fault, found in by_fault.items()}
        for workload, by_fault in sorted(groups.items())
    }


def _cell(rows: Sequence[Row]) -> Cell:
    counts = _counts(rows)
    worst = counts[0][0] if counts else None
    return Cell(worst, counts, _mutants(rows), sum(row.duration_s or 0.0 for row in rows))


def _counts(rows: Iterable[Row]) -> tuple[tuple[str, int], ...]:
    """Count the verdicts, worst first, without mutants: a FAIL of a mutant accuses no system."""
    counts = Counter(_verdict(row) for row in rows if not row.mutant)
    return tuple((verdict, counts[verdict]) for verdict in _VERDICTS if counts[verdict])


def _mutants(rows: Iterable[Row]) -> tuple[int, int]:
    """Return how many runs of mutants ended in FAIL, and how many there are."""
    verdicts = [_verdict(row) for row in rows if row.mutant]
    return verdicts.count(str(Status.FAIL)), len(verdicts)


def _flaky(rows: Iterable[Row]) -> list[tuple[str, str, int, int]]:
    """Return (what ran, build, PASS, other verdicts) of what passed and did not, unchanged."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        groups.setdefault((kind_of(row), row.build), []).append(_verdict(row))
    found = [
        (*name, verdicts.count(str(Status.PASS)), len(verdicts))
        for name, verdicts in groups.items()
    ]
    return [
        (what, build, good, all_ - good) for what, build, good, all_ in found if 0 < good < all_
    ]


def _link(folder: Path, entry: Entry) -> str | None:
    """Return the relative link to a run's report, where it has one."""
    if not entry.store.report_path.is_file():
        return None
    return quote(os.path.relpath(entry.store.report_path, folder))
