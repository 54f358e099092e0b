"""The page of many runs: which workload met which fault, with which verdict, and how it went on.

One HTML file in the folder of the runs, `index.html`, that needs nothing from anywhere and links to
the report of each run. It is made from the catalogue (`results.catalogue.rows`), so it shows what
the runs say about themselves. All of that is untrusted: Jinja2 escapes it, links are quoted paths
below the folder, and nothing is evaluated.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from checkers.verdict import Status
from extensions.plain_files import open_plain
from results.catalogue.over_time import charts_of, kind_of
from results.catalogue.rows import DAMAGED, NOT_JUDGED, Entry, Row
from results.report.charts import environment, template_text
from results.store.files import StoreError, write_atomically

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
