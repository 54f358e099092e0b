"""Plays a plan in the simulated world: `play(plan, journal, events) -> Played`.

A plan's run is the same, callback by callback, every time: one queue of events orders everything.
The invariants (`checkers.invariants`) judge every event, and after the last heal the quorum must be
live again within the plan's bound. The first violation ends the run: further ones may only be its
consequences.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from checkers.evidence import FINAL_READS, WORLD_CLOCK
from checkers.history import Event, EventType
from cluster import mutants
from cluster.backends.base import BackendError, NodeState
from cluster.backends.sim import loop as virtual
from cluster.backends.sim.process import Process
from cluster.backends.sim.scheduler import BusyLoopError, Scheduler
from cluster.backends.sim.sim_backend import SimBackend
from cluster.client.admin_client import Client
from harness.plan.plan import Plan
from harness.run.final_reads import Cells, FinalReads, read_all
from harness.run.generators import Clients, Phases, UntilOk
from harness.run.generators.base import NEMESIS, Worker
from harness.run.interpreter import Interpreter
from harness.run.observer import Leadership, Observer
from harness.run.recorder import Journal, Recorder
from harness.run.scripted_clients import STRAND_WORKERS, ScriptedClient, ScriptedClients
from harness.run.strands.player import Player
from harness.run.strands.step_record import Act
from harness.run.world_standings import Watch
from harness.sim.findings import Violation, generalised
from harness.sim.image_sight import ImageWatch
from harness.sim.violations import Violations
from harness.sim.world_sight import watch
from harness.sim.world_view import SimView
from nemeses import drive
from nemeses.base import Injection
from workloads.base import Completion, Op, WorkloadClient
from workloads.leader import LeaderTracker

_RESTART_MS = 100.0
_COLLECT_AFTER = 100_000
"""New objects before the next garbage collection; Python's default of 700 costs 10 % of a run."""


@dataclass(slots=True)
class MemoryJournal:
    """Keeps the history of a run in memory."""

    events: list[Event] = field(default_factory=list)

    def append(self, event: Event) -> None:
        """Keep one event."""
        self.events.append(event)


@dataclass(slots=True)
class Played:
    """A finished run, before it is judged."""

    plan: Plan
    events: Sequence[Event]
    acts: Sequence[Act]
    violations: list[Violation]
    reads: FinalReads | None
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
    journal: Journal,
    events: Sequence[Event],
    run_folder: Path | None = None,
    *,
    brief: bool = False,
    wanted: frozenset[str] | None = None,
) -> Played:
    """Run a plan to its end; `events` is the journal's list of events.

    A brief run ends with the fault phase, and its result holds the monitor's violations only. With
    `wanted`, violations of all other properties are ignored and do not end the run.
    """
    with contextlib.ExitStack() as stack:
        if plan.mutant is not None:
            stack.enter_context(mutants.apply_mutant(plan.mutant))
        stack.enter_context(_few_collections())
        return _Run(plan, journal, events, run_folder, brief=brief, wanted=wanted).play()


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    """Collect garbage less often: a world is a large cycle, but in use until its end."""
    before = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _KnowingObserver(Observer):
    """Reads the leader from the world's state instead of asking the nodes."""

    standings: Watch

    async def ask(self) -> Leadership | None:
        leader = self.standings.leader()
        if leader is None:
            return None
        return Leadership(leader, self.standings.nodes[leader].epoch, by_itself=True)


class _Run:
    """The state of one run."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        events: Sequence[Event],
        run_folder: Path | None,
        *,
        brief: bool,
        wanted: frozenset[str] | None,
    ) -> None:
        self._brief = brief
        self._plan = plan
        self._events = events
        self._stored = run_folder is not None
        self._scheduler = Scheduler()
        self._backend = SimBackend(
            plan.nodes,
            plan.seed,
            "sim",
            settings=plan.world,
            node_settings=plan.node_settings,
            mutant=plan.mutant,
            run_folder=run_folder,
            scheduler=self._scheduler,
        )
        world = self._backend.world
        # The monitor first: it must judge an event before a strand acts on it.
        ImageWatch(world, watch(world, lambda seen: self._report(seen.property, seen.explanation)))
        self._watch = Watch(world)
        self._recorder = Recorder(
            journal, lambda: self._scheduler.now_ms / 1000.0, WORLD_CLOCK, {"seed": plan.seed}
        )
        self._violations = Violations(self._scheduler, self._watch, self._recorder, wanted)
        self._workload = plan.make_workload()
        self._clients = ScriptedClients(plan, self._workload)
        self._believed = LeaderTracker(world.names)
        self._active: list[Injection] = []
        self._player = Player(
            plan,
            self._watch,
            self._scheduler,
            self._view,
            self._recorder,
            self._clients.ask,
            self._report,
        )
        self._reads: FinalReads | None = None
        self._fault_phase_ms = 0.0
        self._watch.listeners.append(self._on_event)
        world.on_end.append(self._on_end)

    def play(self) -> Played:
        began = time.process_time()
        try:
            virtual.run(self._main(), self._scheduler)
        except BusyLoopError as error:
            self._report("progress", str(error), "busy loop")
        except virtual.Stalled as error:
            self._report("progress", str(error), "stalled")
        return Played(
            self._plan,
            self._events,
            self._player.acts,
            self._violations.found,
            self._reads,
            self._backend,
            self._watch,
            self._player.casts(),
            time.process_time() - began,
            self._fault_phase_ms,
            self._violations.wanted,
        )

    def _report(self, name: str, explanation: str, *causes: str) -> None:
        self._violations.add(Violation(name, explanation, causes))

    async def _main(self) -> None:
        self._violations.bound_events(self._plan.bounds.events_max)
        phases = asyncio.ensure_future(self._phases())
        violated = asyncio.ensure_future(self._violations.first.wait())
        await asyncio.wait([phases, violated], return_when=asyncio.FIRST_COMPLETED)
        for task in (phases, violated):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._recorder.note("phase", {"name": "stop"})
        if self._stored:
            await self._backend.down()

    async def _phases(self) -> None:
        plan, recorder = self._plan, self._recorder
        recorder.begin()
        try:
            await self._backend.up()
        except BackendError as error:
            self._report("node-died", str(error), generalised(str(error)))
            return
        await self._first_leader()
        recorder.note("phase", {"name": "faults"})
        self._fault_phase_ms = self._scheduler.now_ms
        interpreter = Interpreter(
            self._clients, recorder, self._make_client, plan.concurrency + STRAND_WORKERS
        )
        self._player.begin()
        self._scheduler.call_later(plan.duration_ms, self._end_faults)
        try:
            await interpreter.run()
            if not self._player.stopped:
                await asyncio.sleep(
                    max(0.0, self._fault_phase_ms + plan.duration_ms - self._scheduler.now_ms)
                    / 1000.0
                    + 0.001
                )
            if not self._brief:
                await self._heal()
                await self._come_back(interpreter)
        finally:
            await self._player.close()
            await interpreter.close()

    def _end_faults(self) -> None:
        self._clients.stop()
        self._recorder.note("phase", {"name": "heal"})
        self._player.stop()

    async def _heal(self) -> None:
        """Heal everything, after the injections and heals under way."""
        await self._player.settle()
        for healed in await drive.heal_all(self._view(Random(f"{self._plan.seed}/heal"))):
            how = EventType.OK if healed.verified else EventType.INFO
            self._recorder.note(healed.fault, healed.value("heal"), how)

    def _view(self, random: Random) -> SimView:
        return SimView(self._backend, self._watch, self._active, random)

    async def _first_leader(self) -> None:
        """Wait for an established leader, within the bound on liveness."""
        deadline_ms = self._scheduler.now_ms + self._plan.bounds.liveness_ms
        while self._scheduler.now_ms < deadline_ms:
            leader = self._watch.leader()
            if leader is not None and self._watch.nodes[leader].established:
                return
            await asyncio.sleep(0.02)
        self._violations.not_live("no leader was established at the start")

    async def _come_back(self, interpreter: Interpreter) -> None:
        """Check liveness after the heal: last operations ok, every node caught up in the bound."""
        bound_ms = self._plan.bounds.liveness_ms
        deadline_ms = self._scheduler.now_ms + bound_ms
        self._recorder.note("phase", {"name": "final-reads"})
        finals = self._workload.final_operations()
        generator = Clients(Phases(*(UntilOk(op) for op in finals)))
        try:
            async with asyncio.timeout(bound_ms / 1000.0):
                await interpreter.run(generator)
        except TimeoutError:
            self._violations.not_live(
                f"the last operations were not done {bound_ms / 1000:g} s after the heal"
            )
            return
        network = self._backend.client_network()
        client = Client(network, self._backend.clock)
        observer = _KnowingObserver(self._backend, None, self._recorder, self._believed)
        observer.standings = self._watch
        left_s = max(1.0, (deadline_ms - self._scheduler.now_ms) / 1000.0)
        cells = Cells(self._plan.kind.cell, self._workload.cells())
        reads = await read_all(self._backend, client, observer, cells, left_s)
        network.close()
        self._recorder.note(FINAL_READS, reads.value())
        self._reads = reads
        if reads.sentinel is None or reads.missing:
            reasons = "; ".join(f"{node}: {why}" for node, why in reads.missing.items())
            self._violations.not_live(
                f"not all nodes came back {bound_ms / 1000:g} s after the heal: {reasons}"
            )

    def _make_client(self, worker: Worker, process: int | str) -> WorkloadClient:
        if worker == NEMESIS:
            return _IdleNemesis()
        assert isinstance(worker, int), "clients are numbered"
        assert isinstance(process, int), "and so are their processes"
        return ScriptedClient(
            self._plan,
            self._workload,
            self._backend,
            self._backend.clock,
            self._believed,
            worker,
            process,
            self._player.op_ended,
        )

    def _on_event(self, node: str, event: str, fields: Mapping[str, object]) -> None:
        if event == "claim":
            epoch = fields["epoch"]
            assert isinstance(epoch, int), "docs/evidence.md"
            self._believed.learn(node, epoch)
            self._recorder.note("leader", {"leader": node, "epoch": epoch})

    def _on_end(self, process: Process) -> None:
        """Judge the death of a node that no fault killed."""
        deaths = self._backend.world.deaths
        if not deaths or deaths[-1].node != process.name:
            return
        death = deaths[-1]
        if death.incarnation != process.incarnation:
            return
        self._player.excuses.judge(
            death, lambda: self._restart(death.node), lambda: self._violations.died(death)
        )

    def _restart(self, node: str) -> None:
        """Start a node whose storage failed late, after the heals that would start it."""
        if self._player.stopped:
            self._scheduler.call_later(_RESTART_MS, lambda: self._start(node))

    def _start(self, node: str) -> None:
        if self._backend.world.nodes[node].state is NodeState.DEAD:
            self._backend.world.start(node)


class _IdleNemesis:
    """The client of the nemesis: without operations, since the player injects all faults."""

    async def invoke(self, op: Op) -> Completion:
        raise AssertionError(f"the nemesis has no operation {op.f}")

    async def close(self) -> None:
        """Hold nothing."""
