"""Verdicts, and how the verdicts of many checks become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Protocol

from porcupine_py.search import outcome

Status = outcome.Status
Anomaly = dict[str, Any]
"""What is wrong: "kind", "explanation", and named values, nodes, offsets."""

EXIT_CODES = {Status.PASS: 0, Status.FAIL: 1, Status.UNKNOWN: 3, Status.UNDER_EXERCISED: 4}
"""Process exit codes of a verdict (2 is usage or environment, 130 interrupted)."""

_SEVERITY = (Status.FAIL, Status.UNKNOWN, Status.UNDER_EXERCISED, Status.PASS)

PROMISE = "promise"
"""Key of a result's `statistics`: what exactly was checked, where options decide it."""

COUNTS = "counts"
"""Key of a result's `statistics`: figures that are added up over keys, by name."""

ALLOWED = "allowed"
"""Key of a result's `statistics`: what looks wrong and was not promised, explained as anomalies."""


def worst(statuses: Iterable[Status]) -> Status:
    """The verdict over several: FAIL, then UNKNOWN, then UNDER-EXERCISED, then PASS.

    Of no statuses at all: UNKNOWN, because nothing was checked.
    """
    seen = set(statuses)
    return next((status for status in _SEVERITY if status in seen), Status.UNKNOWN)


class HasIndex(Protocol):
    """An operation, or what stands for one."""

    @property
    def index(self) -> int:
        """Its place in the history."""


def anomaly(kind: str, explanation: str, *operations: HasIndex, **place: Any) -> Anomaly:
    """Say what is wrong, with the indexes of its operations, and where."""
    if operations:
        place = {"operations": sorted({operation.index for operation in operations}), **place}
    return {"kind": kind, "explanation": explanation, **place}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one checker says of one history, key or set of evidence. JSON-able throughout."""

    checker: str
    """Name in the registry: linearizable, set-durability, log-agreement, ..."""
    status: Status
    summary: str
    """One sentence for a person: what was checked, or what is wrong and where."""
    key: str | None = None
    algorithm: str | None = None
    """Which algorithm judged, where there is a choice."""
    operations: int = 0
    """How many operations (or records) it looked at."""
    anomalies: tuple[Anomaly, ...] = ()
    """One may carry "window": operations as dicts of `Operation` fields, for the report."""
    certificate: dict[str, Any] | None = None
    """Proof of the verdict: {"linearization": [operation index, ...]} or {"window": [...]}"""
    statistics: dict[str, Any] = field(default_factory=dict)
    """Figures for the report."""

    def check_types(self) -> None:
        """Raise TypeError where a field is of another type: packages make results, too."""
        for name, kind in _TYPES.items():
            if not isinstance(value := getattr(self, name), kind):
                raise TypeError(f"{name} of a CheckResult cannot be {ascii(value)[:80]}")
        counts = self.statistics.get(COUNTS, {})
        if not all(isinstance(item, dict) for item in (counts, *self.anomalies)):
            raise TypeError("anomalies and counts of a CheckResult are objects")
        if not all(isinstance(count, int) for count in counts.values()):
            raise TypeError("counts of a CheckResult are whole numbers")

    @property
    def allowed(self) -> list[dict[str, Any]]:
        """What looks wrong and was not promised, explained; results may come from a file."""
        found = self.statistics.get(ALLOWED)
        return [note for note in found if isinstance(note, dict)] if isinstance(found, list) else []


_TYPES: Mapping[str, type | UnionType] = {
    "checker": str,
    "summary": str,
    "key": str | None,
    "algorithm": str | None,
    "operations": int,
    "anomalies": list | tuple,
    "certificate": dict | None,
    "statistics": dict,
}
