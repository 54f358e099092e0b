"""Runs plans in the simulated world and judges them: `run_plan(plan) -> SimResult`.

Violations during the run decide; without one the workload's checkers judge the history.
"""

from __future__ import annotations

from checkers import answers, exercised
from checkers.evidence import Evidence, FinalRead
from checkers.history import EventType, pair
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.verdict import Status, worst
from harness.acts import coverage
from harness.plan import Plan
from harness.sim.findings import SimResult, of_check
from harness.sim.play import MemoryJournal, Played, play
from harness.verbs import is_fault


def run_plan(plan: Plan) -> SimResult:
    """Run and judge in memory."""
    return run(plan)[1]


def run(plan: Plan, wanted: frozenset[str] | None = None) -> tuple[Played, SimResult]:
    """Run and judge in memory; `wanted` as of `harness.sim.play.play`."""
    journal = MemoryJournal()
    played = play(plan, journal, journal.events, wanted=wanted)
    return played, judge(played)


def judge(played: Played) -> SimResult:
    """Judge a finished run: violations during the run, else the black-box checks."""
    violations = list(played.violations)
    verdict = Status.FAIL
    operations = pair(played.events)
    options = exercised.options_of(played.plan.to_json())
    exercise = exercised.check(RunInput(played.events, operations), options)
    if not violations:
        reads: dict[str, FinalRead] = {} if played.reads is None else dict(played.reads.reads)
        evidence = Evidence(played.plan.node_names, {}, {}, {}, reads)
        run = RunInput(played.events, operations, evidence)
        checks = (*played.plan.make_workload().checks(), CheckSpec(answers.NAME))
        results = [run_check(spec, run) for spec in checks]
        failed = [of_check(result) for result in results if result.status is Status.FAIL]
        wanted = played.wanted
        violations = [found for found in failed if wanted is None or found.property in wanted]
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
        "faults": sum(is_fault(act.kind) and not act.undone for act in played.acts),
    }
    kinds = sorted({act.kind for act in played.acts if is_fault(act.kind)})
    return SimResult(
        played.plan.seed,
        verdict,
        tuple(violations),
        statistics,
        coverage(played.acts),
        tuple(kinds),
        exercise.statistics,
    )
