"""Stored runs: what commands are given, and from a run to verdict, report and printed summary.

A run is judged in this process, or in another such as a worker of Spark. From elsewhere comes a
text: exit code, both outputs, and the digest of the code that made them. The files (results,
report, tables) the run has by then.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from checkers.verdict import EXIT_CODES, Status
from harness.errors import EXIT_USAGE, BatchError, UsageError, is_expected
from harness.errors import one_line as line_of
from harness.full_disk import not_stored
from harness.source_digest import source_digest
from harness.terminal.answers import Shown
from results.report.junit import write_junit
from results.store.folders import Walk, walk
from results.store.model import RunResults, one_line, system_shown
from results.store.run_store import Page, RunStore


def find_runs(targets: Sequence[Path]) -> list[Path]:
    """List the runs and batches at the targets, in order, with repetitions.

    What was not looked into is named on stderr. Raises UsageError as `walk_targets`, and where
    there is nothing else.
    """
    found = walk_targets(targets)
    report_unread(found)
    if not found.runs:
        raise UsageError(f"{targets[0]}: there are no runs in it but what was not looked into")
    return found.runs


def report_unread(found: Walk) -> None:
    """Name on stderr what was not looked into: a run may lie behind it."""
    for path, what in found.unread:
        click.echo(f"kraftprobe: {path}: {what}: not looked into", err=True)


def walk_targets(targets: Sequence[Path]) -> Walk:
    """Look into targets and all that is below them: runs, batches, what was not looked into.

    Raises UsageError for a target that is no folder, or in which there is no run.
    """
    for target in targets:
        if not target.exists():
            raise UsageError(f"{target}: there is no such folder")
        if not target.is_dir():
            raise UsageError(f"{target}: this is a file; give the folder of a run or a campaign")
    found = walk(targets)
    places = [*found.runs, *(path for path, _ in found.unread)]
    for target in targets:
        if not any(place == target or target in place.parents for place in places):
            raise UsageError(f"{target}: there are no runs in it")
    return found


def each_once(folders: Sequence[Path]) -> list[Path]:
    """Drop repetitions of a folder, by whatever path it was named."""
    # Not Path.resolve, which raises RuntimeError at links in a circle before Python 3.13.
    places = {os.path.realpath(folder): folder for folder in reversed(folders)}
    return list(places.values())[::-1]


def for_each(targets: Sequence[Path], act: Callable[[Path, str], int]) -> int:
    """Act on each target; return the exit code of the worst: 1, then 2, 3, 4, 0.

    `act` gets the target's name for its lines, empty for a single target. With several targets, an
    expected error of one is reported on stderr and does not stop the others.
    """
    if len(targets) == 1:
        return act(targets[0], "")
    codes = [act_on(target, act) for target in targets]
    return min((code for code in codes if code), default=0)


def act_on(target: Path, act: Callable[[Path, str], int]) -> int:
    """Act on one target among several: an expected error is reported and is its exit code."""
    name = name_of(target)
    try:
        return act(target, name)
    except Exception as error:
        if not is_expected(error):
            raise
        click.echo(f"kraftprobe: {name}: {line_of(error)}", err=True)
        return EXIT_USAGE


def name_of(path: Path) -> str:
    """Name a run by its campaign's folder and its own, a file by its path."""
    if not path.is_dir():
        return str(path)
    return "/".join(Path(os.path.abspath(path)).parts[-2:])  # noqa: PTH100  (links keep their names)


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


def judge_stored(
    folder: Path, name: str, judge: Callable[..., RunResults], shown: Shown = Shown.LINES
) -> int:
    """Judge a run and report; return the exit code. `name`: of the run, before each line."""
    store = RunStore(folder)
    _complete_evidence(store, prefix_of(name))
    # It imports what nodes are made of, which judging a file does without.
    from harness.evidence.recomputation import judge_again  # noqa: PLC0415

    again = partial(judge_again, judge=judge)
    return judge_and_report(store, again, with_report=True, prefix=prefix_of(name), shown=shown)


def prefix_of(name: str) -> str:
    """Return what each line about a target of this name begins with."""
    return f"{name}: " if name else ""


def judged_elsewhere(folder: Path, shown: Shown = Shown.LINES) -> str:
    """Judge one run among several, and return what that would print."""
    from results.judge.pipeline import judge  # noqa: PLC0415  (imports Arrow)

    out, err = io.StringIO(), io.StringIO()
    coloured = click.Context(click.Command("check"), color=True)
    with coloured.scope(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = act_on(folder, partial(judge_stored, judge=judge, shown=shown))
    answer = {"code": code, "out": out.getvalue(), "err": err.getvalue()}
    return json.dumps({**answer, "source": source_digest()})


def print_judged(answer: str) -> int:
    """Print what was printed elsewhere, and return its exit code.

    Raises BatchError when other code judged.
    """
    found = json.loads(answer)
    if found["source"] != source_digest():
        raise BatchError(
            f"a worker of Spark has other code ({found['source']}) than this "
            f"({source_digest()}): install the same Kraftprobe on all of them"
        )
    click.echo(found["out"], nl=False)
    click.echo(found["err"], nl=False, err=True)
    return int(found["code"])


def _complete_evidence(store: RunStore, prefix: str) -> None:
    """Decode the logs of a run whose harness was killed before it could.

    Stored evidence is never replaced: a second judgement must see the same evidence.
    """
    missing = tuple(n for n in store.node_names(store.plan()) if not store.has_log(n))
    if not missing:
        return

    for problem in complete(store, missing):
        click.echo(f"{prefix}evidence: {problem}", err=True)


def complete(store: RunStore, nodes: tuple[str, ...]) -> list[str]:
    """Store these nodes' evidence; returns one line for each node without any or with damage.

    Raises UsageError while nodes of the run are alive: their logs still grow.
    """
    from cluster.backends.cleanup import find_leftovers  # noqa: PLC0415  (a file has no nodes)
    from harness.evidence import node_disks  # noqa: PLC0415

    folder = store.folder.resolve()
    run = folder.name
    if find_leftovers(run_id=run):
        end = f"kraftprobe cleanup --runs {shlex.quote(str(folder))} --run {shlex.quote(run)}"
        raise UsageError(f"nodes of {run} still run; end them first: {end}")
    node_disks.conceal(store, nodes)
    return node_disks.collect(store, nodes)
