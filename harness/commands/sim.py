"""`sim` and `replay`: the simulated arm on the command line."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from checkers.history.json_text import render as quoted
from checkers.runs.exercised import shortfalls
from checkers.verdict import EXIT_CODES, Status
from cluster.backends.sim.kafka.classes import java_command
from cluster.mutants import UnknownMutantError, find
from cluster.systems import kafka_raft
from cluster.systems.kinds import SystemRequest
from cluster.systems.registry import system_named
from cluster.values import whole_number
from harness.campaigns import error_origin, load, read_document
from harness.commands.options import (
    FILE,
    SEED_MAX,
    Command,
    absolute_builds,
    path_option,
    shown_options,
    spark_option,
)
from harness.errors import UsageError
from harness.full_disk import full_disk_of
from harness.judge.stored_runs import COLOURS
from harness.plan.document import in_simulation
from harness.plan.plan import OPTIONS, Plan
from harness.plan.system_request import system_unlike_real
from harness.signals.interrupt import interruptible
from harness.sim.batch.batch import Batch, lines_of, run_on_spark, run_plainly
from harness.sim.batch.chunks import BatchPlan, plan_of
from harness.sim.findings import SimResult
from harness.sim.runner import run, run_plan, run_stored
from harness.sim.story import story_of
from harness.sim.swarm.draw import draw
from harness.terminal.answers import Shown, answer
from harness.terminal.progress import progress_bar
from results.judge.session import Spark, SparkError

_SPARK_FROM = 400
"""Fewer seeds than this run in this process: starting Spark would take longer."""
_ORIGINS = {"duration_s": "--duration"}


@click.command(cls=Command)
@click.option("--seed", type=click.IntRange(0, SEED_MAX), metavar="N", help="Run one seed.")
@click.option("--seeds", metavar="A..B", help="Run the seeds A to B - 1.")
@click.option(
    "--campaign",
    metavar="C",
    help="Run a campaign (`list campaigns`) or a plan file, with --seeds once for each seed.",
)
@click.option("--mutant", metavar="M", help="Run a deliberately faulty node (`list mutants`).")
@click.option(
    "--system",
    metavar="NAME",
    help="What is run: kraft or kafka-raft.  [default: kraft, or the campaign's]",
)
@click.option(
    "--kafka-version",
    metavar="V",
    help="Releases of Apache Kafka whose raft modules are run, for system kafka-raft: one, or "
    "several as V,V,kraft (kraft: this repository's), of which each node draws one; each may be "
    "the folder of an unpacked build.",
)
@click.option(
    "--duration",
    "duration_s",
    type=float,
    metavar="S",
    help="Simulated seconds of a drawn world, or of a campaign's seeds.  [default: its own]",
)
@path_option(
    "--out", "Folder of the run or batch.  [default: runs/sim/seeds-A-B for --seeds, else none]"
)
@click.option("--stop-at-first", is_flag=True, help="End a batch with the first seed that fails.")
@spark_option
@shown_options(
    json="Print the verdict, or the summary of a batch, as one JSON document.",
    quiet="Print the verdict alone, of a run or batch that is kept its file.",
)
def sim(
    seed: int | None,
    seeds: str | None,
    campaign: str | None,
    mutant: str | None,
    system: str | None,
    kafka_version: str | None,
    duration_s: float | None,
    out: Path | None,
    spark_master: str | None,
    *,
    stop_at_first: bool,
    shown: Shown,
) -> int:
    """Run simulated clusters in virtual time, from seeds or from a plan.

    Exit code: 0 PASS, 1 FAIL, 2 usage, 3 UNKNOWN, 4 UNDER-EXERCISED (of many seeds: all together),
    130 interrupted (finished seeds are kept).
    """
    if seeds is None and (seed is None) == (campaign is None):
        raise UsageError("give one of --seed N, --seeds A..B and --campaign C")
    if seeds is not None and seed is not None:
        raise UsageError("give --seed N or --seeds A..B")
    if duration_s is not None and not 0.001 <= duration_s <= 86_400:
        raise UsageError("--duration is in seconds, from 0.001 to 86400")
    if seeds is None and (stop_at_first or spark_master is not None):
        alone = "--stop-at-first" if stop_at_first else "--spark-master"
        raise UsageError(f"{alone} is for a batch: give --seeds A..B with it")
    chosen = _mutant(mutant)
    asked = _system(system, kafka_version, campaign)
    duration_ms = None if duration_s is None else 1000.0 * duration_s
    if seeds is not None:
        first, last = _range(seeds)
        document = None if campaign is None else {**load(campaign), **(asked or {})}
        plan = BatchPlan(
            first,
            last,
            chosen,
            duration_ms,
            stop_at_first=stop_at_first,
            campaign=document,
            system=asked if document is None else None,
        )
        with error_origin(campaign, _ORIGINS):
            # A plan that is none is refused before anything is stored.
            _fetch_releases(plan_of(plan, first, {}), asked)
        return _run_batch(plan, out, spark_master, shown)
    if campaign is not None:
        length = {} if duration_s is None else {"duration_s": duration_s}
        with error_origin(campaign, _ORIGINS if length else {}):
            single = simulated_plan({**load(campaign), **(asked or {}), **length}, chosen)
    else:
        assert seed is not None, "one of the three is given"
        single = draw(seed, mutant=chosen, duration_ms=duration_ms, system=asked)
    if out is not None:
        return _run_stored(single, out, shown)
    return _print_result(single, run_plan(single), shown)


@click.command(cls=Command)
@click.argument("file", type=FILE)
@path_option("--out", "Keep the run there, with its report.  [default: keep nothing]")
@shown_options(
    json="Print the verdict as one JSON document.",
    quiet="Print the verdict alone, of a run that is kept its file.",
)
def replay(file: Path, out: Path | None, shown: Shown) -> int:
    """Run a stored plan again in simulation and print its story.

    Exit code: that of its verdict; without --out 2 when the file names a violated property that the
    replay does not violate.
    """
    with error_origin(file):
        document = read_document(file)
        plan = simulated_plan(document)
    if out is not None:
        return _run_stored(plan, out, shown)
    found = document.get("found")
    wanted = str(found.get("property")) if isinstance(found, dict) else None
    # Judge the recorded property alone: another may be violated earlier and would end the run.
    played, result = run(plan, None if wanted is None else frozenset({wanted}))
    story = story_of(played, result.violations[0] if result.violations else None)
    if shown is Shown.LINES:
        for line in story:
            click.echo(line)
    if wanted is not None and wanted != result.property:
        raise UsageError(
            f"{file}: says that {wanted} was violated, but now it is "
            f"{result.property or 'nothing'}: node, simulator or checks have changed"
        )
    return _print_result(plan, result, shown, {"story": story})


def _run_stored(plan: Plan, out: Path, shown: Shown) -> int:
    with full_disk_of(out):
        return run_stored(plan, out, shown)


def _print_result(
    plan: Plan, result: SimResult, shown: Shown, more: Mapping[str, Any] | None = None
) -> int:
    """Print a result and return its exit code. `more`: further keys of the document."""
    code, short = EXIT_CODES[result.verdict], []
    if result.verdict is Status.UNDER_EXERCISED:
        short = [str(anomaly["explanation"]) for anomaly in shortfalls(result.exercise)]
    document = {
        "campaign": plan.campaign,
        "seed": plan.seed,
        "mutant": plan.mutant,
        "verdict": result.verdict.value,
        "exit_code": code,
        "violations": [violation.to_json() for violation in result.violations],
        "too_little": short,
        "reasons": list(result.reasons),
        "statistics": dict(result.statistics),
        **(more or {}),
    }
    answer(shown, document, _lines(plan, result), [result.verdict.value])
    return code


def _lines(plan: Plan, result: SimResult) -> Iterator[str]:
    figures = result.statistics
    for violation in result.violations:
        yield f"  {violation.property}: {violation.explanation}"
    yield from (f"  {reason}" for reason in result.reasons)
    mutant = f" (MUTANT {plan.mutant}: a deliberately faulty node)" if plan.mutant else ""
    system = system_unlike_real(plan)
    of = f" of system {system}" if system else ""
    yield (
        f"{click.style(result.verdict, fg=COLOURS[result.verdict])} {plan.campaign}, "
        f"seed {plan.seed}: "
        f"{figures.get('operations', 0)} operations ({figures.get('ok', 0)} ok), "
        f"{figures.get('faults', 0)} faults, {figures.get('simulated_s', 0):g} simulated seconds "
        f"in {figures.get('cpu_s', 0):.2f} s{of}{mutant}"
    )


def _run_batch(plan: BatchPlan, out: Path | None, spark_master: str | None, shown: Shown) -> int:
    of = "" if plan.campaign is None else f"{plan.campaign['campaign']}-"
    name = f"{of}seeds-{plan.first}-{plan.last}{plan.mutant or ''}"
    folder = out or Path("runs") / "sim" / name
    total = plan.last - plan.first
    with full_disk_of(folder), Batch(folder, plan) as batch:
        try:
            _run_seeds(batch, total, spark_master, shown)
        except KeyboardInterrupt:
            click.echo(f"interrupted: {_so_far(batch)}", err=True)
            raise
        summary = batch.finish()
    code, file = EXIT_CODES[Status(summary["verdict"])], str(folder / "summary.json")
    document = {"folder": str(folder), "exit_code": code, **summary}
    verdict = f"{summary['verdict']} {folder}: {summary['finished']} seeds"
    answer(shown, document, [*lines_of(summary), verdict, file], [file])
    return code


def _so_far(batch: Batch) -> str:
    """Summarise an unfinished batch: writes the summary files and returns one line."""
    batch.load()
    return f"{lines_of(batch.finish())[0]}; run it again to go on ({batch.folder})"


def _run_seeds(batch: Batch, total: int, spark_master: str | None, shown: Shown) -> None:
    failing = len(batch.failures)
    with progress_bar("seeds", total, shown) as bar, interruptible():

        def show() -> None:
            bar.at(len(batch.rows), f"{len(batch.rows)} of {total} seeds, {failing} failing")

        def on_row(row: dict[str, Any]) -> None:
            nonlocal failing
            failing += row["verdict"] == Status.FAIL.value
            show()

        show()
        left = total - len(batch.rows)
        if spark_master is None and left < _SPARK_FROM:
            run_plainly(batch, on_row)
        elif left > 0:
            spark = Spark(spark_master)
            with spark as handle:
                try:
                    run_on_spark(batch, handle.spark, on_row)
                except SparkError as error:
                    raise SparkError(f"{error}{spark.last_words()}; {_so_far(batch)}") from error


def _range(text: str) -> tuple[int, int]:
    first, last = map(whole_number, text.partition("..")[::2])
    if first is None or last is None or not first < last <= SEED_MAX:
        raise UsageError(f"--seeds is a range such as 0..1000, not {quoted(text)}")
    return first, last


def _mutant(name: str | None) -> str | None:
    try:
        return None if name is None else find(name).id
    except UnknownMutantError as error:
        raise UsageError(str(error)) from error


def _system(
    name: str | None, kafka_version: str | None, campaign: str | None
) -> Mapping[str, Any] | None:
    """Return the keys of a plan that say what is run; None: nothing was asked for.

    Raises UsageError, SettingError.
    """
    if name is None and kafka_version is None:
        return None
    given = {} if campaign is None else load(campaign)
    chosen = name or str(given.get("system", "kraft"))
    kind = system_named(chosen)
    if not kind.simulated:
        raise UsageError(f"system {chosen} has no nodes in the simulated world (backend sim)")
    stated = given.get("system_options", {}) if given.get("system") == chosen else {}
    with error_origin(campaign):
        options = OPTIONS.read(stated, place=("the plan's system_options",))
    if kafka_version is not None:
        options["version"] = absolute_builds(kafka_version)
    unfit = [key for key in options if key not in kind.options]
    if unfit:
        raise UsageError(f"system {chosen} has no option {unfit[0]}")
    kind.check(SystemRequest({}, options))
    return {"system": chosen, **({"system_options": options} if options else {})}


def _fetch_releases(first: Plan, asked: Mapping[str, Any] | None) -> None:
    """Fetch the releases that a batch runs, once, before its workers all want them.

    `first` is its first plan, which need not draw each of those that were asked for. Raises
    FetchError, SettingError.
    """
    if first.system != kafka_raft.NAME:
        return
    options = {**first.system_options, **(asked or {}).get("system_options", {})}
    for release in kafka_raft.runs_of(SystemRequest({}, options)):
        if release != kafka_raft.OWN:
            java_command(release, say=lambda text: click.echo(text, err=True))


def simulated_plan(document: Mapping[str, Any], mutant: str | None = None) -> Plan:
    """Make a plan of a document, with backend `sim`. Raises PlanError."""
    return in_simulation({"seed": random.randrange(SEED_MAX), **document}, mutant)
