"""PLAN BACKEND MUTANT FOLDER SEED: one run, judged without Spark; prints the outcome as JSON.

MUTANT is `none` for the true node.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from checkers.verdict import Status
from harness.campaigns import read_document
from harness.plan.document import from_document
from harness.plan.stored_document import plan_document
from harness.run.display import Display
from harness.run.run_to_verdict import run_cluster, run_name
from results.judge.pipeline import judge
from results.store.model import RunResults
from results.store.run_store import RunStore


def run_once(path: Path, backend: str, mutant: str | None, folder: Path, seed: int) -> RunResults:
    document = read_document(path) | {"backend": backend, "mutant": mutant, "seed": seed}
    plan = from_document(document)
    name = run_name(datetime.now(UTC), seed)
    store = RunStore.create(folder, plan_document(plan, name, "kraftprobe run"))
    run_cluster(plan, store, Display(Console(quiet=True), name, plan.duration_s))
    return judge(store)


def outcome_of(results: RunResults) -> dict[str, object]:
    """Render the verdict, and what each check that does not pass says."""
    return {
        "status": results.status.value,
        "checks": {
            check.checker: [check.status.value, check.summary]
            for check in results.checks
            if check.status is not Status.PASS
        },
    }


def main(path: str, backend: str, mutant: str, folder: str, seed: str) -> None:
    chosen = None if mutant == "none" else mutant
    results = run_once(Path(path), backend, chosen, Path(folder), int(seed))
    sys.stdout.write(json.dumps(outcome_of(results)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
