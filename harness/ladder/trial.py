"""One run of one side of a rung: `run_side(document, runs) -> Outcome`.

Nothing here knows which side it is: a document is a plan like any other, and all its checks judge
it. What was expected is compared afterwards (`harness.ladder.climb`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from checkers.verdict import Status
from cluster.backends.registry import SIM
from cluster.values import valueclass
from harness.doctor.impossible_faults import settle
from harness.plan.plan import in_simulation
from harness.run.display import Display
from harness.run.run_to_verdict import make_store, run_cluster
from harness.sim.runner import run_plan
from results.judge.pipeline import judge


@valueclass
class Outcome:
    """What a run came to."""

    status: Status
    failed: Mapping[str, str]
    """Check that FAILed, in the simulated world the property -> its explanation."""
    seconds: float
    folder: Path | None = None
    """Of a run of real processes; its report: `kraftprobe report`."""


def run_side(document: Mapping[str, Any], runs: Path) -> Outcome:
    """Run and judge a plan; real runs are stored below `runs`.

    Raises PlanError, SettingError, BackendError and ImpossibleError where it cannot be run here.
    """
    began = time.monotonic()
    if document.get("backend") == SIM.name:
        result = run_plan(in_simulation(document))
        failed = {violation.property: violation.explanation for violation in result.violations}
        return Outcome(result.verdict, failed, time.monotonic() - began)
    plan = settle(document, skip=False)
    store = make_store(plan, runs, "kraftprobe ladder", datetime.now(UTC))
    run_cluster(plan, store, Display(Console(quiet=True), plan.campaign, plan.duration_s))
    results = judge(store)
    failed = {
        check.checker: f"{check.summary} {json.dumps(check.anomalies)}"
        for check in results.checks
        if check.status is Status.FAIL
    }
    return Outcome(results.status, failed, time.monotonic() - began, store.folder)
