"""`shrink` and `reproduce`: what becomes of a red plan, or of a run that failed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import click

from checkers.verdict import EXIT_CODES, Status
from harness.campaigns import error_origin, read_document
from harness.commands.options import (
    FILE,
    Command,
    Number,
    number_option,
    path_option,
    shown_options,
)
from harness.commands.sim import simulated_plan
from harness.errors import UsageError
from harness.full_disk import full_disk_of
from harness.plan.document import from_document
from harness.plan.plan import Plan
from harness.signals.interrupt import stopping
from harness.sim.runner import run_plan
from harness.sim.shrink.reproduce import RedRun, Search, only, red_run, search
from harness.sim.shrink.shrinker import Progress, Shrinker
from harness.sim.story import story_of
from harness.terminal.answers import Shown, answer
from harness.terminal.progress import progress_bar
from results.store.folders import is_run
from results.store.run_store import RunStore


def out_option(default: str) -> Callable[[Any], Any]:
    """Make the option of the file for the small plan."""
    return path_option("--out", f"Where the small plan goes.  [default: {default}]", FILE)


def time_option(default_s: float, bounded: str) -> Callable[[Any], Any]:
    """Make the option of the time limit."""
    return number_option("--time limit_s", Number(1, 86_400), default_s, "S", bounded)


@click.command(cls=Command)
@click.argument("file", type=FILE)
@out_option("<file>-small.json beside the given one")
@time_option(300.0, "Seconds after which the smallest plan so far is kept.")
@shown_options(
    json="Print the small plan's file, property and story.", quiet="Print the small plan's file."
)
def shrink(file: Path, out: Path | None, limit_s: float, shown: Shown) -> int:
    """Shrink a failing plan and print its story.

    Ctrl-C stops shrinking and keeps the smallest plan so far.
    """
    with error_origin(file):
        plan = simulated_plan(read_document(file))
    wanted = run_plan(plan).property
    if wanted is None:
        raise UsageError(f"{file}: this plan violates nothing; there is nothing to shrink")
    out = out or file.with_name(f"{file.stem}-small.json")
    can_write(out)
    shrink_to(out, plan, wanted, time.monotonic(), limit_s, shown)
    return 0


def can_write(path: Path) -> None:
    """Check that a file can be written before minutes of work. Raises OSError."""
    is_new = not path.exists()
    path.open("a", encoding="utf-8").close()
    if is_new:
        path.unlink()


def shrink_to(
    out: Path,
    plan: Plan,
    wanted: str,
    began: float,
    limit_s: float,
    shown: Shown,
    before: Mapping[str, Any] | None = None,
) -> None:
    """Shrink a plan until `limit_s` after `began` (monotonic), write it and print its story.

    `before`: what the document says of the search for the plan. Raises KeyboardInterrupt after a
    signal, when the smallest plan so far is written.
    """
    with progress_bar("shrinking", limit_s, shown) as bar:

        def report(progress: Progress) -> None:
            spent_s = min(limit_s, time.monotonic() - began)
            done = f"{progress.pass_name}: {progress.events} events, {progress.tried} tried"
            bar.at(spent_s, f"{done}, {limit_s - spent_s:.0f} s left")

        shrinker = Shrinker(wanted, began + limit_s, report)
        with stopping(shrinker.stop):
            small = shrinker.shrink(plan)
            write_small(small, shrinker, out)
            story = story_of(*shrinker.story)
            document = {
                **(before or {}),
                "property": wanted,
                "file": str(out),
                "events_before": plan.events,
                "events": small.events,
                "runs": shrinker.progress.tried,
                "seconds": round(time.monotonic() - began, 1),
                "story": story,
            }
            last = (
                f"{plan.events} events became {small.events} in {document['seconds']} s, "
                f"{document['runs']} runs; the same property: {wanted}; kraftprobe replay {out}"
            )
            answer(shown, document, [*story, last], [str(out)])


def write_small(small: Plan, shrinker: Shrinker, out: Path) -> None:
    """Write the shrunk plan with the property it violates and its story."""
    played, violation = shrinker.story
    document = small.to_json()
    if violation is not None:
        document["found"] = {
            "property": violation.property,
            "explanation": violation.explanation,
            "causes": list(violation.causes),
        }
    document["about"] = "\n".join(story_of(played, violation))[:9000]
    with full_disk_of(out):
        out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


_SHARE = 0.6
"""Share of the time for the search; the rest is for shrinking."""


@click.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "--property",
    "wanted",
    metavar="P",
    help="Look for this one of the violated properties, such as linearizable.  [default: any]",
)
@out_option("RUN/reproduced.json")
@time_option(600.0, "Seconds for the search and for shrinking together.")
@shown_options(
    json="Print what was found, or what was tried.",
    quiet="Print the small plan's file; nothing where nothing is found.",
)
def reproduce(
    folder: Path, wanted: str | None, out: Path | None, limit_s: float, shown: Shown
) -> int:
    """Look for a failed run's violation in the simulated world, and print its story.

    The search starts from the run's plan and the faults of its journal and varies them. A plan that
    violates the property is shrunk; `replay` plays it again.

    Exit code: 0 found, 3 not found in the time, 2 usage, 130 interrupted.
    """
    if not is_run(folder):
        raise UsageError(f"{folder}: this is no folder of a run")
    store = RunStore(folder)
    stored = store.plan()
    red = red_run(from_document(stored), store.read_results(), store.events())
    if wanted is not None:
        red = only(red, wanted)
    out = out or folder / "reproduced.json"
    can_write(out)
    if shown is Shown.LINES:
        for fault in red.left_out:
            click.echo(f"left out: {fault}, which no simulated world has")
    began = time.monotonic()
    state = _search(red, began, _SHARE * limit_s, shown)
    spent_s = time.monotonic() - began
    document = {
        "found": state.found is not None,
        "wanted": sorted(red.wanted),
        "left_out": list(red.left_out),
        "worlds": state.tried,
        "others": dict(state.others),
        "search_s": round(spent_s, 1),
    }
    if state.found is None:
        answer(shown, document, [_not_found(red, state, spent_s)])
        return EXIT_CODES[Status.UNKNOWN]
    if shown is Shown.LINES:
        click.echo(f"{state.property} is violated in world {state.tried}, after {spent_s:.1f} s")
    shrink_to(out, state.found, state.property, began, limit_s, shown, document)
    return 0


def _search(red: RedRun, began: float, limit_s: float, shown: Shown) -> Search:
    stopped = Event()

    def goes_on() -> bool:
        return not stopped.is_set() and time.monotonic() - began < limit_s

    with progress_bar("searching", limit_s, shown) as bar, stopping(stopped.set):

        def report(state: Search) -> None:
            others = "".join(f", {name} {count}" for name, count in state.others.items())
            spent_s = min(limit_s, time.monotonic() - began)
            bar.at(spent_s, f"{state.tried} worlds tried{others}")

        report(Search())
        return search(red, goes_on, report)


def _not_found(red: RedRun, state: Search, spent_s: float) -> str:
    others = ", ".join(f"{name} {count} times" for name, count in state.others.items())
    wanted = ", ".join(sorted(red.wanted))
    return (
        f"not found: {state.tried} worlds in {spent_s:.0f} s violate none of {wanted}; "
        f"seen instead: {others or 'nothing'}"
    )
