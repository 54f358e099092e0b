"""The table of what rungs came to, and its place between the marks of a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.errors import UsageError
from harness.ladder.climb import Climb
from harness.ladder.rungs import Rung, label, rungs
from harness.sim.calibration.score import interval

BEGIN, END = "<!-- begin ladder -->\n", "<!-- end ladder -->"
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
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise UsageError(f"{page}: has no section between {BEGIN.strip()} and {END}")
    before, _, rest = text.partition(BEGIN)
    section, _, after = rest.partition(END)
    rows = {**rows_of(section), **{c.rung.id: row(c) for c in climbs if not c.refusal}}
    lines = [rows.get(name) or _row(rung, "", "", "") for name, rung in rungs().items()]
    page.write_text(
        before + BEGIN + "\n".join(["", _HEAD, *lines, "", ""]) + END + after, encoding="utf-8"
    )


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
