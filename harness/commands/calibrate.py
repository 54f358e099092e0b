"""`calibrate`: which faulty nodes the drawn worlds find, and whether they accuse the true one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from checkers.verdict import EXIT_CODES, Status
from cluster.mutants import MUTANTS, UnknownMutantError, find
from cluster.mutants.mechanical import sample
from harness.commands.options import (
    FILE,
    SEED_MAX,
    Command,
    Number,
    number_option,
    path_option,
    shown_options,
)
from harness.errors import UsageError
from harness.full_disk import full_disk_of
from harness.page_sections import read_section, write_section
from harness.signals.interrupt import interruptible
from harness.sim.calibration import score
from harness.sim.calibration.calibration import (
    Calibration,
    CalibrationPlan,
    read_calibration,
    render,
)
from harness.terminal.answers import Shown, answer
from harness.terminal.progress import progress_bar
from results.store.files import write_atomically


@click.command(cls=Command)
@click.option(
    "--mutants",
    metavar="M,M,...",
    help="Faulty nodes to try (`list mutants`).  [default: the whole catalogue]",
)
@number_option(
    "--mechanical per_layer",
    click.IntRange(0, 10_000),
    0,
    "N",
    "Try as many mechanical changes of each layer of the node, too.",
)
@number_option(
    "--seed first_seed",
    click.IntRange(0, SEED_MAX),
    0,
    "N",
    "The first world of each; draws the mechanical changes as well.",
)
@number_option(
    "--budget budget_s", Number(0.1, 86_400), 60.0, "S", "Processor seconds for each search."
)
@number_option(
    "--clean clean_seeds",
    click.IntRange(0, 1_000_000),
    100,
    "N",
    "Worlds in which the true node is judged.",
)
@path_option(
    "--against",
    "An earlier calibration.json: what it found in half the budget must be found again.",
    FILE,
)
@path_option(
    "--write page",
    "Take the results into --against, and what it then has into this page (docs/calibration.md).",
    click.Path(path_type=Path, dir_okay=False, exists=True),
)
@path_option(
    "--out",
    "Where the results go; the same command goes on there.",
    default=Path("runs/calibration"),
)
@shown_options(json="Print the results as one document.", quiet="Print the page's file.")
def calibrate(
    mutants: str | None,
    per_layer: int,
    first_seed: int,
    budget_s: float,
    clean_seeds: int,
    against: Path | None,
    page: Path | None,
    out: Path,
    shown: Shown,
) -> int:
    """Measure which faulty nodes the drawn worlds of `sim` find, blind.

    Exit code: 0; 1 where a world accuses the true node, 3 where a mutant that --against found is
    missed, 2 usage, 130 interrupted (finished trials are kept).
    """
    chosen = [*_mutant_ids(mutants), *(site.id for site in sample(per_layer, first_seed))]
    earlier = None if against is None else read_calibration(against)
    if page is not None:
        if earlier is None:
            raise UsageError("--write: needs --against, the calibration that the results go into")
        read_section(page, score.SECTION)
    plan = CalibrationPlan(tuple(chosen), clean_seeds, first_seed, budget_s)
    with full_disk_of(out), progress_bar("calibrating", 1.0, shown) as bar, interruptible():
        calibration = Calibration(out, plan)
        for trial in calibration.run():
            done = len(calibration.trials) + len(calibration.clean)
            bar.at(done / calibration.total, f"{done} of {calibration.total}: {trial}")
    document = calibration.document
    lost = score.losses(document, [] if earlier is None else earlier["trials"])
    if page is not None and earlier is not None and against is not None:
        merged = score.merge(earlier, document)
        write_atomically(against, render(merged))
        write_section(page, score.SECTION, list(score.section(merged)))
    status = Status.UNKNOWN if lost else Status.PASS
    status = Status.FAIL if score.alarms(document) else status
    code = EXIT_CODES[status]
    found = {**document, "lost": lost, "folder": str(out), "exit_code": code}
    own_page = str(out / "calibration.md")
    answer(shown, found, [*_lines(document, lost), own_page], [own_page])
    return code


def _mutant_ids(mutants: str | None) -> list[str]:
    if mutants is None:
        return list(MUTANTS)
    try:
        return list(dict.fromkeys(find(name.strip()).id for name in mutants.split(",")))
    except UnknownMutantError as error:
        raise UsageError(f"--mutants: {error}") from error


def _lines(document: score.Document, lost: list[str]) -> Iterator[str]:
    yield from score.page(document)
    for row in score.alarms(document):
        seed = row["seed"]
        yield f"the true node FAILed, by {row['property']}: kraftprobe sim --seed {seed}"
    for mutant in lost:
        yield f"lost: {mutant} was found by the earlier calibration, and not by this one"
