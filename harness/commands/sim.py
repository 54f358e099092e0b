"""`sim`, `replay` and `shrink`: the simulated arm on the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from checkers.exercised import shortfalls
from checkers.history.json_text import shown
from checkers.verdict import EXIT_CODES, Status
from cluster.mutants import UnknownMutantError, find
from cluster.values import whole_number
from harness.colours import can_redraw
from harness.commands.options import spark_option
from harness.errors import UsageError
from harness.interrupt import interruptible, stopping
from harness.sim import shrink as shrinking
from harness.sim.batch import (
    Batch,
    BatchPlan,
    lines_of,
    run_on_spark,
    run_plainly,
)
from harness.sim.draw import draw
from harness.sim.findings import SimResult
from harness.sim.parse import from_document, read_found, read_scenario
from harness.sim.runner import run_scenario
from harness.sim.scenario import Scenario
from harness.sim.shrink import Shrinker
from harness.sim.stored import run_stored
from harness.sim.story import tell
from results.session import Spark, SparkError

_FILE = click.Path(path_type=Path, dir_okay=False)
_SPARK_FROM = 400
"""Fewer seeds than this run in this process: starting Spark would take longer."""
_LINE_EVERY_S = 30.0
_SEED_MAX = 2**31


@click.command()
@click.option("--seed", type=click.IntRange(0, _SEED_MAX), metavar="N", help="Run one seed.")
@click.option("--seeds", metavar="A..B", help="Run the seeds A to B - 1.")
@click.option("--scenario", type=_FILE, metavar="FILE", help="Run a scenario file.")
@click.option("--mutant", metavar="M", help="Run a deliberately faulty node (`list mutants`).")
@click.option(
    "--duration",
    "duration_s",
    type=float,
    metavar="S",
    help="Simulated seconds of a drawn world.  [default: drawn from the seed]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of the run or batch.  [default: runs/sim/seeds-A-B for --seeds, else none]",
)
@click.option("--stop-at-first", is_flag=True, help="End a batch with the first seed that fails.")
@spark_option
def sim(
    seed: int | None,
    seeds: str | None,
    scenario: Path | None,
    mutant: str | None,
    duration_s: float | None,
    out: Path | None,
    spark_master: str | None,
    *,
    stop_at_first: bool,
) -> int:
    """Run simulated clusters in virtual time, from seeds or from a scenario file.

    Exit code: 0 PASS, 1 FAIL, 2 usage, 3 UNKNOWN, 4 UNDER-EXERCISED (of many seeds: all together),
    130 interrupted (finished seeds are kept).
    """
    if sum(told is not None for told in (seed, seeds, scenario)) != 1:
        raise UsageError("give one of --seed N, --seeds A..B and --scenario FILE")
    if duration_s is not None and not 0.001 <= duration_s <= 86_400:
        raise UsageError("--duration is in seconds, from 0.001 to 86400")
    chosen = _mutant(mutant)
    duration_ms = None if duration_s is None else 1000.0 * duration_s
    if seeds is not None:
        first, last = _range(seeds)
        plan = BatchPlan(first, last, chosen, duration_ms, stop_at_first=stop_at_first)
        return _run_batch(plan, out, spark_master)
    if scenario is not None:
        one = _with_mutant(read_scenario(scenario), chosen)
    else:
        assert seed is not None, "one of the three is given"
        one = draw(seed, mutant=chosen, duration_ms=duration_ms)
    return _run_one(one, out)


@click.command()
@click.argument("file", type=_FILE)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the run there, with its report.  [default: keep nothing]",
)
def replay(file: Path, out: Path | None) -> int:
    """Run a stored scenario again and tell its story.

    Exit code: that of its verdict; 2 where the file says what was found, and that is not found.
    """
    scenario = read_scenario(file)
    if out is not None:
        return _run_one(scenario, out)
    played, result = shrinking.run(scenario)
    for line in tell(played, result.violations[0] if result.violations else None):
        click.echo(line)
    wanted = read_found(file)
    if wanted is not None and wanted.get("property") != result.property:
        raise UsageError(
            f"{file}: says that {wanted.get('property')} was violated, but now it is "
            f"{result.property or 'nothing'}: node, simulator or checks have changed"
        )
    _tell_result(scenario, result)
    return EXIT_CODES[result.verdict]


@click.command()
@click.argument("file", type=_FILE)
@click.option(
    "--out",
    type=_FILE,
    metavar="FILE",
    help="Where the small scenario goes.  [default: <file>-small.json beside the given one]",
)
@click.option(
    "--time",
    "limit_s",
    type=click.FloatRange(1, 86_400),
    default=300.0,
    show_default=True,
    metavar="S",
    help="Seconds after which the smallest scenario so far is kept.",
)
def shrink(file: Path, out: Path | None, limit_s: float) -> int:
    """Cut a failing scenario down to what matters and tell its story.

    Ctrl-C ends it with the smallest found so far.
    """
    scenario = read_scenario(file)
    result = run_scenario(scenario)
    wanted = result.property
    if wanted is None:
        raise UsageError(f"{file}: this scenario violates nothing; there is nothing to shrink")
    out = out or file.with_name(f"{file.stem}-small.json")
    _can_write(out)
    began = time.monotonic()
    with _bar("shrinking", limit_s) as bar:

        def told(progress: shrinking.Progress) -> None:
            spent_s = min(limit_s, time.monotonic() - began)
            told_now = f"{progress.pass_name}: {progress.events} events, {progress.tried} tried"
            bar.at(spent_s, f"{told_now}, {limit_s - spent_s:.0f} s left")

        shrinker = Shrinker(wanted, began + limit_s, told)
        with stopping(shrinker.stop):
            small = shrinker.shrink(scenario)
            write_small(small, shrinker, out)
            for line in tell(*shrinker.story):
                click.echo(line)
            click.echo(
                f"{scenario.events} events became {small.events} in "
                f"{time.monotonic() - began:.1f} s, {shrinker.progress.tried} runs; "
                f"the same property: {wanted}"
            )
            click.echo(str(out))
    return 0


def _can_write(path: Path) -> None:
    """Raise OSError now rather than after minutes of work."""
    is_new = not path.exists()
    path.open("a", encoding="utf-8").close()
    if is_new:
        path.unlink()


def write_small(small: Scenario, shrinker: Shrinker, out: Path) -> None:
    """Write what shrinking left: the scenario, what it violates, and its story."""
    played, violation = shrinker.story
    document = small.to_json()
    if violation is not None:
        document["found"] = {
            "property": violation.property,
            "explanation": violation.explanation,
            "causes": list(violation.causes),
        }
    document["about"] = "\n".join(tell(played, violation))[:9000]
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _run_one(scenario: Scenario, out: Path | None) -> int:
    if out is not None:
        return run_stored(scenario, out)
    result = run_scenario(scenario)
    _tell_result(scenario, result)
    return EXIT_CODES[result.verdict]


def _tell_result(scenario: Scenario, result: SimResult) -> None:
    figures = result.statistics
    for violation in result.violations:
        click.echo(f"  {violation.property}: {violation.explanation}")
    if result.verdict is Status.UNDER_EXERCISED:
        for anomaly in shortfalls(result.exercise):
            click.echo(f"  too little was tried: {anomaly['explanation']}")
    mutant = f" (MUTANT {scenario.mutant}: a deliberately faulty node)" if scenario.mutant else ""
    click.echo(
        f"{_coloured(result.verdict)} {scenario.name}: {figures.get('operations', 0)} operations "
        f"({figures.get('ok', 0)} ok), "
        f"{figures.get('faults', 0)} faults, {figures.get('simulated_s', 0):g} simulated seconds "
        f"in {figures.get('cpu_s', 0):.2f} s{mutant}"
    )


def _coloured(status: Status) -> str:
    return click.style(
        status.value, fg={"PASS": "green", "FAIL": "red"}.get(status.value, "yellow")
    )


def _run_batch(plan: BatchPlan, out: Path | None, spark_master: str | None) -> int:
    folder = out or Path("runs") / "sim" / f"seeds-{plan.first}-{plan.last}{plan.mutant or ''}"
    total = plan.last - plan.first
    with Batch(folder, plan) as batch:
        try:
            _run_seeds(batch, total, spark_master)
        except KeyboardInterrupt:
            click.echo(f"interrupted: {_so_far(batch)}", err=True)
            raise
        summary = batch.finish()
    for line in lines_of(summary):
        click.echo(line)
    click.echo(str(folder / "summary.json"))
    return EXIT_CODES[Status(summary["verdict"])]


def _so_far(batch: Batch) -> str:
    """Say what there is of a batch that did not come to its end, and leave a summary of that."""
    batch.load()
    return f"{lines_of(batch.finish())[0]}; run it again to go on ({batch.folder})"


def _run_seeds(batch: Batch, total: int, spark_master: str | None) -> None:
    failing = len(batch.failures)
    with _bar("seeds", total) as bar, interruptible():

        def show() -> None:
            bar.at(len(batch.rows), f"{len(batch.rows)} of {total} seeds, {failing} failing")

        def told(row: dict[str, Any]) -> None:
            nonlocal failing
            failing += row["verdict"] == Status.FAIL.value
            show()

        show()
        left = total - len(batch.rows)
        if spark_master is None and left < _SPARK_FROM:
            run_plainly(batch, told)
        elif left > 0:
            spark = Spark(spark_master)
            with spark as handle:
                try:
                    run_on_spark(batch, handle.spark, told)
                except SparkError as error:
                    raise SparkError(f"{error}{spark.last_words()}; {_so_far(batch)}") from error


class _Bar:
    """How far something is: a bar on a terminal, elsewhere a line every half a minute."""

    def __init__(self, bar: Progress, what: str, total: float, *, lines: bool) -> None:
        self._bar, self._lines = bar, lines
        self._task = bar.add_task(what, total=total)
        self._began = self._last = time.monotonic()

    def at(self, done: float, what: str) -> None:
        """Show that so much is done; `what` says it in words."""
        self._bar.update(self._task, completed=done, description=what)
        now = time.monotonic()
        if self._lines and now - self._last >= _LINE_EVERY_S:
            self._last = now
            click.echo(f"{now - self._began:.0f} s: {what}", err=True)


@contextmanager
def _bar(what: str, total: float) -> Iterator[_Bar]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn())
    is_terminal = can_redraw(console)
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=not is_terminal) as bar:
        yield _Bar(bar, what, total, lines=not is_terminal)


def _range(text: str) -> tuple[int, int]:
    first, last = map(whole_number, text.partition("..")[::2])
    if first is None or last is None or not first < last <= _SEED_MAX:
        raise UsageError(f"--seeds is a range such as 0..1000, not {shown(text)}")
    return first, last


def _mutant(name: str | None) -> str | None:
    try:
        return None if name is None else find(name).id
    except UnknownMutantError as error:
        raise UsageError(str(error)) from error


def _with_mutant(scenario: Scenario, mutant: str | None) -> Scenario:
    if mutant is None:
        return scenario
    document = {**scenario.to_json(), "mutant": mutant}
    return from_document(document)
