"""`index`: one page over many stored runs."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.options import Command, shown_options
from harness.errors import UsageError
from harness.full_disk import full_disk_of
from harness.judge.run_targets import report_unread
from harness.terminal.answers import Shown, answer
from results.catalogue.index import write_index
from results.catalogue.rows import entry_of
from results.store.folders import is_run, walk
from results.store.run_store import RunStore


@click.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), default="runs", metavar="[FOLDER]")
@shown_options(
    json="Print the page's path, the number of runs, and what was not looked into.",
    quiet="Print the path alone.",
)
def index(folder: Path, shown: Shown) -> int:
    """Write FOLDER/index.html: workloads and faults, trends, and a link to each run's report."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder of runs")
    found = walk([folder])
    runs = [run for run in found.runs if is_run(run)]
    found.unread += [(batch, "is a batch of seeds") for batch in found.runs if batch not in runs]
    entries = [entry_of(RunStore(run)) for run in runs]
    with full_disk_of(folder):
        page = str(write_index(folder, entries, found.unread))
    report_unread(found)
    unread = [{"path": str(path), "what": what} for path, what in found.unread]
    answer(shown, {"page": page, "runs": len(entries), "unread": unread}, [page], [page])
    return 0
