"""PASS is earned: the one list of conditions that a PASS of a run, a seed or a file needs.

A verdict begins as UNKNOWN. It is PASS where every check of the plan passed and every condition of
`CONDITIONS` holds or does not apply, which is said with its reason. Stored runs of every system and
backend, simulated seeds, lone files and the gate call `earn`, and `verdict` accepts no PASS without
its result. So a check that is missing, silent or not applicable is named and never counts.

A condition is a function from `Judged` to an `Outcome`; its name is that of the function, its
docstring the sentence that must be true. To add a condition is to add it to the list; the tests ask
for a stored run of which it was taken away (tests/results/test_earned.py).

What a condition may cost: no run of a correct system on a slow machine breaks it, or its docstring
says which does and why it is no PASS all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.earned.base import OF_A_RUN, Floor, Judged, Outcome
from checkers.earned.observed import checks_ran, exercise, observations, service_share, whole_input
from checkers.earned.outages import nodes_answered, writes_served
from checkers.earned.phases import faults_healed, faults_wanted, final_reads, last_phase, load_phase
from checkers.earned.processes import deaths_meant, restarts_meant
from checkers.earned.releases import releases_run
from checkers.verdict import CheckResult, Status, worst

__all__ = [
    "CONDITIONS",
    "EARNED",
    "FAULTS_HEALED",
    "Condition",
    "Floor",
    "Judged",
    "Outcome",
    "earn",
    "verdict",
]

EARNED = "earned"
"""Name of the result that holds the conditions."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a PASS."""

    function: Callable[[Judged], Outcome]
    of_files: bool = False
    """It means something of a lone file as well."""
    of_evidence: bool = False
    """It looks at what the nodes left: the gate has that where it judges again, and otherwise takes
    the stored outcome."""

    @property
    def name(self) -> str:
        """Name it as results do."""
        return self.function.__name__.replace("_", "-")

    @property
    def sentence(self) -> str:
        """Return what must be true: the first line of the function's docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]


FAULTS_HEALED = Condition(faults_healed)
"""What `cleanup` looks for in stored results, too."""
CONDITIONS: tuple[Condition, ...] = (
    Condition(whole_input, of_files=True),
    Condition(checks_ran, of_files=True),
    Condition(exercise),
    Condition(faults_wanted),
    FAULTS_HEALED,
    Condition(deaths_meant),
    Condition(restarts_meant, of_evidence=True),
    Condition(releases_run, of_evidence=True),
    Condition(load_phase),
    Condition(service_share, of_files=True),
    Condition(writes_served),
    Condition(nodes_answered),
    Condition(last_phase),
    Condition(final_reads),
    Condition(observations, of_files=True),
)
"""All of them, in the order in which results show them."""


def earn(judged: Judged, stored: CheckResult | None = None) -> CheckResult:
    """Return what the conditions say, as the last result of a judgement.

    `stored`: an earlier result, of which the outcomes are taken that need the nodes' evidence.
    """
    rows: list[dict[str, Any]] = []
    for condition in CONDITIONS:
        kept = _row_of(stored, condition.name) if condition.of_evidence and stored else None
        applies = judged.plan is not None or condition.of_files
        outcome = condition.function(judged) if applies and not kept else OF_A_RUN
        rows.append(kept or {"name": condition.name, **outcome.to_json()})
    status = worst(Status(row["status"] or Status.PASS) for row in rows)
    lacking = [row for row in rows if row["status"] not in (Status.PASS, None)]
    lacking.sort(key=lambda row: row["status"] != status)  # the reason of the verdict comes first
    return CheckResult(
        EARNED,
        status,
        _summary(rows, lacking),
        operations=len(judged.run.operations),
        anomalies=tuple(
            {"kind": row["name"], "status": row["status"], "explanation": row["sentence"]}
            for row in lacking
        ),
        statistics={"conditions": rows},
    )


def _summary(rows: Sequence[dict[str, Any]], lacking: Sequence[dict[str, Any]]) -> str:
    """Say what is lacking; where nothing is, what does not apply and why."""
    if lacking:
        return "; ".join(row["sentence"] for row in lacking)
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row["status"] is None:
            reasons.setdefault(row["sentence"], []).append(row["name"])
    aside = sum(map(len, reasons.values()))
    parts = [f"{len(rows) - aside} of {len(rows)} conditions of a PASS hold"]
    parts += [row["sentence"] for row in rows if row["status"] and row["sentence"]]
    if reasons:
        named = "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())
        parts.append(f"not applicable: {named}")
    return "; ".join(parts)


def verdict(checks: Iterable[CheckResult]) -> Status:
    """Return the verdict over the results of a judgement; without `earn`'s it is no PASS."""
    found = list(checks)
    status = worst(check.status for check in found)
    if status is Status.PASS and all(check.checker != EARNED for check in found):
        return Status.UNKNOWN
    return status


def _row_of(stored: CheckResult, name: str) -> dict[str, Any] | None:
    """Return the outcome of a condition in a stored result, which may come from anybody."""
    rows = stored.statistics.get("conditions")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("name") == name and row.keys() >= {"status"}:
            known = row["status"] in (None, *Status)  # no set: a list has no hash
            return row if known and isinstance(row.get("sentence"), str) else None
    return None
