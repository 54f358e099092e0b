"""From a stored run to its judgement.

    journal -> columns -> history.parquet -> checks by key
          + plan + evidence -> checks of run and evidence -> verdict -> results.json

The history is read into columns (`results.store.ingest`), stored as tables, and judged from the
columns. With a Spark session the checks by key and the comparison of the nodes' logs are jobs
over stored tables (`results.judge.spark_jobs`), without one they are calls in this process. Both
call the same functions and give equal verdicts; `judged_with` names which of the two it was.

Checks of the whole run and of the evidence run in this process in both cases: they are a few passes
over what is in memory already. Many runs are judged side by side, each by
`judge` (`results.judge.engine`).
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from checkers.earned import Judged, earn
from checkers.evidence import Evidence, run_clock
from checkers.evidence.assisted import resolve
from checkers.evidence.extent import COLLECTED, Extent, extent_of, within
from checkers.evidence.recovered import torn_too_far
from checkers.history import Event
from checkers.history.recorded import notes_of, statements
from checkers.linearizability import linearizable
from checkers.linearizability.certificates import verify_lines
from checkers.registry import (
    Cancelled,
    CheckSpec,
    RunInput,
    check_keys,
    find_check,
    judged_operations,
    never,
)
from checkers.runs import exercised
from checkers.runs.coverage import coverage
from checkers.verdict import CheckResult, Status
from extensions.plain_files import read_lines
from porcupine_py.models import model_named
from results.judge import spark_jobs
from results.judge.check_results import check_each, results_of, write_certificates
from results.judge.session import SparkHandle
from results.store.evidence_files import LoadedEvidence
from results.store.files import StoreError
from results.store.model import NOT_RECORDED, Recording, RunResults, counts_of
from results.store.run_store import RunStore
from results.store.tables import OPERATIONS_FILE, RECORDS_FILE, RunName, records_table, write_tables

_T = TypeVar("_T")

EVIDENCE_FILES = "evidence-files"
"""Name of the check that says which evidence could not be read; there only when some could not."""
RECORDING = "recording"
"""Name of the check that says which files are not as recorded; there only when some are not."""
JOURNAL = "journal"
"""Name of the check that says how far the journal reaches; there only when the run goes on."""


def judge(
    store: RunStore,
    spark: SparkHandle | None = None,
    *,
    keep: bool = True,
    cancelled: Cancelled = never,
    problems: Sequence[str] = (),
    untrusted: Collection[str] = (),
    certificates: Path | None = None,
) -> RunResults:
    """Judge a stored run by the checks of its plan, and store the judgement.

    `keep` false: nothing is stored, nor compared with what was recorded. `problems`: what is known
    to be wrong with the stored evidence already, one line each; logs, snapshots and quorum states
    of `untrusted` nodes are left out for it. `certificates`: a file of them that must prove what is
    a PASS.

    Raises StoreError when plan or journal are missing, HistoryError when the journal is damaged,
    CheckError when the plan asks for a check that does not exist. What is missing or unreadable
    of the evidence raises nothing: it makes the checks that need it UNKNOWN.
    """
    began = time.monotonic()
    plan = store.plan()
    specs = check_specs(plan, str(store.plan_path))
    inputs = store.input_digests() if keep else {}
    recording = store.recording(inputs) if keep else NOT_RECORDED
    name = RunName(str(plan.get("campaign") or ""), str(plan.get("run") or store.folder.name))
    history = store.tables(name)
    give_back()
    loaded = store.evidence(plan)
    extent = extent_of(history.events)
    evidence, unplaced = _evidence_or_none(loaded, notes_of(history.events), extent, untrusted)
    if keep:
        records = records_table(name, {} if evidence is None else evidence.logs)
        with store.lock():  # two judgements at a time must not mix what they store
            write_tables(
                store.parquet_path, history.events_table, history.operations_table, records
            )
        del records
    events, operations, dropped_bytes = history.events, history.operations, history.dropped_bytes
    del history  # its tables are stored, and a tenth of what a large run takes
    give_back()
    run = RunInput(events, operations, evidence, extent)
    if spark is None:
        checks, proofs, times_s = check_each(run, specs, cancelled, check_keys)
    else:
        by_spark = spark_jobs.key_checker(spark.spark, store.parquet_path / OPERATIONS_FILE)
        audit = spark_jobs.log_auditor(spark.spark, store.parquet_path / RECORDS_FILE)
        by_jobs = replace(run, audit=audit)
        checks, proofs, times_s = check_each(by_jobs, specs, cancelled, by_spark)
    if certificates is not None:
        problems = [*problems, *_bad_proofs(certificates, specs, checks, run)]
    checks += _doubts([*problems, *loaded.problems, *unplaced], recording, extent)
    wanted = [spec.name for spec in specs]
    judged = Judged(run, tuple(checks), wanted, plan, dropped_bytes=dropped_bytes)
    checks.append(earn(judged))
    statistics = {**counts_of(run), "dropped_bytes": dropped_bytes}
    statistics["coverage"] = coverage(run)
    resolved = resolve(run.operations, run.evidence if extent.closed else None)
    if resolved.took_effect or resolved.never:
        counts = {"took_effect": resolved.took_effect, "never": resolved.never}
        statistics["resolved_by_evidence"] = counts
    results = results_of(name.run, plan, checks, times_s, statistics, spark=spark, began=began)
    results = replace(results, inputs=inputs, recording=recording)
    if not keep:
        return results
    with store.lock():
        write_certificates(store.certificates_path, proofs)
        store.write_results(results)
    return results


def _bad_proofs(
    certificates: Path, specs: Sequence[CheckSpec], checks: Iterable[CheckResult], run: RunInput
) -> Iterator[str]:
    """Say which certificates do not prove that a key is linearizable."""
    for spec, check in zip(specs, checks, strict=True):
        if spec.name == linearizable.NAME and check.status is Status.PASS:
            model = model_named(spec.options.get("model"), spec.options.get("initial"))
            lines = (line.decode(errors="replace") for line in read_lines(certificates))
            for problem in verify_lines(lines, judged_operations(spec, run), model):
                yield f"{certificates.name}: {problem}"


def check_specs(plan: Mapping[str, Any], where: str) -> list[CheckSpec]:
    """Return the checks that a plan asks for, and `exercised` with the plan's floor in any case.

    Raises StoreError when they are malformed, CheckError when one is unknown. Of a plan that asks
    for no check there is none: what nobody judges is UNKNOWN, however much was tried.
    """
    specs = read_specs(plan["checks"], where)
    for spec in specs:
        find_check(spec)
    if specs and all(spec.name != exercised.NAME for spec in specs):
        specs.append(CheckSpec(exercised.NAME))
    return [_with_floor(spec, plan, where) for spec in specs]


def read_specs(checks: Iterable[Any], where: str) -> list[CheckSpec]:
    """Return the checks that a plan lists. Raises StoreError when they are malformed."""
    specs = []
    for entry in checks:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise StoreError(f"{where}: a check must be an object with a name")
        options = entry.get("options") or {}
        if not isinstance(options, dict):
            raise StoreError(f"{where}: the options of check {entry['name']!r} are no object")
        specs.append(CheckSpec(entry["name"], options))
    return specs


def _with_floor(spec: CheckSpec, plan: Mapping[str, Any], where: str) -> CheckSpec:
    if spec.name != exercised.NAME:
        return spec
    try:
        return CheckSpec(spec.name, exercised.options_of(plan, spec.options))
    except ValueError as error:
        raise StoreError(f"{where}: {error}") from error


def _evidence_or_none(
    loaded: LoadedEvidence, events: Sequence[Event], extent: Extent, untrusted: Collection[str]
) -> tuple[Evidence | None, list[str]]:
    """Return what the journal covers, and what cannot be placed.

    None where the nodes left nothing at all, as for a history that came alone.
    """
    evidence = loaded.evidence
    parts = (evidence.logs, evidence.quorum_states, evidence.traces, evidence.final_reads)
    if not any(parts):
        return None, _collection_problems(events)
    known = replace(
        evidence,
        run_clock=run_clock(events),
        logs=_select_trusted(evidence.logs, untrusted),
        snapshots=_select_trusted(evidence.snapshots, untrusted),
        quorum_states=_select_trusted(evidence.quorum_states, untrusted),
        partition_logs=_select_trusted(evidence.partition_logs, untrusted),
    )
    damaged = torn_too_far(known)
    logs = {node: log for node, log in known.logs.items() if node not in damaged}
    kept, unplaced = within(replace(known, logs=logs), extent)
    return kept, [*damaged.values(), *unplaced, *_collection_problems(events)]


def _select_trusted(by_node: Mapping[str, _T], untrusted: Collection[str]) -> dict[str, _T]:
    return {node: part for node, part in by_node.items() if node not in untrusted}


def _collection_problems(notes: Sequence[Event]) -> list[str]:
    """Return what the harness said, when it collected the evidence, of what it could not use."""
    found = (note.value.get("problems") for note in statements(notes, COLLECTED))
    lists = (said if isinstance(said, list) else [said] for said in found if said)
    return [str(problem) for said in lists for problem in said]


def _doubts(unread: Sequence[str], recording: Recording, extent: Extent) -> Iterator[CheckResult]:
    """Yield a check for what was not read, what was changed, and a journal that goes on."""
    count = f"{len(unread)} evidence files could not be used"
    other = "what is judged here is not the run that was recorded"
    for name, kind, lines, summary in (
        (EVIDENCE_FILES, "unreadable", unread, count),
        (RECORDING, "changed", recording.problems, other),
    ):
        if lines:
            anomalies = tuple({"kind": kind, "explanation": line} for line in lines)
            yield CheckResult(name, Status.UNKNOWN, f"{summary}: {lines[0]}", anomalies=anomalies)
    if extent.shortcoming:
        yield CheckResult(JOURNAL, Status.UNKNOWN, extent.shortcoming)


def give_back() -> None:
    """Give back what is free. Does nothing for a C library without `malloc_trim` (musl, macOS)."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
