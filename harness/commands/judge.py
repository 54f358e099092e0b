"""`check`, `report` and `gate`: everything that works on stored runs alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from checkers import linearizable
from checkers.registry import CheckSpec
from checkers.verdict import EXIT_CODES
from cluster.backends.cleanup import find_leftovers
from cluster.systems.kraft import KraftSystem
from harness import evidence
from harness.commands.options import spark_option
from harness.errors import UsageError
from harness.judgement import judge_and_report, tell
from results.engine import Engine
from results.gate import gate as decide
from results.pipeline import judge_file
from results.report import write_report
from results.store import RunStore

_TRANSACTIONS = "transactions-"
_MODEL = "register"
_TIME = f"  [default: {linearizable.TIME_LIMIT_S:g}]"
_MEMORY = f"  [default: {linearizable.MEMORY_LIMIT_MB:g}]"
_SOME_MODELS = "cas-register, list-append, set, queue or counter"
_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("target", type=_PATH, metavar="RUN|FILE")
@click.option(
    "--model",
    metavar="M",
    help=f"For a file: the data type, such as {_SOME_MODELS}.  [default: {_MODEL}]",
)
@click.option(
    "--algorithm",
    metavar="A",
    help="For a file: the algorithm that judges.  [default: the cheapest sound one]",
)
@click.option(
    "--time-limit",
    type=float,
    metavar="S",
    help=f"For a file: seconds for each key; beyond them it is UNKNOWN.{_TIME}",
)
@click.option(
    "--memory-limit",
    type=float,
    metavar="MB",
    help=f"For a file: MB for each key; beyond them it is UNKNOWN.{_MEMORY}",
)
@click.option(
    "--certificate",
    type=_PATH,
    metavar="OUT",
    help="For a file: where the proof of each key's verdict goes.  [default: nowhere]",
)
@click.option("--independent", is_flag=True, help="For an EDN file: values are [key value] tuples.")
@spark_option
def check(
    target: Path,
    model: str | None,
    algorithm: str | None,
    time_limit: float | None,
    memory_limit: float | None,
    certificate: Path | None,
    independent: bool,  # noqa: FBT001  (click passes options by name)
    spark_master: str | None,
) -> int:
    """Judge a stored run again, or a lone history file.

    A file may be a journal of ours, JSON lines of the Porcupine corpus, or a Jepsen history in
    EDN. With the models `transactions-list-append` and `transactions-rw-register` it is searched
    for cycles, with `sessions` for broken session guarantees.
    """
    given: dict[str, Any] = {
        "model": model,
        "algorithm": algorithm,
        "time_limit_s": time_limit,
        "memory_limit_mb": memory_limit,
    }
    options = {name: value for name, value in given.items() if value is not None}
    if target.is_dir():
        if options or certificate is not None or independent:
            raise UsageError(
                f"{target}: is the folder of a run, and its plan says how it is judged; only a "
                "history file takes --model, --algorithm, limits, --certificate and --independent"
            )
        return _check_run(RunStore(target), spark_master)
    results = judge_file(
        target, [_file_check(options)], independent=independent, certificates=certificate
    )
    tell(results)
    return EXIT_CODES[results.status]


def _file_check(options: dict[str, Any]) -> CheckSpec:
    """Return the check that a model asks for: cycles and sessions are no linearizability."""
    model = str(options.get("model", _MODEL))
    rest = {name: value for name, value in options.items() if name != "model"}
    if model == "sessions":
        return CheckSpec("sessions", rest)
    if model.startswith(_TRANSACTIONS):
        return CheckSpec("transactions", {"model": model.removeprefix(_TRANSACTIONS), **rest})
    return CheckSpec("linearizable", {"model": _MODEL, **options})


def _check_run(store: RunStore, spark_master: str | None) -> int:
    _complete_evidence(store)
    with Engine(spark_master, lambda line: click.echo(line, err=True)) as engine:
        return judge_and_report(store, engine.judge, with_report=True)


def _complete_evidence(store: RunStore) -> None:
    """Decode the logs of a run whose harness was killed before it could.

    Evidence that is stored is never made anew: judging again must judge the same.
    """
    missing = tuple(n for n in store.node_names(store.plan()) if not store.has_log(n))
    if not missing:
        return
    run = store.folder.resolve().name
    if find_leftovers(run_id=run):
        raise UsageError(
            f"nodes of {run} still run; end them first: kraftprobe cleanup --run {run}"
        )
    for problem in evidence.collect(store, KraftSystem(), missing):
        click.echo(f"evidence: {problem}", err=True)


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
@click.option(
    "--allow-skipped",
    is_flag=True,
    help="Let runs pass that left out faults as impossible (run --skip-impossible).",
)
def gate(run_folders: tuple[Path, ...], *, allow_skipped: bool) -> int:
    """Pass only if every run passed. Exit code: that of the worst verdict."""
    decision = decide([RunStore(folder) for folder in run_folders], allow_skipped=allow_skipped)
    for line in decision.lines:
        click.echo(line)
    return decision.exit_code
