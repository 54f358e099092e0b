"""Runs a rung's sides and compares what came of them with what must; the table of all.

A rung *holds* when a run of its one side FAILed by its check, and a run of its other side PASSed,
and none FAILed. Otherwise it is one of two things, which differ for whoever gates on it:

- FAIL: what must PASS FAILed. It broke a promise, or it is a false alarm; both are to be looked at
  before anything else.
- UNKNOWN: the bug was not found again, or what must PASS was not shown to. Then a PASS of other
  runs says less than it did. It is no FAIL: nothing was found that breaks a promise.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkers.verdict import Status
from cluster.backends.registry import SIM
from cluster.values import valueclass
from harness.doctor.impossible_faults import settle
from harness.ladder.rungs import Rung, label, rungs
from harness.page_sections import read_section, write_section
from harness.plan.document import in_simulation
from harness.run.run_to_verdict import run_unseen
from harness.sim.calibration.score import interval
from harness.sim.runner import run_plan
from results.judge.pipeline import judge


@valueclass
class Climb:
    """What the runs of a rung came to."""

    rung: Rung
    fails: Sequence[Outcome] = ()
    """Of the side that must FAIL."""
    passes: Sequence[Outcome] = ()
    refusal: str = ""
    """Why it cannot be run here."""

    @property
    def found(self) -> int:
        """How many runs FAILed by the rung's check."""
        return sum(_names(self.rung, outcome) for outcome in self.fails)

    @property
    def passed(self) -> int:
        """How many runs of the other side PASSed."""
        return sum(outcome.status is Status.PASS for outcome in self.passes)

    @property
    def status(self) -> Status:
        """PASS where the rung holds."""
        if any(outcome.status is Status.FAIL for outcome in self.passes):
            return Status.FAIL
        return Status.PASS if self.found and self.passed else Status.UNKNOWN

    @property
    def seconds(self) -> float:
        """Mean length of a run of each side."""
        outcomes = [*self.fails, *self.passes]
        return sum(outcome.seconds for outcome in outcomes) / max(1, len(outcomes))


def climb(rung: Rung, repeats: int, runs: Path, report: Callable[[str], None]) -> Climb:
    """Run both sides in turns, with the seeds 1 to `repeats`."""
    outcomes: list[tuple[Outcome, Outcome]] = []
    for seed in range(1, repeats + 1):
        sides = []
        for side in (rung.fails, rung.passes):
            report(f"{rung.id}: seed {seed} of {repeats}")
            sides.append(run_side(rung.document(side, seed), runs / rung.id))
        outcomes.append((sides[0], sides[1]))
    fails, passes = zip(*outcomes, strict=True)
    return Climb(rung, fails, passes)


def _names(rung: Rung, outcome: Outcome) -> bool:
    explanation = outcome.failed.get(rung.check)
    return outcome.status is Status.FAIL and explanation is not None and rung.cause in explanation


def other_outcomes(climbed: Climb) -> Sequence[str]:
    """Say what a run came to that is not as the rung has it, one line for each."""
    lines = []
    for side, outcomes in (("FAIL", climbed.fails), ("PASS", climbed.passes)):
        for seed, outcome in enumerate(outcomes, start=1):
            fine = (
                _names(climbed.rung, outcome) if side == "FAIL" else outcome.status is Status.PASS
            )
            if not fine:
                by = "; ".join(f"{name}: {why[:160]}" for name, why in outcome.failed.items())
                where = "" if outcome.folder is None else f" ({outcome.folder})"
                lines.append(
                    f"{climbed.rung.id}, must {side}, seed {seed}: {outcome.status}"
                    f"{' by ' + by if by else ''}{where}"
                )
    return lines


@valueclass
class Outcome:
    """What a run came to."""

    status: Status
    failed: Mapping[str, str]
    """Check that FAILed, in the simulated world the property -> its explanation."""
    seconds: float
    folder: Path | None = None
    """Of a run of real processes; its report: `kraftprobe report`."""


def run_side(document: Mapping[str, Any], runs: Path) -> Outcome:
    """Run and judge a plan; real runs are stored below `runs`.

    Raises PlanError, SettingError, BackendError and ImpossibleError where it cannot be run here.
    """
    began = time.monotonic()
    if document.get("backend") == SIM.name:
        result = run_plan(in_simulation(document))
        failed = {found.property: found.explanation for found in reversed(result.violations)}
        return Outcome(result.verdict, failed, time.monotonic() - began)
    plan = settle(document, skip=False)
    store = run_unseen(plan, runs, "kraftprobe ladder")
    results = judge(store)
    failed = {
        check.checker: f"{check.summary} {json.dumps(check.anomalies)}"
        for check in results.checks
        if check.status is Status.FAIL
    }
    return Outcome(results.status, failed, time.monotonic() - began, store.folder)


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
