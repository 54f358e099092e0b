"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from harness.errors import UsageError
from harness.shown import Shown

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
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def shown_options(*, json: str, quiet: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add --json and --quiet with these helps; the command gets `shown`."""

    def add(command: Callable[..., int]) -> Callable[..., int]:
        @click.option("--json", "as_json", is_flag=True, help=json)
        @click.option("--quiet", "-q", is_flag=True, help=quiet)
        @wraps(command)
        def with_shown(*args: Any, as_json: bool, quiet: bool, **kwargs: Any) -> int:
            if as_json and quiet:
                raise UsageError("--json prints a document alone: it does not go with --quiet")
            shown = Shown.JSON if as_json else Shown.QUIET if quiet else Shown.LINES
            return command(*args, shown=shown, **kwargs)

        return with_shown

    return add
