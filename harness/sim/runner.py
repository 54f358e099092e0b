"""Runs plans in the simulated world and judges them: `run_plan(plan) -> SimResult`.

Violations during the run decide; without one the workload's checkers judge the history, and where
they ask for more than final reads, what is on the nodes' disks.
"""

from __future__ import annotations

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
from harness.evidence import node_disks
from harness.plan.plan import Plan
from harness.plan.step_verbs import is_fault
from harness.plan.stored_document import plan_document
from harness.run.strands.progress import coverage
from harness.sim.findings import SimResult, of_check
from harness.sim.play import Played, few_collections, play
from results.store.run_store import RunStore

_OF_RUNS = (answers.NAME, monitor.NAME)
_EXERCISE = "exercise"
"""The condition of a PASS that repeats what the check of that name counted."""


def run_plan(plan: Plan) -> SimResult:
    """Run and judge in memory."""
    return run(plan)[1]


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
        if any(_reads_disks(spec) for spec in checks):
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


def _reads_disks(spec: CheckSpec) -> bool:
    return spec.name != durability.NAME and find_check(spec).scope == "evidence"


def _left_behind(played: Played) -> Evidence:
    """Decode what the nodes left, as of a stored run."""
    plan = played.plan
    with tempfile.TemporaryDirectory(prefix="kraftprobe-sim-") as place:
        store = RunStore(Path(place))
        store.begin(plan_document(plan, "sim", ""))
        played.backend.write(store.node_path)
        node_disks.collect(store, plan.node_names)
        found = store.evidence(store.plan()).evidence
    return replace(found, run_clock=run_clock(played.events))
