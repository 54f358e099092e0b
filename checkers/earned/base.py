"""What a condition of a PASS is given, and what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from checkers.history import Event, Operation
from checkers.history.recorded import columns_of
from checkers.run_input import RunInput
from checkers.runs.faults import phases
from checkers.verdict import CheckResult, Status
from porcupine_py.columns import Columns


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a condition says of one judgement."""

    status: Status | None
    """PASS: it holds. None: it does not apply. Else the verdict that it makes."""
    sentence: str = ""
    """Why it does not hold or apply; where it holds, what a reader should know."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else it found out, for results by key."""

    def to_json(self) -> dict[str, Any]:
        """Render for results."""
        return {
            "status": None if self.status is None else str(self.status),
            "sentence": self.sentence,
            **self.facts,
        }


HOLDS = Outcome(Status.PASS)


def unknown(sentence: str) -> Outcome:
    """Say why nobody knows."""
    return Outcome(Status.UNKNOWN, sentence)


def under_exercised(sentence: str) -> Outcome:
    """Say what was tried too little."""
    return Outcome(Status.UNDER_EXERCISED, sentence)


def not_applicable(reason: str) -> Outcome:
    """Say why the condition means nothing here."""
    return Outcome(None, reason)


OF_A_RUN = not_applicable("a lone file has no plan, phases or nodes")


@dataclass(frozen=True, slots=True)
class Floor:
    """The least that a lone file must show; a run has its plan's floor."""

    ok: int = 1
    """Operations that were ok."""
    reads: int = 1
    """Of these such that observed something: `observed.observes`."""
    keys: int = 1
    """Keys that these observed."""


@dataclass(frozen=True)
class Judged:
    """A run or a file, and the results of its checks."""

    run: RunInput
    checks: Sequence[CheckResult]
    """Results of all checks so far."""
    wanted: Sequence[str]
    """Names of the checks that workload, system and level ask for."""
    plan: Mapping[str, Any] | None = None
    """None: a lone file, which has none."""
    shown: Sequence[Operation] | None = None
    """Of a file: the operations that show something, by its format; None: all."""
    dropped_bytes: int = 0
    """Of the journal, at its end."""
    floor: Floor = field(default_factory=Floor)

    @property
    def notes(self) -> Sequence[Event]:
        """The events of the nemesis."""
        return self.run.notes

    @cached_property
    def tried(self) -> Columns:
        """What clients tried, an operation a row, in order of invocation."""
        return columns_of(self.run.operations)

    @cached_property
    def showing(self) -> Columns:
        """Those of them that show something."""
        return self.tried if self.shown is None else columns_of(self.shown)

    @cached_property
    def phases(self) -> Mapping[str, int]:
        """Name of each phase of the run -> when it began, in ns."""
        return dict(phases(self.notes))

    @property
    def required_plan(self) -> Mapping[str, Any]:
        """The plan, for conditions that no lone file has to keep."""
        assert self.plan is not None, "a lone file has no plan"
        return self.plan

    def check(self, name: str) -> CheckResult | None:
        """Return the result of a check."""
        return next((check for check in self.checks if check.checker == name), None)
