"""The judgement of one run: what `results.json` holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from checkers.verdict import CheckResult, Status, worst
from results.files import StoreError

VERSION = 1
PLAN_FIELDS = (
    "campaign",
    "run",
    "seed",
    "backend",
    "system",
    "nodes",
    "mutant",
    "workload",
    "duration_s",
    "faults",
    "expectations",
    "skipped",
    "versions",
    "command",
)
"""What results.json repeats of the plan, so that it can be read alone."""


@dataclass(frozen=True, slots=True)
class RunResults:
    """All checks of a run, and the verdict over them.

    Everything but `judging` is a function of the stored run: judging again gives the same.
    """

    status: Status
    checks: tuple[CheckResult, ...]
    statistics: dict[str, Any]
    run: str
    plan: dict[str, Any]
    """The fields of the plan that PLAN_FIELDS names."""
    inputs: dict[str, str]
    """SHA-256 of each file that was judged, by its path in the run folder."""
    judged_with: dict[str, Any] = field(default_factory=dict)
    """{"spark": {"version", "master"} or null}"""
    judging: dict[str, Any] = field(default_factory=dict)
    """When and how long: {"at": UTC time, "duration_s": float, "checks_s": [float, ...]}, the last
    in the order of `checks`. Not part of the judgement."""

    @property
    def skipped(self) -> tuple[str, ...]:
        """Faults that the plan had asked for and the run left out as impossible there."""
        return skipped_faults(self.plan)

    @property
    def verdict(self) -> str:
        """The verdict for a person: a PASS that left something out is not called a PASS alone."""
        if not self.skipped:
            return str(self.status)
        return f"{self.status} WITHOUT {', '.join(self.skipped)}"

    def to_json(self) -> dict[str, Any]:
        """Return the document of results.json."""
        document = {
            "version": VERSION,
            "status": str(self.status),
            "verdict": self.verdict,
            "run": self.run,
            "plan": self.plan,
            "checks": [asdict(check) for check in self.checks],
            "statistics": self.statistics,
            "inputs": self.inputs,
            "judged_with": self.judged_with,
            "judging": self.judging,
        }
        # Through text and back: tuples become lists and keys strings, as a reader will find them.
        plain: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
        return plain

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> RunResults:
        """Return the results in a document.

        Raises StoreError when it is no results.json of this version, or when its status is not
        the worst of its checks: then somebody else wrote it.
        """
        if document.get("version") != VERSION:
            raise StoreError("these are no results of version 1")
        try:
            checks = tuple(check_from_json(fields) for fields in document["checks"])
            results = cls(
                status=Status(document["status"]),
                checks=checks,
                statistics=dict(document["statistics"]),
                run=str(document["run"]),
                plan=dict(document["plan"]),
                inputs={str(name): str(digest) for name, digest in document["inputs"].items()},
                judged_with=dict(document["judged_with"]),
                judging=dict(document["judging"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(f"the results are damaged ({type(error).__name__})") from error
        if results.status is not worst(check.status for check in checks):
            raise StoreError("the results contradict themselves: status and checks do not agree")
        return results


def skipped_faults(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the faults that a plan says were skipped; what is malformed counts as skipped, too."""
    rows = plan.get("skipped") or []
    if not isinstance(rows, list):
        return ("something that the plan does not name",)
    names = (row.get("fault") if isinstance(row, dict) else row for row in rows)
    return tuple(" ".join(str(name).split())[:100] for name in names)


def check_from_json(fields: dict[str, Any]) -> CheckResult:
    """Return the result of one check from its JSON object."""
    values = dict(fields)
    values["status"] = Status(values["status"])
    values["anomalies"] = tuple(values.get("anomalies", ()))
    return CheckResult(**values)
