"""Runs plans in the simulated world and judges them: `run_plan(plan) -> SimResult`.

Violations during the run decide; without one the workload's checkers judge the history, and where
they ask for more than final reads, what is on the nodes' disks.

A run with a folder (`run_stored`) is judged by the ordinary pipeline:

    DIR/plan.json, history.jsonl, nodes/<node>/{trace.jsonl, metadata/, evidence/},
    results.json, report.html, junit.xml     as of every run (results/store/run_store.py)
    DIR/story.txt                            the run's story (harness.sim.story)

Violations during the run are in the journal as `violation` and judged by the check `monitor`, so
the folder's verdict is that of the run. `kraftprobe replay DIR/plan.json` repeats it.
"""

from __future__ import annotations

import contextlib
import gc
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from checkers.earned import EARNED, Judged, earn, verdict
from checkers.evidence import Evidence, run_clock
from checkers.history import EventType, pair
from checkers.nodes import durability
from checkers.registry import CheckSpec, RunInput, find_check, run_check
from checkers.runs import answers, exercised, monitor
from checkers.verdict import CheckResult, Status
from harness.errors import UsageError
from harness.evidence import node_disks
from harness.judge.stored_runs import judge_and_report
from harness.plan.plan import Plan
from harness.plan.step_verbs import is_fault
from harness.plan.stored_document import plan_document
from harness.plan.system_request import versions_of
from harness.run.strands.progress import coverage
from harness.sim.findings import SimResult, of_check
from harness.sim.play import Played, few_collections, play
from harness.sim.story import story_of
from harness.terminal.answers import Shown
from results.judge import pipeline
from results.store.evidence_files import STATE_FILE
from results.store.run_store import RunStore

_IN_MEMORY = "/dev/shm"  # noqa: S108  (its folders are made by `tempfile`)
_ROOM_BYTES = 1 << 30
"""More than worlds of many processes leave at a time."""
_OF_RUNS = (answers.NAME, monitor.NAME)
_EXERCISE = "exercise"
"""The condition of a PASS that repeats what the check of that name counted."""


def run_plan(plan: Plan, wanted: frozenset[str] | None = None) -> SimResult:
    """Run and judge in memory; `wanted` as of `harness.sim.play.play`."""
    with few_collections():
        result = run(plan, wanted)[1]
        gc.collect(1)  # the world, which is over and young still
    return result


def run(plan: Plan, wanted: frozenset[str] | None = None) -> tuple[Played, SimResult]:
    """Run and judge in memory; `wanted` as of `harness.sim.play.play`."""
    with few_collections():
        played = play(plan, wanted=wanted)
        return played, judge(played)


def judge(played: Played) -> SimResult:
    """Judge a finished run: violations during the run, else the black-box checks."""
    violations = list(played.violations)
    status, reasons = Status.FAIL, list[str]()
    operations = pair(played.events)
    options = exercised.options_of(played.plan.judged_by())
    exercise = exercised.check(RunInput(played.events, operations), options)
    if not violations:
        reads = dict(played.reads.reads)
        checks = (*played.plan.make_workload().checks(), *map(CheckSpec, _OF_RUNS))
        left = Evidence(played.plan.node_names, {}, {}, {}, reads)
        others = (find_check(spec) for spec in checks if spec.name != durability.NAME)
        if any(check.scope == "evidence" for check in others):
            left = replace(_left_behind(played), final_reads=reads)
        run = RunInput(played.events, operations, left)
        results = [run_check(spec, run) for spec in checks]
        failed = [of_check(result) for result in results if result.status is Status.FAIL]
        wanted = played.wanted
        violations = [found for found in failed if wanted is None or found.property in wanted]
        results.append(exercise)
        asked = [*(spec.name for spec in checks), exercised.NAME]
        results.append(earn(Judged(run, results, asked, played.plan.judged_by())))
        status = verdict(results)
        if status not in (Status.PASS, Status.FAIL):
            reasons = list(_reasons(results, status))
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
        "faults": sum(is_fault(act.kind) and not act.undone for act in played.acts),
    }
    return SimResult(
        played.plan.seed,
        status,
        tuple(violations),
        statistics,
        coverage(played.acts),
        exercise.statistics,
        tuple(reasons),
    )


def _reasons(results: Sequence[CheckResult], status: Status) -> Iterator[str]:
    """Say why a verdict is no better."""
    for result in results:
        if result.checker == exercised.NAME:
            short = result.anomalies if result.status is status else ()
            yield from (f"too little was tried: {row['explanation']}" for row in short)
        elif result.checker == EARNED:
            for row in result.anomalies:
                if row["status"] == status and row["kind"] != _EXERCISE:
                    yield f"{row['kind']}: {row['explanation']}"
        elif result.status is status:
            yield f"{result.checker}: {result.summary}"


def _left_behind(played: Played) -> Evidence:
    """Decode what the nodes left, as of a stored run."""
    plan = played.plan
    with tempfile.TemporaryDirectory(prefix="kraftprobe-sim-", dir=_memory()) as place:
        store = RunStore(Path(place))
        store.begin(plan_document(plan, "sim", ""))
        played.backend.write(store.node_path)
        node_disks.collect(store, plan.node_names)
        found = store.evidence(store.plan()).evidence
    return replace(found, run_clock=run_clock(played.events))


def _memory() -> str | None:
    """Return the folder of files in memory, if there is one with room: a disk is much slower."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage(_IN_MEMORY).free > _ROOM_BYTES:
            return _IN_MEMORY
    return None


def run_stored(plan: Plan, folder: Path, shown: Shown = Shown.LINES) -> int:
    """Run a plan into a new folder, judge and report; returns the exit code of the verdict.

    Raises UsageError when the folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: is not empty")
    store = RunStore(folder)
    folder.mkdir(parents=True, exist_ok=True)
    command = f"kraftprobe replay {folder.name}/plan.json"
    store.begin(plan_document(plan, folder.name, command, versions_of(plan)))
    played, result = _play(plan, store)
    violation = result.violations[0] if result.violations else None
    story = "\n".join(story_of(played, violation))
    (folder / "story.txt").write_text(story + "\n", encoding="utf-8")
    store.end_recording()
    return judge_and_report(store, pipeline.judge, with_report=True, shown=shown)


def _play(plan: Plan, store: RunStore) -> tuple[Played, SimResult]:
    with store.journal_writer() as journal:
        played = play(plan, journal, store.folder)
    for read in played.reads.reads.values():
        store.write_evidence(read.node, STATE_FILE, [read])
    node_disks.collect(store, plan.node_names)
    return played, judge(played)
