"""Shrinks a failing plan while it keeps violating the same property.

Delta debugging (Zeller and Hildebrandt, 2002) over the lists of a plan, then simplification of
the rest. The passes, each with the invariant that it keeps:

| pass | does | keeps |
|---|---|---|
| materialise | the seeded stream becomes the list of operations that it began | client, node, content and time of each |
| concretise | target words become the nodes that were hit, `cast` is dropped | faults, targets and times |
| other seeds | halves strands, rate, clients or time, and tries several seeds | the actions that remain, not the world's draws |
| strands, steps | ddmin over strands, then over the steps of each | order, and the times of the rest |
| operations | ddmin over the list | times of the rest |
| flatten | waits for a condition become fixed times | the times at which steps acted |
| gaps | less time passes between actions | order |
| nodes | drops the last node if no strand or operation names it | the names of the others |
| duration | the fault phase ends after the violation or the last action | everything before |
| knobs | resets a setting or a property of the world to its default | all others |
| values | times and lengths become round or smaller numbers | all others |

A candidate that violates the same property replaces the plan; any other is dropped. Where several
defects violate one property (deaths, no progress, a check with kinds of anomalies) the causes must
be the same, of a check one kind. An exception of the harness counts as no violation. A run is a function of its plan, so no candidate runs twice, and
the result is exactly what `kraftprobe replay` runs: a candidate that is no plan (its steps use a name
that no step casts any more) is none. Rounds repeat until one changes nothing or the
time is up.
"""

# ruff: noqa: E501  (the table)

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from cluster.backends.sim.settings import SimSettings
from cluster.systems.kraft import NODE_SETTINGS
from harness.plan.document import expectations_of, from_document
from harness.plan.plan import Plan
from harness.sim.findings import Violation
from harness.sim.play import Played, play
from harness.sim.runner import run
from harness.sim.shrink.rewrites import (
    act_time,
    halves,
    in_order,
    moved_earlier,
    name_casts,
    operations_in_faults,
    retarget,
    rounder,
    with_a_node_less,
    with_step,
    with_strand,
    without_late,
    without_step,
)

EVENTS_MAX = 12
"""Target of shrinking: as many fault and operation events as a reader can follow."""
_EVENTS_SPARE = 50_000
_PATIENCE_S = 4.0
"""How long a candidate is tried with other seeds."""
_MANY = 2 * EVENTS_MAX
"""Parts of longer lists than this are tried with other seeds."""


@dataclass(slots=True)
class Progress:
    """Progress of shrinking, for display."""

    pass_name: str = ""
    tried: int = 0
    events: int = 0


@dataclass(slots=True)
class Shrinker:
    """Shrinks one plan. `on_progress` is called after each candidate."""

    wanted: str
    """The property that must stay violated."""
    deadline_s: float
    on_progress: Callable[[Progress], None] = lambda _: None
    progress: Progress = field(default_factory=Progress)
    _seen: dict[str, bool] = field(default_factory=dict)
    _played: Played | None = None
    _violation: Violation | None = None
    _causes: tuple[str, ...] | None = None
    """Causes of the violation that is shrunk."""
    _is_race: bool = False
    """Few schedules violate the property: large parts are also dropped with other seeds."""
    _brief: bool = False
    """Runs end with the fault phase, which saves time: the violation comes before its end."""

    @property
    def out_of_time(self) -> bool:
        """Whether to stop now."""
        return time.monotonic() >= self.deadline_s

    def stop(self) -> None:
        """Try no further candidate: `shrink` returns the best plan so far."""
        self.deadline_s = 0.0

    def fails(self, plan: Plan) -> bool:
        """Whether a candidate violates the property; keeps its run if it does."""
        key = repr(plan)
        if key in self._seen:
            return self._seen[key]
        if self.out_of_time and self._played is not None:
            return False  # the given plan is run in any case: its run is the story
        self.progress.tried += 1
        verdict = False
        try:
            from_document(plan.to_json())
            played, violation = self._run(plan)
        except Exception:  # noqa: BLE001  (a candidate that cannot be run is no candidate)
            violation = None
        if violation is not None and self._is_wanted(violation):
            verdict = True
            self._played, self._violation = played, violation
        self._seen[key] = verdict
        self.on_progress(self.progress)
        return verdict

    def _is_wanted(self, violation: Violation) -> bool:
        if violation.property != self.wanted:
            return False
        self._causes = self._causes or violation.causes
        if violation.causes == self._causes or self.wanted in ("node-died", "progress"):
            return violation.causes == self._causes
        return violation.at_ms > 0 or not {*violation.causes[1:]}.isdisjoint(self._causes[1:])

    def _run(self, plan: Plan) -> tuple[Played, Violation | None]:
        wanted = frozenset({self.wanted})
        if not self._brief:
            played, result = run(plan, wanted)
            return played, result.violations[0] if result.violations else None
        played = play(plan, brief=True, wanted=wanted)
        return played, played.violations[0] if played.violations else None

    def _be_brief(self, plan: Plan) -> None:
        """Skip what follows the fault phase if the violation comes before its end."""
        played, violation = self._last_played(plan), self._violation
        if violation is not None and 0 < violation.at_ms < (
            played.fault_phase_ms + plan.duration_ms
        ):
            self._brief = True

    def shrink(self, plan: Plan) -> Plan:
        """Shrink until a round changes nothing. The given plan must fail."""
        assert self.fails(plan), f"it does not violate {self.wanted}"
        best = self._bound(plan)
        strands = partial(self._ddmin, "strands")
        for name, single in (("cut short", self._end_early), ("strands", strands)):
            best = self._pass(name, single, best)
            self._be_brief(best)
        best = self._pass("materialise", self._materialise, best)
        best = self._pass("other seeds", self._other_seeds, best)
        best = self._pass("concretise", self._concretise, best)
        passes = (
            ("materialise", self._materialise),
            ("cut short", self._end_early),
            ("strands", strands),
            ("operations", partial(self._ddmin, "operations")),
            ("steps", self._steps),
            ("flatten", self._flatten),
            ("gaps", self._gaps),
            ("nodes", self._nodes),
            ("knobs", self._knobs),
            ("values", self._values),
        )
        while not self.out_of_time:
            before = best
            for name, shrink_by in passes:
                best = self._pass(name, shrink_by, best)
            if best == before:
                break
        best = replace(in_order(best), faults=(), expectations={})  # it asks for what is left of it
        best = replace(best, expectations=expectations_of(best))
        self.fails_again(best)
        return best

    def _bound(self, plan: Plan) -> Plan:
        """Bound the events of candidates by those of this run, so that none runs for very long."""
        played = self._last_played(plan)
        most = 4 * played.backend.world.scheduler.events + _EVENTS_SPARE
        bounds = replace(plan.bounds, events_max=min(plan.bounds.events_max, most))
        return self._keep(replace(plan, bounds=bounds), plan)

    def fails_again(self, plan: Plan) -> None:
        """Run the result once more in full, for the story."""
        self._played, result = run(plan, frozenset({self.wanted}))
        self._violation = result.violations[0] if result.violations else None

    @property
    def story(self) -> tuple[Played, Violation | None]:
        """The last failing run and its violation."""
        assert self._played is not None
        return self._played, self._violation

    def _pass(self, name: str, shrink_by: Callable[[Plan], Plan], plan: Plan) -> Plan:
        self.progress.pass_name, self.progress.events = name, plan.events
        if self.out_of_time:
            return plan
        after = shrink_by(plan)
        self.progress.events = after.events
        return after

    def _keep(self, candidate: Plan, current: Plan) -> Plan:
        """Return the candidate if it fails, too, else the current plan."""
        return candidate if candidate != current and self.fails(candidate) else current

    def _last_played(self, plan: Plan) -> Played:
        """Return the run of this very plan."""
        if self._played is None or self._played.plan != plan:
            self._played, self._violation = self._run(plan)
        return self._played

    # -- lists -----------------------------------------------------------------------------------

    def _end_early(self, plan: Plan) -> Plan:
        """End the fault phase right after the violation, or after the last act."""
        played = self._last_played(plan)
        at_ms = self._violation.at_ms if self._violation is not None else 0.0
        seen_ms = at_ms - played.fault_phase_ms
        if 0 < seen_ms < plan.duration_ms:
            cut = replace(plan, duration_s=(round(seen_ms) + 10) / 1000.0)
            plan = self._keep(without_late(cut), plan)
        last_ms = max((act.at_ms for act in played.acts), default=0.0) - played.fault_phase_ms
        shorter = float(round(max(last_ms, 0.0)) + 500)
        if shorter < plan.duration_ms:
            plan = self._keep(without_late(replace(plan, duration_s=shorter / 1000.0)), plan)
        return plan

    def _steps(self, plan: Plan) -> Plan:
        for number in range(len(plan.strands)):
            for position in reversed(range(len(plan.strands[number].steps))):
                if len(plan.strands[number].steps) <= position:
                    continue
                candidate = without_step(plan, number, position)
                plan = self._keep(candidate, plan)
        strands = tuple(strand for strand in plan.strands if strand.steps)
        return self._keep(replace(plan, strands=strands), plan)

    def _ddmin(self, name: str, plan: Plan) -> Plan:
        """Drop parts of a list, large ones first, each size in one sweep from end to beginning.

        ddmin without its restarts: late parts are dropped first, since less depends on them. Large
        parts of long lists are also tried with other seeds.
        """
        best, left = plan, tuple(getattr(plan, name))
        none: Any = {name: ()}
        if left and self.fails(replace(plan, **none)):
            return replace(plan, **none)
        size = max(1, len(left) // 2)
        while left and not self.out_of_time:
            end = len(left)
            while end > 0 and not self.out_of_time:
                start = max(0, end - size)
                rest = left[:start] + left[end:]
                kept: Any = {name: rest}
                candidate = replace(plan, **kept, seed=best.seed)
                many = self._is_race and len(left) > _MANY and size >= len(left) // 8
                found = self._somewhere(candidate, _PATIENCE_S if many else 0.0)
                if found is not None:
                    best, left = found, rest
                end = start
            if size == 1:
                break
            size = max(1, size // 2)
        return best

    # -- other worlds ----------------------------------------------------------------------------

    def _other_seeds(self, plan: Plan) -> Plan:
        """Halve a plan whose violation depends on the world's draws, with other seeds.

        A race that few schedules lose is gone after one draw more or less, so in the same world
        almost nothing can be dropped. But a part of the plan loses the race in some other world.
        """
        self._is_race = plan.rate_per_s > 0
        while self._is_race and not self.out_of_time:
            smaller = next(filter(None, map(self._somewhere, halves(plan))), None)
            if smaller is None:
                break
            plan = self._end_early(smaller)
            self.progress.events = plan.events
        return self._materialise(plan)

    def _somewhere(self, candidate: Plan, for_s: float = _PATIENCE_S) -> Plan | None:
        """Return the candidate with the first seed that makes it fail, from its own on."""
        until_s = time.monotonic() + for_s
        while not self.fails(candidate):
            if time.monotonic() >= until_s or self.out_of_time:
                return None
            candidate = replace(candidate, seed=candidate.seed + 1)
        return candidate

    # -- from words to nodes and times -----------------------------------------------------------

    def _materialise(self, plan: Plan) -> Plan:
        """Replace the stream by the list of the operations that it began."""
        if plan.rate_per_s <= 0:
            return plan
        candidate = replace(plan, rate_per_s=0.0)
        if self.fails(candidate):
            return candidate
        played = self._last_played(plan)
        operations = tuple(operations_in_faults(played))
        plan = self._keep(replace(plan, rate_per_s=0.0, operations=operations), plan)
        if plan.rate_per_s > 0:
            return plan
        workers = max((op.worker for op in operations), default=0) + 1
        return self._keep(replace(plan, concurrency=workers), plan)

    def _concretise(self, plan: Plan) -> Plan:
        """Replace target words by the nodes that were hit, one step after the other."""
        played = self._last_played(plan)
        concrete = plan
        hit = {
            (act.strand, act.step): act.targets
            for act in played.acts
            if not act.undone and act.targets
        }
        for (number, position), targets in sorted(hit.items()):
            concrete = retarget(concrete, number, position, targets)
        plan = self._keep(concrete, plan)
        for number, position in sorted(hit):
            candidate = retarget(plan, number, position, hit[number, position])
            plan = self._keep(candidate, plan)
        return self._keep(name_casts(plan, played), plan)

    def _flatten(self, plan: Plan) -> Plan:
        """Replace the conditions of steps by the times at which they acted."""
        for number, strand in enumerate(plan.strands):
            for position, step in enumerate(strand.steps):
                if step.until is None:
                    continue
                played = self._last_played(plan)
                base_ms = act_time(played, number, position - 1)
                at_ms = act_time(played, number, position)
                if at_ms is None:
                    continue
                before_ms = played.fault_phase_ms + strand.at_ms if base_ms is None else base_ms
                wait_ms = round(max(0.0, at_ms - before_ms), 3)
                timed = replace(step, until=None, after_ms=wait_ms)
                plan = self._keep(with_step(plan, number, position, timed), plan)
        return plan

    def _gaps(self, plan: Plan) -> Plan:
        """Shorten the time before each moment at which something is done, the last one first."""
        moments = {strand.at_ms for strand in plan.strands}
        moments |= {op.at_ms for op in plan.operations}
        for moment in sorted(moments, reverse=True):
            earlier = max((other for other in moments if other < moment), default=0.0)
            for left_ms in (0.0, 0.25 * (moment - earlier)):
                by_ms = round(moment - earlier - left_ms, 1)
                if by_ms >= 1.0:
                    candidate = moved_earlier(plan, moment, by_ms)
                    after = self._keep(candidate, plan)
                    if after is not plan:
                        plan = after
                        break
        return plan

    # -- knobs and values ------------------------------------------------------------------------

    def _nodes(self, plan: Plan) -> Plan:
        while plan.nodes > 1:
            candidate = with_a_node_less(plan)
            if candidate is None or not self.fails(candidate):
                return plan
            plan = candidate
        return plan

    def _knobs(self, plan: Plan) -> Plan:
        plan = self._keep(replace(plan, node_settings=dict(NODE_SETTINGS)), plan)
        plan = self._keep(replace(plan, world=SimSettings()), plan)
        for key, default in NODE_SETTINGS.items():
            if plan.node_settings.get(key, default) != default:
                settings = {**plan.node_settings, key: default}
                plan = self._keep(replace(plan, node_settings=settings), plan)
        plain = SimSettings()
        for item in fields(SimSettings):
            if getattr(plan.world, item.name) != getattr(plain, item.name):
                world = replace(plan.world, **{item.name: getattr(plain, item.name)})
                plan = self._keep(replace(plan, world=world), plan)
        calm_worlds: tuple[dict[str, Any], ...] = (
            {"loss": 0.0, "duplication": 0.0},
            {"drift_ppm": 0.0, "skew_ms": 0.0},
        )
        for calm in calm_worlds:
            plan = self._keep(replace(plan, world=replace(plan.world, **calm)), plan)
        return plan

    def _values(self, plan: Plan) -> Plan:
        for number, strand in enumerate(plan.strands):
            for simpler in rounder(strand.at_ms):
                plan = self._keep(with_strand(plan, number, at_ms=simpler), plan)
            for position in range(len(plan.strands[number].steps)):
                plan = self._step_values(plan, number, position)
        for position, operation in enumerate(plan.operations):
            for simpler in rounder(operation.at_ms):
                operations = list(plan.operations)
                operations[position] = replace(operation, at_ms=simpler)
                plan = self._keep(replace(plan, operations=tuple(operations)), plan)
        for simpler in rounder(plan.duration_ms):
            if simpler >= 1:
                plan = self._keep(without_late(replace(plan, duration_s=simpler / 1000.0)), plan)
        return plan

    def _step_values(self, plan: Plan, number: int, position: int) -> Plan:
        for name in ("after_ms", "for_ms"):
            step = plan.strands[number].steps[position]
            value = getattr(step, name)
            for simpler in () if value is None else rounder(value):
                change: dict[str, Any] = {name: simpler}
                changed = replace(plan.strands[number].steps[position], **change)
                plan = self._keep(with_step(plan, number, position, changed), plan)
        step = plan.strands[number].steps[position]
        plan = self._keep(with_step(plan, number, position, replace(step, for_ms=None)), plan)
        for key in sorted(step.options):
            step = plan.strands[number].steps[position]
            value = step.options[key]
            if key.endswith("_ms") and isinstance(value, int | float):
                for simpler in rounder(value):
                    changed = replace(step, options={**step.options, key: simpler})
                    plan = self._keep(with_step(plan, number, position, changed), plan)
        return plan
