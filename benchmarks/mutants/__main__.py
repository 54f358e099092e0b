"""`python -m benchmarks.mutants [--backend B] [--runs 10] [--true] [PLAN ...]`: what finds what.

Runs the plans of `harness/campaigns/mutants`, each with the mutant that its name begins with (with
--true: with the true node) and with another seed each time, and prints how many were found, by
which check, and how long it took from the first start of a node to the verdict. Plans are paths or
names.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

import harness.campaigns
from checkers.verdict import Status
from harness.campaigns import read_document
from harness.plan.document import from_document
from harness.run.run_to_verdict import run_unseen
from results.judge.pipeline import judge

FOLDER = Path(harness.campaigns.__file__).parent / "mutants"


def judged_run(document, runs: Path):
    """One run: its results, and its folder."""
    store = run_unseen(from_document(document), runs, " ".join(sys.argv))
    return judge(store), store.folder


@click.command()
@click.argument("plans", nargs=-1)
@click.option("--backend", default="local")
@click.option("--runs", default=10)
@click.option("--true", "is_true", is_flag=True)
@click.option("--first-seed", default=1)
@click.option("--folder", type=Path, default=None, help="Keep the runs there.")
def main(plans, backend, runs, is_true, first_seed, folder):
    paths = [FOLDER / f"{plan}.toml" if "/" not in plan else Path(plan) for plan in plans]
    for path in paths or sorted(FOLDER.glob("*.toml")):
        mutant = None if is_true else path.stem.partition("-")[0]
        found, took, by = Counter(), [], Counter()
        with tempfile.TemporaryDirectory(prefix="kraftprobe-mutants.") as kept:
            for seed in range(first_seed, first_seed + runs):
                where = folder or Path(kept)
                begun_s = time.monotonic()
                asked = {"backend": backend, "mutant": mutant, "seed": seed}
                results, run = judged_run(read_document(path) | asked, where)
                found[results.status.value] += 1
                took.append(time.monotonic() - begun_s)
                failed = [c for c in results.checks if c.status is Status.FAIL]
                by.update(c.checker for c in failed)
                shown = failed or [c for c in results.checks if c.status is not Status.PASS]
                for check in shown:
                    why = f"{check.status.value} {check.checker}: {check.summary[:200]}"
                    click.echo(f"    seed {seed} {why}")
                if folder is not None:
                    click.echo(f"    {run}")
        took.sort()
        click.echo(
            f"{path.stem} on {backend}, {mutant or 'true node'}: {dict(found)} of {runs}, "
            f"{took[len(took) // 2]:.0f} s (at most {took[-1]:.0f}); by {dict(by)}"
        )


if __name__ == "__main__":
    main()
