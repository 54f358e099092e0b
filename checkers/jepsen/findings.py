"""What a check of a whole history found, and the verdict that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.history import Operation
from checkers.verdict import ALLOWED, COUNTS, PROMISE, Anomaly, CheckResult, Status, anomaly

EXPLAINED_MAX = 20
"""How many anomalies of a kind are explained; `counts` has them all."""


@dataclass(slots=True)
class Findings:
    """Filled by a check as it goes through a history."""

    name: str
    promise: str
    """What exactly is checked, for a person."""
    operations: Sequence[Operation]
    wrong: list[Anomaly] = field(default_factory=list)
    """What no correct system does."""
    doubts: list[Anomaly] = field(default_factory=list)
    """What a correct system does only if something happened that the history does not show."""
    allowed: list[Anomaly] = field(default_factory=list)
    """What looks wrong and was not promised."""
    counts: dict[str, int] = field(default_factory=dict)
    """Figures that may be added up over keys."""
    more: dict[str, Any] = field(default_factory=dict)
    """Figures of this key alone."""

    def result(self, *, idle: str | None = None) -> CheckResult:
        """Return the verdict; `idle`: why a history in which nothing is wrong shows too little."""
        if self.wrong:
            kinds = ", ".join(sorted({str(found["kind"]) for found in self.wrong}))
            status = Status.FAIL
            summary = (
                f"{len(self.wrong)} anomalies ({kinds}); first: {self.wrong[0]['explanation']}"
            )
        elif self.doubts:
            status, summary = Status.UNKNOWN, str(self.doubts[0]["explanation"])
        elif idle is not None:
            status, summary = Status.UNDER_EXERCISED, idle
        else:
            status, summary = Status.PASS, self.promise
        anomalies = _some_of_each([*self.wrong, *self.doubts])
        statistics = {PROMISE: self.promise, COUNTS: self.counts, **self.more}
        if self.allowed:
            statistics[ALLOWED] = _some_of_each(self.allowed)
        return CheckResult(
            self.name,
            status,
            summary,
            key=self.operations[0].key if self.operations else None,
            operations=len(self.operations),
            anomalies=tuple(anomalies),
            statistics=statistics,
        )

    def unreadable(self, problem: str) -> CheckResult:
        """Return that a history has values of another shape, so that nothing was judged."""
        self.doubts = [anomaly("unreadable", problem)]
        self.wrong = []
        return self.result()


class UnreadableError(ValueError):
    """A value is not of the shape that a check reads; the message says which."""


def refuse_others(operations: Sequence[Operation], *functions: str) -> None:
    """Raise UnreadableError where clients did what a check does not know, and so does not judge."""
    other = next((o for o in operations if o.f not in functions), None)
    if other is not None:
        problem = f"operation {other.index}: {other.f!r} is none of {', '.join(functions)}"
        raise UnreadableError(problem)


def _some_of_each(anomalies: Sequence[Anomaly]) -> list[Anomaly]:
    """Return the first of each kind, in their order."""
    counts: dict[str, int] = {}
    kept = []
    for found in anomalies:
        kind = str(found["kind"])
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= EXPLAINED_MAX:
            kept.append(found)
    return kept
