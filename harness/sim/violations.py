"""The violations of a simulated run while it is played; the first one ends the run."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from checkers.evidence.standings import Standings
from checkers.history import EventType
from cluster.backends.base import Death
from cluster.backends.sim.scheduler import Scheduler
from harness.run.recorder import Recorder
from harness.sim.findings import Violation, generalise

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
        causes = ("liveness", generalise(what), f"the nodes were {states}")
        self.add(Violation("liveness", f"{what} ({standing})", causes))

    def add_death(self, death: Death) -> None:
        """Add that a node died without a fault that explains it."""
        reason = " ".join(death.output_tail)
        explanation = f"{death.node} died by itself: {reason}"
        self.add(Violation("node-died", explanation, ("node-died", generalise(reason))))

    def bound_events(self, events_max: int) -> None:
        """Check from now on that the world has no more callbacks than this: a livelock."""
        if self._scheduler.events > events_max:
            explanation = f"more than {events_max} callbacks"
            self.add(Violation("progress", explanation, ("too many events",)))
        else:
            self._scheduler.call_later(_CHECK_EVERY_MS, lambda: self.bound_events(events_max))
