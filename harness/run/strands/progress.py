"""Plays one strand: its pauses, its conditions, its names.

The stage (`harness.run.strands.player`) executes the steps.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Protocol

from checkers.evidence.standings import Standings
from checkers.runs.coverage import cells
from cluster.values import valueclass
from harness.plan.plan import Plan
from harness.plan.step_verbs import is_fault
from harness.plan.strands import Condition, Step, Strand, step_name
from harness.run.strands.conditions import Cast, Outcomes, TraceEvent, holds


class Timer(Protocol):
    """A callback that is due."""

    def cancel(self) -> object:
        """Forget the callback; harmless when it has already run."""


class Timers(Protocol):
    """The time of a run."""

    @property
    def now_ms(self) -> float:
        """Milliseconds, from any origin."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Call back later, and never within this call."""


class LoopTimers:
    """The time of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @property
    def now_ms(self) -> float:
        return self._loop.time() * 1000.0

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_ms / 1000.0, callback)


class Stage(Protocol):
    """What a strand needs of the run that it is played in."""

    plan: Plan
    standings: Standings
    timers: Timers
    outcomes: Outcomes
    stopped: bool

    def act(self, play: Play, step: Step, *, at_event: bool) -> None:
        """Execute a step, and call `play.done`."""

    def wait(self, play: Play, condition: Condition | None) -> None:
        """Call `play.look` whenever the condition may hold; None: no longer."""

    def report_broken(self, name: str, explanation: str, place: str) -> None:
        """Report that an expectation of the script does not hold."""

    def note_missing(
        self, place: str, kind: str, *, wanted: bool = True, until: Condition | None = None
    ) -> None:
        """Journal a step that never came; `until`: one that acted without this condition."""


class Play:
    """A strand under way."""

    def __init__(self, stage: Stage, number: int, strand: Strand) -> None:
        self.stage = stage
        self.number = number
        self.strand = strand
        self.position = -1
        self.acted = 0
        """How many of its steps have acted."""
        self.is_over = False
        """Whether it ended at a condition that did not come: nothing is expected of the rest."""
        self.cast = Cast()
        self.waiting: Condition | None = None
        self.undecided = {n for n, step in enumerate(strand.steps) if step.kind == "expect"}
        """Positions of the expectations of which it is not known whether they hold."""
        self._turn = 0

    def stream(self, step: Step) -> Random:
        """Make the step's own stream, so that removing another strand changes none of its draws."""
        seed, at_ms = self.stage.plan.seed, self.strand.at_ms
        return Random(f"{seed}/targets/{at_ms}/{step.kind}/{step.targets}/{self.position}")

    def next(self) -> None:
        """Go to the next step: first its pause."""
        self.position += 1
        if self.stage.stopped or self.position >= len(self.strand.steps):
            return
        step = self.strand.steps[self.position]
        if step.after_ms > 0:
            self.stage.timers.call_later(step.after_ms, self._arrive)
        else:
            self._arrive()

    def _arrive(self) -> None:
        if self.stage.stopped:
            return
        step = self.strand.steps[self.position]
        if step.until is None:
            self.stage.act(self, step, at_event=False)
            return
        self._turn += 1
        turn = self._turn
        self.stage.wait(self, step.until)
        self.stage.timers.call_later(step.within_ms, lambda: self._expire(turn))
        if step.until.event is None:
            self.look(None)

    def look(self, event: TraceEvent | None) -> None:
        """Execute the step if its condition holds."""
        stage, wanted = self.stage, self.waiting
        assert wanted is not None
        if holds(wanted, stage.standings, self.cast, stage.outcomes, event):
            stage.wait(self, None)
            self._turn += 1
            stage.act(self, self.strand.steps[self.position], at_event=event is not None)

    def _expire(self, turn: int) -> None:
        if turn != self._turn or self.stage.stopped:
            return
        self.stage.wait(self, None)
        step = self.strand.steps[self.position]
        if step.strict:
            self.is_over = True
            self.undecided = {place for place in self.undecided if place < self.position}
        else:
            place = step_name(self.number, self.position)
            self.stage.note_missing(place, step.kind, until=step.until)
            self.stage.act(self, step, at_event=False)

    def done(self) -> None:
        """Go on to the next step, after the current event."""
        self.stage.timers.call_later(0, self.next)


class Expectation:
    """A condition that must hold within a time, and then for a while, without its event."""

    def __init__(self, stage: Stage, play: Play, step: Step, that: Condition) -> None:
        self._stage = stage
        self._play = play
        self._position = play.position
        self._step = step
        self._that = that
        self._cast = Cast(dict(play.cast.names), play.cast.epoch)
        self._came = False

    def begin(self) -> None:
        """Evaluate it now, and from now on at each event; of a name without a node never."""
        words = (self._that.at, *map(str, self._that.where.values()))
        if any(word[:1] == "@" and word[1:] not in self._cast.names for word in words):
            return
        self._stage.standings.listeners.append(self._on_event)
        if self._holds():
            self._come()
        else:
            self._stage.timers.call_later(self._step.within_ms, self._late)

    @property
    def _over(self) -> bool:
        return self._position not in self._play.undecided

    def _holds(self, event: TraceEvent | None = None) -> bool:
        return holds(self._that, self._stage.standings, self._cast, self._stage.outcomes, event)

    def _come(self) -> None:
        self._came = True
        self._that = replace(self._that, event=None)
        if self._step.for_ms is None:
            self._end()
        else:
            self._stage.timers.call_later(self._step.for_ms, self._last)

    def _on_event(self, node: str, event: str, fields: Mapping[str, Any]) -> None:
        self._look((node, event, fields))

    def _look(self, event: TraceEvent | None) -> None:
        if self._over:
            return
        if not self._came and self._holds(event):
            self._come()
        elif self._came and not self._holds():
            self._fail("held, but not for as long as it must")

    def _last(self) -> None:
        self._look(None)
        self._end()

    def _late(self) -> None:
        self._look(None)  # an operation ends, and a node dies, without an event
        if not self._came and not self._over:
            self._fail("did not come true in time")

    def _fail(self, how: str) -> None:
        if not self._stage.stopped:
            place = step_name(self._play.number, self._position)
            explanation = f"{place}: {self._step.options['that']} {how}"
            name = self._step.options.get("property", "expectation")
            self._stage.report_broken(name, explanation, place)
        self._end()

    def _end(self) -> None:
        self._play.undecided.discard(self._position)
        standings = self._stage.standings  # which may be calling the listeners: another list
        standings.listeners = [each for each in standings.listeners if each != self._on_event]


@valueclass
class Act:
    """One executed step, or the end of one's fault."""

    at_ms: float
    """Of the run's time."""
    strand: int
    step: int
    kind: str
    targets: tuple[str, ...]
    roles: tuple[str, ...]
    """What the targets were: leader, follower, voter, dead."""
    phase: str
    """Of the protocol (`Standings.phase`)."""
    detail: Mapping[str, Any]
    undone: bool = False
    """It is the end of a fault, not its beginning."""

    def hit(self, targets: tuple[str, ...], detail: Mapping[str, Any]) -> Act:
        """Narrow the act to the nodes that it hit; before that it holds the roles of all nodes."""
        roles = dict(zip(self.targets, self.roles, strict=True))
        own = tuple(roles[node] for node in targets)
        return replace(self, targets=targets, roles=own, detail=detail)


def begin_act(at_ms: float, place: tuple[int, int], kind: str, standings: Standings) -> Act:
    """Record the roles and the phase just before a step acts."""
    nodes = tuple(standings.nodes)
    roles = tuple(standings.role(node) for node in nodes)
    return Act(at_ms, *place, kind, nodes, roles, standings.phase(), {})


def coverage(acts: Iterable[Act]) -> dict[str, int]:
    """Count the cells (`checkers.runs.coverage`) of the faults that acted."""
    found: Counter[str] = Counter()
    for act in acts:
        if is_fault(act.kind) and not act.undone:
            found.update(cells(act.kind, act.roles, act.phase))
    return dict(found)
