"""PLAN BACKEND MUTANT FOLDER SEED: one run, judged without Spark; prints the outcome as JSON.

MUTANT is `none` for the true node.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from checkers.verdict import Status
from harness.campaigns import read_document
from harness.plan.document import from_document
from harness.run.run_to_verdict import run_unseen
from results.judge.pipeline import judge
from results.store.model import RunResults


def run_once(path: Path, backend: str, mutant: str | None, folder: Path, seed: int) -> RunResults:
    document = read_document(path) | {"backend": backend, "mutant": mutant, "seed": seed}
    return judge(run_unseen(from_document(document), folder, "kraftprobe run"))


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
