"""`python -m benchmarks.stored_invariants`: which invariants are found broken in stored runs.

Each mutant runs on real nodes with a schedule that brings it out; the run is stored, and the check
`invariants` judges what the nodes left behind. Printed is, for each invariant, the mutant that
breaks it and in how many of its runs it was found, and what a stored run cannot show. With --true
the true node runs by the same plans, and nothing may be found.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import click

from benchmarks.mutants.__main__ import FOLDER, judged_run
from checkers.invariants.stored import LEFT_OUT, NAME
from checkers.invariants.watcher import INVARIANTS
from checkers.verdict import Status
from harness.campaigns import read_document

BACKEND = "local"


def step(at_s: float, fault: str, for_s: float, **parameters: Any) -> dict[str, Any]:
    return {"at_s": at_s, "fault": fault, "for_s": for_s, "parameters": parameters}


def plan(*schedule: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A plan of short time-outs, so that leaders change within seconds."""
    settings = {"controller.quorum.fetch.timeout.ms": 1000, **fields.pop("node_settings", {})}
    return {
        "workload": "register",
        "nodes": 3,
        "duration_s": 12,
        "rate_per_s": 100,
        "concurrency": 10,
        "node_settings": settings,
        "schedule": list(schedule),
        "expectations": {"min_operations": 50},
        **fields,
    }


LEADERS_GO = plan(step(2, "pause", 3, targets="leader"), step(7, "kill", 2, targets="leader"))
ONE_LAGS = plan(step(2, "partition", 5, targets="follower"), step(6.8, "kill", 3, targets="leader"))
VOTERS_CHANGE = plan(
    workload="reconfig", workload_options={"change_fraction": 0.2}, nodes=4, duration_s=14
)
VOTERS_ARE_CUT_OFF = VOTERS_CHANGE | {
    "schedule": [
        step(7, "partition", 3, targets="leader"),
        step(11, "partition", 2.5, targets="leader"),
    ]
}
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": 4096}

FOUND_BY: dict[str, tuple[str, dict[str, Any] | str]] = {
    "monotonic-epoch": ("I03", LEADERS_GO),
    "election-safety": ("I02", LEADERS_GO),
    "one-vote": ("I02", LEADERS_GO),
    "elected-by-majority": ("I01", ONE_LAGS),
    "one-voter-change": ("I05", VOTERS_CHANGE),
    "change-after-commit": ("M29", VOTERS_CHANGE),
    "committed-voters": ("I04", VOTERS_ARE_CUT_OFF),
    "recovery": ("M40", "M40-torn-write"),
    "log-matching": ("I08", LEADERS_GO),
    "committed-prefix": ("I08", LEADERS_GO),
    "committed-truncated": ("I01", ONE_LAGS),
    "majority-durable": ("M15", LEADERS_GO),
    "majority-counted": ("M15", LEADERS_GO),
    "monotonic-high-watermark": ("I01", ONE_LAGS),
    "leader-completeness": ("I01", ONE_LAGS),
    "durable-fetch": ("M19", LEADERS_GO),
    "snapshot-committed": ("I06", plan(*LEADERS_GO["schedule"], node_settings=SNAPSHOTS)),
    "claim-after-replay": ("I07", LEADERS_GO),
    "ack-committed": ("M32", LEADERS_GO),
    "read-confirmed": ("M31", LEADERS_GO),
    "led-alone": ("M11", "M11-partition"),
}
"""By invariant (and check quorum): the mutant, and the plan or its name in campaigns/mutants."""


def run_once(mutant: str | None, asked: dict[str, Any] | str, seed: int, runs: Path):
    """One run on real nodes; returns the result of the check and the kinds of what it found."""
    document = read_document(FOLDER / f"{asked}.toml") if isinstance(asked, str) else asked
    document = {**document, "backend": BACKEND, "mutant": mutant, "seed": seed}
    results, _ = judged_run(document, runs)
    (check,) = [check for check in results.checks if check.checker == NAME]
    kinds = check.statistics["anomalies_by_kind"] if check.status is Status.FAIL else {}
    return check, sorted(kinds)


@click.command()
@click.argument("invariants", nargs=-1)
@click.option("--runs", default=3, help="Runs of each mutant, each with another seed.")
@click.option("--true", "is_true", is_flag=True, help="Run the true node instead.")
@click.option("--folder", type=Path, default=None, help="Keep the runs there.")
def main(invariants, runs, is_true, folder):
    wanted = {name: FOUND_BY[name] for name in invariants or FOUND_BY}
    found: dict[tuple[str, str], list[list[str]]] = defaultdict(list)
    distinct = {
        (None if is_true else mutant, str(asked)): asked for mutant, asked in wanted.values()
    }
    with tempfile.TemporaryDirectory(prefix="kraftprobe-invariants.") as kept:
        for (mutant, key), asked in distinct.items():
            for seed in range(1, runs + 1):
                began_s = time.monotonic()
                check, kinds = run_once(mutant, asked, seed, folder or Path(kept))
                found[mutant, key].append(kinds)
                broken = ", ".join(kinds) or check.summary[:160]
                took = f"{time.monotonic() - began_s:.0f} s"
                run = f"{mutant or 'true node'} seed {seed}"
                click.echo(f"    {run}: {check.status.value} {broken} ({took})")
    if is_true:
        return
    click.echo("| invariant | mutant | found in |\n|---|---|---|")
    for name, (mutant, asked) in wanted.items():
        count = sum(name in kinds for kinds in found[mutant, str(asked)])
        click.echo(f"| {name} | {mutant} | {count} of {runs} |")
    for kind in INVARIANTS:
        if kind.name in LEFT_OUT and not invariants:
            click.echo(f"| {kind.name} | | not in stored runs: {kind.unstored} |")


if __name__ == "__main__":
    main()
