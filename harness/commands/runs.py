"""`runs`: the catalogue of stored runs, and what can be done with it."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from checkers.verdict import Status
from harness.commands.options import (
    Group,
    Number,
    json_option,
    runs_option,
    shown_options,
)
from harness.errors import EXIT_USAGE, UsageError
from harness.judge.stored_runs import report_unread
from harness.terminal.answers import Shown, print_document
from results.catalogue.rows import DAMAGED, NOT_JUDGED, Entry, Filter, catalogue, entry_of
from results.store.folders import Walk, is_run, walk
from results.store.model import one_line
from results.store.pruning import Removal, remove
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
    """Look at stored runs: list, show, compare and remove them."""


@runs.command("list")
@_filters
@shown_options(json="Print JSON.", quiet="Print the folders of the runs alone.")
@runs_option
def list_(runs: Path, *, shown: Shown, **wanted: Any) -> int:
    """List runs: what ran, on which build, and with which verdict."""
    entries = _list_entries(runs, wanted)
    if shown is Shown.QUIET:
        for entry in entries:
            click.echo(entry.row.folder)
    else:
        _print_list(entries, runs, as_json=shown is Shown.JSON)
    return 0


def _list_entries(folder: Path, wanted: Mapping[str, Any]) -> list[Entry]:
    """List the stored runs that are wanted; what was not looked into is named on stderr."""
    found = walk([folder]) if folder.is_dir() else Walk()
    report_unread(found)
    return catalogue(folder, Filter(**wanted), found)


def _print_list(entries: Sequence[Entry], folder: Path, *, as_json: bool) -> None:
    """Print runs, each with its name, as a table, or as JSON."""
    if as_json:
        print_document([entry.row.to_json() for entry in entries])
        return
    if not entries:
        click.echo(f"no runs in {folder}")
        return
    columns = ("workload", "system", "build", "backend", "nodes", "seed", "mutant", "ok", "verdict")
    cells = [[each.store.name, *(getattr(each.row, name) for name in columns)] for each in entries]
    texts = [["" if value is None else str(value) for value in of_run] for of_run in cells]
    _print_table(("run", *columns), texts)


@runs.command()
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@json_option
def show(run: Path, *, as_json: bool) -> int:
    """Show one run: its figures, its build, and each of its checks."""
    entry = _entry(run)
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


@runs.command()
@click.argument("first", type=click.Path(path_type=Path), metavar="RUN")
@click.argument("second", type=click.Path(path_type=Path), metavar="RUN")
@json_option
def diff(first: Path, second: Path, *, as_json: bool) -> int:
    """Compare two runs: what differs in their plans, figures and checks.

    Exit code 0 also where they differ; two runs always do.
    """
    left, right = (_comparable(_entry(path)) for path in (first, second))
    unlike = {
        name: [left.get(name), right.get(name)]
        for name in dict.fromkeys([*left, *right])
        if left.get(name) != right.get(name)
    }
    if as_json:
        print_document(unlike)
        return 0
    width = max(map(len, unlike), default=0)
    for name, (before, after) in unlike.items():
        click.echo(f"{_render(name):<{width}}  {_render(before)}  →  {_render(after)}")
    if not unlike:
        click.echo("nothing differs")
    return 0


@runs.command()
@_filters
@click.option(
    "--older-than", "days", type=Number(0, 36_500), metavar="DAYS", help="Only older ones."
)
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    metavar="N",
    help="Keep the N newest of each campaign, of those that are chosen.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@runs_option
def prune(
    runs: Path, days: float | None, keep: int | None, *, yes: bool, as_json: bool, **wanted: Any
) -> int:
    """Remove runs, and nothing in their folders that Kraftprobe did not make.

    Which ones must be said: by age, by number to keep, or by any of the filters. Asks before it
    removes anything; where nobody can be asked, --yes is needed.
    """
    from harness.commands.prune import choose, removals  # noqa: PLC0415  (imports backends)

    if days is None and keep is None and not any(wanted.values()):
        raise UsageError("say which runs: --older-than, --keep or a filter such as --verdict")
    entries = choose(_list_entries(runs, wanted), days, keep, dt.datetime.now(dt.UTC))
    found, refused = removals(entries, dt.datetime.now(dt.UTC))
    if not as_json:
        for removal in found:
            click.echo(f"{removal.store.folder}: {_megabytes(removal.size_bytes)}")
        if not found:
            click.echo("nothing to remove")
    if found and not yes:
        _ask(found, can_ask=not as_json)
    left = [line for removal in found for line in remove(removal)]
    for line in (*refused, *left):
        click.echo(f"kraftprobe: {line}", err=True)
    if as_json:
        rows = [{"folder": str(r.store.folder), "bytes": r.size_bytes} for r in found]
        print_document({"removed": rows, "refused": refused, "left": left})
    return EXIT_USAGE if refused else 0


def _ask(found: Sequence[Removal], *, can_ask: bool) -> None:
    size = _megabytes(sum(removal.size_bytes for removal in found))
    text = f"remove {len(found)} run{'s' * (len(found) != 1)}, {size}?"
    if not can_ask or not sys.stdin.isatty():
        raise UsageError(f"{text} nobody is there to be asked; give --yes")
    click.confirm(text, abort=True, err=True)


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"


def _print_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(*(escape(_render(name)) for name in names), box=None)
    for row in rows:
        table.add_row(*map(Text, row))
    Console(width=_WIDTH, soft_wrap=True).print(table)


def _entry(path: Path) -> Entry:
    if not path.is_dir() or not is_run(path):
        raise UsageError(f"{path}: this is not the folder of a run")
    store = RunStore(path)
    store.plan()  # what is damaged is an error here, where one run is asked for
    return entry_of(store)


def _comparable(entry: Entry) -> Mapping[str, Any]:
    """Flatten a run to names and plain values."""
    plan = dict(entry.store.plan())
    plan.pop("checks", None)
    found: dict[str, Any] = {}
    _flatten("plan", plan, found)
    found |= {name: value for name, value in entry.row.to_json().items() if name != "folder"}
    if entry.results is not None:
        for check in entry.results.checks:
            found[f"check {check.checker}"] = f"{check.status}: {check.summary}"
    return found


def _flatten(prefix: str, value: object, found: dict[str, Any]) -> None:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            _flatten(f"{prefix}.{name}", inner, found)
    else:
        found[prefix] = value


def _render(value: object) -> str:
    """Return a value of unknown origin as one line."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return one_line(value if isinstance(value, str) else json.dumps(value, default=str))
