"""`check`, `report` and `index`: the commands that need stored runs only."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from checkers import transactions
from checkers.earned import Floor
from checkers.history import HistoryError
from checkers.history.edn import read_all
from checkers.history.foreign import Reading
from checkers.history.json_text import JsonError, parse
from checkers.registry import CheckSpec
from harness.commands.options import NEW_FILE, Command, shown_options, spark_option
from harness.errors import UsageError
from harness.full_disk import full_disk_of
from harness.judge.stored_runs import (
    each_once,
    find_runs,
    for_each,
    judge_stored,
    judged_elsewhere,
    prefix_of,
    print_judged,
    print_judgement,
    report_unread,
)
from harness.terminal.answers import Shown, answer
from porcupine_py.models import MODELS
from porcupine_py.names import nearest
from results.judge.engine import Engine
from results.judge.lone_files import judge_file
from results.store.folders import is_run, walk
from results.store.run_store import RunStore

_TRANSACTIONS = "transactions-"
_OF_RUNS = ("evidence", "functions", "refusals")
"""Options of checks that say what another check of the same plan judges; a file has no other."""
_OWN_CHECKS = ("sessions", "set-full")
_MODEL = "register"
_SOME_MODELS = "cas-register, list-append, set, queue or counter"
_PATH = click.Path(path_type=Path)


def _least(what: str, meaning: str) -> Callable[[Any], Any]:
    text = f"For a file: {meaning}.  [default: 1]"
    return click.option(f"--min-{what}", type=click.IntRange(min=1), metavar="N", help=text)


@click.command(cls=Command)
@click.argument("targets", type=_PATH, metavar="RUN|FILE...", nargs=-1, required=True)
@click.option(
    "--model",
    metavar="M",
    help=f"For a file: the data type, such as {_SOME_MODELS}.  [default: {_MODEL}]",
)
@click.option(
    "--certificate",
    type=NEW_FILE,
    metavar="OUT",
    help="For a file: where the proof of each key's verdict goes.  [default: nowhere]",
)
@click.option(
    "--initial",
    metavar="VALUE",
    help="For a file: the value that is there first, in EDN or JSON.  [default: none]",
)
@click.option(
    "--independent",
    is_flag=True,
    help="For a file: values are [key value] tuples, though not tagged as such.",
)
@click.option(
    "--refusals/--no-refusals",
    default=None,
    help="For a file: whether a failed operation may show that it was refused for the state it met."
    "  [default: in journals of runs alone]",
)
@click.option(
    "--nil-reads/--no-nil-reads",
    default=None,
    help="For a file: whether a read of nil saw that there was no value.  [default: in journals of "
    "runs alone]",
)
@click.option(
    "--consistency",
    metavar="C",
    help="For a file of transactions: what they must keep.  [default: strict-serializable]",
)
@click.option(
    "--option",
    "more",
    metavar="NAME=VALUE",
    multiple=True,
    help="For a file: an option of the check, its value in EDN or JSON, such as time-limit-s=9.",
)
@_least("ok", "with fewer operations that were ok it is UNDER-EXERCISED")
@_least("reads", "the same for those of them that observed something")
@_least("keys", "the same for the keys that were observed")
@spark_option
@shown_options(
    json="Print a JSON document a line, for each.",
    quiet="Print paths of reports alone, verdicts of files.",
)
def check(
    targets: tuple[Path, ...],
    model: str | None,
    certificate: Path | None,
    initial: str | None,
    independent: bool,  # noqa: FBT001  (click passes options by name)
    refusals: bool | None,  # noqa: FBT001  (as above)
    nil_reads: bool | None,  # noqa: FBT001  (as above)
    consistency: str | None,
    more: tuple[str, ...],
    spark_master: str | None,
    shown: Shown,
    **least: int | None,
) -> int:
    """Judge stored runs again, or lone history files.

    A folder that is no run means all runs below it. A file may be the journal of a run, or a
    history in JSON, EDN or the lines of Jepsen's logs, gzipped or not; `-` is standard input. With
    the models `transactions-list-append` and `transactions-rw-register` it is searched for cycles,
    with `sessions` for broken session guarantees; `set-full` is Jepsen's checker of this name.

    Exit code: that of the worst: 1 FAIL, 2 could not be judged, 3 UNKNOWN, 4 UNDER-EXERCISED.
    """
    named = [_parse_option(text) for text in more]
    given: dict[str, Any] = {
        "model": model,
        "initial": None if initial is None else _value("--initial", initial),
        "consistency": consistency,
    }
    for name, value in named:
        if given.get(name) is not None:
            raise UsageError(f"--option {name}: this option is given twice; give it once")
        given[name] = value
    reading = Reading(independent, refusals, nil_reads)
    floor = Floor(
        **{name.removeprefix("min_"): value for name, value in least.items() if value is not None}
    )
    options = {name: value for name, value in given.items() if value is not None}
    folders = [target for target in targets if target.is_dir()]
    if folders and (options or certificate is not None or (reading, floor) != (Reading(), Floor())):
        raise UsageError(
            f"{folders[0]}: is the folder of a run, and its plan says how it is judged; only a "
            "history file takes --model, --option, floors, --certificate, how it is read"
        )
    if certificate is not None and len(targets) > 1:
        raise UsageError("--certificate is for one history file")
    if certificate is not None and os.path.realpath(certificate) == os.path.realpath(targets[0]):
        raise UsageError(f"--certificate {certificate}: this is the history; give another file")
    chosen = [p for t in targets for p in (_runs([t]) if t.is_dir() else [t])]
    chosen = each_once(chosen)
    stored = [path for path in chosen if path.is_dir()]
    with Engine(spark_master, lambda line: click.echo(line, err=True)) as engine:
        done = engine.each_by_itself(stored, partial(judged_elsewhere, shown=shown))

        def judge_target(path: Path, name: str) -> int:
            if path in done:
                return print_judged(done[path])
            if path.is_dir():
                return judge_stored(path, name, engine.judge, shown)
            spec = _file_check(options)
            results = judge_file(
                path, [spec], reading=reading, certificates=certificate, floor=floor
            )
            return print_judgement(results, prefix_of(name), shown)

        return for_each(chosen, judge_target)


def _runs(targets: Sequence[Path]) -> list[Path]:
    """List the runs at the targets, and name batches of simulated seeds on stderr."""
    found = each_once(find_runs(targets))
    runs = [folder for folder in found if is_run(folder)]
    what = "a batch keeps no journals; gate --judge-again runs it again"
    if not runs:
        raise UsageError(f"{found[0]}: {what}")
    for batch in found:
        if batch not in runs:
            click.echo(f"kraftprobe: {batch}: {what}", err=True)
    return runs


def _value(option: str, text: str) -> Any:
    """Return the one value that a text is, in EDN or JSON."""
    if text.strip() == "null":
        return None
    try:
        forms = list(read_all(text)) if not text.lstrip().startswith('{"') else [parse(text)]
    except (HistoryError, JsonError) as error:
        raise UsageError(f"{option} {text!r}: {error}") from error
    if len(forms) != 1:
        raise UsageError(f"{option} {text!r}: not one value")
    return forms[0]


def _parse_option(text: str) -> tuple[str, Any]:
    """Return the name of an option, however Jepsen or Elle spells it, and its value."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--option {text!r}: no NAME=VALUE")
    name = name.strip().lstrip(":").rstrip("?").replace("-", "_")
    return name, _value(f"--option {name}", value)


def _file_check(options: dict[str, Any]) -> CheckSpec:
    """Return the check for a model; some kinds of history have checks of their own."""
    model = str(options.get("model", _MODEL))
    rest = {name: value for name, value in options.items() if name != "model"}
    known = (*MODELS, *_OWN_CHECKS, *(f"{_TRANSACTIONS}{name}" for name in transactions.MODELS))
    for name in _OF_RUNS:
        if name in options:
            raise UsageError(f"--option {name}: for plans alone; of a file all is judged")
    if model not in known:
        raise UsageError(f"--model: unknown model {model!r}; {nearest(model, known)}")
    if model in _OWN_CHECKS:
        return CheckSpec(model, rest)
    if model.startswith(_TRANSACTIONS):
        return CheckSpec("transactions", {"model": model.removeprefix(_TRANSACTIONS), **rest})
    return CheckSpec("linearizable", {"model": _MODEL, **options})


@click.command(cls=Command)
@click.argument("run_folders", type=_PATH, metavar="RUN...", nargs=-1, required=True)
@shown_options(json="Print a list of the runs and their pages.", quiet="Print the paths alone.")
def report(run_folders: tuple[Path, ...], shown: Shown) -> int:
    """Write the reports of judged runs again, and print their paths.

    A folder that is no run means all runs below it.
    """
    from results.report.junit import write_junit  # noqa: PLC0415
    from results.report.page import write_report  # noqa: PLC0415  (imports what makes pages)

    def report_run(folder: Path, _: str) -> int:
        store = RunStore(folder)
        results = store.read_results()
        store.refuse_other_results()
        store.write_pages(results, (write_junit, write_report))
        page = str(store.report_path)
        if shown is not Shown.JSON:
            click.echo(page)
        written.append({"run": results.run, "folder": str(folder), "page": page})
        return 0

    written: list[dict[str, str]] = []
    code = for_each(_runs(run_folders), report_run)
    answer(shown, written, ())
    return code


@click.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), default="runs", metavar="[FOLDER]")
@shown_options(
    json="Print the page's path, the number of runs, and what was not looked into.",
    quiet="Print the path alone.",
)
def index(folder: Path, shown: Shown) -> int:
    """Write FOLDER/index.html: workloads and faults, trends, and a link to each run's report."""
    from results.catalogue.index import write_index  # noqa: PLC0415  (imports what makes pages)
    from results.catalogue.rows import entry_of  # noqa: PLC0415

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
