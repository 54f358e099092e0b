"""From a stored run to its judgement.

    journal -> columns -> history.parquet -> checks by key
          + plan + evidence -> checks of run and evidence -> verdict -> results.json

The history is read into columns (`results.ingest`), stored as tables, and judged from the columns.
With a Spark session the checks by key, the comparison of the nodes' logs and that of operations
with records are jobs over stored tables (`results.spark_jobs`, `results.effect_jobs`), without one
they are calls in this process. Both call the same functions and give equal verdicts; `judged_with`
names which of the two it was.

Checks of the whole run and of the evidence run in this process in both cases: they are a few passes
over what is in memory already. Many runs are judged side by side, each by
`judge` (`results.engine`).
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from checkers import exercised
from checkers.assisted import resolve
from checkers.coverage import coverage
from checkers.evidence import Evidence, run_clock
from checkers.extent import COLLECTED, Extent, extent_of, within
from checkers.history import INFINITY_NS, NEMESIS, Event, HistoryError
from checkers.history.column_files import ColumnFile, load_judged
from checkers.history.columns import KINDS, Columns
from checkers.history.foreign import Reading, judged
from checkers.history.formats import load
from checkers.history.recorded import notes_of
from checkers.linearizability import linearizable
from checkers.linearizability.certificates import certificate_lines
from checkers.linearizability.columnar import check_columns
from checkers.recovered import torn_too_far
from checkers.registry import (
    Cancelled,
    CheckSpec,
    KeyCheck,
    RunInput,
    check_keys,
    find_check,
    merge,
    never,
    noted,
    reading_for,
    run_check,
)
from checkers.verdict import CheckResult, Status, worst
from results import spark_jobs
from results.effect_jobs import effect_auditor
from results.evidence_files import LoadedEvidence
from results.files import StoreError, write_atomically
from results.memory import give_back
from results.model import NOT_RECORDED, PLAN_FIELDS, Recording, RunResults, as_stored, counts_of
from results.session import SparkHandle
from results.store import RunStore
from results.tables import (
    OPERATIONS_FILE,
    RECORDS_FILE,
    RunName,
    records_table,
    write_tables,
)

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
) -> RunResults:
    """Judge a stored run by the checks of its plan, and store the judgement.

    `keep` false: nothing is stored, nor compared with what was recorded. `problems`: what is known
    to be wrong with the stored evidence already, one line each; logs, snapshots and quorum states
    of `untrusted` nodes are left out for it.

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
        with store.locked():  # two judgements at a time must not mix what they store
            write_tables(
                store.parquet_path, history.events_table, history.operations_table, records
            )
        del records
    events, operations, dropped_bytes = history.events, history.operations, history.dropped_bytes
    del history  # its tables are stored, and a tenth of what a large run takes
    give_back()
    run = RunInput(events, operations, evidence, extent)
    if spark is None:
        checks, proofs, times_s = _check(run, specs, cancelled, check_keys)
    else:
        by_spark = spark_jobs.key_checker(spark.spark, store.parquet_path / OPERATIONS_FILE)
        audit = spark_jobs.log_auditor(spark.spark, store.parquet_path / RECORDS_FILE)
        effects = effect_auditor(spark.spark, store.parquet_path)
        by_jobs = replace(run, audit=audit, audit_effects=effects)
        checks, proofs, times_s = _check(by_jobs, specs, cancelled, by_spark)
    checks += _unreadable([*problems, *loaded.problems, *unplaced]) + _changed(recording)
    if extent.shortcoming:
        checks.append(CheckResult(JOURNAL, Status.UNKNOWN, extent.shortcoming))
    results = _results(name.run, plan, checks, times_s, spark=spark, began=began)
    statistics = {**counts_of(run), "dropped_bytes": dropped_bytes}
    statistics["coverage"] = coverage(run)
    resolved = resolve(run.operations, run.evidence if extent.closed else None)
    if resolved.took_effect or resolved.never:
        counts = {"took_effect": resolved.took_effect, "never": resolved.never}
        statistics["resolved_by_evidence"] = counts
    results = replace(results, inputs=inputs, recording=recording, statistics=statistics)
    if not keep:
        return results
    with store.locked():
        write_certificates(store.certificates_path, proofs)
        store.write_results(results)
    return results


def judge_file(
    path: Path,
    specs: Sequence[CheckSpec],
    *,
    reading: Reading | None = None,
    certificates: Path | None = None,
    cancelled: Cancelled = never,
) -> RunResults:
    """Judge a lone history file of any format of `checkers.history.formats`, in this process.

    Nothing is stored but the certificates of the keys, where a path is given, and there is no
    evidence. `reading`: what the caller knows of the file. Raises HistoryError, CheckError, and
    OSError when the certificates cannot be written.
    """
    reading = reading or Reading()
    began = time.monotonic()
    for spec in specs:
        find_check(spec)
    if all(spec.name == linearizable.NAME for spec in specs):
        file = _columns(path, reading)
        watch = _Stopwatch()
        each = []
        for spec in specs:
            each.append(_judge_columns(file.judged, spec, path, cancelled, certificates))
            watch.lap()
        times_s, notes = watch.laps_s, file.notes
        checks = [merge(linearizable.NAME, keys) for keys in each]
        proofs = [key for keys in each for key in keys]
        statistics = _column_statistics(file.columns)
    else:
        history = load(path, independent=reading.independent)
        operations, notes = history.operations, history.notes
        found = [find_check(spec) for spec in specs]
        if all(isinstance(check, KeyCheck) for check in found):
            kept, more = judged(history, reading_for(found, reading))
            operations, notes = kept, tuple(more)
        run = RunInput(history.events, operations, None)
        checks, proofs, times_s = _check(run, specs, cancelled, check_keys)
        statistics = counts_of(run)
    checks = [noted(check, notes) for check in checks]
    if certificates is not None:
        write_certificates(certificates, proofs)
    checks += _nothing_ok(statistics)
    results = _results(path.name, {}, checks, times_s, spark=None, began=began)
    return replace(results, statistics=statistics)


def _columns(path: Path, reading: Reading) -> ColumnFile:
    try:
        return load_judged(path, reading)
    except HistoryError as error:
        message = str(error)
        raise HistoryError(
            message if message.startswith(str(path)) else f"{path}: {message}"
        ) from error


def _judge_columns(
    columns: Columns, spec: CheckSpec, path: Path, cancelled: Cancelled, certificates: Path | None
) -> list[CheckResult]:
    """Judge the keys of a lone file; an operation that the model does not know is a wrong file."""
    if not len(columns):
        return []
    try:
        return check_columns(
            columns, spec.options, cancelled, certificates=certificates is not None
        )
    except HistoryError as error:
        raise HistoryError(f"{path}: {error}") from error


def _column_statistics(columns: Columns) -> dict[str, Any]:
    """Return what `counts_of` does; without the number of events."""
    counts = np.bincount(columns.type, minlength=len(KINDS)).tolist()
    ended = columns.complete_ns[columns.complete_ns < INFINITY_NS]
    latest = max(int(ended.max(initial=0)), int(columns.invoke_ns.max(initial=0)))
    return {
        "operations": len(columns),
        "by_type": {kind.value: count for kind, count in zip(KINDS, counts, strict=True)},
        "keys": len(np.unique(columns.key)),
        "duration_ns": latest,
    }


def write_certificates(path: Path, results: Sequence[CheckResult]) -> None:
    """Store the proof of each key's verdict, whole or not at all. Raises OSError."""
    try:
        write_atomically(path, "".join(certificate_lines(results)).encode("ascii"))
    except OSError as error:  # it names a file that nobody asked for
        raise OSError(error.errno, error.strerror, str(path)) from error


def check_specs(plan: Mapping[str, Any], where: str) -> list[CheckSpec]:
    """Return the checks that a plan asks for, and `exercised` with the plan's floor in any case.

    Raises StoreError when they are malformed, CheckError when one is unknown. Of a plan that asks
    for no check there is none: what nobody judges is UNKNOWN, however much was tried.
    """
    specs = []
    for entry in plan["checks"]:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise StoreError(f"{where}: a check must be an object with a name")
        options = entry.get("options") or {}
        if not isinstance(options, dict):
            raise StoreError(f"{where}: the options of check {entry['name']!r} are no object")
        specs.append(CheckSpec(entry["name"], options))
    for spec in specs:
        find_check(spec)
    if specs and all(spec.name != exercised.NAME for spec in specs):
        specs.append(CheckSpec(exercised.NAME))
    return [_with_floor(spec, plan, where) for spec in specs]


def _with_floor(spec: CheckSpec, plan: Mapping[str, Any], where: str) -> CheckSpec:
    if spec.name != exercised.NAME:
        return spec
    try:
        return CheckSpec(spec.name, exercised.options_of(plan, spec.options))
    except ValueError as error:
        raise StoreError(f"{where}: {error}") from error


_Checked = tuple[list[CheckResult], list[CheckResult], list[float]]
"""Results in the order of the plan, those of single keys, and how many seconds each check took."""


class _Stopwatch:
    """Measures how long one check after the other takes, in seconds."""

    def __init__(self) -> None:
        self.laps_s: list[float] = []
        self._last = time.monotonic()

    def lap(self) -> None:
        now = time.monotonic()
        self.laps_s.append(now - self._last)
        self._last = now


KeyChecker = Callable[[KeyCheck, CheckSpec, RunInput, Cancelled], list[CheckResult]]
"""`checkers.registry.check_keys`, or what does the same elsewhere."""


def _check(
    run: RunInput, specs: Sequence[CheckSpec], cancelled: Cancelled, by_keys: KeyChecker
) -> _Checked:
    """Judge by every check."""
    watch = _Stopwatch()
    checks: list[CheckResult] = []
    proofs: list[CheckResult] = []
    for spec in specs:
        check = find_check(spec)
        if isinstance(check, KeyCheck):
            by_key = by_keys(check, spec, run, cancelled)
            proofs += by_key
            checks.append(check.merge(by_key))
        else:
            checks.append(run_check(spec, run, cancelled))
        watch.lap()
    return checks, proofs, watch.laps_s


def _results(
    name: str,
    plan: Mapping[str, Any],
    checks: Sequence[CheckResult],
    times_s: Sequence[float],
    *,
    spark: SparkHandle | None,
    began: float,
) -> RunResults:
    plain = tuple(as_stored(check) for check in checks)
    engine = None
    if spark is not None:
        engine = {"version": spark.version, "master": spark.master, "jvm": spark.jvm.version}
    return RunResults(
        status=worst(check.status for check in plain),
        checks=plain,
        statistics={},
        run=name,
        plan={field: plan[field] for field in PLAN_FIELDS if field in plan},
        inputs={},
        judged_with={"spark": engine},
        judging={
            "at": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "duration_s": round(time.monotonic() - began, 3),
            "checks_s": [round(time_s, 6) for time_s in times_s],
        },
    )


def _evidence_or_none(
    loaded: LoadedEvidence,
    events: Sequence[Event],
    extent: Extent,
    untrusted: Collection[str],
) -> tuple[Evidence | None, list[str]]:
    """Return what the journal covers, and what cannot be placed.

    None where the nodes left nothing at all, as for a history that came alone.
    """
    evidence = loaded.evidence
    parts = (evidence.logs, evidence.quorum_states, evidence.traces, evidence.final_reads)
    if not any(parts):
        return None, []
    known = replace(
        evidence,
        run_clock=run_clock(events),
        logs=_trusted(evidence.logs, untrusted),
        snapshots=_trusted(evidence.snapshots, untrusted),
        quorum_states=_trusted(evidence.quorum_states, untrusted),
        partition_logs=_trusted(evidence.partition_logs, untrusted),
    )
    damaged = torn_too_far(known)
    logs = {node: log for node, log in known.logs.items() if node not in damaged}
    kept, unplaced = within(replace(known, logs=logs), extent)
    return kept, [*damaged.values(), *unplaced, *_uncollected(events)]


def _trusted(by_node: Mapping[str, _T], untrusted: Collection[str]) -> dict[str, _T]:
    return {node: part for node, part in by_node.items() if node not in untrusted}


def _uncollected(events: Sequence[Event]) -> list[str]:
    """Return what the harness said, when it collected the evidence, of what it could not use."""
    notes = [e.value for e in events if e.process == NEMESIS and e.f == COLLECTED]
    return [
        str(problem)
        for value in notes
        if isinstance(value, dict)
        for problem in value.get("problems") or ()
    ]


def _nothing_ok(statistics: Mapping[str, Any]) -> list[CheckResult]:
    """Of a lone file no more can be asked: it has no plan that would say what to expect."""
    if statistics["by_type"]["ok"]:
        return []
    summary = "no operation was ok, so there was nothing to judge"
    return [CheckResult(exercised.NAME, Status.UNDER_EXERCISED, summary)]


def _unreadable(problems: Sequence[str]) -> list[CheckResult]:
    if not problems:
        return []
    summary = f"{len(problems)} evidence files could not be used: {problems[0]}"
    anomalies = tuple({"kind": "unreadable", "explanation": problem} for problem in problems)
    return [CheckResult(EVIDENCE_FILES, Status.UNKNOWN, summary, anomalies=anomalies)]


def _changed(recording: Recording) -> list[CheckResult]:
    if not recording.problems:
        return []
    summary = f"what is judged here is not the run that was recorded: {recording.problems[0]}"
    anomalies = tuple({"kind": "changed", "explanation": line} for line in recording.problems)
    return [CheckResult(RECORDING, Status.UNKNOWN, summary, anomalies=anomalies)]
