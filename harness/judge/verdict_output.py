"""From a stored run to its verdict, report, JUnit file and printed summary."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from checkers.verdict import EXIT_CODES, Status
from harness.full_disk import not_stored
from harness.terminal.answers import Shown
from results.report.junit import write_junit
from results.store.model import RunResults, one_line, system_shown
from results.store.run_store import Page, RunStore

Judge = Callable[[RunStore], RunResults]


COLOURS = {
    Status.PASS: "green",
    Status.FAIL: "red",
    Status.UNKNOWN: "yellow",
    Status.UNDER_EXERCISED: "yellow",
}


def judge_and_report(
    store: RunStore,
    judge: Judge,
    *,
    with_report: bool,
    prefix: str = "",
    shown: Shown = Shown.LINES,
) -> int:
    """Judge a run, write JUnit file and report, then print the verdict; returns its exit code.

    Only a stored verdict is printed. Raises StoreError where it cannot be stored.

    The last line on stdout is the path of the report (of results.json where none is written), but
    for JSON, which holds it.
    `prefix`: see `print_results`.
    """
    try:
        results = judge(store)
        pages: list[Page] = [write_junit]
        if with_report:
            from results.report.page import write_report  # noqa: PLC0415  (imports what makes pages)

            pages.append(write_report)
        store.write_pages(results, pages)
    except OSError as error:
        store.withdraw_results()
        raise not_stored(store.folder, error) from error
    page = store.report_path if with_report else store.results_path
    return print_judgement(results, prefix, shown, folder=store.folder, page=page)


def print_judgement(
    results: RunResults,
    prefix: str = "",
    shown: Shown = Shown.LINES,
    *,
    folder: Path | None = None,
    page: Path | None = None,
) -> int:
    """Print a judgement and return its exit code. A lone history has no page.

    Quiet: the page's path, of a lone history the verdict. JSON: on one line, as one of several.
    """
    if shown is Shown.JSON:
        click.echo(json.dumps(_document(results, folder, page)))
        return EXIT_CODES[results.status]
    if shown is Shown.LINES:
        print_results(results, prefix)
    elif page is None:
        click.echo(f"{prefix}{results.verdict}")
    if page is not None:
        click.echo(str(page))
    return EXIT_CODES[results.status]


def _document(results: RunResults, folder: Path | None, page: Path | None) -> dict[str, Any]:
    """Return what a script asks of a run; results.json, in its folder, holds the rest."""
    return {
        "run": results.run,
        "folder": None if folder is None else str(folder),
        "status": str(results.status),
        "verdict": results.verdict,
        "exit_code": EXIT_CODES[results.status],
        "checks": [
            {"checker": c.checker, "status": str(c.status), "summary": c.summary}
            for c in results.checks
        ],
        "page": None if page is None else str(page),
    }


def print_results(results: RunResults, prefix: str = "") -> None:
    """Print each check, then the verdict; each line begins with `prefix`."""
    mutant = results.plan.get("mutant")
    for check in results.checks:
        status = click.style(f"{check.status.value:<15}", fg=COLOURS[check.status])
        click.echo(f"{prefix}  {status} {check.checker}: {one_line(check.summary)}")
        for note in check.statistics.get("notes", ()):
            click.echo(f"{prefix}  {'':15} {one_line(note)}")
    counts = results.statistics.get("operations", 0)
    suffix = f" (MUTANT {mutant}: a deliberately faulty node)" if mutant else ""
    of = f" of system {system_shown(results.plan)}" if results.plan.get("system") else ""
    colour = "yellow" if results.skipped and results.status is Status.PASS else None
    verdict = click.style(results.verdict, fg=colour or COLOURS[results.status], bold=True)
    click.echo(f"{prefix}{verdict} {results.run}: {counts} operations{of}{suffix}")
    if results.recording.head is not None and not results.recording.ended:
        click.echo(f"{prefix}its harness broke off before the run was recorded to its end")
