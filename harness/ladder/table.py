"""The table of what rungs came to, and its place between the marks of a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.ladder.climb import Climb
from harness.ladder.rungs import Rung, label, rungs
from harness.page_sections import read_section, write_section
from harness.sim.calibration.score import interval

SECTION = "ladder"
"""Of the page (`harness.page_sections`)."""
_HEAD = (
    "| rung | what goes wrong | FAIL on | found | PASS on | passed | check | backend | s a run |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def row(climbed: Climb) -> str:
    """Render the row of a rung that was run."""
    rung, runs = climbed.rung, len(climbed.fails)
    low, high = interval(climbed.found, runs)
    return _row(
        rung,
        f"{climbed.found} of {runs} ({low:.0%} to {high:.0%})",
        f"{climbed.passed} of {len(climbed.passes)}",
        f"{climbed.seconds:.0f}",
    )


def table(climbs: Iterable[Climb]) -> str:
    """Render the table of what was run."""
    return "\n".join([_HEAD, *(row(climbed) for climbed in climbs if not climbed.refusal)])


def write(page: Path, climbs: Iterable[Climb]) -> None:
    """Put the rows between the marks of a page; rungs that were not run keep theirs.

    Raises UsageError where the page has no marks, OSError.
    """
    known = rows_of(read_section(page, SECTION))
    rows = {**known, **{c.rung.id: row(c) for c in climbs if not c.refusal}}
    lines = [rows.get(name) or _row(rung, "", "", "") for name, rung in rungs().items()]
    write_section(page, SECTION, [_HEAD, *lines])


def rows_of(section: str) -> Mapping[str, str]:
    """Return the rows of a table by the id of their rung."""
    rows = (line for line in section.splitlines() if line.startswith("| `"))
    return {line.split("`")[1]: line for line in rows}


def _row(rung: Rung, found: str, passed: str, seconds: str) -> str:
    cells = (
        f"`{rung.id}`",
        rung.about,
        label(rung.fails),
        found,
        label(rung.passes),
        passed,
        f"`{rung.check}`",
        rung.backend,
        seconds,
    )
    return f"| {' | '.join(cells)} |"
