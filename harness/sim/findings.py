"""Violations and results of simulated runs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from checkers.evidence.standings import Standings
from checkers.history import EventType
from checkers.verdict import CheckResult, Status
from cluster.backends.base import Death
from cluster.backends.sim.scheduler import Scheduler
from cluster.values import valueclass
from harness.run.recorder import Recorder

LIVENESS: Final = "liveness"
"""The operations after the heal, or the final reads, were not answered in time."""
_NUMBERS = re.compile(r"\d+")
_PLACE = re.compile(r"\b[nktswx](?=[a-f.:-]*\d)[0-9a-f.:-]+\b")
"""Names of nodes, keys, topics, workers, values: they hold a digit, unlike "need" and "seed"."""
_DRAWN = re.compile(r"\b(?=[A-Za-z]*[\d_-])[\w-]{22}(?![\w-])|(?<=\bcrc )[0-9a-f]+")
"""Ids of directories as Kafka prints them, and checksums."""


@valueclass
class Violation:
    """A property that does not hold."""

    property: str
    """Its name: election-safety, linearizable, liveness, node-died, ..."""
    explanation: str
    """One sentence with values, nodes, offsets."""
    causes: tuple[str, ...] = ()
    """The chain of causes, without values: failures with equal causes are one finding."""
    at_ms: float = 0.0
    """When it was detected; 0: by a check at the end."""

    def to_json(self) -> dict[str, Any]:
        """Render for a failure file and for Parquet."""
        return {
            "property": self.property,
            "explanation": self.explanation,
            "causes": list(self.causes),
            "at_ms": round(self.at_ms, 3),
        }


@valueclass
class SimResult:
    """The result of a simulated run."""

    seed: int
    verdict: Status
    violations: tuple[Violation, ...]
    statistics: Mapping[str, float]
    coverage: Mapping[str, int]
    """Cells, `fault/role/phase` -> how often."""
    exercise: Mapping[str, Any] = field(default_factory=dict)
    """`statistics` of `checkers.runs.exercised`; empty if the harness failed."""
    reasons: tuple[str, ...] = ()
    """Why it is UNKNOWN or UNDER-EXERCISED."""

    @property
    def property(self) -> str | None:
        """The first property that was violated."""
        return self.violations[0].property if self.violations else None


def generalise(text: str) -> str:
    """Remove names and numbers, which differ from run to run, from a message."""
    flat = _PLACE.sub("_", _DRAWN.sub("_", text))
    return " ".join(_NUMBERS.sub("#", flat).split())[:160]


def of_check(result: CheckResult) -> Violation:
    """Make the violation of a failed black-box check."""
    kinds = sorted({str(anomaly.get("kind")) for anomaly in result.anomalies})
    return Violation(result.checker, result.summary, (result.checker, *kinds))


@dataclass(slots=True)
class Group:
    """Failures with the same property and causes."""

    property: str
    causes: tuple[str, ...]
    seeds: list[int] = field(default_factory=list)
    explanation: str = ""


def group(failures: Sequence[tuple[int, Violation]]) -> list[Group]:
    """Group failures, the largest group first."""
    groups: dict[tuple[str, tuple[str, ...]], Group] = {}
    for seed, violation in failures:
        key = (violation.property, violation.causes)
        group = groups.setdefault(key, Group(*key, explanation=violation.explanation))
        group.seeds.append(seed)
    return sorted(groups.values(), key=lambda group: (-len(group.seeds), group.property))


_CHECK_EVERY_MS = 20.0


class Violations:
    """Journals the first violation of the wanted properties (None: of any), and keeps all."""

    def __init__(
        self,
        scheduler: Scheduler,
        standings: Standings,
        recorder: Recorder,
        wanted: frozenset[str] | None,
    ) -> None:
        self.found: list[Violation] = []
        self.wanted = wanted
        self.first = asyncio.Event()
        """Set by the first violation."""
        self._scheduler = scheduler
        self._standings = standings
        self._recorder = recorder

    def add(self, violation: Violation) -> None:
        """Keep a violation, with the time now; without causes they are its generalised message."""
        if self.wanted is not None and violation.property not in self.wanted:
            return
        causes = violation.causes or (violation.property, generalise(violation.explanation))
        violation = replace(violation, at_ms=self._scheduler.now_ms, causes=causes)
        self.found.append(violation)
        if not self.first.is_set():
            self._recorder.note("violation", violation.to_json(), EventType.INFO)
            self.first.set()

    def not_live(self, what: str) -> None:
        """Add that the quorum did not get live in time."""
        nodes = self._standings.nodes
        standing = ", ".join(f"{name} {at.state} in epoch {at.epoch}" for name, at in nodes.items())
        states = " and ".join(sorted({at.state for at in nodes.values()}))
        causes = (LIVENESS, generalise(what), f"the nodes were {states}")
        self.add(Violation(LIVENESS, f"{what} ({standing})", causes))

    def add_death(self, death: Death) -> None:
        """Add that a node died without a fault that explains it."""
        reason = " ".join(death.output_tail)
        explanation = f"{death.node} died by itself: {reason}"
        self.add(Violation("node-died", explanation, ("node-died", generalise(reason))))

    def bound_events(self, events_max: int) -> None:
        """Check from now on that the world has no more callbacks than this: a livelock.

        It ends the run whatever is wanted, as there is no other end before the memory's.
        """
        if self._scheduler.events > events_max:
            explanation = f"more than {events_max} callbacks"
            self.add(Violation("progress", explanation, ("too many events",)))
            self.first.set()
        else:
            self._scheduler.call_later(_CHECK_EVERY_MS, lambda: self.bound_events(events_max))
