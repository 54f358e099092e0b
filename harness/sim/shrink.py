"""Cut a failing scenario down while it keeps violating the same property.

Delta debugging (Zeller and Hildebrandt, 2002) over the lists of a scenario, then simplification of
what is left. The passes, each with the invariant that it keeps:

| pass | does | keeps |
|---|---|---|
| materialise | the seeded stream becomes the list of operations that were really begun | who asks whom what, when |
| concretise | target words become the nodes that were hit, `cast` goes | what is done to whom, when |
| other seeds | the half of it, in another world: strands, rate, clients or time, tried with several seeds | what is done, but not the world's draws |
| strands, steps | ddmin over strands, then over the steps of each | order, and the time of what stays |
| operations | ddmin over the list | their times |
| flatten | waits for a condition become fixed times | when things really happened |
| gaps | less time passes where nothing is done | order |
| nodes | one node less, where nobody names the last one | the names of the others |
| duration | the fault phase ends after the last thing that matters | everything before |
| knobs | a setting or a property of the world goes back to its default | all others |
| values | times and lengths become round or smaller numbers | all others |

A pass is tried only as a whole candidate: a candidate that fails with the same property (and does
not come to it by the harness's own fault) replaces the scenario; everything else is dropped. Since
the run is a function of the scenario no candidate has to be run twice, and the result is exactly
what `kraftprobe replay` will see. Rounds repeat until one changes nothing or the time is up.
"""

# ruff: noqa: E501  (the table)

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from cluster.backends.sim.settings import SimSettings
from cluster.systems.kraft import NODE_SETTINGS
from harness.sim.findings import SimResult, Violation
from harness.sim.rewrites import (
    act_time,
    begun,
    halves,
    in_order,
    moved_earlier,
    name_casts,
    retarget,
    rounder,
    with_a_node_less,
    with_step,
    without_late,
    without_step,
)
from harness.sim.runner import MemoryJournal, Played, judge, play
from harness.sim.scenario import Scenario, ScriptedOp, Strand

T = TypeVar("T")

EVENTS_MAX = 12
"""Fault and operation events that a person can follow; what shrinking aims at."""
_EVENTS_SPARE = 50_000
_PATIENCE_S = 4.0
"""How long a candidate is tried with other seeds where that is worth the time."""
_MANY = 2 * EVENTS_MAX
"""Of more things than this, large parts are worth that time."""


@dataclass(slots=True)
class Progress:
    """What is told while it shrinks."""

    pass_name: str = ""
    tried: int = 0
    kept: int = 0
    events: int = 0


@dataclass(slots=True)
class Shrinker:
    """Shrinks one scenario. `told` is called after each candidate."""

    wanted: str
    """The property that must stay violated."""
    deadline_s: float
    told: Callable[[Progress], None] = lambda _: None
    progress: Progress = field(default_factory=Progress)
    _seen: dict[str, bool] = field(default_factory=dict)
    _played: Played | None = None
    _violation: Violation | None = None
    _is_race: bool = False
    """Few schedules show it: large parts are dropped in other worlds, too."""
    _brief: bool = False
    """Runs end with the fault phase: the violation is seen before, and the rest takes time."""

    @property
    def out_of_time(self) -> bool:
        """Whether to stop now."""
        return time.monotonic() >= self.deadline_s

    def stop(self) -> None:
        """Let no further candidate be tried: `shrink` returns the best so far."""
        self.deadline_s = 0.0

    def fails(self, scenario: Scenario) -> bool:
        """Whether this one violates the property too; remembers how it went."""
        key = repr(scenario)
        if key in self._seen:
            return self._seen[key]
        if self.out_of_time:
            return False
        self.progress.tried += 1
        verdict = False
        try:
            played, violation = self._run(scenario)
        except Exception:  # noqa: BLE001  (a candidate that cannot be run is no candidate)
            violation = None
        if violation is not None and violation.property == self.wanted:
            verdict = True
            self._played, self._violation = played, violation
        self._seen[key] = verdict
        self.told(self.progress)
        return verdict

    def _run(self, scenario: Scenario) -> tuple[Played, Violation | None]:
        if not self._brief:
            played, result = run(scenario)
            return played, result.violations[0] if result.violations else None
        journal = MemoryJournal()
        played = play(scenario, journal, journal.events, brief=True)
        return played, played.violations[0] if played.violations else None

    def _be_brief(self, scenario: Scenario) -> None:
        """Leave out what comes after the fault phase, if the violation comes before its end."""
        played, violation = self._last_played(scenario), self._violation
        if violation is not None and 0 < violation.at_ms < (
            played.fault_phase_ms + scenario.duration_ms
        ):
            self._brief = True

    def shrink(self, scenario: Scenario) -> Scenario:
        """Shrink until nothing more helps. The scenario given must fail."""
        assert self.fails(scenario), f"it does not violate {self.wanted}"
        best = self._bounded(scenario)
        for name, single in (("cut short", self._end_early), ("strands", self._strands)):
            best = self._pass(name, single, best)
            self._be_brief(best)
        best = self._pass("materialise", self._materialise, best)
        best = self._pass("other seeds", self._other_seeds, best)
        best = self._pass("concretise", self._concretise, best)
        passes = (
            ("materialise", self._materialise),
            ("cut short", self._end_early),
            ("strands", self._strands),
            ("operations", self._operations),
            ("steps", self._steps),
            ("flatten", self._flatten),
            ("gaps", self._gaps),
            ("nodes", self._nodes),
            ("knobs", self._knobs),
            ("values", self._values),
        )
        while not self.out_of_time:
            before = best
            for name, one in passes:
                best = self._pass(name, one, best)
            if best == before:
                break
        best = in_order(best)
        self.fails_again(best)
        return best

    def _bounded(self, scenario: Scenario) -> Scenario:
        """Give candidates not much more events than the run at hand took, lest one run for ever."""
        played = self._last_played(scenario)
        most = 4 * played.backend.world.scheduler.events + _EVENTS_SPARE
        bounds = replace(scenario.bounds, events_max=min(scenario.bounds.events_max, most))
        return self._keep(replace(scenario, bounds=bounds), scenario)

    def fails_again(self, scenario: Scenario) -> None:
        """Play the result once more, for the story."""
        self._played, result = run(scenario)
        self._violation = result.violations[0] if result.violations else None

    @property
    def story(self) -> tuple[Played, Violation | None]:
        """The last failing run, to be told."""
        assert self._played is not None
        return self._played, self._violation

    def _pass(self, name: str, one: Callable[[Scenario], Scenario], scenario: Scenario) -> Scenario:
        self.progress.pass_name, self.progress.events = name, scenario.events
        if self.out_of_time:
            return scenario
        after = one(scenario)
        self.progress.events = after.events
        return after

    def _keep(self, candidate: Scenario, current: Scenario) -> Scenario:
        """The candidate if it fails too, else the current one."""
        if candidate == current or not self.fails(candidate):
            return current
        self.progress.kept += 1
        return candidate

    def _last_played(self, scenario: Scenario) -> Played:
        """How this very scenario was played."""
        if self._played is None or self._played.scenario != scenario:
            self._played, self._violation = self._run(scenario)
        return self._played

    # -- lists -----------------------------------------------------------------------------------

    def _end_early(self, scenario: Scenario) -> Scenario:
        """End the fault phase right after the violation, or after the last thing done."""
        played = self._last_played(scenario)
        at_ms = self._violation.at_ms if self._violation is not None else 0.0
        seen_ms = at_ms - played.fault_phase_ms
        if 0 < seen_ms < scenario.duration_ms:
            cut = replace(scenario, duration_ms=float(round(seen_ms) + 10))
            scenario = self._keep(without_late(cut), scenario)
        last_ms = max((act.at_ms for act in played.acts), default=0.0) - played.fault_phase_ms
        shorter = float(round(max(last_ms, 0.0)) + 500)
        if shorter < scenario.duration_ms:
            scenario = self._keep(replace(scenario, duration_ms=shorter), scenario)
        return scenario

    def _strands(self, scenario: Scenario) -> Scenario:
        def build(strands: Sequence[Strand]) -> Scenario:
            return replace(scenario, strands=tuple(strands))

        return self._ddmin(scenario, scenario.strands, build)

    def _operations(self, scenario: Scenario) -> Scenario:
        def build(operations: Sequence[ScriptedOp]) -> Scenario:
            load = replace(scenario.workload, operations=tuple(operations))
            return replace(scenario, workload=load)

        return self._ddmin(scenario, scenario.workload.operations, build)

    def _steps(self, scenario: Scenario) -> Scenario:
        for number in range(len(scenario.strands)):
            for position in reversed(range(len(scenario.strands[number].steps))):
                if len(scenario.strands[number].steps) <= position:
                    continue
                candidate = without_step(scenario, number, position)
                scenario = self._keep(candidate, scenario)
        strands = tuple(strand for strand in scenario.strands if strand.steps)
        return self._keep(replace(scenario, strands=strands), scenario)

    def _ddmin(
        self, scenario: Scenario, items: Sequence[T], build: Callable[[Sequence[T]], Scenario]
    ) -> Scenario:
        """Drop parts, large ones first, each size in one sweep from the end to the beginning.

        ddmin without its restarts: what came late is dropped first, since less hangs on it. Large
        parts of many are tried in other worlds, too.
        """
        best, left = scenario, tuple(items)
        if left and self.fails(build(())):
            return build(())
        size = max(1, len(left) // 2)
        while left and not self.out_of_time:
            end = len(left)
            while end > 0 and not self.out_of_time:
                start = max(0, end - size)
                rest = left[:start] + left[end:]
                candidate = replace(build(rest), seed=best.seed)
                many = self._is_race and len(left) > _MANY and size >= len(left) // 8
                found = self._somewhere(candidate, _PATIENCE_S if many else 0.0)
                if found is not None:
                    self.progress.kept += 1
                    best, left = found, rest
                end = start
            if size == 1:
                break
            size = max(1, size // 2)
        return best

    # -- other worlds ----------------------------------------------------------------------------

    def _other_seeds(self, scenario: Scenario) -> Scenario:
        """Halve what cannot be written down, as it hangs on the draws of its world, in other worlds.

        Where one draw more or less ends the violation, as of a race that few schedules lose, hardly
        anything can be dropped in the same world; but a part of it does the same in many others.
        """
        self._is_race = scenario.workload.rate_per_s > 0
        while self._is_race and not self.out_of_time:
            smaller = next(filter(None, map(self._somewhere, halves(scenario))), None)
            if smaller is None:
                break
            self.progress.kept += 1
            scenario = self._end_early(smaller)
            self.progress.events = scenario.events
        return self._materialise(scenario)

    def _somewhere(self, candidate: Scenario, for_s: float = _PATIENCE_S) -> Scenario | None:
        """The candidate with the first seed with which it fails, its own the first."""
        until_s = time.monotonic() + for_s
        while not self.fails(candidate):
            if time.monotonic() >= until_s or self.out_of_time:
                return None
            candidate = replace(candidate, seed=candidate.seed + 1)
        return candidate

    # -- from words to facts ---------------------------------------------------------------------

    def _materialise(self, scenario: Scenario) -> Scenario:
        """Write the stream down as the operations that it began."""
        if scenario.workload.rate_per_s <= 0:
            return scenario
        candidate = replace(scenario, workload=replace(scenario.workload, rate_per_s=0.0))
        if self.fails(candidate):
            return candidate
        played = self._last_played(scenario)
        operations = tuple(begun(played))
        load = replace(scenario.workload, rate_per_s=0.0, operations=operations)
        scenario = self._keep(replace(scenario, workload=load), scenario)
        if scenario.workload.rate_per_s > 0:
            return scenario
        workers = max((op.worker for op in operations), default=0) + 1
        fewer = replace(scenario.workload, concurrency=workers)
        return self._keep(replace(scenario, workload=fewer), scenario)

    def _concretise(self, scenario: Scenario) -> Scenario:
        """Replace target words by the nodes that were hit, one step after the other."""
        played = self._last_played(scenario)
        concrete = scenario
        hit = {
            (act.strand, act.step): act.targets
            for act in played.acts
            if not act.undone and act.targets
        }
        for (number, position), targets in sorted(hit.items()):
            concrete = retarget(concrete, number, position, targets)
        scenario = self._keep(concrete, scenario)
        for number, position in sorted(hit):
            candidate = retarget(scenario, number, position, hit[number, position])
            scenario = self._keep(candidate, scenario)
        return self._keep(name_casts(scenario, played), scenario)

    def _flatten(self, scenario: Scenario) -> Scenario:
        """Let steps that wait for a condition act at the time at which they did."""
        for number, strand in enumerate(scenario.strands):
            for position, step in enumerate(strand.steps):
                if step.until is None:
                    continue
                played = self._last_played(scenario)
                base_ms = act_time(played, number, position - 1)
                at_ms = act_time(played, number, position)
                if at_ms is None:
                    continue
                before_ms = played.fault_phase_ms + strand.at_ms if base_ms is None else base_ms
                wait_ms = round(max(0.0, at_ms - before_ms), 3)
                timed = replace(step, until=None, after_ms=wait_ms)
                scenario = self._keep(with_step(scenario, number, position, timed), scenario)
        return scenario

    def _gaps(self, scenario: Scenario) -> Scenario:
        """Let less time pass where nothing is done: before anything, then between things."""
        moments = {strand.at_ms for strand in scenario.strands}
        moments |= {op.at_ms for op in scenario.workload.operations}
        for moment in sorted(moments, reverse=True):
            earlier = max((other for other in moments if other < moment), default=0.0)
            for left_ms in (0.0, 0.25 * (moment - earlier)):
                by_ms = round(moment - earlier - left_ms, 1)
                if by_ms >= 1.0:
                    candidate = moved_earlier(scenario, moment, by_ms)
                    after = self._keep(candidate, scenario)
                    if after is not scenario:
                        scenario = after
                        break
        return scenario

    # -- knobs and values ------------------------------------------------------------------------

    def _nodes(self, scenario: Scenario) -> Scenario:
        while scenario.nodes > 1:
            candidate = with_a_node_less(scenario)
            if candidate is None or not self.fails(candidate):
                return scenario
            scenario = candidate
        return scenario

    def _knobs(self, scenario: Scenario) -> Scenario:
        scenario = self._keep(replace(scenario, settings=dict(NODE_SETTINGS)), scenario)
        scenario = self._keep(replace(scenario, world=SimSettings()), scenario)
        for key, default in NODE_SETTINGS.items():
            if scenario.settings.get(key, default) != default:
                settings = {**scenario.settings, key: default}
                scenario = self._keep(replace(scenario, settings=settings), scenario)
        plain = SimSettings()
        for item in fields(SimSettings):
            if getattr(scenario.world, item.name) != getattr(plain, item.name):
                world = replace(scenario.world, **{item.name: getattr(plain, item.name)})
                scenario = self._keep(replace(scenario, world=world), scenario)
        for calm in (
            replace(scenario.world, loss=0.0, duplication=0.0),
            replace(scenario.world, drift_ppm=0.0, skew_ms=0.0),
        ):
            world = calm
            scenario = self._keep(replace(scenario, world=world), scenario)
        return scenario

    def _values(self, scenario: Scenario) -> Scenario:
        for number in range(len(scenario.strands)):
            for simpler in rounder(scenario.strands[number].at_ms):
                strands = list(scenario.strands)
                strands[number] = replace(strands[number], at_ms=simpler)
                scenario = self._keep(replace(scenario, strands=tuple(strands)), scenario)
            for position in range(len(scenario.strands[number].steps)):
                scenario = self._step_values(scenario, number, position)
        for position in range(len(scenario.workload.operations)):
            for simpler in rounder(scenario.workload.operations[position].at_ms):
                operations = list(scenario.workload.operations)
                operations[position] = replace(operations[position], at_ms=simpler)
                load = replace(scenario.workload, operations=tuple(operations))
                scenario = self._keep(replace(scenario, workload=load), scenario)
        for simpler in rounder(scenario.duration_ms):
            if simpler >= 1:
                scenario = self._keep(replace(scenario, duration_ms=simpler), scenario)
        return scenario

    def _step_values(self, scenario: Scenario, number: int, position: int) -> Scenario:
        for name in ("after_ms", "for_ms"):
            step = scenario.strands[number].steps[position]
            value = getattr(step, name)
            for simpler in () if value is None else rounder(value):
                told: dict[str, Any] = {name: simpler}
                changed = replace(scenario.strands[number].steps[position], **told)
                candidate = with_step(scenario, number, position, changed)
                scenario = self._keep(candidate, scenario)
        step = scenario.strands[number].steps[position]
        if step.for_ms is not None:
            candidate = with_step(scenario, number, position, replace(step, for_ms=None))
            scenario = self._keep(candidate, scenario)
        for key in sorted(step.options):
            step = scenario.strands[number].steps[position]
            value = step.options[key]
            if key.endswith("_ms") and isinstance(value, int | float):
                for simpler in rounder(value):
                    changed = replace(step, options={**step.options, key: simpler})
                    scenario = self._keep(with_step(scenario, number, position, changed), scenario)
        return scenario


def run(scenario: Scenario) -> tuple[Played, SimResult]:
    """Play and judge."""
    journal = MemoryJournal()
    played = play(scenario, journal, journal.events)
    return played, judge(played)


__all__ = ["EVENTS_MAX", "Progress", "Shrinker", "run"]
