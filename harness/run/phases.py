"""One run on a live cluster: nodes up, clients and faults, heal, final reads, nodes down.

`conduct` depends neither on how the run is judged nor on the backend. Whatever happens (a harness
error, a node that does not start, Ctrl-C at any moment), the cluster is healed and taken down and
the journal keeps everything written so far.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from random import Random
from typing import Any

from checkers.evidence import FINAL_READS
from checkers.history import EventType
from checkers.runs import answers
from cluster.backends.base import Backend, BackendError, ClientNetwork
from cluster.client.admin_client import Client
from cluster.node.ports import Clock, Endpoint
from cluster.values import valueclass
from harness.plan.plan import Plan
from harness.run.final_reads import Cells, FinalReads, read_all
from harness.run.generators import (
    At,
    Clients,
    Generator,
    Nemesis,
    Of,
    Phases,
    Spaced,
    TimeLimit,
    Together,
    Until,
    UntilOk,
    Worker,
)
from harness.run.generators.base import NEMESIS
from harness.run.interpreter import HarnessError, Interpreter
from harness.run.nemesis import NemesisClient, RunView
from harness.run.observer import Observer, describing
from harness.run.process_clients import ProcessClient, client_stream
from harness.run.recorder import Recorder
from harness.run.scripted_clients import STRAND_WORKERS, ScriptedClient, ScriptedClients
from harness.run.strands.player import Player
from harness.run.strands.progress import LoopTimers
from harness.run.trace_tail import Followed, TraceTail
from nemeses import drive
from nemeses.base import Injection
from workloads.base import Role, WorkloadClient
from workloads.leader import LeaderTracker

HUNG_AFTER = 5
"""Time-outs of an operation after which a client that has not returned is replaced ..."""
HUNG_AFTER_MIN_S = 10.0
"""... at the earliest after so long: a loop that is starved of processor time is slow itself."""
FINAL_BOUND_S = 30.0
"""Bound on each of: the first leader, the last operations after the heal, the final reads."""
ACTED_WITHIN_MS = 1_000.0
"""How long the injection of a fault may delay its strand."""
LATER_SHARE = 0.2
"""Share of the schedule's length for turns after it, of faults that never took effect."""
HEAL_BOUND_S = 20.0
"""How long healing may take when a run is aborted."""


@valueclass
class Run:
    """The parts of a run."""

    plan: Plan
    backend: Backend
    recorder: Recorder
    clock: Clock
    standings: Callable[[], Followed] | None = None
    """Makes the standings of the nodes for a plan with strands; None: from their trace files."""


@valueclass
class _Cast:
    """Clients, observer, nemesis and interpreter of a run."""

    client: Client
    networks: tuple[ClientNetwork, ...]
    observer: Observer
    view: RunView
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
    the healing.
    """
    run.recorder.begin()
    view: RunView | None = None
    done = False
    try:
        await run.backend.up()
        cast = _cast(run)
        view = cast.view
        with contextlib.ExitStack() as stack:
            for network in cast.networks:
                stack.callback(network.close)
            async with _standing(run.backend), _followed(cast.script):
                reads = await _watched(cast.observer, _perform(run, cast))
        cast.observer.journal_deaths()
        done = True
        return reads
    finally:
        try:
            with contextlib.suppress(OSError):  # the journal's error was raised already
                run.recorder.note("phase", {"name": "stop"})
            if view is not None and not done:
                await _heal_bounded(view)
        except asyncio.CancelledError:
            await _kill_everything(run.backend)
            raise
        finally:
            await run.backend.down()


async def _perform(run: Run, cast: _Cast) -> FinalReads:
    """Go through the phases."""
    try:
        if run.plan.kind.is_led:
            await _wait_for_leader(cast.observer)
        run.recorder.note("phase", {"name": "faults"})
        if cast.script is not None:
            cast.script.player.begin()
        clients = cast.script.clients if cast.script is not None else stream_of(run.plan)
        await cast.interpreter.run(main_phase(run.plan, cast.nemesis, clients))
        if cast.script is None and cast.nemesis.lacking():
            await cast.interpreter.run(later_phase(run.plan, cast.nemesis, clients))
        run.recorder.note("phase", {"name": "heal"})
        if cast.script is not None:
            cast.script.player.stop()
            await cast.script.player.settle()
        await cast.interpreter.run(Nemesis(Of(cast.nemesis.open_heals())))
        for healed in await drive.heal_all(cast.view):
            run.recorder.note(healed.fault, healed.value("heal"))
        run.recorder.note("phase", {"name": "final-reads"})
        await cast.interpreter.run(final_phase(run.plan))
    finally:
        await cast.interpreter.close()
    reads = FinalReads({}, {}, None)
    if run.plan.kind.metadata_quorum:
        written = run.plan.make_workload().cells()
        cells = Cells(run.plan.kind.cell, written, run.plan.nodes_at("CLIENT"))
        reads = await read_all(run.backend, cast.client, cast.observer, cells, FINAL_BOUND_S)
    run.recorder.note(FINAL_READS, reads.value())
    return reads


def main_phase(plan: Plan, nemesis: NemesisClient, clients: Generator) -> Generator:
    """Make the fault phase: clients at the plan's rate or as scripted, nemesis by its schedule."""
    return Together(
        clients=clients if plan.is_scripted else TimeLimit(plan.duration_s, clients),
        nemesis=TimeLimit(plan.duration_s, At(nemesis.timed_ops())),
    )


def later_phase(plan: Plan, nemesis: NemesisClient, clients: Generator) -> Generator:
    """Make the phase in which faults that never took effect get further turns; clients go on."""
    turns = Spaced(nemesis.later_ops(LATER_SHARE * plan.duration_s))
    return Together(clients=Until(lambda: turns.over, clients), nemesis=turns)


def final_phase(plan: Plan) -> Generator:
    """Make the final phase: the workload's last operations, each until it is ok, within a bound."""
    ops = plan.make_workload().final_operations()
    return Clients(TimeLimit(FINAL_BOUND_S, Phases(*(UntilOk(op) for op in ops))))


def _cast(run: Run) -> _Cast:
    plan, backend = run.plan, run.backend
    tracker = LeaderTracker(plan.nodes_at("CONTROLLER"))
    # A connection answers in order: the observer must not wait behind another client's request.
    networks = (backend.client_network(), backend.client_network())

    def wrong_answer(endpoint: Endpoint, what: str) -> None:
        value = {"node": f"n{endpoint.node_id}", "explanation": what}
        run.recorder.note(answers.WRONG_ANSWER, value, EventType.INFO)

    watcher, client = (
        Client(network, run.clock, on_wrong_answer=wrong_answer) for network in networks
    )
    ask = describing(watcher) if plan.kind.metadata_quorum else plan.kind.ask_leader
    observer = Observer(backend, ask, run.recorder, tracker)
    active: list[Injection] = []

    def view_of(random: Random) -> RunView:
        return RunView(backend, observer, client, random, active)

    view = view_of(Random(f"{plan.seed}/faults"))
    nemesis = NemesisClient(view, plan.schedule, run.recorder.note)
    script = _script(run, view_of) if plan.is_scripted else None

    def make_client(worker: Worker, process: int | str) -> WorkloadClient:
        if worker == NEMESIS:
            return nemesis
        assert isinstance(worker, int), "clients are numbered"
        assert isinstance(process, int), "and so are their processes"
        if script is not None:
            return ScriptedClient(
                plan,
                plan.make_workload(),
                backend,
                run.clock,
                tracker,
                worker,
                process,
                script.player.op_ended,
            )
        return ProcessClient(
            plan,
            plan.make_workload(),
            backend,
            run.clock,
            tracker,
            worker,
            process,
            pinned_to(plan, worker),
        )

    workers = plan.concurrency + (0 if script is None else STRAND_WORKERS)
    bound_s = max(HUNG_AFTER_MIN_S, HUNG_AFTER * plan.operation_timeout_ms / 1000.0)
    interpreter = Interpreter(Of(()), run.recorder, make_client, workers, bound_s)
    return _Cast(client, networks, observer, view, nemesis, interpreter, script)


def _script(run: Run, view_of: Callable[[Random], RunView]) -> _Script:
    clients = ScriptedClients(run.plan, run.plan.make_workload())
    standings = (
        TraceTail(run.backend, run.plan.kind.layout) if run.standings is None else run.standings()
    )

    def broken(name: str, explanation: str, place: str) -> None:
        value = {"property": name, "explanation": explanation, "causes": [place]}
        run.recorder.note("violation", value, EventType.INFO)

    player = Player(
        run.plan,
        standings,
        LoopTimers(asyncio.get_running_loop()),
        view_of,
        run.recorder,
        clients.ask,
        broken,
        acted_within_ms=ACTED_WITHIN_MS,
    )
    return _Script(standings, player, clients)


@contextlib.asynccontextmanager
async def _followed(script: _Script | None) -> AsyncIterator[None]:
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


async def _watched(observer: Observer, work: Coroutine[Any, Any, FinalReads]) -> FinalReads:
    """Do the work while the observer watches; a failure of either cancels the other at once.

    If both fail, the first failure is the cause, and the message names both. Raises what the work
    raises, and HarnessError when the observer dies.
    """
    watching, working = asyncio.ensure_future(observer.watch()), asyncio.ensure_future(work)
    try:
        await asyncio.wait((watching, working), return_when=asyncio.FIRST_COMPLETED)
        work_ended_first = working.done()
    finally:
        watching.cancel()
        working.cancel()
        watched, worked = await asyncio.gather(watching, working, return_exceptions=True)
    if not isinstance(watched, Exception):
        return working.result()
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


async def _wait_for_leader(observer: Observer) -> None:
    """Wait for the first leader, bounded: a run without one goes on, and its verdict shows it."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + FINAL_BOUND_S
    while await observer.ask() is None:
        if loop.time() >= deadline_s:
            return
        await asyncio.sleep(0.05)


async def _heal_bounded(view: RunView) -> None:
    # A fault that is not healed in time ends with the cluster.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(HEAL_BOUND_S):
            await drive.heal_all(view)


async def _kill_everything(backend: Backend) -> None:
    for node in backend.nodes:
        await backend.kill(node)
