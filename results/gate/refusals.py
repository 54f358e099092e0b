"""Why a stored run does not count: what was changed, what contradicts itself, what is missing.

The order is from the cheap and certain to the dear: whose run it is, whether its files are those
that were recorded, whether the plan and the checks are those that its workload demands, and
whether what can be counted in the journal is what the results say. docs/gate.md has the table.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from checkers.earned import EARNED, Judged, earn
from checkers.evidence.extent import extent_of
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.runs import answers, exercised, monitor, statistics
from checkers.verdict import CheckResult, Status
from extensions.plain_files import read_lines
from results.gate.identity import disagreement
from results.judge.pipeline import check_specs, read_specs
from results.store.digests import NO_FILE, Chain, FileDigest, differs, files_below
from results.store.files import StoreError
from results.store.model import RunResults, as_stored, counts_of, one_line, skipped_faults
from results.store.run_store import RunStore

Derive = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Makes a plan's fields anew from the plan, its `checks` from the workload. StoreError."""
_RECOUNTED = (answers.NAME, exercised.NAME, monitor.NAME, statistics.NAME)
"""Checks that are one cheap pass over the journal."""
_DERIVED = frozenset({"leaderless", "made_of"})
"""Fields of some plans which follow from the system, and which no plan can choose."""
_CHANGED = "the run was changed after it was recorded; run it again"


def refusal_of(
    store: RunStore,
    chain: Chain,
    plan: Mapping[str, Any],
    results: RunResults,
    run: RunInput,
    dropped_bytes: int,
    tried: CheckResult,
    derive: Derive,
    canaries: Collection[str],
) -> str | None:
    """Say why even a PASS of this run would not count, or a canary's FAIL.

    `chain`: of its digests, read once. `dropped_bytes`: of the journal, at its end. `canaries`:
    mutants of which a run is wanted, since it must FAIL. Raises StoreError, HistoryError,
    CheckError where something cannot be read at all.
    """
    traced = _traced_mutants(store)
    if is_canary(plan, canaries):
        if traced != {str(plan["mutant"])}:
            said = ", ".join(sorted(traced)) or "none"
            return f"its nodes do not say that they ran this mutant alone: they say {said}"
    elif mutant := plan.get("mutant") or results.plan.get("mutant") or next(iter(traced), None):
        return (
            f"it ran mutant {one_line(str(mutant))}: a run of a faulty variant says nothing "
            "about a release"
        )
    if results.run != plan.get("run"):
        return f"its results are those of run {one_line(results.run)}"
    if results.skipped != skipped_faults(plan):
        return "its results and its plan name different faults as skipped"
    return (
        _describe_change(store, chain, results)
        or disagreement(store, plan, next(iter(run.notes), None))
        or _wrong_plan(plan, results, derive)
        or _wrong_checks(plan, results)
        or _wrong_counts(plan, results, run, dropped_bytes, tried)
    )


def is_canary(plan: Mapping[str, Any], canaries: Collection[str]) -> bool:
    """Return whether a run is of a mutant that is wanted."""
    return str(plan.get("mutant")) in canaries


def _traced_mutants(store: RunStore) -> set[str]:
    """Name the mutants that nodes said they were when they started."""
    found = set()
    for path in sorted(store.nodes_path.glob("*/trace.jsonl")):
        for line in read_lines(path):
            if b'"start"' not in line:
                continue
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue  # judging says what is wrong with a trace
            if isinstance(event, dict) and event.get("e") == "start" and event.get("mutant"):
                found.add(one_line(str(event["mutant"])))
    return found


def _describe_change(store: RunStore, chain: Chain, results: RunResults) -> str | None:
    """Name what is not as it was recorded, or not what was judged."""
    if not chain.ended:
        return "its harness was killed or broke off before the run was recorded to its end"
    if (reason := _changed_file(store, chain)) is not None:
        return f"{one_line(reason)}: {_CHANGED}"
    expected = {store.results_path.name, store.certificates_path.name}
    for name in sorted(expected):
        if _differs(store, name, chain.judged.get(name, NO_FILE)):
            return f"{name} is not what judging stored; judge the run again"
    for path in (store.junit_path, store.report_path):
        if os.path.lexists(path) and differs(path, chain.judged.get(path.name, NO_FILE)):
            return f"{path.name} is not what judging wrote; write it again by kraftprobe report"
    if results.recording.head != chain.head or not results.recording.ended:
        return "what was judged is not what is recorded here; judge the run again"
    unlike = sorted(
        name
        for name, sha256 in results.inputs.items()
        if chain.files.get(name, NO_FILE).sha256 != sha256
    )
    return f"{one_line(unlike[0])} is not what was judged; judge the run again" if unlike else None


def _changed_file(store: RunStore, chain: Chain) -> str | None:
    for name, recorded in chain.files.items():
        if recorded.sha256 is None:
            return f"{name} could not be read when it was recorded"
        if _differs(store, name, recorded):
            return _what_became_of(store, name)
    for name in files_below(store.nodes_path):
        if f"nodes/{name}" not in chain.files:
            return f"nodes/{name} was not there when the run was recorded"
    missing = {"plan.json", "history.jsonl"} - chain.files.keys()
    return f"{min(missing)} was never recorded" if missing else None


def _differs(store: RunStore, name: str, recorded: FileDigest) -> bool:
    """Whether a file is not what was recorded, or was not when its document was read."""
    read = store.read_digests.get(name, recorded.sha256)
    return read != recorded.sha256 or differs(store.folder / name, recorded)


def _what_became_of(store: RunStore, name: str) -> str:
    path = store.folder / name
    plain = os.path.lexists(path) and stat.S_ISREG(path.lstat().st_mode)
    if plain and not os.access(path, os.R_OK):
        return f"{name} cannot be read by this user"
    return f"{name} is {'not what was recorded' if plain else 'missing or no file'}"


def refuse_other_sizes(store: RunStore, chain: Chain) -> None:
    """Raise StoreError where journal or nodes' files are larger or smaller than was recorded.

    Before any of them is read: what was recorded bounds what reading them can cost.
    """
    for name, recorded in chain.files.items():
        if name == "plan.json" or recorded.size_bytes is None:
            continue
        path = store.folder / name
        if not os.path.lexists(path) or path.lstat().st_size != recorded.size_bytes:
            raise StoreError(f"{_what_became_of(store, name)}: {_CHANGED}")


def lacking_check(plan: Mapping[str, Any], derived: Mapping[str, Any]) -> str | None:
    """Name a check that a plan lacks, of those that are derived from it."""
    for spec in _canonical(derived["checks"]) - _canonical(plan["checks"]):
        return f"its plan lacks a check that its workload demands: {one_line(spec)}"
    return None


def _wrong_plan(plan: Mapping[str, Any], results: RunResults, derive: Derive) -> str | None:
    """Name what the plan, its workload and the judged plan do not agree about."""
    derived = json.loads(json.dumps(dict(derive(plan))))
    for key, value in derived.items():
        if key != "checks" and key in plan and plan[key] != value:
            return f"its plan contradicts itself: {key} follows from the rest and is another"
    if odd := (plan.keys() & _DERIVED) - derived.keys():
        return f"its plan contradicts itself: {min(odd)} does not follow from the rest"
    if (lacking := lacking_check(plan, derived)) is not None:
        return lacking
    for spec in _canonical(plan["checks"]) - _canonical(derived["checks"]):
        return f"its plan has a check that its workload does not demand: {one_line(spec)}"
    if (key := results.unlike(plan)) is not None:
        return f"it was judged by another plan: {one_line(key)} differs; judge the run again"
    return None


def _wrong_checks(plan: Mapping[str, Any], results: RunResults) -> str | None:
    """Name a check that is missing, one too many, or one that contradicts itself."""
    wanted = Counter([*(spec.name for spec in specs_of(plan)), EARNED])
    found = Counter(check.checker for check in results.checks)
    if results.status is Status.PASS and (odd := (wanted - found) | (found - wanted)):
        name = min(odd)
        word = "lack" if wanted[name] > found[name] else "have more than the plan of"
        return f"its results {word} the check {one_line(name)}: they are damaged"
    for check in results.checks:
        if check.status is Status.PASS and (reason := _contradiction(check)) is not None:
            return f"its results are damaged: {one_line(check.checker)} is a PASS {reason}"
    return None


def _contradiction(check: CheckResult) -> str | None:
    if check.anomalies:
        explanation = check.anomalies[0].get("explanation", "an anomaly")
        return f"that holds an anomaly: {one_line(str(explanation))}"
    if check.certificate and "window" in check.certificate:
        return "that holds a violating window"
    counts = check.statistics.get("by_status")
    if check.statistics.get("anomalies") or (
        isinstance(counts, dict) and any(n for status, n in counts.items() if status != "PASS")
    ):
        return "that counts what did not pass"
    return None


def _wrong_counts(
    plan: Mapping[str, Any],
    results: RunResults,
    run: RunInput,
    dropped_bytes: int,
    tried: CheckResult,
) -> str | None:
    """Name what the journal says otherwise than the results of a PASS."""
    if results.status is not Status.PASS:
        return None
    if tried.status is not Status.PASS:
        return f"its journal says {tried.status}: {one_line(tried.summary)}"
    counts = counts_of(run)
    if {name: results.statistics.get(name) for name in counts} != counts:
        return "its results count other operations than its journal has"
    stored = {check.checker: check for check in results.checks}
    for spec in specs_of(plan):
        if spec.name not in _RECOUNTED:
            continue
        fresh = as_stored(run_check(spec, run))
        if fresh.status is not Status.PASS:
            return f"its journal says {fresh.status}: {spec.name}: {one_line(fresh.summary)}"
        if fresh != stored.get(spec.name):
            return f"its check {spec.name} says other than its journal; judge the run again"
    judged = _as_judged(plan, results, run, dropped_bytes)
    fresh = as_stored(earn(judged, stored.get(EARNED)))
    if fresh.status is not Status.PASS:
        return f"a PASS of it was not earned: {one_line(fresh.summary)}"
    if fresh != stored.get(EARNED):
        return "its conditions of a PASS are others than its journal says; judge the run again"
    return None


def _as_judged(
    plan: Mapping[str, Any], results: RunResults, run: RunInput, dropped_bytes: int
) -> Judged:
    """Return a run as its judgement had it, without the nodes' evidence."""
    checks = [check for check in results.checks if check.checker != EARNED]
    wanted = [spec.name for spec in specs_of(plan)]
    known = replace(run, extent=extent_of(run.events))
    return Judged(known, checks, wanted, plan, dropped_bytes=dropped_bytes)


def specs_of(plan: Mapping[str, Any]) -> list[CheckSpec]:
    """Return what judging applies to a run of a plan. Raises StoreError, CheckError."""
    return check_specs(plan, "plan.json")


def _canonical(checks: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(
        f"{spec.name} {json.dumps(spec.options, sort_keys=True)}"
        for spec in read_specs(checks, "plan.json")
    )
