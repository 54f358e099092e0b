"""Plays a plan in the simulated world: `play(plan) -> Played`.

A plan's run is the same, callback by callback, every time: one queue of events orders everything.
The invariants (`checkers.invariants`) judge every event, and after the last heal the quorum must be
live again within the plan's bound. The first violation ends the run: further ones may only be its
consequences.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from checkers.evidence import WORLD_CLOCK
from checkers.history import Event
from checkers.nodes.agreement import storage_failed
from cluster import mutants
from cluster.backends.base import BackendError, Death, NodeState
from cluster.backends.sim import loop as virtual
from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.scheduler import BusyLoopError, Scheduler
from cluster.backends.sim.sim_backend import SimBackend
from cluster.node.ports import nothing
from harness.plan.plan import Plan
from harness.run.final_reads import FinalReads
from harness.run.observer import Leadership, Observer
from harness.run.phases import NO_READS, Run, conduct
from harness.run.plan_backend import Watch, world_of
from harness.run.recorder import Journal, Recorder
from harness.run.strands.player import Player
from harness.run.strands.progress import Act
from harness.sim.findings import Violation, Violations, generalise
from harness.sim.placement import PLACEMENT, misplacements
from harness.sim.requests.quorum_polls import QuorumPolls
from harness.sim.requests.what_ifs import WhatIfs
from harness.sim.sights.answers import AnswerWatch
from harness.sim.sights.descriptions import DescriptionPolls
from harness.sim.sights.folders import FolderWatch
from harness.sim.sights.images import ImageWatch
from harness.sim.sights.partitions import PartitionWatch
from harness.sim.sights.replicas import ReplicaWatch
from harness.sim.sights.retention import RetentionWatch
from harness.sim.sights.sessions import SessionWatch
from harness.sim.sights.shutdowns import ShutdownWatch
from harness.sim.sights.starts import StartWatch
from harness.sim.sights.upkeep import UpkeepWatch
from harness.sim.sights.world import watch
from nemeses.base import Injection
from workloads.base import LeaderTracker

_DIRECTORY_LOST = "directory-lost"
_OF_DISKS = frozenset({errno.EIO, errno.ENODEV, errno.ENOSPC})
"""Errors of a disk that fails, is unplugged or is full."""
_RESTART_MS = 100.0
_LOOK_S = 0.1
_COLLECT_AFTER = 300_000
"""New objects before the next garbage collection; Python's default of 700 costs 10 % of a run."""


@dataclass(slots=True)
class _Events:
    """Keeps the history of a run in memory, beside the journal in which it is stored."""

    store: Journal | None
    all: list[Event] = field(default_factory=list)

    def append(self, event: Event) -> None:
        if self.store is not None:
            self.store.append(event)
        self.all.append(event)


@dataclass(slots=True)
class Played:
    """A finished run, before it is judged."""

    plan: Plan
    events: Sequence[Event]
    acts: Sequence[Act]
    violations: list[Violation]
    reads: FinalReads
    backend: SimBackend
    watch: Watch
    casts: Mapping[int, Mapping[str, str]]
    """Strand -> cast name -> the node that it last named."""
    cpu_s: float
    fault_phase_ms: float
    """World time at which the fault phase began."""
    wanted: frozenset[str] | None
    """Properties that were judged; None: all."""


def play(
    plan: Plan,
    store: Journal | None = None,
    run_folder: Path | None = None,
    *,
    brief: bool = False,
    wanted: frozenset[str] | None = None,
) -> Played:
    """Run a plan to its end; `store`: where its events go beside the result.

    A brief run ends with the fault phase, and its result holds the monitor's violations only. With
    `wanted`, violations of all other properties are ignored and do not end the run.
    """
    with contextlib.ExitStack() as stack:
        if plan.mutant is not None:
            stack.enter_context(mutants.apply_mutant(plan.mutant))
        stack.enter_context(few_collections())
        gc.collect(1)  # the world before, if it is over: it is young still
        began_s, events = time.process_time(), _Events(store)
        world = _DrawnWorld(plan, events, run_folder, wanted)
        backend = world.backend
        run = Run(plan, backend, world.recorder, backend.clock, world=world, is_brief=brief)
        reads = NO_READS
        try:
            with backend.world.program.hold_processor():
                reads = virtual.run(conduct(run), world.timers)
        except BusyLoopError as error:
            world.note_violation("progress", str(error), "busy loop")
        except virtual.Stalled as error:
            world.note_violation("progress", str(error), "stalled")
        if not world.violations.found:
            for name, explanation in backend.world.program.complaints():
                world.note_violation(name, explanation)
        player = world.player
        assert player is not None, "the world is scripted"
        return Played(
            plan,
            events.all,
            player.acts,
            world.violations.found,
            reads,
            backend,
            world.watch,
            player.casts(),
            time.process_time() - began_s,
            player.begun_ms,
            wanted,
        )


@contextlib.contextmanager
def few_collections() -> Iterator[None]:
    """Collect garbage less often: a world is a large cycle, but in use until it is judged."""
    before = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _KnowingObserver(Observer):
    """Reads the leader from the world's state instead of asking the nodes."""

    def __init__(
        self, backend: SimBackend, standings: Watch, recorder: Recorder, tracker: LeaderTracker
    ) -> None:
        super().__init__(backend, None, recorder, tracker)
        self._standings = standings

    async def ask(self) -> Leadership | None:
        leader = self._standings.leader()
        if leader is None:
            return None
        return Leadership(leader, self._standings.nodes[leader].epoch, by_itself=True)

    async def watch(self) -> None:
        """Do nothing until cancelled: the world calls `on_event`."""
        await asyncio.get_running_loop().create_future()

    def on_event(self, node: str, event: str, fields: Mapping[str, object]) -> None:
        """Journal each claim of leadership."""
        if event == "claim":
            epoch = fields["epoch"]
            assert isinstance(epoch, int), "docs/evidence.md"
            self._tracker.learn(node, epoch)
            self._recorder.note("leader", {"leader": node, "epoch": epoch})

    def journal_deaths(self) -> None:
        """Do nothing: a death that no fault excuses is a violation already."""


class _DrawnWorld:
    """A simulated world, its monitor and its violations (`harness.run.world.World`)."""

    acted_within_ms = 0.0
    operation_bound_s: float | None = None
    is_scripted = True

    def __init__(
        self, plan: Plan, journal: Journal, run_folder: Path | None, wanted: frozenset[str] | None
    ) -> None:
        self.timers: Scheduler = Scheduler()
        self.first_bound_s = self.bound_s = plan.bounds.liveness_ms / 1000.0
        world = world_of(plan, "sim", self.timers)
        self.backend = SimBackend(world, run_folder)
        # The monitor first: it must judge an event before a strand acts on it.
        watcher = watch(
            world,
            lambda seen: self.note_violation(seen.property, seen.explanation),
            plan.kind.traced,
        )
        for of_what in (
            *(ImageWatch, ReplicaWatch, PartitionWatch, SessionWatch, ShutdownWatch, UpkeepWatch),
            *(RetentionWatch, FolderWatch, StartWatch, AnswerWatch),
            *(DescriptionPolls, QuorumPolls, WhatIfs),
        ):
            of_what(world, watcher)
        self.watch = Watch(world)
        self.recorder = Recorder(
            journal, lambda: self.timers.now_ms / 1000.0, WORLD_CLOCK, {"seed": plan.seed}
        )
        self.violations = Violations(self.timers, self.watch, self.recorder, wanted)
        self.over = self.violations.first
        self.tracker = LeaderTracker(world.names)
        self.observer = _KnowingObserver(self.backend, self.watch, self.recorder, self.tracker)
        self.player: Player | None = None
        self._is_stored = run_folder is not None
        self._events_max = plan.bounds.events_max
        self._says_why = plan.kind.metadata_quorum
        self._active: list[Injection] = []

    def view(self, random: Random) -> SimView:
        return SimView(self.backend, self.watch, self._active, random)

    def standings(self) -> Watch:
        return self.watch

    def attach(self, player: Player) -> None:
        """See `World.attach`: the player acts on an event before it is journaled."""
        self.player = player
        self.watch.listeners.append(self.observer.on_event)
        self.backend.world.on_end.append(self._judge_end)
        self.backend.world.observe(self._observe, "log-directory-offline")

    def note_violation(self, name: str, explanation: str, *causes: str) -> None:
        self.violations.add(Violation(name, explanation, causes))

    def not_live(self, what: str) -> None:
        """See `World.not_live`: a violation."""
        self.violations.not_live(what)

    def final_reads_bound_s(self, healed_s: float) -> float:
        """Return the rest of the bound: virtual time is taken by nothing but the nodes."""
        return max(1.0, healed_s + self.bound_s - self.timers.now_ms / 1000.0)

    async def up(self) -> None:
        """Start the nodes; one that does not start violates, and the run is over."""
        self.violations.bound_events(self._events_max)
        starting = asyncio.ensure_future(self.backend.up())
        ending = asyncio.ensure_future(self.over.wait())
        await asyncio.wait((starting, ending), return_when=asyncio.FIRST_COMPLETED)
        for task in (starting, ending):
            task.cancel()
        error, _ = await asyncio.gather(starting, ending, return_exceptions=True)
        if isinstance(error, BackendError):
            if not self.over.is_set():
                self.note_violation("node-died", str(error), generalise(str(error)))
            self.over.set()
        elif isinstance(error, Exception):
            raise error

    async def is_led(self) -> bool:
        """Whether a leader is established."""
        leader = self.watch.leader()
        return leader is not None and self.watch.nodes[leader].established

    async def down(self, *, healed: bool) -> None:
        """Take the nodes down if their files are to be stored; a run that broke off ends as is.

        Replicas on their way are there first. Otherwise what a follower
        serves, which it may do before it has written it, comes to its disk as by an orderly end.
        """
        if healed and not self.over.is_set():
            await self._arrivals()
        if healed and self._is_stored:
            await self.backend.down()
        elif healed:
            await self._writes()

    async def _writes(self) -> None:
        """Wait until what is under way to a disk is on it, each for a moment at which it rests."""
        hosts = self.backend.world.nodes.values()
        busy = [disk for host in hosts for disk in host.disks.values() if not disk.is_idle]
        deadline_ms = self.timers.now_ms + 1000.0 * self.bound_s
        while busy and self.timers.now_ms < deadline_ms and not self.over.is_set():
            await asyncio.sleep(_LOOK_S)
            busy = [disk for disk in busy if not disk.is_idle]

    async def _arrivals(self) -> None:
        """Wait until each replica is where the metadata have it, as long as all else may take."""
        deadline_ms = self.timers.now_ms + 1000.0 * self.bound_s
        while away := sorted(misplacements(self.backend.world)):
            if self.timers.now_ms > deadline_ms:
                late = f"{self.bound_s:g} s after the heal"
                self.note_violation(PLACEMENT, f"{away[0]} {late}", away[0])
                return
            await asyncio.sleep(_LOOK_S)

    def _judge_end(self, process: Incarnation) -> None:
        """Judge the death of a node that no fault killed."""
        deaths = self.backend.world.deaths
        if not deaths or deaths[-1].node != process.name:
            return
        death = deaths[-1]
        if death.incarnation != process.incarnation:
            return
        assert self.player is not None, "see attach"
        if self._says_why and not storage_failed(death.output_tail):
            self.violations.add_death(death)  # no fault excuses a broken invariant
            return
        self.player.excuses.judge(
            death, lambda: self._restart(death.node), lambda: self.violations.add_death(death)
        )

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        del event
        if not _is_failing(process, fields["log_dir"]):
            lost = Death(process.name, process.incarnation, 0, (fields["reason"],))
            self.timers.call_later(0, lambda: self._judge_lost(process, fields["log_dir"], lost))

    def _judge_lost(self, process: Incarnation, log_dir: str, lost: Death) -> None:
        """Judge that a broker went on without a log directory whose disk works, as a death."""
        (reason,) = lost.output_tail

        def blame() -> None:
            causes = _DIRECTORY_LOST, generalise(reason)
            what = f"{lost.node} goes on without {log_dir}, whose disk works: {reason}"
            self.note_violation(_DIRECTORY_LOST, what, *causes)

        assert self.player is not None, "see attach"
        if process.alive:  # else its death is judged
            self.player.excuses.judge(lost, nothing, blame)

    def _restart(self, node: str) -> None:
        """Start a node whose storage failed late, after the heals that would start it."""
        if self.player is not None and self.player.stopped:
            self.timers.call_later(_RESTART_MS, lambda: self._start(node))

    def _start(self, node: str) -> None:
        if self.backend.world.nodes[node].state is NodeState.DEAD:
            self.backend.world.start(node)


def _is_failing(process: Incarnation, log_dir: str) -> bool:
    """Whether the disk of a log directory has failed."""
    assert process.node is not None, "it traced"
    assert process.node.replicas is not None, "it has log directories"
    directory = process.node.replicas.logs.at_path(log_dir)
    assert directory is not None, "it was online"
    disk = directory.disk
    assert isinstance(disk, MemoryDisk), "a simulated node's"
    return disk.detached or (disk._error is not None and disk._error.errno in _OF_DISKS)


class SimView:
    """A view for one fault; all views of a run share the list of active injections."""

    bound_s = None
    """None: the time is virtual, and `harness.plan.plan.Bounds` holds the bounds of the world."""

    def __init__(
        self, backend: SimBackend, watch: Watch, active: list[Injection], random: Random
    ) -> None:
        self.backend = backend
        self.controllers = backend.nodes
        self.active = active
        self.random = random
        self._watch = watch

    async def leader(self) -> str | None:
        """Return the leader of the world's state, without asking the nodes."""
        return self._watch.leader()

    async def partition_leader(self) -> str | None:
        """Return None: no simulated fault targets topics."""
        return None
