"""`check`, `report` and `gate`: everything that works on stored runs alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from checkers.registry import CheckSpec
from checkers.verdict import EXIT_CODES
from harness.commands.options import spark_option
from harness.errors import UsageError
from harness.judgement import judge_and_report, tell
from results.gate import gate as decide
from results.pipeline import judge_file
from results.report import write_report
from results.session import Spark
from results.store import RunStore

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("target", type=_PATH, metavar="RUN|FILE")
@click.option("--model", metavar="M", help="For a file: what it must be a history of.")
@click.option("--algorithm", metavar="A", help="For a file: which algorithm judges.")
@click.option("--time-limit", type=float, metavar="S", help="For a file: seconds for each key.")
@spark_option
def check(
    target: Path,
    model: str | None,
    algorithm: str | None,
    time_limit: float | None,
    spark_master: str | None,
) -> int:
    """Judge a stored run again, or a lone history file.

    A file may be a journal of ours or a Jepsen history in EDN.
    """
    if target.is_dir():
        if model or algorithm or time_limit is not None:
            raise UsageError("--model, --algorithm and --time-limit are for history files")
        return _check_run(RunStore(target), spark_master)
    options: dict[str, Any] = {"model": model or "register"}
    if algorithm is not None:
        options["algorithm"] = algorithm
    if time_limit is not None:
        options["time_limit_s"] = time_limit
    results = judge_file(target, [CheckSpec("linearizable", options)])
    tell(results)
    return EXIT_CODES[results.status]


def _check_run(store: RunStore, spark_master: str | None) -> int:
    if spark_master is None:
        return judge_and_report(store, None, with_report=True)
    with Spark(spark_master) as spark:
        return judge_and_report(store, spark, with_report=True)


@click.command()
@click.argument("run_folder", type=_PATH, metavar="RUN")
def report(run_folder: Path) -> int:
    """Write the report of a judged run again, and print its path."""
    store = RunStore(run_folder)
    write_report(store, store.read_results())
    click.echo(str(store.report_path))
    return 0


@click.command()
@click.argument("run_folders", type=_PATH, metavar="RUN...", nargs=-1, required=True)
def gate(run_folders: tuple[Path, ...]) -> int:
    """Pass only if every run passed. Exit code: that of the worst verdict."""
    decision = decide([RunStore(folder) for folder in run_folders])
    for line in decision.lines:
        click.echo(line)
    return decision.exit_code
