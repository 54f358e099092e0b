"""`list` and `campaign`: runs with their verdicts, and the names that plans may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cluster.mutants import MUTANTS
from harness.campaigns import campaign_names, load, text_of
from harness.commands.options import runs_option
from harness.errors import UsageError
from nemeses.registry import FAULTS
from results.files import StoreError
from results.store import RunStore, list_runs
from workloads.registry import WORKLOADS

KINDS = ("runs", "systems", "workloads", "faults", "campaigns", "mutants")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS), default="runs")
@runs_option
def list_(kind: str, runs: Path) -> int:
    """List runs with their verdicts, or systems, workloads, faults, campaigns or mutants."""
    if kind == "runs":
        _show_runs(runs)
        return 0
    rows: Mapping[str, Callable[[], list[tuple[str, str]]]] = {
        "systems": _systems,
        "workloads": lambda: [(name, WORKLOADS[name].title) for name in WORKLOADS],
        "faults": lambda: [(name, _first_line(FAULTS[name].__doc__)) for name in FAULTS],
        "campaigns": lambda: [(name, _campaign_line(name)) for name in campaign_names()],
        "mutants": lambda: [(mutant.id, mutant.title) for mutant in MUTANTS.values()],
    }
    for name, title in rows[kind]():
        click.echo(f"{name:<14} {title}")
    return 0


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--copy",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write it there instead, to be changed and run; a file that exists is left as it is.",
)
def campaign(name: str, target: Path | None) -> int:
    """Print a named campaign: a plan in TOML."""
    text = text_of(name)
    if target is None:
        click.echo(text, nl=False)
        return 0
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"{target} exists already") from error
    click.echo(f"{target}: run it with kraftprobe run --campaign {target}")
    return 0


def _systems() -> list[tuple[str, str]]:
    from cluster.systems.registry import SYSTEMS  # noqa: PLC0415  (it takes pydantic along)

    return [(kind.name, kind.title) for kind in SYSTEMS.values()]


def _show_runs(root: Path) -> None:
    stores = list_runs(root)
    if not stores:
        click.echo(f"no runs in {root}")
        return
    table = Table("run", "workload", "nodes", "seed", "mutant", "verdict", box=None)
    for store in stores:
        table.add_row(*(Text(cell) for cell in _run_cells(store)))
    Console().print(table)


def _run_cells(store: RunStore) -> list[str]:
    name = f"{store.folder.parent.name}/{store.folder.name}"
    try:
        plan = store.plan()
    except StoreError:
        return [name, "?", "?", "?", "?", "damaged plan"]
    try:
        verdict = store.read_results().verdict
    except StoreError:
        verdict = "not judged" if not store.results_path.exists() else "damaged results"
    cells = [str(plan.get(key, "?")) for key in ("workload", "nodes", "seed")]
    return [name, *cells, str(plan.get("mutant") or ""), verdict]


def _campaign_line(name: str) -> str:
    title = _first_line(text_of(name)).removeprefix("# ").removesuffix(".")
    plan = load(name)
    return f"{title} ({plan['workload']}, {plan['nodes']} nodes, {plan['duration_s']} s)"


def _first_line(text: str | None) -> str:
    """Return the title that a docstring, or a plan's file, begins with."""
    return (text or "").strip().splitlines()[0] if text else ""
