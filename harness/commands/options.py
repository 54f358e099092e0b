"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from harness.errors import UsageError

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


def _master(_: click.Context, __: click.Parameter, url: str | None) -> str | None:
    if url is not None and url.startswith("sc://"):
        raise UsageError(
            f"--spark-master {url}: Spark Connect is not supported, as it needs packages that "
            "PySpark does not bring; give the address of a master, such as spark://host:7077"
        )
    return url


spark_option = click.option(
    "--spark-master",
    metavar="URL",
    callback=_master,
    help="Where Spark runs.  [default: local[*] for what is large, no Spark for the rest]",
)
fresh_option = click.option(
    "--fresh",
    is_flag=True,
    help="Judge what the same code judged before, from the same files, as well.",
)
