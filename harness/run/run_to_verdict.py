"""One run from plan to verdict: folder, cluster, evidence, judgement, exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from checkers.evidence.extent import COLLECTED
from checkers.history import NEMESIS, Event, EventType
from checkers.nodes.agreement import NO_SPACE
from checkers.verdict import EXIT_CODES, Status
from cluster.backends.processes.lifecycle import ROOM_BYTES_MIN
from cluster.backends.registry import SIM
from harness.errors import PlanError, bugs_kept_in, one_line
from harness.evidence import node_disks
from harness.full_disk import lack_of_room, run_broken_off
from harness.judge.stored_runs import judge_and_report
from harness.plan.plan import Plan
from harness.plan.stored_document import plan_document
from harness.plan.system_request import system_of, versions_of
from harness.run.display import Display, LiveFigures
from harness.run.final_reads import FinalReads
from harness.run.harness_delays import OwnDelays
from harness.run.interpreter import HarnessError
from harness.run.phases import Run, conduct
from harness.run.plan_backend import place_of
from harness.run.recorder import Recorder
from harness.signals.blocked_loop import raise_in_blocked_loop
from harness.terminal.answers import Shown
from harness.terminal.progress import console_of
from results.judge.engine import Engine
from results.report.advice import describe_starvation, starvation_of
from results.store.evidence_files import STATE_FILE
from results.store.model import system_shown
from results.store.run_store import RunStore


def run_name(now: datetime, seed: int) -> str:
    """Name a run by its UTC start, its seed and a random suffix.

    The name labels every process of the run. Two runs that begin in the same second with the same
    seed must not share it: cleaning up after the first would kill the second's processes.
    """
    return f"{now:%Y%m%dT%H%M%SZ}-seed{seed}-{secrets.token_hex(2)}"


def perform(
    plan: Plan,
    runs: Path,
    command: str,
    build: str | None,
    *,
    spark_master: str | None,
    with_report: bool,
    shown: Shown,
) -> int:
    """Run a plan, judge and report. Returns the exit code of the verdict.

    `command` and `build` as of `make_store`. Raises what that does, BackendError, HarnessError, and
    KeyboardInterrupt after a signal; by then no node runs any more.
    """
    store = make_store(plan, runs, command, build)
    with bugs_kept_in(store.folder):
        display = _announce(plan, store, shown)
        run_cluster(plan, store, display)
        scarce = "" if plan.backend == SIM.name else starvation()  # before judging adds to the load
        with Engine(spark_master, display.say) as engine:
            display.say("judging")
            code = judge_and_report(store, engine.judge, with_report=with_report, shown=shown)
        undecided = code in (EXIT_CODES[Status.UNDER_EXERCISED], EXIT_CODES[Status.UNKNOWN])
        if undecided and (said := scarce or starvation_of(store.events())):
            display.say(said)
        return code


def make_store(plan: Plan, runs: Path, command: str, build: str | None = None) -> RunStore:
    """Make the folder of a run that begins now, with its plan.

    `command`: the command line that repeats it; `build`: what the user calls what is tested.

    Raises PlanError and UnicodeEncodeError where nodes would not find a folder of that name, and
    StoreError when it cannot be made.
    """
    folder = runs.absolute()
    if "," in str(folder) and plan.kind.metadata_quorum and plan.backend != SIM.name:
        raise PlanError(f"{folder}: log.dirs is a list with commas: choose --runs without one")
    str(folder).encode()  # the nodes' files name it
    started = versions_of(plan)
    if build is not None:
        started["build"] = build
    document = plan_document(plan, run_name(datetime.now(UTC), plan.seed), command, started)
    return RunStore.create(runs, document)


def run_unseen(plan: Plan, runs: Path, command: str) -> RunStore:
    """Run a plan that begins now, and show nothing. Raises what `make_store` and a run do."""
    store = make_store(plan, runs, command)
    run_cluster(plan, store, Display(Console(quiet=True)))
    return store


def _announce(plan: Plan, store: RunStore, shown: Shown) -> Display:
    """Make the display of a run, and say what is run on it."""
    console = console_of(shown)
    display = Display(console)
    display.say(f"run {store.folder} of system {system_shown(store.plan())}")
    if plan.mutant is not None:
        display.say(f"MUTANT {plan.mutant}: the nodes are deliberately faulty")
    for skipped in plan.skipped:
        remedy = f" (remedy: {skipped.remedy})" if skipped.remedy else ""
        display.say(f"SKIPPED {skipped.fault}: it cannot work here: {skipped.reason}{remedy}")
    return display


def starvation() -> str:
    """Say that processors of this machine were scarce in the last minute; empty if not."""
    return describe_starvation(os.getloadavg()[0], os.cpu_count() or 1)


def run_cluster(plan: Plan, store: RunStore, display: Display) -> None:
    """Run the cluster and store the run, also when it raises."""
    system = system_of(plan, store.folder.name)

    def on_signal(count: int) -> None:
        if count == 1:
            display.say("stopping: healing, then taking the nodes down (again to hurry)")
        else:
            display.say("hurrying")

    try:
        with (
            _secrets_concealed(store, plan),
            store.journal_writer() as journal,
            place_of(plan, system, store.folder, display.say) as place,
        ):

            async def work() -> None:
                loop = asyncio.get_running_loop()
                at = datetime.now(UTC).isoformat(timespec="seconds")
                of = {"run": store.folder.name, "seed": plan.seed, "at": at}
                recorder = Recorder(journal, loop.time, place.clock_name, of)
                recorder.listen(_NoteNoSpace(recorder, store.folder))
                clock = place.make_clock()
                run = Run(plan, place.backend, recorder, clock, place.standings)
                async with _own_delays(recorder, plan):
                    reads = await _show_and_conduct(run, display)
                for read in reads.reads.values():
                    store.write_evidence(read.node, STATE_FILE, [read])
                recorder.note("phase", {"name": "evidence"})
                problems = node_disks.collect(store, plan.node_names)
                recorder.note(COLLECTED, {"problems": problems})
                for problem in problems:
                    display.say(f"evidence: {problem}")

            place.run(work, on_signal)
        store.end_recording()
    except KeyboardInterrupt:
        display.say(f"what was recorded is kept: kraftprobe check {store.folder}")
        raise
    except Exception as error:
        full = lack_of_room(error)
        if full is not None:
            raise run_broken_off(store.folder, full) from error
        if isinstance(error, HarnessError):
            raise HarnessError(
                f"the harness failed: {one_line(error)}; the journal is kept in {store.folder}"
            ) from error
        raise


@contextlib.contextmanager
def _secrets_concealed(store: RunStore, plan: Plan) -> Iterator[None]:
    """Cover keys and passwords once the nodes have ended, however the run did."""
    try:
        yield
    finally:
        if plan.security.to_json():
            node_disks.conceal(store, plan.node_names)


class _NoteNoSpace:
    """Journals after a node's death that the disk of the run's folder is full, if it is.

    Nodes on this machine may share that disk, and a node that ends over it violates nothing.
    """

    def __init__(self, recorder: Recorder, folder: Path) -> None:
        self._recorder = recorder
        self._folder = folder

    def __call__(self, event: Event) -> None:
        if event.process != NEMESIS or event.f != "crash":
            return
        free_bytes = shutil.disk_usage(self._folder).free
        if free_bytes < ROOM_BYTES_MIN:
            note = {"path": str(self._folder), "free_bytes": free_bytes}
            self._recorder.note(NO_SPACE, note, EventType.INFO)


async def _show_and_conduct(run: Run, display: Display) -> FinalReads:
    """Conduct the run with the display beside it."""
    live = LiveFigures()
    run.recorder.listen(live.take)
    with display:
        shown = asyncio.ensure_future(display.refresh(live, run.recorder.now_ns))
        try:
            return await conduct(run)
        finally:
            shown.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await shown


@contextlib.asynccontextmanager
async def _own_delays(recorder: Recorder, plan: Plan) -> AsyncIterator[None]:
    """Watch the harness itself; in a simulated world nothing is late, and nothing blocks."""
    if plan.backend == SIM.name:
        yield
        return
    delays = OwnDelays(recorder)
    watch = asyncio.ensure_future(delays.watch())
    try:
        async with raise_in_blocked_loop():
            yield
        delays.end()
    finally:
        watch.cancel()


def repeat_command(arguments: list[str], seed: int) -> str:
    """Return the command line that repeats a run: the given arguments and the seed."""
    typed = list(arguments)
    if not any(part == "--seed" or part.startswith("--seed=") for part in typed):
        typed += ["--seed", str(seed)]
    return shlex.join(["kraftprobe", "run", *typed])


def own_arguments() -> list[str]:
    """Return the arguments after `kraftprobe run`."""
    return sys.argv[2:] if sys.argv[1:2] == ["run"] else []
