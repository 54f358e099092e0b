"""`index`: one page over many stored runs."""

from __future__ import annotations

from pathlib import Path

import click

from harness.errors import UsageError
from harness.room import not_stored
from results.catalogue import catalogue
from results.index import write_index


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default="runs", metavar="[FOLDER]")
def index(folder: Path) -> int:
    """Write FOLDER/index.html: workloads and faults, trends, and a link to each run's report."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder of runs")
    try:
        click.echo(str(write_index(folder, catalogue(folder))))
    except OSError as error:
        raise not_stored(folder, error) from error
    return 0
