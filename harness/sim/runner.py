"""Runs one scenario and judges it: `run_scenario(scenario) -> SimResult`.

The run is the same, callback by callback, every time: one queue of events decides everything.
The invariants (`checkers.invariants`) judge every event; what clients saw is checked by the
harness's own checkers once the run is over; and after the last heal the quorum must come back to
life within the scenario's bound. The first violation ends a run: what follows from a broken state
says nothing more.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from checkers import answers, exercised
from checkers.evidence import FINAL_READS, WORLD_CLOCK, Evidence, FinalRead
from checkers.history import Event, EventType, pair
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.verdict import Status, worst
from cluster import mutants
from cluster.backends.base import BackendError
from cluster.backends.sim import loop as virtual
from cluster.backends.sim.process import Process
from cluster.backends.sim.scheduler import BusyLoopError, Scheduler
from cluster.backends.sim.sim_backend import SimBackend
from cluster.client.admin_client import Client
from harness.final_reads import FinalReads, read_all
from harness.generators import BackOff, Clients, Phases, UntilOk
from harness.generators.base import NEMESIS, Worker
from harness.interpreter import Interpreter
from harness.observer import Leadership, Observer
from harness.recorder import Journal, Recorder
from harness.sim.clients import HANDS, SimClient, SimClients
from harness.sim.driver import Act, Driver
from harness.sim.effects import Effects
from harness.sim.findings import SimResult, Violation, generalised, of_check
from harness.sim.image_sight import ImageWatch
from harness.sim.kinds import FAULTS
from harness.sim.scenario import Scenario
from harness.sim.sight import watch
from harness.sim.watch import Watch
from workloads.base import Completion, Op, WorkloadClient
from workloads.leader import LeaderTracker
from workloads.registry import workload_named
from workloads.target import LEADS_NOT

_CHECK_EVERY_MS = 20.0
_COLLECT_AFTER = 100_000
"""New objects before the next search for cycles; Python's own 700 cost a tenth of a run."""
_RESTART_MS = 100.0
_RESTARTED_S = 0.02
"""How often to look whether restarts that a heal found under way are over."""


@dataclass(slots=True)
class MemoryJournal:
    """Keeps the history of a run that is not stored."""

    events: list[Event] = field(default_factory=list)

    def append(self, event: Event) -> None:
        """Keep one event."""
        self.events.append(event)


@dataclass(slots=True)
class Played:
    """A run as it was played, before it is judged."""

    scenario: Scenario
    events: Sequence[Event]
    acts: Sequence[Act]
    violations: list[Violation]
    reads: FinalReads | None
    lost: frozenset[str]
    """Nodes with damaged files, which rightly stay down."""
    backend: SimBackend
    watch: Watch
    casts: Mapping[int, Mapping[str, str]]
    """By strand: the nodes that its names last stood for."""
    cpu_s: float
    fault_phase_ms: float
    """World time at which the fault phase began."""


def run_scenario(scenario: Scenario) -> SimResult:
    """Run and judge in memory."""
    journal = MemoryJournal()
    return judge(play(scenario, journal, journal.events))


def play(
    scenario: Scenario,
    journal: Journal,
    events: Sequence[Event],
    run_folder: Path | None = None,
    *,
    brief: bool = False,
) -> Played:
    """Run a scenario to its end; `events` is what the journal keeps.

    A brief run ends with the fault phase: it tells what the monitor saw until then, and no more.
    """
    with contextlib.ExitStack() as stack:
        if scenario.mutant is not None:
            stack.enter_context(mutants.applied(scenario.mutant))
        stack.enter_context(_few_collections())
        return _Run(scenario, journal, events, run_folder, brief=brief).play()


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    """Look for garbage in cycles more seldom: a world is one, but is not garbage before its end."""
    before = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def judge(played: Played) -> SimResult:
    """Judge what was played: violations seen on the way, then the black-box checks."""
    violations = list(played.violations)
    verdict = Status.FAIL
    operations = pair(played.events)
    options = exercised.options_of(played.scenario.plan_fields)
    exercise = exercised.check(RunInput(played.events, operations), options)
    if not violations:
        reads: dict[str, FinalRead] = {} if played.reads is None else dict(played.reads.reads)
        evidence = Evidence(played.scenario.node_names, {}, {}, {}, reads, played.lost)
        run = RunInput(played.events, operations, evidence)
        load = played.scenario.workload
        checks = (*workload_named(load.name, load.options).checks(), CheckSpec(answers.NAME))
        results = [run_check(spec, run) for spec in checks]
        violations = [of_check(result) for result in results if result.status is Status.FAIL]
        verdict = worst(result.status for result in (*results, exercise))
    counts = {kind: sum(op.type is kind for op in operations) for kind in EventType}
    world = played.backend.world
    statistics = {
        "simulated_s": round(world.scheduler.now_ms / 1000.0, 3),
        "cpu_s": round(played.cpu_s, 4),
        "events": world.scheduler.events,
        "operations": len(operations),
        "ok": counts[EventType.OK],
        "fail": counts[EventType.FAIL],
        "info": counts[EventType.INFO],
        "leader_changes": played.watch.changes_of_leader,
        "epochs": played.watch.highest_epoch(),
        "faults": sum(act.kind in FAULTS and not act.undone for act in played.acts),
    }
    kinds = sorted({act.kind for act in played.acts if act.kind in FAULTS})
    return SimResult(
        played.scenario.seed,
        verdict,
        tuple(violations),
        statistics,
        cells(played.acts),
        tuple(kinds),
        exercise.statistics,
    )


def cells(acts: Sequence[Act]) -> dict[str, int]:
    """Coverage: `fault/role of the target/phase of the protocol` -> how often it came to that."""
    found: dict[str, int] = {}
    for act in acts:
        if act.kind in FAULTS and not act.undone:
            for role in sorted(set(act.roles)) or ["-"]:
                cell = f"{act.kind}/{role}/{act.phase}"
                found[cell] = found.get(cell, 0) + 1
    return found


class _KnowingObserver(Observer):
    """Knows who leads without asking anybody."""

    standings: Watch

    async def ask(self) -> Leadership | None:
        leader = self.standings.leader()
        if leader is None:
            return None
        return Leadership(leader, self.standings.nodes[leader].epoch, by_itself=True)


class _Run:
    """Everything of one run."""

    def __init__(
        self,
        scenario: Scenario,
        journal: Journal,
        events: Sequence[Event],
        run_folder: Path | None,
        *,
        brief: bool,
    ) -> None:
        self._brief = brief
        self._scenario = scenario
        self._events = events
        self._stored = run_folder is not None
        self._scheduler = Scheduler()
        self._backend = SimBackend(
            scenario.nodes,
            scenario.seed,
            "sim",
            settings=scenario.world,
            node_settings=scenario.settings,
            mutant=scenario.mutant,
            run_folder=run_folder,
            scheduler=self._scheduler,
        )
        world = self._backend.world
        self._violations: list[Violation] = []
        self._stop: asyncio.Event | None = None
        broken = self._broken
        watcher = watch(world, lambda seen: broken(Violation(seen.property, seen.explanation)))
        ImageWatch(world, watcher)
        self._watch = Watch(world)
        self._recorder = Recorder(journal, lambda: self._scheduler.now_ms / 1000.0, WORLD_CLOCK)
        self._effects = Effects(world, self._watch)
        self._workload = workload_named(scenario.workload.name, scenario.workload.options)
        self._clients = SimClients(scenario, self._workload)
        self._believed = LeaderTracker(world.names)
        self._driver = Driver(
            scenario,
            self._watch,
            self._effects,
            self._recorder,
            self._clients.ask,
            self._broken,
        )
        self._reads: FinalReads | None = None
        self._fault_phase_ms = 0.0
        self._watch.listeners.append(self._heard)
        world.on_end.append(self._ended)

    def play(self) -> Played:
        began = time.process_time()
        try:
            virtual.run(self._main(), self._scheduler)
        except BusyLoopError as error:
            self._broken(Violation("progress", str(error), ("busy loop",)))
        except virtual.Stalled as error:
            self._broken(Violation("progress", str(error), ("stalled",)))
        return Played(
            self._scenario,
            self._events,
            self._driver.acts,
            self._violations,
            self._reads,
            frozenset(self._effects.lost),
            self._backend,
            self._watch,
            self._driver.casts(),
            time.process_time() - began,
            self._fault_phase_ms,
        )

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        self._watchdog()
        if self._violations:
            self._stop.set()
        phases = asyncio.ensure_future(self._phases())
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait([phases, stopped], return_when=asyncio.FIRST_COMPLETED)
        for task in (phases, stopped):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._recorder.note("phase", {"name": "stop"})
        if self._stored:
            await self._backend.down()

    async def _phases(self) -> None:
        scenario, recorder = self._scenario, self._recorder
        recorder.begin()
        try:
            await self._backend.up()
        except BackendError as error:
            self._broken(Violation("node-died", str(error), (generalised(str(error)),)))
            return
        await self._first_leader()
        recorder.note("phase", {"name": "faults"})
        self._fault_phase_ms = self._scheduler.now_ms
        interpreter = Interpreter(
            self._clients, recorder, self._make_client, scenario.workload.concurrency + HANDS
        )
        self._driver.begin()
        self._scheduler.call_later(scenario.duration_ms, self._heal)
        try:
            await interpreter.run()
            if not self._driver.stopped:
                await asyncio.sleep(
                    max(0.0, self._fault_phase_ms + scenario.duration_ms - self._scheduler.now_ms)
                    / 1000.0
                    + 0.001
                )
            if not self._brief:
                await self._come_back(interpreter)
        finally:
            await interpreter.close()

    def _heal(self) -> None:
        self._clients.stop()
        self._recorder.note("phase", {"name": "heal"})
        self._driver.stop()

    async def _first_leader(self) -> None:
        """Wait until somebody leads, or as long as liveness may take."""
        deadline_ms = self._scheduler.now_ms + self._scenario.bounds.liveness_ms
        while self._scheduler.now_ms < deadline_ms:
            leader = self._watch.leader()
            if leader is not None and self._watch.nodes[leader].established:
                return
            await asyncio.sleep(0.02)
        self._dead("no leader was established at the start")

    async def _come_back(self, interpreter: Interpreter) -> None:
        """After the heal: last operations ok, every node up and caught up, within the bound."""
        bound_ms = self._scenario.bounds.liveness_ms
        deadline_ms = self._scheduler.now_ms + bound_ms
        while self._effects.restarts and self._scheduler.now_ms < deadline_ms:  # noqa: ASYNC110
            await asyncio.sleep(_RESTARTED_S)
        self._recorder.note("phase", {"name": "final-reads"})
        finals = self._workload.final_operations()
        generator = Clients(BackOff(0.1, LEADS_NOT, Phases(*(UntilOk(op) for op in finals))))
        try:
            async with asyncio.timeout(bound_ms / 1000.0):
                await interpreter.run(generator)
        except TimeoutError:
            self._dead(f"the last operations were not done {bound_ms / 1000:g} s after the heal")
            return
        network = self._backend.client_network()
        client = Client(network, self._backend.clock)
        observer = _KnowingObserver(self._backend, client, self._recorder, self._believed)
        observer.standings = self._watch
        left_s = max(1.0, (deadline_ms - self._scheduler.now_ms) / 1000.0)
        reads = await read_all(
            _Readable(self._backend, self._effects.lost), client, observer, left_s
        )
        network.close()
        lost = {"lost": sorted(self._effects.lost)} if self._effects.lost else {}
        self._recorder.note(FINAL_READS, {**reads.value(), **lost})
        self._reads = reads
        if reads.sentinel is None or reads.missing:
            said = "; ".join(f"{node}: {why}" for node, why in reads.missing.items())
            self._dead(f"not all nodes came back {bound_ms / 1000:g} s after the heal: {said}")

    def _make_client(self, worker: Worker, process: int | str) -> WorkloadClient:
        if worker == NEMESIS:
            return _Nobody()
        assert isinstance(worker, int), "clients are numbered"
        assert isinstance(process, int), "and so are their processes"
        return SimClient(
            self._scenario,
            self._workload,
            self._backend,
            self._believed,
            worker,
            process,
            self._driver.op_ended,
        )

    # -- what ends a run -------------------------------------------------------------------------

    def _broken(self, violation: Violation) -> None:
        now_ms = self._scheduler.now_ms
        causes = violation.causes or (violation.property, generalised(violation.explanation))
        self._violations.append(replace(violation, at_ms=now_ms, causes=causes))
        if len(self._violations) == 1:
            self._recorder.note("violation", self._violations[0].to_json(), EventType.INFO)
            if self._stop is not None:
                self._stop.set()

    def _dead(self, what: str) -> None:
        standing = ", ".join(
            f"{name} {at.state} in epoch {at.epoch}" for name, at in self._watch.nodes.items()
        )
        states = " and ".join(sorted({at.state for at in self._watch.nodes.values()}))
        causes = ("liveness", generalised(what), f"the nodes were {states}")
        self._broken(Violation("liveness", f"{what} ({standing})", causes))

    def _watchdog(self) -> None:
        if self._scheduler.events > self._scenario.bounds.events_max:
            told = f"more than {self._scenario.bounds.events_max} callbacks"
            self._broken(Violation("progress", told, ("too many events",)))
        else:
            self._scheduler.call_later(_CHECK_EVERY_MS, self._watchdog)

    def _heard(self, node: str, event: str, fields: dict[str, object]) -> None:
        if event == "claim":
            epoch = fields["epoch"]
            assert isinstance(epoch, int), "docs/evidence.md"
            self._believed.learn(node, epoch)
            self._recorder.note("leader", {"leader": node, "epoch": epoch})
        elif (
            event == "state" and node in self._effects.lost and not self._watch.nodes[node].refuses
        ):
            self._watch.nodes[node].refuses = True
            told = f"{node} started although a file of its own is damaged"
            self._broken(Violation("damage-accepted", told, ("damage-accepted",)))

    def _ended(self, process: Process) -> None:
        """Look at who died by itself."""
        deaths = self._backend.world.deaths
        if not deaths or deaths[-1].node != process.name:
            return
        death = deaths[-1]
        if death.incarnation != process.incarnation:
            return
        if (death.node, death.incarnation) in self._effects.excused:
            if self._driver.stopped:  # of a disk error that came true after the heal
                self._scheduler.call_later(_RESTART_MS, lambda: self._effects.start((death.node,)))
            return
        reason = " ".join(death.output_tail)
        told = f"{death.node} died by itself: {reason}"
        self._broken(Violation("node-died", told, ("node-died", generalised(reason))))


class _Readable(SimBackend):
    """The backend without the nodes that rightly stay down."""

    def __init__(self, backend: SimBackend, lost: set[str]) -> None:
        self.__dict__.update(backend.__dict__)
        self.nodes = tuple(node for node in backend.nodes if node not in lost)


class _Nobody:
    """The nemesis has no operations of its own here: the driver acts."""

    async def invoke(self, op: Op) -> Completion:
        raise AssertionError(f"nobody asked for {op.f}")

    async def close(self) -> None:
        """Nothing is held."""
