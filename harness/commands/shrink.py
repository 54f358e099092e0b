"""`shrink`, and the shrinking of `reproduce`: options, progress, and the files that are written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

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
from harness.plan.plan import Plan
from harness.signals.interrupt import stopping
from harness.sim.runner import run_plan
from harness.sim.shrink.shrinker import Progress, Shrinker
from harness.sim.story import story_of
from harness.terminal.answers import Shown, answer
from harness.terminal.progress import progress_bar


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
