"""Figures run by run: a small chart of each, and the build since which it is another one.

Of a folder of runs nobody said which are the baseline, so every build could be the first of a
change. For each figure of runs that did the same (`results.store.facts`) the runs are parted
before each build, in the order of the builds' first runs, and the parting is taken at which the
ranks of the two sides differ most. The rank-sum test of `results.catalogue.comparison` says
whether that is noise: all partings of all figures, each for a rise and for a fall, share one level
(Bonferroni), so that it is sound to test the most telling alone. One change is found at most, the
clearest; where so few runs could show none at that level, that is said instead. Only runs
that PASS, and no mutants, are observations; the charts show all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from checkers.verdict import Status
from results.catalogue.comparison import Comparison, compare, rank_sum_p
from results.catalogue.rows import Row
from results.store.facts import Stratum

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


def _is_observation(row: Row) -> bool:
    """Whether a run says something of a build: a PASS of a node that is not a mutant."""
    return row.mutant is None and row.verdict.partition(" WITHOUT ")[0] == Status.PASS


def kind_of(row: Row) -> str:
    """Say what a run did, equal for runs by the same plan."""
    did = Stratum(row.campaign, row.workload, row.system, row.backend, row.nodes, row.asked)
    return f"{did}, mutant {row.mutant}" if row.mutant else str(did)


def _figures_of(row: Row) -> dict[str, float]:
    """Return the figures that a run has."""
    found = {name: getattr(row, name) for name in _TITLES}
    return {name: value for name, value in found.items() if value is not None}


def _samples(rows: Iterable[Row], figure: str) -> dict[str, list[float]]:
    """Return the figure of the runs that count, by build, oldest build first."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if _is_observation(row):
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
