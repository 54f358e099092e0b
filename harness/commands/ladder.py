"""`ladder`: known bugs of released systems, found again and told from what has them not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from checkers.verdict import EXIT_CODES, Status, worst
from cluster.names import unknown
from harness.commands.options import RUNS, Command, number_option, path_option, shown_options
from harness.errors import UsageError, is_expected, one_line
from harness.ladder.climb import Climb, climb, other_outcomes, table, write
from harness.ladder.rungs import label, rungs
from harness.terminal.answers import Shown, answer
from harness.terminal.progress import progress_bar


@click.command(cls=Command)
@click.option("--rung", "names", multiple=True, metavar="ID", help="A rung; may be repeated.")
@number_option(
    "--repeats", click.IntRange(1, 1000), 1, "N", "Runs of each side, with the seeds 1 to N."
)
@path_option("--runs", "Folder of the runs of real processes.", default=RUNS / "ladder")
@path_option(
    "--write page",
    "Put what was run into the table of this page (benchmarks/RESULTS.md).",
    click.Path(path_type=Path, dir_okay=False, exists=True),
)
@shown_options(json="Print the table as one document.", quiet="Print the verdict alone.")
def ladder(
    names: tuple[str, ...], repeats: int, runs: Path, page: Path | None, shown: Shown
) -> int:
    """Run known bugs of released systems: each on what must FAIL by it, and on what must PASS.

    Without --rung: all. One that cannot be run here is named with the reason, and proves nothing.

    Exit code: 0; 1 where what must PASS FAILs, 3 where a bug was not found again or a rung could
    not be run, 2 usage, 130 interrupted.
    """
    known = rungs()
    for name in names:
        if name not in known:
            raise UsageError(f"--rung: {unknown('rung', name, known)}")
    chosen = list(dict.fromkeys(names)) or list(known)
    climbs: list[Climb] = []
    total = sum(known[name].minutes for name in chosen)
    with progress_bar("climbing", total, shown) as bar:
        for name in chosen:
            done = sum(climbed.rung.minutes for climbed in climbs)
            try:
                climbs.append(climb(known[name], repeats, runs, lambda what: bar.at(done, what)))  # noqa: B023  (called within the turn)
            except Exception as error:
                if names or not is_expected(error):
                    raise
                climbs.append(Climb(known[name], refusal=one_line(error)))
    if page is not None:
        write(page, climbs)
    status = worst(climbed.status for climbed in climbs)
    document = {
        "verdict": str(status),
        "exit_code": EXIT_CODES[status],
        "rungs": [_document(climbed) for climbed in climbs],
    }
    answer(shown, document, _lines(climbs, status), [str(status)])
    return EXIT_CODES[status]


def _document(climbed: Climb) -> dict[str, Any]:
    rung = climbed.rung
    return {
        "rung": rung.id,
        "status": str(climbed.status),
        "check": rung.check,
        "fail_on": label(rung.fails),
        "found": climbed.found,
        "pass_on": label(rung.passes),
        "passed": climbed.passed,
        "repeats": len(climbed.fails),
        "not_run": climbed.refusal or None,
        "otherwise": list(other_outcomes(climbed)),
        "seconds": round(climbed.seconds, 1),
    }


def _lines(climbs: list[Climb], status: Status) -> Iterator[str]:
    yield table(climbs)
    for climbed in climbs:
        if climbed.refusal:
            yield f"not run: {climbed.rung.id}: {climbed.refusal}"
        yield from other_outcomes(climbed)
    held = sum(climbed.status is Status.PASS for climbed in climbs)
    yield f"{status}: {held} of {len(climbs)} rungs hold"
