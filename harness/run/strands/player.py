"""Plays the strands of a plan: the part of the nemesis that follows a script, on any backend.

Every fault is injected and healed by `nemeses.drive`, journaled with what was measured, and kept as
an `Act` for coverage and for stories. A fault that cannot act (there is no leader, or no node has
the name) is journaled with the reason; a fault never ends the schedule.

A strand continues when its fault has acted, or `acted_within_ms` after the injection began. In a
simulated world that is 0: faults act in no time, and an injection that must wait for the nodes (a
change of voters) completes beside the strand. Elsewhere an injection may take longer than that on
a busy machine, and a step that heals waits for those of its strand, lest it find nothing to heal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from checkers.evidence.standings import Standings
from checkers.history import EventType
from checkers.runs.exercised import MISSING
from checkers.runs.faults import OVER
from checkers.runs.monitor import UNDECIDED
from harness.plan.plan import Plan, fault_kinds
from harness.plan.step_verbs import is_fault
from harness.plan.strands import CONDITION, Condition, Step, differences, step_name
from harness.run.recorder import Recorder
from harness.run.strands.conditions import (
    Cast,
    Outcomes,
    TraceEvent,
    choose,
    links_of,
    parameters_of,
)
from harness.run.strands.excuses import Excuse, Excuses
from harness.run.strands.progress import Act, Expectation, Play, Timers, begin_act
from nemeses import drive
from nemeses.at_once import begin
from nemeses.base import Injection, View, refusal
from nemeses.links.hold import Hold
from workloads.base import Op

Ask = Callable[[Op, str | None, str, str], None]
"""(operation, node to ask or None for the supposed leader, id, place): passes it to a client."""
Broken = Callable[[str, str, str], None]
"""(property, explanation, place in the script) of a violation."""

_AT_ANY_INSTRUCTION = frozenset({"kill", "stop", "pause"})
"""Signals, which can interrupt a process at any instruction, so also within its own event."""


class Player:
    """Plays all strands from `begin` until `stop`; `heal` ends what they began."""

    def __init__(
        self,
        plan: Plan,
        standings: Standings,
        timers: Timers,
        view: Callable[[Random], View],
        recorder: Recorder,
        ask: Ask,
        report_broken: Broken,
        *,
        acted_within_ms: float = 0.0,
    ) -> None:
        """`view` makes views of one run, which share their list of active injections."""
        self.plan = plan
        self.standings = standings
        self.timers = timers
        self.outcomes: Outcomes = {}
        self.acts: list[Act] = []
        self.begun_ms = 0.0
        """Time at which the fault phase began."""
        self.stopped = False
        self.report_broken = report_broken
        self.excuses = Excuses(view(Random(0)).backend)
        self._view = view
        self._recorder = recorder
        self._ask = ask
        self._acted_within_ms = acted_within_ms
        self._plays: list[Play] = []
        self._waiting: set[int] = set()
        """Numbers of the plays that wait for a condition."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun: dict[asyncio.Event, tuple[int, str]] = {}
        """Set once an injection has acted or cannot -> strand and fault, of those that may act."""
        self._healing: set[object] = set()
        """Keys of the injections whose heal is under way."""
        standings.listeners.append(self._on_event)

    def begin(self) -> None:
        """Start the clock of the fault phase."""
        self.begun_ms = self.timers.now_ms
        for number, strand in enumerate(self.plan.strands):
            play = Play(self, number, strand)
            self._plays.append(play)
            self.timers.call_later(strand.at_ms, play.next)

    def stop(self, left: Iterable[str] = ()) -> None:
        """End the fault phase: inject nothing more, and journal what was not decided by then.

        `left`: places of operations that no client had come to.
        """
        self.stopped = True
        self.standings.listeners.remove(self._on_event)
        for play in self._plays:
            for place in sorted(play.undecided):
                step = play.strand.steps[place]
                value = {"place": step_name(play.number, place), "that": step.options["that"]}
                self._recorder.note(UNDECIDED, value, EventType.INFO)
            for place in range(play.acted, len(play.strand.steps)):
                kind = play.strand.steps[place].kind
                self.note_missing(step_name(play.number, place), kind, wanted=not play.is_over)
        for operation in left:
            self.note_missing(operation, "op")

    def note_missing(
        self, place: str, kind: str, *, wanted: bool = True, until: Condition | None = None
    ) -> None:
        """Journal a step that never came; `until`: one that acted without this condition.

        A plan that names its faults wants what its steps do; a drawn one takes what comes.
        """
        asked = self.plan.faults or not fault_kinds(self.plan)
        value: dict[str, Any] = {"place": place, "kind": kind}
        if until is not None:
            value["until"] = differences(until)
        elif wanted and asked and (kind == "op" or is_fault(kind)):
            value["wanted"] = True
        self._recorder.note(MISSING, value, EventType.INFO)

    async def settle(self) -> None:
        """After `stop`: wait for injections and heals under way."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """Cancel everything under way. Idempotent."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def casts(self) -> dict[int, dict[str, str]]:
        """Return the nodes that each strand's names last stood for."""
        return {play.number: dict(play.cast.names) for play in self._plays}

    def op_ended(self, op_id: str, how: EventType) -> None:
        """Record how an operation with an id ended; strands may wait for it."""
        if op_id:
            self.outcomes[op_id] = how.value
            self._look(None)

    def _on_event(self, node: str, event: str, fields: Mapping[str, Any]) -> None:
        self._look((node, event, fields))

    def _look(self, event: TraceEvent | None) -> None:
        if self._waiting and not self.stopped:
            for number in sorted(self._waiting):  # a copy: a play that acts changes the set
                play = self._plays[number]
                if play.waiting is not None:
                    play.look(event)

    def wait(self, play: Play, condition: Condition | None) -> None:
        """Let a play wait for a condition; None: it waits no longer."""
        play.waiting = condition
        if condition is None:
            self._waiting.discard(play.number)
        else:
            self._waiting.add(play.number)

    # -- doing -----------------------------------------------------------------------------------

    def act(self, play: Play, step: Step, *, at_event: bool) -> None:
        """Execute a step whose time and condition have come.

        Within a node's own event (`at_event`) only `_AT_ANY_INSTRUCTION` acts at once; every other
        step acts right after the event.
        """
        if at_event and step.kind not in _AT_ANY_INSTRUCTION:
            self.timers.call_later(0, lambda: self._act_now(play, step))
        else:
            self._act_now(play, step, at_event=at_event)

    def _act_now(self, play: Play, step: Step, *, at_event: bool = False) -> None:
        if self.stopped:
            return
        play.acted = play.position + 1
        if is_fault(step.kind):
            self._inject(play, step, at_event=at_event)
            return
        if step.kind == "cast":
            self._cast(play, step)
        elif step.kind == "op":
            self._operate(play, step)
        elif step.kind == "expect":
            Expectation(self, play, step, CONDITION.read(step.options["that"])).begin()
        elif step.kind == "heal":
            self._heal(play, step)
        elif step.kind == "release":
            self._release(play, step)
        play.done()

    def _cast(self, play: Play, step: Step) -> None:
        names, wanted = play.cast, step.options["names"]
        cast: dict[str, str] = {}
        for name, word in wanted.items():  # a former name makes no room, and may be the word
            known = Cast({**names.names, **cast}, names.epoch)
            found = choose(word, self.standings, known, play.stream(step), tuple(cast.values()))
            if found:
                cast[name] = found[0]
        names.names = {name: at for name, at in names.names.items() if name not in wanted} | cast
        names.epoch = self.standings.highest_epoch()

    def _operate(self, play: Play, step: Step) -> None:
        nodes = self._choose(play, step)
        options = step.options
        op = Op(options.get("f", "write"), options.get("key"), options.get("value"))
        self.acts.append(self._begin_act(play, step).hit(nodes or (), {}))
        place = step_name(play.number, play.position)
        self._ask(op, nodes[0] if nodes else None, options.get("id", ""), place)

    # -- faults ----------------------------------------------------------------------------------

    def _inject(self, play: Play, step: Step, *, at_event: bool) -> None:
        parameters = parameters_of(step, self.standings, play.cast, play.stream(step))
        if parameters is None:
            moment = self._begin_act(play, step)
            self._note(
                refusal(step.kind, step.parameters, "no node has the name"), "inject", moment
            )
            play.done()
            return
        excuse = self.excuses.begin(step.kind)
        acted = asyncio.Event()
        self._begun[acted] = play.number, step.kind
        is_over = False

        def go_on() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                play.done()

        def note_act() -> None:
            self._begun.pop(acted, None)
            acted.set()
            go_on()

        injecting = self._inject_fault(play, step, parameters, excuse, note_act)
        if at_event:  # runs to its first await within the event
            self._keep(begin(injecting))
        else:
            self._spawn(injecting)
        self.timers.call_later(self._acted_within_ms, go_on)

    async def _inject_fault(
        self,
        play: Play,
        step: Step,
        parameters: Mapping[str, Any],
        excuse: Excuse | None,
        acted: Callable[[], None],
    ) -> None:
        """Inject, journal, and schedule the heal."""
        moment = self._begin_act(play, step)
        view = self._view(play.stream(step))
        injection = await drive.inject(view, step.kind, parameters, acted)
        acted()
        self.excuses.set_targets(excuse, injection)
        # A step may heal what still measures whether it acted: then its heal is journaled already.
        is_over = injection.applied and all(a.key is not injection.key for a in view.active)
        self._note(injection, "inject", moment, **({OVER: True} if is_over else {}))
        for seen in injection.detail.get("violations", ()):
            self.report_broken(seen["kind"], seen["explanation"], seen["kind"])
        if not injection.applied:
            return
        self.acts.append(moment.hit(injection.targets, step.options))
        if step.for_ms is not None:
            left_ms = max(0.0, moment.at_ms + step.for_ms - self.timers.now_ms)
            self.timers.call_later(left_ms, lambda: self._over(injection, moment))

    def _over(self, injection: Injection, moment: Act) -> None:
        if not self.stopped:
            self._spawn(self._undo(injection, moment))

    def _heal(self, play: Play, step: Step) -> None:
        kinds = set(filter(None, step.options.get("fault", "").split(",")))
        nodes = self._choose(play, step)
        moment = self._begin_act(play, step)
        view = self._view(play.stream(step))
        late = [
            acted
            for acted, (strand, kind) in self._begun.items()
            if strand == play.number and (not kinds or kind in kinds)
        ]

        def find() -> list[Injection]:
            return [
                injection
                for injection in drive.heal_order(view.active)
                if (not kinds or injection.fault in kinds)
                and (nodes is None or set(nodes).intersection(injection.targets))
            ]

        found = find()
        self.acts.append(moment.hit(nodes or (), step.options))

        async def heal() -> None:
            chosen = found
            if late and self._acted_within_ms > 0:
                for acted in late:
                    await acted.wait()
                chosen = find()
            for injection in chosen:
                await self._undo(injection, moment, by_step=True)

        self._spawn(heal())

    def _release(self, play: Play, step: Step) -> None:
        random = play.stream(step)
        links = links_of(step.options.get("links", ""), self.standings, play.cast, random)
        moment = self._begin_act(play, step)
        view = self._view(random)
        self.acts.append(moment.hit((), {"links": [f"{a}>{b}" for a, b in links]}))
        held = [injection for injection in view.active if injection.fault == Hold.name]

        async def release() -> None:
            for injection in held:
                if not links or set(links) >= set(injection.links):
                    await self._undo(injection, moment, by_step=True)
                else:
                    await Hold.release(view, injection, links)

        self._spawn(release())

    async def _undo(self, injection: Injection, moment: Act, *, by_step: bool = False) -> None:
        """Heal one injection, unless it is healed or its heal is under way."""
        view = self._view(Random(f"{self.plan.seed}/heal/{moment.strand}"))
        is_active = any(active.key is injection.key for active in view.active)
        if not is_active or injection.key in self._healing:
            return
        self._healing.add(injection.key)
        try:
            healed = await drive.heal(view, injection)
        finally:
            self._healing.discard(injection.key)
        if healed.verified:
            self.excuses.end(injection)
        self._note(healed, "heal", moment)
        if not by_step:
            at_ms = self.timers.now_ms
            undone = moment.hit(injection.targets, {})
            self.acts.append(replace(undone, at_ms=at_ms, roles=(), undone=True))

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._keep(asyncio.ensure_future(coroutine))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- records ---------------------------------------------------------------------------------

    def _choose(self, play: Play, step: Step) -> tuple[str, ...] | None:
        """Resolve a verb's targets to nodes; None where it has no targets."""
        if not step.targets:
            return None
        return choose(step.targets, self.standings, play.cast, play.stream(step))

    def _begin_act(self, play: Play, step: Step) -> Act:
        place = (play.number, play.position)
        return begin_act(self.timers.now_ms, place, step.kind, self.standings)

    def _note(self, injection: Injection, phase: str, moment: Act, **more: bool) -> None:
        entry = step_name(moment.strand, moment.step)
        value = {**injection.value(phase), "entry": entry, **more}
        kind = EventType.OK if injection.verified else EventType.INFO
        self._recorder.note(injection.fault, value, kind)
