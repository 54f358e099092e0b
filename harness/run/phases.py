"""One run: nodes up, clients and faults, heal, final reads, nodes down.

`conduct` depends neither on how the run is judged nor on the backend, and plays drawn simulated
worlds as it plays real nodes: what differs is the run's `World`. Whatever happens (a harness
error, a node that does not start, Ctrl-C at any moment), the cluster is healed and taken down and
the journal keeps everything written so far.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from checkers.evidence import FINAL_READS
from checkers.history import EventType
from cluster.backends.base import Backend, BackendError
from cluster.client.admin_client import Client
from cluster.node.ports import Clock
from cluster.values import valueclass
from harness.plan.plan import Plan
from harness.run.clients import (
    STRAND_WORKERS,
    ProcessClient,
    ScriptedClient,
    ScriptedClients,
    client_stream,
    operations_of,
)
from harness.run.final_reads import Cells, FinalReads, read_all
from harness.run.generators.base import NEMESIS, Generator, Worker, seconds
from harness.run.generators.flow import Of, Phases, Together, UntilOk
from harness.run.generators.timing import At, Patience, Spaced, TimeLimit, Until
from harness.run.interpreter import HarnessError, Interpreter
from harness.run.nemesis import NemesisClient
from harness.run.recorder import Recorder
from harness.run.strands.player import Player
from harness.run.trace_tail import Followed
from harness.run.world import RealWorld, World, note_wrong_answer
from nemeses import drive
from nemeses.base import View
from workloads.base import EVERY_NODE, Op, Role, WorkloadClient

NO_READS = FinalReads({}, {}, None)
"""Final reads of a run that ended before them, or of a system without cells."""
LEADER_POLL_S = 0.02
"""Pause between two looks for the first leader."""
LATER_SHARE = 0.2
"""Share of the schedule's length for turns after it, of faults that never took effect."""


@valueclass
class Run:
    """The parts of a run."""

    plan: Plan
    backend: Backend
    recorder: Recorder
    clock: Clock
    standings: Callable[[], Followed] | None = None
    """Makes the standings of the nodes for a plan with strands; None: from their trace files."""
    world: World | None = None
    """None: the backend's nodes, known by what they answer and write."""
    is_brief: bool = False
    """Whether the run ends with the fault phase."""


@valueclass
class _Cast:
    """The parts of a run that its phases use."""

    world: World
    view: View
    nemesis: NemesisClient
    interpreter: Interpreter
    script: _Script | None
    """For a plan with strands or single operations."""


@valueclass
class _Script:
    """The player of a plan's strands, and the clients that perform their operations."""

    standings: Followed
    player: Player
    clients: ScriptedClients


async def conduct(run: Run) -> FinalReads:
    """Perform a run from first start to last stop, and return the final reads.

    Raises BackendError where the cluster cannot be started or its place is lost, HarnessError where
    the harness failed. Cancelling it heals and takes the cluster down; a second cancellation skips
    the healing. What the world finds may end the phases early.
    """
    run.recorder.begin()
    world = run.world
    if world is None:
        world = RealWorld(run.plan, run.backend, run.recorder, run.clock, run.standings)
    cast = _cast(run, world)
    healed = True
    try:
        await world.up()
        healed = False
        async with _standing(run.backend), _following(cast.script):
            reads = await _with_observer(world, _perform(run, cast))
        world.observer.journal_deaths()
        healed = True
    finally:
        with contextlib.suppress(OSError):  # the journal's error was raised already
            run.recorder.note("phase", {"name": "stop"})
        await world.down(healed=healed)
    world.observer.journal_deaths()  # one that crashes over its last SIGTERM is no less a defect
    return reads


async def _perform(run: Run, cast: _Cast) -> FinalReads:
    """Go through the phases."""
    plan, world, note = run.plan, cast.world, run.recorder.note
    try:
        if plan.kind.is_led and plan.world.waits_for_leader:
            await _wait_for_leader(world)
        workload = plan.make_workload()
        if setup := [*operations_of(workload, workload.setup_operations())]:
            await cast.interpreter.run(_until_ok(setup, world.first_bound_s))
        note("phase", {"name": "faults"})
        await _fault_phase(run, cast)
        if run.is_brief:
            return NO_READS
        for healed in await drive.heal_all(cast.view):
            how = EventType.OK if healed.verified else EventType.INFO
            note(healed.fault, healed.value("heal"), how)
            if cast.script is not None and healed.verified:
                cast.script.player.excuses.end(healed)
        note("phase", {"name": "final-reads"})
        healed_s, begun_ns = asyncio.get_running_loop().time(), run.recorder.now_ns()
        await cast.interpreter.run(final_phase(plan, world.bound_s))
        if run.recorder.now_ns() - begun_ns >= seconds(world.bound_s):
            world.not_live(f"the last operations were not done {world.bound_s:g} s after the heal")
    finally:
        await cast.interpreter.close()
    reads = NO_READS
    if plan.kind.metadata_quorum:
        reads = await _read_all(run, world, world.final_reads_bound_s(healed_s))
    note(FINAL_READS, reads.value())
    if plan.kind.metadata_quorum and (reads.sentinel is None or reads.missing):
        reasons = "; ".join(f"{node}: {why}" for node, why in reads.missing.items())
        world.not_live(f"not all nodes came back {world.bound_s:g} s after the heal: {reasons}")
    return reads


async def _fault_phase(run: Run, cast: _Cast) -> None:
    """Let clients and faults act, until the heal of everything may begin."""
    plan, script, interpreter = run.plan, cast.script, cast.interpreter
    if script is None:
        stream = stream_of(plan)
        await interpreter.run(main_phase(plan, cast.nemesis, TimeLimit(plan.duration_s, stream)))
        if cast.nemesis.lacking():
            await interpreter.run(later_phase(plan, cast.nemesis, stream))
        run.recorder.note("phase", {"name": "heal"})
    else:
        timers, player = cast.world.timers, script.player
        end_ms = timers.now_ms + plan.duration_ms

        def end() -> None:
            # Strands end with the phase, though an operation may still be under way.
            left = script.clients.stop()
            run.recorder.note("phase", {"name": "heal"})
            player.stop(left)

        player.begin()
        ending = timers.call_later(plan.duration_ms, end)
        try:
            await interpreter.run(main_phase(plan, cast.nemesis, script.clients))
            if not player.stopped:
                await asyncio.sleep(max(0.0, end_ms - timers.now_ms) / 1000.0 + 0.001)
        finally:
            ending.cancel()
        if not run.is_brief:
            await player.settle()
    if not run.is_brief:
        cast.nemesis.note_missing()
        await interpreter.run(Together(nemesis=Of(cast.nemesis.open_heals())))


async def _read_all(run: Run, world: World, bound_s: float) -> FinalReads:
    """Read every node with connections of its own: none is behind a request of the faults."""
    plan = run.plan
    cells = Cells(plan.kind.cell, plan.make_workload().cells(), plan.nodes_at("CLIENT"))
    network = world.backend.client_network()
    try:
        client = Client(
            network, run.clock, on_wrong_answer=partial(note_wrong_answer, run.recorder)
        )
        return await read_all(world.backend, client, world.observer, cells, bound_s)
    finally:
        network.close()


def main_phase(plan: Plan, nemesis: NemesisClient, clients: Generator) -> Generator:
    """Make the fault phase: clients to their end, nemesis by its schedule."""
    return Together(clients=clients, nemesis=TimeLimit(plan.duration_s, At(nemesis.timed_ops())))


def later_phase(plan: Plan, nemesis: NemesisClient, clients: Generator) -> Generator:
    """Make the phase in which faults that never took effect get further turns; clients go on."""
    turns = Spaced(nemesis.later_ops(LATER_SHARE * plan.duration_s))
    return Together(clients=Until(lambda: turns.over, clients), nemesis=turns)


def final_phase(plan: Plan, bound_s: float) -> Generator:
    """Make the final phase: the workload's last operations, each until it is ok, within a bound."""
    every = plan.nodes_at("CLIENT")
    workload = plan.make_workload()
    ops = [
        replace(op, node=node)
        for op in operations_of(workload, workload.final_operations())
        for node in (every if op.node == EVERY_NODE else (op.node,))
    ]
    return _until_ok(ops, bound_s)


def _until_ok(ops: Sequence[Op], bound_s: float) -> Generator:
    return Together(Patience(bound_s, Phases(*(UntilOk(op) for op in ops))))


def _cast(run: Run, world: World) -> _Cast:
    plan, backend = run.plan, run.backend
    view = world.view(Random(f"{plan.seed}/faults"))
    nemesis = NemesisClient(view, plan.schedule, run.recorder.note)
    script = _script(run, world) if world.is_scripted else None
    workload = plan.make_workload()

    def make_client(worker: Worker, process: int | str) -> WorkloadClient:
        if worker == NEMESIS:
            return nemesis
        assert isinstance(worker, int), "clients are numbered"
        assert isinstance(process, int), "and so are their processes"
        common = plan, workload, backend, run.clock, world.tracker, worker, process
        if script is not None:
            return ScriptedClient(*common, script.player.op_ended)
        return ProcessClient(*common, pinned_to(plan, worker))

    workers = plan.concurrency + (0 if script is None else STRAND_WORKERS)
    bound_s = world.operation_bound_s
    interpreter = Interpreter(Of(()), run.recorder, make_client, workers, bound_s)
    return _Cast(world, view, nemesis, interpreter, script)


def _script(run: Run, world: World) -> _Script:
    clients = ScriptedClients(run.plan, run.plan.make_workload())
    standings = world.standings()
    player = Player(
        run.plan,
        standings,
        world.timers,
        world.view,
        run.recorder,
        clients.ask,
        world.note_violation,
        acted_within_ms=world.acted_within_ms,
    )
    world.attach(player)
    return _Script(standings, player, clients)


@contextlib.asynccontextmanager
async def _following(script: _Script | None) -> AsyncIterator[None]:
    """Update the standings while the block runs; closes the player at its end."""
    if script is None:
        yield
        return
    following = asyncio.ensure_future(script.standings.follow())
    try:
        yield
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        await script.player.close()


def stream_of(plan: Plan) -> Generator:
    """Make what clients do at the plan's rate, without an end."""
    return client_stream(plan, plan.make_workload, lambda worker: role_of(plan, worker))


def pinned_to(plan: Plan, worker: int) -> str | None:
    """Return the node that a worker is pinned to: two workers a node, at most half of them all.

    Where not every node has both listeners: one where cells are read, one where they are written.
    """
    pins = (*plan.nodes_at(plan.kind.reads_at), *plan.nodes_at("CONTROLLER"))
    return pins[worker] if worker < min(len(pins), plan.concurrency // 2) else None


def role_of(plan: Plan, worker: int) -> Role:
    """Return a worker's role: the first that is pinned to a node reads there, the second writes."""
    if pinned_to(plan, worker) is None:
        return Role.MIXED
    return Role.READER if worker < len(plan.nodes_at(plan.kind.reads_at)) else Role.WRITER


async def _with_observer(world: World, work: Coroutine[Any, Any, FinalReads]) -> FinalReads:
    """Do the work while the observer watches; a failure of either cancels the other at once.

    If both fail, the first failure is the cause, and the message names both. Raises what the work
    raises, and HarnessError when the observer dies. Once the world is over the work is cancelled.
    """
    watching, working = asyncio.ensure_future(world.observer.watch()), asyncio.ensure_future(work)
    over = asyncio.ensure_future(world.over.wait())
    try:
        await asyncio.wait((watching, working, over), return_when=asyncio.FIRST_COMPLETED)
        work_ended_first, is_over = working.done(), over.done()
    finally:
        for task in (watching, working, over):
            task.cancel()
        watched, worked, _ = await asyncio.gather(watching, working, over, return_exceptions=True)
    if not isinstance(watched, Exception):
        return NO_READS if is_over and working.cancelled() else working.result()
    observer_failure = f"the observer died: {type(watched).__name__}: {watched}"
    if not isinstance(worked, Exception):
        raise HarnessError(observer_failure) from watched
    work_failure = (
        str(worked) if isinstance(worked, HarnessError) else f"{type(worked).__name__}: {worked}"
    )
    if work_ended_first:
        raise HarnessError(f"{work_failure}; then {observer_failure}") from worked
    raise HarnessError(f"{observer_failure}; then {work_failure}") from watched


@contextlib.asynccontextmanager
async def _standing(backend: Backend) -> AsyncIterator[None]:
    """Cancel the block when the backend's place (a container, a host) is lost: BackendError."""
    loop = asyncio.get_running_loop()
    lost = asyncio.ensure_future(backend.wait_until_lost())

    def break_off(_: asyncio.Future[str]) -> None:
        scope.reschedule(loop.time())

    try:
        async with asyncio.timeout(None) as scope:
            lost.add_done_callback(break_off)
            try:
                yield
            finally:
                lost.remove_done_callback(break_off)
    except TimeoutError as error:
        if lost.done():
            raise BackendError(lost.result()) from error
        raise
    finally:
        lost.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await lost


async def _wait_for_leader(world: World) -> None:
    """Wait for the first leader, bounded: a run without one goes on, and its verdict shows it."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + world.first_bound_s
    while loop.time() < deadline_s:
        if await world.is_led():
            return
        await asyncio.sleep(LEADER_POLL_S)
    world.not_live("no leader was established at the start")
