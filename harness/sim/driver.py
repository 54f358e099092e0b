"""Plays the strands of a scenario on a world: the nemesis of the simulated arm.

Everything that it does is journaled as an operation of the nemesis, with whom it hit, and kept as
an `Act` for coverage and for the story. A step that cannot act (no leader to hit, nobody of that
name) does nothing and says so; a schedule never fails over its faults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from checkers.history import EventType
from cluster.values import valueclass
from harness.recorder import Recorder
from harness.sim.apply import apply
from harness.sim.conditions import Cast, Outcomes, candidates, holds
from harness.sim.effects import Effects, Link, Undo, details, partition_links
from harness.sim.findings import Violation
from harness.sim.kinds import KINDS
from harness.sim.scenario import CONDITION, Condition, Scenario, Step, Strand
from harness.sim.watch import Watch
from workloads.base import Completion, Op

Ask = Callable[[Op, str | None, str], None]
"""(operation, node to ask or None for the supposed leader, id) -> hand it to a client."""


@valueclass
class Act:
    """One thing that was done."""

    at_ms: float
    """Of the world's time."""
    strand: int
    step: int
    kind: str
    targets: tuple[str, ...]
    roles: tuple[str, ...]
    """What the targets were: leader, follower, voter, dead."""
    phase: str
    """Of the protocol (`Watch.phase`)."""
    detail: Mapping[str, Any]
    undone: bool = False
    """It is the end of a fault, not its beginning."""


class Driver:
    """Plays all strands from `begin` until `stop`."""

    def __init__(
        self,
        scenario: Scenario,
        watch: Watch,
        effects: Effects,
        recorder: Recorder,
        ask: Ask,
        broken: Callable[[Violation], None],
    ) -> None:
        self.scenario = scenario
        self.watch = watch
        self.effects = effects
        self.outcomes = Outcomes()
        self.acts: list[Act] = []
        self.stopped = False
        self._recorder = recorder
        self._ask = ask
        self._broken = broken
        self._scheduler = watch.world.scheduler
        self._plays: list[_Play] = []
        self._waiting: set[int] = set()
        """Numbers of the plays that wait for something."""
        self._undos = 0
        watch.listeners.append(self._heard)

    def begin(self) -> None:
        """Start the clock of the fault phase."""
        for number, strand in enumerate(self.scenario.strands):
            play = _Play(self, number, strand)
            self._plays.append(play)
            self._scheduler.call_later(strand.at_ms, play.next)

    def stop(self) -> None:
        """End the fault phase: nothing more is done, everything is undone."""
        self.stopped = True
        self.watch.listeners.remove(self._heard)
        self.effects.heal()
        self._journal("heal", {"phase": "heal", "fault": "all", "targets": []})

    def casts(self) -> dict[int, dict[str, str]]:
        """Return the nodes that each strand's names last stood for."""
        return {play.number: dict(play.cast.names) for play in self._plays}

    def op_ended(self, op_id: str, how: EventType) -> None:
        """Note how an operation with an id ended; strands may wait for it."""
        if op_id:
            self.outcomes.by_id[op_id] = how.value
            self._look(None)

    def _heard(self, node: str, event: str, fields: Mapping[str, Any]) -> None:
        self._look((node, event, fields))

    def _look(self, event: tuple[str, str, Mapping[str, Any]] | None) -> None:
        if self._waiting and not self.stopped:
            for number in sorted(self._waiting):  # while it acts, they may change
                play = self._plays[number]
                if play.waiting is not None:
                    play.look(event)

    def wait(self, play: _Play, condition: Condition | None) -> None:
        """Let a play wait for a condition, or no longer."""
        play.waiting = condition
        if condition is None:
            self._waiting.discard(play.number)
        else:
            self._waiting.add(play.number)

    # -- doing -----------------------------------------------------------------------------------

    def act(self, play: _Play, step: Step, *, at_event: bool) -> None:
        """Do what a step says, once its time and its condition have come.

        Within a node's own event (`at_event`) only what may happen at any instruction happens at
        once; everything else comes right after it.
        """
        if at_event and step.kind not in ("kill", "restart", "pause"):
            self._scheduler.call_later(0, lambda: self._act_now(play, step))
        else:
            self._act_now(play, step)

    def _act_now(self, play: _Play, step: Step) -> None:
        if self.stopped:
            return
        if step.kind == "cast":
            self._cast(play, step)
        elif step.kind == "op":
            self._operate(play, step)
        elif step.kind == "expect":
            self._expect(play, step)
        elif step.kind != "wait":
            self._fault(play, step)
        play.done()

    def _cast(self, play: _Play, step: Step) -> None:
        names = play.cast
        for name, word in step.options["names"].items():
            taken = [names.names[other] for other in step.options["names"] if other in names.names]
            names.names.pop(name, None)
            found = self._choose(play, step, word, avoid=tuple(taken))
            if found:
                names.names[name] = found[0]
        names.epoch = self.watch.highest_epoch()

    def _operate(self, play: _Play, step: Step) -> None:
        told = step.options
        nodes = self._choose(play, step, step.targets) if step.targets else ()
        op = Op(told.get("f", "write"), told.get("key"), told.get("value"))
        self._note(play, step, nodes, details(f=op.f, key=op.key, value=op.value))
        self._ask(op, nodes[0] if nodes else None, told.get("id", ""))

    def _expect(self, play: _Play, step: Step) -> None:
        told = CONDITION.read(step.options["that"])
        name = step.options.get("property", "expectation")
        _Expectation(self, play, step, told, name).begin()

    def _fault(self, play: _Play, step: Step) -> None:
        links = self._links(play, step)
        targets = self._choose(play, step, step.targets) if step.targets else ()
        if step.targets and not targets and not links:
            return
        roles = tuple(self.watch.role(node) for node in targets)
        phase = self.watch.phase()
        undo = apply(self.effects, step, targets, links)
        said = details(**{key: value for key, value in step.options.items() if key != "links"})
        if links and step.kind != "partition":
            said["links"] = [f"{a}>{b}" for a, b in links]
        self._note(
            play,
            step,
            targets,
            said,
            roles=roles,
            phase=phase,
            momentary=undo is None,
            bit=_bites(step.kind, roles),
        )
        if undo is not None and step.for_ms is not None:
            self._scheduler.call_later(step.for_ms, lambda: self._undo(play, step, targets, undo))

    def _undo(self, play: _Play, step: Step, targets: tuple[str, ...], undo: Undo) -> None:
        if not self.stopped:
            undo()
            self._note(play, step, targets, {}, undone=True)

    # -- whom ------------------------------------------------------------------------------------

    def _choose(
        self, play: _Play, step: Step, words: str, avoid: tuple[str, ...] = ()
    ) -> tuple[str, ...]:
        """Resolve target words (`@A,@B`, `minority`) to nodes, in their order."""
        chosen: list[str] = []
        for word in words.split(","):
            for name in self._resolve(play.stream(step), word, play.cast, avoid):
                if name not in chosen:
                    chosen.append(name)
        return tuple(chosen)

    def _resolve(
        self, random: Random, word: str, names: Cast, avoid: tuple[str, ...]
    ) -> tuple[str, ...]:
        if word.startswith(("@", "node:")):
            return candidates(word, self.watch, names)
        everyone = [name for name in self.watch.nodes if name not in avoid]
        leader = self.watch.leader()
        if word == "leader":
            return () if leader is None or leader in avoid else (leader,)
        followers = [name for name in everyone if name != leader]
        if word == "follower":
            running = [name for name in followers if name in self.watch.running()]
            return (random.choice(running or followers),) if followers else ()
        if word == "followers":
            return tuple(followers)
        if word == "all":
            return tuple(everyone)
        total = self.scenario.nodes
        count = {"minority": max(1, (total - 1) // 2), "majority": total // 2 + 1}.get(word, 1)
        picked = random.sample(everyone, min(count, len(everyone)))
        return tuple(name for name in everyone if name in picked)

    def _links(self, play: _Play, step: Step) -> list[Link]:
        told = step.options
        if step.kind == "partition":
            targets = self._choose(play, step, step.targets) if step.targets else ()
            return partition_links(
                self.scenario.node_names,
                told.get("shape", "targets"),
                targets,
                told.get("one_way", ""),
                play.stream(step),
            )
        links: list[Link] = []
        for word in filter(None, told.get("links", "").split(",")):
            both = "-" in word
            ends = word.replace("-", ">").split(">")
            sources, sinks = (self._choose(play, step, end) for end in ends)
            for source in sources:
                for sink in sinks:
                    if source != sink:
                        links += [(source, sink), (sink, source)] if both else [(source, sink)]
        return links

    # -- telling ---------------------------------------------------------------------------------

    def _note(
        self,
        play: _Play,
        step: Step,
        targets: tuple[str, ...],
        detail: Mapping[str, Any],
        *,
        roles: tuple[str, ...] = (),
        phase: str = "",
        undone: bool = False,
        momentary: bool = False,
        bit: bool = True,
    ) -> None:
        act = Act(
            self._scheduler.now_ms,
            play.number,
            play.position,
            step.kind,
            targets,
            roles,
            phase,
            detail,
            undone,
        )
        self.acts.append(act)
        if step.kind != "op":
            value: dict[str, Any] = {
                "phase": "heal" if undone else "inject",
                "fault": step.kind,
                "entry": 1000 * play.number + play.position,
                "targets": list(targets),
                "verified": bit,
                "detail": dict(detail),
            }
            if KINDS[step.kind].may_end_node:
                value["detail"]["may_end_node"] = True
            if momentary:
                value["momentary"] = True
            self._journal(step.kind, value)

    def _journal(self, name: str, value: dict[str, Any]) -> None:
        op = Op(name, None, value)
        self._recorder.invoke("nemesis", op)
        how = EventType.OK if value.get("verified", True) else EventType.INFO
        self._recorder.complete("nemesis", op, Completion(how, value))

    def fail(self, violation: Violation) -> None:
        """Report that an expectation of the script does not hold."""
        self._broken(violation)


_NEEDS_LIFE = frozenset({"kill", "restart", "pause", "disk_error", "snapshot"})


def _bites(kind: str, roles: tuple[str, ...]) -> bool:
    """Whether a fault does anything to nodes in these roles; what changes a host always does."""
    if kind == "resign":
        return "leader" in roles
    return kind not in _NEEDS_LIFE or any(role != "dead" for role in roles)


class _Play:
    """One strand as it is played."""

    def __init__(self, driver: Driver, number: int, strand: Strand) -> None:
        self.driver = driver
        self.number = number
        self.strand = strand
        self.position = -1
        self.cast = Cast()
        self.waiting: Condition | None = None
        self._turn = 0

    def stream(self, step: Step) -> Random:
        """Make the step's own stream: what other strands do does not change what it draws."""
        seed, at_ms = self.driver.scenario.seed, self.strand.at_ms
        return Random(f"{seed}/targets/{at_ms}/{step.kind}/{step.targets}/{self.position}")

    def next(self) -> None:
        """Go to the next step: first its pause."""
        self.position += 1
        if self.driver.stopped or self.position >= len(self.strand.steps):
            return
        step = self.strand.steps[self.position]
        if step.after_ms > 0:
            self.driver.watch.world.scheduler.call_later(step.after_ms, self._arrive)
        else:
            self._arrive()

    def _arrive(self) -> None:
        if self.driver.stopped:
            return
        step = self.strand.steps[self.position]
        if step.until is None:
            self.driver.act(self, step, at_event=False)
            return
        self._turn += 1
        turn = self._turn
        self.driver.wait(self, step.until)
        self.driver.watch.world.scheduler.call_later(step.within_ms, lambda: self._expire(turn))
        if step.until.event is None:
            self.look(None)

    def look(self, event: tuple[str, str, Mapping[str, Any]] | None) -> None:
        """Act if what is waited for has come."""
        driver, wanted = self.driver, self.waiting
        assert wanted is not None
        if holds(wanted, driver.watch, self.cast, driver.outcomes, event):
            driver.wait(self, None)
            self._turn += 1
            driver.act(self, self.strand.steps[self.position], at_event=event is not None)

    def _expire(self, turn: int) -> None:
        if turn != self._turn or self.driver.stopped:
            return
        self.driver.wait(self, None)
        step = self.strand.steps[self.position]
        if not step.strict:
            self.driver.act(self, step, at_event=False)

    def done(self) -> None:
        """Go on after a step; not within the event of a node."""
        self.driver.watch.world.scheduler.call_later(0, self.next)


class _Expectation:
    """Something that must come true within a time, and stay so for a while."""

    def __init__(self, driver: Driver, play: _Play, step: Step, that: Condition, name: str) -> None:
        self._driver = driver
        self._step = step
        self._that = that
        self._name = name
        self._cast = Cast(dict(play.cast.names), play.cast.epoch)
        self._place = f"strand {play.number + 1}, step {play.position + 1}"
        self._over = False
        self._came = False

    def begin(self) -> None:
        scheduler = self._driver.watch.world.scheduler
        if self._holds():
            self._come()
            return
        self._driver.watch.listeners.append(self._heard)
        scheduler.call_later(self._step.within_ms, self._late)

    def _holds(self) -> bool:
        driver = self._driver
        return holds(self._that, driver.watch, self._cast, driver.outcomes)

    def _come(self) -> None:
        self._came = True
        if self._step.for_ms is None:
            self._end()
        else:
            if self._heard not in self._driver.watch.listeners:
                self._driver.watch.listeners.append(self._heard)
            self._driver.watch.world.scheduler.call_later(self._step.for_ms, self._end)

    def _heard(self, node: str, event: str, fields: Mapping[str, Any]) -> None:
        del node, event, fields
        if self._over:
            return
        if not self._came and self._holds():
            self._come()
        elif self._came and not self._holds():
            self._fail("held, but not for as long as it must")

    def _late(self) -> None:
        if not self._came and not self._over:
            self._fail("did not come true in time")

    def _fail(self, how: str) -> None:
        if not self._driver.stopped:
            told = f"{self._place}: {self._step.options['that']} {how}"
            self._driver.fail(Violation(self._name, told, (self._place,)))
        self._end()

    def _end(self) -> None:
        self._over = True
        if self._heard in self._driver.watch.listeners:
            self._driver.watch.listeners.remove(self._heard)
