"""`runs`: the catalogue of stored runs, and what can be done with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkers.verdict import Status
from harness.commands.options import Group, json_option, runs_option, shown_options
from harness.errors import UsageError
from harness.judge.stored_runs import report_unread
from harness.terminal.answers import Shown, print_document
from results.catalogue.rows import DAMAGED, NOT_JUDGED, Entry, Filter, catalogue, entry_of
from results.store.folders import Walk, is_run, walk
from results.store.model import one_line
from results.store.run_store import RunStore

_F = TypeVar("_F", bound=Callable[..., Any])
_VERDICTS = (*(str(status) for status in Status), NOT_JUDGED, DAMAGED)
_WIDTH = 10_000
"""No cell is cut: a terminal wraps what is too long for it, and a script gets it whole."""


def _filters(command: _F) -> _F:
    """Add the options that choose runs."""
    for name in ("build", "backend", "system", "workload", "campaign"):
        command = click.option(
            f"--{name}", metavar="PATTERN", help=f"Only of this {name}; * and ? stand for any."
        )(command)
    return click.option(
        "--verdict",
        type=click.Choice(_VERDICTS),
        multiple=True,
        help="Only with this verdict; may be repeated.",
    )(command)


@click.group(cls=Group)
def runs() -> None:
    """Look at stored runs: list and show them."""


@runs.command("list")
@_filters
@shown_options(json="Print JSON.", quiet="Print the folders of the runs alone.")
@runs_option
def list_(runs: Path, *, shown: Shown, **wanted: Any) -> int:
    """List runs: what ran, on which build, and with which verdict."""
    found = walk([runs]) if runs.is_dir() else Walk()
    report_unread(found)
    entries = catalogue(runs, Filter(**wanted), found)
    if shown is Shown.QUIET:
        for entry in entries:
            click.echo(entry.row.folder)
    elif shown is Shown.JSON:
        print_document([entry.row.to_json() for entry in entries])
    elif not entries:
        click.echo(f"no runs in {runs}")
    else:
        _print_table(entries)
    return 0


def _print_table(entries: Sequence[Entry]) -> None:
    columns = ("workload", "system", "build", "backend", "nodes", "seed", "mutant", "ok", "verdict")
    table = Table("run", *columns, box=None)
    for entry in entries:
        values = [entry.store.name, *(getattr(entry.row, name) for name in columns)]
        table.add_row(*(Text("" if value is None else str(value)) for value in values))
    Console(width=_WIDTH, soft_wrap=True).print(table)


@runs.command()
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@json_option
def show(run: Path, *, as_json: bool) -> int:
    """Show one run: its figures, its build, and each of its checks."""
    if not run.is_dir() or not is_run(run):
        raise UsageError(f"{run}: this is not the folder of a run")
    store = RunStore(run)
    store.plan()  # what is damaged is an error here, where one run is asked for
    entry = entry_of(store)
    checks = () if entry.results is None else entry.results.checks
    if as_json:
        document = {
            **entry.row.to_json(),
            "build_names": list(entry.builds),
            "checks": [
                {"checker": c.checker, "status": str(c.status), "summary": c.summary}
                for c in checks
            ],
        }
        print_document(document)
        return 0
    for name, value in entry.row.to_json().items():
        click.echo(f"{name:<18} {_render(value)}")
    for check in checks:
        click.echo(f"{check.status:<18} {check.checker}: {_render(check.summary)}")
    return 0


def _render(value: object) -> str:
    """Return a value of unknown origin as one line."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return one_line(value if isinstance(value, str) else json.dumps(value, default=str))
