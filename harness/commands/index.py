"""`index`: one page over many stored runs."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.options import Command, shown_options
from harness.errors import UsageError
from harness.room import not_stored
from harness.shown import Shown, answer
from results.catalogue import catalogue
from results.index import write_index


@click.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), default="runs", metavar="[FOLDER]")
@shown_options(json="Print the page's path and the number of runs.", quiet="Print the path alone.")
def index(folder: Path, shown: Shown) -> int:
    """Write FOLDER/index.html: workloads and faults, trends, and a link to each run's report."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder of runs")
    entries = catalogue(folder)
    try:
        page = str(write_index(folder, entries))
    except OSError as error:
        raise not_stored(folder, error) from error
    answer(shown, {"page": page, "runs": len(entries)}, [page], [page])
    return 0
