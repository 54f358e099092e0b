"""The gate's use of the harness: derive a plan's fields, and judge a run from its raw files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import evidence
from harness.errors import is_expected, one_line
from harness.plan import from_document
from harness.plan_document import plan_document
from harness.sim.batch_gate import gate_batch
from harness.targets import is_batch
from results import pipeline
from results.digests import digest_of, files_below
from results.files import StoreError
from results.gate import GateEntry, Rules, gate_run
from results.model import RunResults
from results.store import RunStore

_NOT_DERIVED = frozenset({"versions", "command", "run"})
"""Fields of a stored plan that record when and how it was made; they decide nothing."""


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


def derive(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Derive a stored plan's fields again from those that decide a run.

    Raises StoreError when this version refuses the plan.
    """
    try:
        made = plan_document(from_document(plan), str(plan.get("run")), "")
    except Exception as error:
        if not is_expected(error):
            raise
        raise StoreError(f"its plan is none that this version runs: {one_line(error)}") from error
    return {key: value for key, value in made.items() if key not in _NOT_DERIVED}


def recompute(store: RunStore) -> RunResults:
    """Judge a run from its plan, its journal and its nodes' raw files, changing nothing.

    Logs and quorum states are decoded again and must equal the stored evidence, and so must traces
    that were made from a node's output; others are raw already. Final reads exist only as stored.
    Raises StoreError and what `results.pipeline.judge` raises.
    """
    with tempfile.TemporaryDirectory(prefix="kraftprobe-gate-") as place:
        folder = Path(place) / store.folder.resolve().name
        folder.mkdir()
        copy = RunStore(folder)
        for path in (store.plan_path, store.journal_path):
            if path.is_file():
                (folder / path.name).symlink_to(path.resolve())
        for node in store.node_names(store.plan()):
            _link_node(store.node_path(node), copy.node_path(node))
        nodes = tuple(n for n in store.node_names(store.plan()) if store.has_log(n))
        layout = evidence.layout_of(copy)
        for node in nodes:
            trace = Path(layout.trace_file(copy.node_path(node)))
            if layout.trace_reader(copy.node_path(node)) is not None:
                trace.unlink(missing_ok=True)
        problems = evidence.collect(copy, nodes)
        if problems:
            raise StoreError(f"its evidence cannot be made anew: {problems[0]}")
        for node in nodes:
            _compare_evidence(store, copy, node)
            if digest_of(Path(layout.trace_file(store.node_path(node)))) != digest_of(
                Path(layout.trace_file(copy.node_path(node))).resolve()
            ):
                raise StoreError(f"the trace of {node} does not follow from the node's output")
        return pipeline.judge(copy, keep=False)


def _link_node(source: Path, target: Path) -> None:
    """Link a node's files into a new folder, its evidence into one that can be written."""
    target.mkdir(parents=True)
    if not source.is_dir():
        return
    for entry in source.iterdir():
        if entry.name != "evidence":
            (target / entry.name).symlink_to(entry.resolve())
    for name in files_below(source / "evidence"):
        (target / "evidence").mkdir(exist_ok=True)
        (target / "evidence" / name).symlink_to((source / "evidence" / name).resolve())


def _compare_evidence(store: RunStore, copy: RunStore, node: str) -> None:
    folder = store.evidence_path(node)
    for name in files_below(folder):
        if digest_of(folder / name) != digest_of((copy.evidence_path(node) / name).resolve()):
            raise StoreError(f"nodes/{node}/evidence/{name} does not follow from the node's log")
