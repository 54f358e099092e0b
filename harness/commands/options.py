"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

RUNS = Path("runs")
"""Default folder of runs, below the working folder."""

runs_option = click.option(
    "--runs",
    type=click.Path(path_type=Path, file_okay=False),
    default=RUNS,
    show_default=True,
    metavar="DIR",
    help="Folder of all runs.",
)
spark_option = click.option(
    "--spark-master",
    metavar="URL",
    help="Where Spark runs.  [default: local[*] for what is large, no Spark for the rest]",
)
fresh_option = click.option(
    "--fresh",
    is_flag=True,
    help="Judge what the same code judged before, from the same files, as well.",
)
