"""The gate's use of the harness: judge a run from its raw files, run a batch's seeds again."""

from __future__ import annotations

from pathlib import Path

from harness.evidence_again import made_anew
from harness.plan_document import derive
from harness.sim.batch_gate import gate_batch
from harness.targets import is_batch
from results import pipeline
from results.files import StoreError
from results.gate import GateEntry, Rules, gate_run
from results.model import RunResults
from results.store import RunStore


def gate_folder(
    folder: Path, *, allow_skipped: bool, allow_no_faults: bool, judge_again: bool
) -> GateEntry:
    """Gate a run, or a batch of simulated seeds."""
    if is_batch(folder):
        return gate_batch(folder, allow_no_faults=allow_no_faults, judge_again=judge_again)
    rules = Rules(
        derive,
        allow_skipped=allow_skipped,
        allow_no_faults=allow_no_faults,
        recompute=recompute if judge_again else None,
    )
    return gate_run(RunStore(folder), rules)


def recompute(store: RunStore) -> RunResults:
    """Judge a run from its plan, its journal and its nodes' raw files, changing nothing.

    Logs and quorum states are decoded again and must equal the stored evidence, and so must traces
    that were made from a node's output; others are raw already. Final reads exist only as stored.
    Raises StoreError and what `results.pipeline.judge` raises.
    """
    with made_anew(store) as (copy, problems):
        if problems:
            raise StoreError(problems[0].what)
        return pipeline.judge(copy, keep=False)
