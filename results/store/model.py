"""The judgement of one run: what `results.json` holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from checkers.earned import verdict
from checkers.history import EventType
from checkers.history.recorded import count_keys, end_of, tally
from checkers.run_input import RunInput
from checkers.verdict import CheckResult, Status
from results.store.facts import builds_of
from results.store.files import StoreError

VERSION = 2
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
    "checks",
    "versions",
    "made_of",
    "command",
)
"""What results.json repeats of the plan, so that it can be read alone."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What the chain of digests says of the files that were judged (results/store/digests.py)."""

    head: str | None
    """Stands for all that was recorded; None where there is no chain, or a broken one."""
    ended: bool
    """Whether the harness recorded the run to its end."""
    problems: tuple[str, ...] = ()
    """What is not as it was recorded, one line each."""


NOT_RECORDED = Recording(None, ended=False)
"""Of what was judged outside of a run's folder."""


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
    recording: Recording = NOT_RECORDED
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

    def unlike(self, plan: Mapping[str, Any]) -> str | None:
        """Name a field of the plan that was judged which is another in this plan."""
        return next((name for name, value in self.plan.items() if plan.get(name) != value), None)

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
            "recording": asdict(self.recording),
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
        the verdict over its checks: then somebody else wrote it.
        """
        if document.get("version") != VERSION:
            found = f"{document.get('version')!r:.50}"
            raise StoreError(f"they are of version {found}, not {VERSION}: judge the run again")
        try:
            checks = tuple(check_from_json(fields) for fields in document["checks"])
            results = cls(
                status=Status(document["status"]),
                checks=checks,
                statistics=dict(document["statistics"]),
                run=str(document["run"]),
                plan=dict(document["plan"]),
                inputs={str(name): str(digest) for name, digest in document["inputs"].items()},
                recording=_recording(document["recording"]),
                judged_with=dict(document["judged_with"]),
                judging=dict(document["judging"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(f"the results are damaged ({type(error).__name__})") from error
        if results.status is not verdict(checks):
            raise StoreError("the results contradict themselves: status and checks do not agree")
        return results


def skipped_faults(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the faults that a plan says were skipped; what is malformed counts as skipped, too."""
    rows = plan.get("skipped") or []
    if not isinstance(rows, list):
        return ("something that the plan does not name",)
    names = (row.get("fault") if isinstance(row, dict) else row for row in rows)
    return tuple(" ".join(str(name).split())[:100] for name in names)


def one_line(text: str, limit: int = 300) -> str:
    """Return a text of unknown origin as one line that a terminal can be given."""
    flat = "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def system_shown(plan: Mapping[str, Any]) -> str:
    """Return what was run: the system, the build under test, and what of it is not its own."""
    made_of = f"({plan['made_of']})" if plan.get("made_of") else None
    shown = (str(plan.get("system", "kraft")), *builds_of(plan)[:1], made_of)
    return " ".join(filter(None, shown))


def counts_of(run: RunInput) -> dict[str, Any]:
    """Return counts of what was judged."""
    counts = {kind.value: 0 for kind in (EventType.OK, EventType.FAIL, EventType.INFO)}
    for (_, kind), count in tally(run.operations).items():
        counts[kind.value] += count
    return {
        "events": len(run.events),
        "operations": len(run.operations),
        "by_type": counts,
        "keys": count_keys(run.operations),
        "duration_ns": max(0, end_of(run.events)),
    }


def as_stored(check: CheckResult) -> CheckResult:
    """Return the result as a reader of results.json will find it: lists, no tuples."""
    return check_from_json(json.loads(json.dumps(asdict(check), allow_nan=False)))


def check_from_json(fields: dict[str, Any]) -> CheckResult:
    """Return the result of one check from its JSON object.

    Raises TypeError, ValueError or KeyError.
    """
    values = dict(fields)
    values["status"] = Status(values["status"])
    check = CheckResult(**values)
    check.check_types()
    return replace(check, anomalies=tuple(check.anomalies))


def _recording(fields: dict[str, Any]) -> Recording:
    head, ended = fields["head"], fields["ended"]
    if not isinstance(head, str | None) or not isinstance(ended, bool):
        raise TypeError("head is a digest and ended a truth value")
    return Recording(head, ended=ended, problems=tuple(map(str, fields["problems"])))
