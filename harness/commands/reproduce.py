"""`reproduce`: look for the violation of a failed run in the simulated world."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event

import click

from checkers.verdict import EXIT_CODES, Status
from harness.commands.options import Command, shown_options
from harness.commands.shrink import can_write, out_option, shrink_to, time_option
from harness.errors import UsageError
from harness.plan.document import from_document
from harness.signals.interrupt import stopping
from harness.sim.shrink.reproduce import RedRun, Search, only, red_run, search
from harness.terminal.answers import Shown, answer
from harness.terminal.progress import progress_bar
from results.store.folders import is_run
from results.store.run_store import RunStore

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
