"""The gate: may this build be released? Only a PASS that follows from what is stored says so.

The gate believes nothing that it can recompute or compare:

- every file is what `digests.jsonl` says was recorded, and what was judged; the harness recorded
  the run to its end; `results.json` is what the last judgement stored;
- the plan is what the harness makes of it, with every check that its workload demands, and the
  results hold just these checks; a PASS that holds an anomaly is damage;
- what can be counted in the journal in one pass is counted again: how much was tried, and what a
  monitor saw. The other checks are recomputed where that is asked for (`recompute`).

Besides, these do not pass: any other verdict; a run of a mutant, for it says nothing about a
release (nodes name their mutant in their traces); a run in which no fault bit, and one that left
out faults as impossible where it ran, unless the gate's options allow that; and no runs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers import answers, exercised, monitor, statistics
from checkers.history import NEMESIS, HistoryError, pair
from checkers.registry import CheckError, CheckSpec, RunInput, run_check
from checkers.verdict import EXIT_CODES, CheckResult, Status, worst
from results.digests import Chain, FileDigest, digest_of, files_below, read_chain
from results.files import StoreError
from results.model import RunResults, as_stored, counts_of, skipped_faults, system_shown
from results.pipeline import check_specs
from results.store import RunStore

_USAGE = 2
_RECOUNTED = (answers.NAME, exercised.NAME, monitor.NAME, statistics.NAME)
"""Checks that are one cheap pass over the journal."""
_HEAD_SHOWN = 16


@dataclass(frozen=True, slots=True)
class Rules:
    """What the gate needs to know, and what it is allowed to let pass."""

    derive: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """Makes a plan's fields anew from the plan, its `checks` from the workload. StoreError."""
    allow_skipped: bool = False
    """Runs that left out faults as impossible may pass, and are said to have done so."""
    allow_no_faults: bool = False
    """Runs in which no fault bit may pass, and are said to have had none."""
    recompute: Callable[[RunStore], RunResults] | None = None
    """Judges a run anew from journal and nodes' files, changing nothing. StoreError."""


@dataclass(frozen=True, slots=True)
class GateEntry:
    """What the gate says of one run."""

    run: str
    status: Status
    """PASS only if the run passes the gate."""
    line: str
    """For a person."""
    identity: str = field(default="")
    """Runs of one identity count once; empty: like no other."""

    @property
    def passed(self) -> bool:
        """Whether this run lets a release through."""
        return self.status is Status.PASS


@dataclass(frozen=True, slots=True)
class GateDecision:
    """What the gate says of all runs."""

    entries: tuple[GateEntry, ...]
    exit_code: int

    @property
    def lines(self) -> tuple[str, ...]:
        """One for each run, and the decision."""
        seen: dict[str, str] = {}
        shown = []
        passed: dict[str, bool] = {}
        for number, entry in enumerate(self.entries):
            identity = entry.identity or str(number)
            first = seen.setdefault(identity, entry.run)
            again = identity in passed
            note = f" (the same run as {first}: counted once)" if again else ""
            shown.append(entry.line + note)
            passed[identity] = passed.get(identity, True) and entry.passed
        word = "gate open" if self.exit_code == 0 else "gate closed"
        runs = "run passes" if len(passed) == 1 else "runs pass"
        return (*shown, f"{word}: {sum(passed.values())} of {len(passed)} {runs}")


def decide(entries: Iterable[GateEntry]) -> GateDecision:
    """Decide over entries. The exit code is that of the worst; of none at all it is 2."""
    found = tuple(entries)
    if not found:
        return GateDecision((), _USAGE)
    return GateDecision(found, EXIT_CODES[worst(entry.status for entry in found)])


def gate(runs: Sequence[RunStore], rules: Rules) -> GateDecision:
    """Decide over stored runs."""
    return decide(gate_run(store, rules) for store in runs)


def gate_run(store: RunStore, rules: Rules) -> GateEntry:
    """Say whether one run passes. Nothing that is stored raises; it is in the entry's line."""
    name = one_line(store.name)
    try:
        return _gate_run(store, rules, name)
    except (StoreError, HistoryError, CheckError) as error:
        reason = f"not judged: {one_line(str(error))}"
    except RecursionError:
        reason = "not judged: a file is nested too deeply"
    except OSError as error:
        reason = f"cannot be read: {error.filename or store.folder}: {error.strerror}"
    return GateEntry(name, Status.UNKNOWN, f"{name}: {reason}")


def one_line(text: str, limit: int = 300) -> str:
    """Return a text of unknown origin as one line that a terminal can be given."""
    flat = "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _gate_run(store: RunStore, rules: Rules, name: str) -> GateEntry:
    results = store.read_results()
    plan = store.plan()
    try:
        run = _run_input(store)
        tried = _tried(run, plan)
        refusal = _refusal(store, plan, results, run, tried, rules)
    except (StoreError, HistoryError, CheckError) as error:
        tried, refusal = None, one_line(str(error))
    identity = one_line(str(plan.get("run")))
    if refusal is not None:
        # A verdict that is worse than the refusal stays what it is.
        status, line = worst((results.status, Status.UNKNOWN)), f"{results.status}, but {refusal}"
    elif results.status is not Status.PASS:
        status, line = results.status, f"{results.status}: {_reason(results)}"
    else:
        assert tried is not None, "nothing was refused"
        status, line = _of_pass(plan, results, tried, rules)
    if rules.recompute is not None:
        again = rules.recompute(store)
        status = worst((status, again.status))
        if _verdicts(again) == _verdicts(results):
            line += "; judged again: the same"
        else:
            line += f"; judged again: {again.verdict}: {_difference(results, again)}"
            status = worst((status, Status.UNKNOWN))
    return GateEntry(name, status, f"{name}: {line}", identity)


def _of_pass(
    plan: Mapping[str, Any], results: RunResults, tried: CheckResult, rules: Rules
) -> tuple[Status, str]:
    line = f"{results.verdict}: {_how_much(plan, results, tried)}"
    if tried.statistics["without_faults"] and not rules.allow_no_faults:
        return Status.UNDER_EXERCISED, f"{line}: no fault was tried (--allow-no-faults)"
    if results.skipped and not rules.allow_skipped:
        return Status.UNDER_EXERCISED, f"{line}: it was not tried with these (--allow-skipped)"
    return Status.PASS, line


def _how_much(plan: Mapping[str, Any], results: RunResults, tried: CheckResult) -> str:
    """Say how much was tried, all of it counted, of which build, and the head of the chain."""
    figures = tried.statistics
    bit = ", ".join(f"{fault} {count}" for fault, count in figures["faults_verified"].items())
    changes = figures["leader_changes"]
    head = (results.recording.head or "")[:_HEAD_SHOWN]
    return one_line(
        f"{figures['ok']:,} operations ok ({figures['reads']:,} reads, {figures['writes']:,} "
        f"writes), {changes} leader change{'s' * (changes != 1)}, "
        f"{'faults that bit: ' + bit if bit else 'no faults'}; "
        f"{figures['duration_s']:.1f} s of {system_shown(plan)} on {plan.get('backend')}; "
        f"recorded as {head}",
        limit=600,
    )


def _tried(run: RunInput, plan: Mapping[str, Any]) -> CheckResult:
    """Count in the journal how much was tried; and for how long clients acted."""
    spec = next((spec for spec in _specs(plan) if spec.name == exercised.NAME), None)
    if spec is None:
        raise StoreError("its plan names no checks: nothing was checked")
    found = run_check(spec, run)
    times = [event.time_ns for event in run.events if event.process != NEMESIS] or [0]
    found.statistics["duration_s"] = (times[-1] - times[0]) / 1e9
    return found


def _run_input(store: RunStore) -> RunInput:
    events = store.history().events
    return RunInput(events, pair(events), None)


def _refusal(
    store: RunStore,
    plan: Mapping[str, Any],
    results: RunResults,
    run: RunInput,
    tried: CheckResult,
    rules: Rules,
) -> str | None:
    """Say why even a PASS of this run would not count."""
    mutant = plan.get("mutant") or results.plan.get("mutant") or _traced_mutant(store)
    if mutant:
        return (
            f"it ran mutant {one_line(str(mutant))}: a run of a faulty variant says nothing "
            "about a release"
        )
    if results.run != plan.get("run"):
        return f"its results are those of run {one_line(results.run)}"
    if results.skipped != skipped_faults(plan):
        return "its results and its plan name different faults as skipped"
    return (
        _changed(store, results)
        or _wrong_plan(plan, results, rules)
        or _wrong_checks(plan, results)
        or (_wrong_counts(plan, results, run, tried) if results.status is Status.PASS else None)
    )


def _traced_mutant(store: RunStore) -> str | None:
    """Name the mutant that a node said it was when it started."""
    for path in sorted(store.nodes_path.glob("*/trace.jsonl")):
        with path.open("rb") as lines:
            for line in lines:
                if b'"start"' not in line:
                    continue
                try:
                    event = json.loads(line)
                except (ValueError, RecursionError):
                    continue  # judging says what is wrong with a trace
                if isinstance(event, dict) and event.get("e") == "start" and event.get("mutant"):
                    return str(event["mutant"])
    return None


def _changed(store: RunStore, results: RunResults) -> str | None:
    """Name what is not as it was recorded, or not what was judged."""
    chain = read_chain(store.digests_path)
    if not chain.ended:
        return "its harness was killed or broke off before the run was recorded to its end"
    if (reason := _changed_file(store, chain)) is not None:
        return f"{one_line(reason)}: the run was changed after it was recorded; run it again"
    expected = {store.results_path.name, store.certificates_path.name}
    for name in sorted(expected):
        if chain.judged.get(name) != digest_of(store.folder / name):
            return f"{name} is not what judging stored; judge the run again"
    if results.recording.head != chain.head or not results.recording.ended:
        return "what was judged is not what is recorded here; judge the run again"
    unlike = sorted(
        name
        for name, sha256 in results.inputs.items()
        if chain.files.get(name, FileDigest(None, None)).sha256 != sha256
    )
    return f"{one_line(unlike[0])} is not what was judged; judge the run again" if unlike else None


def _changed_file(store: RunStore, chain: Chain) -> str | None:
    for name, recorded in chain.files.items():
        found = digest_of(store.folder / name)
        if recorded.sha256 is None:
            return f"{name} could not be read when it was recorded"
        if found != recorded:
            gone = found.sha256 is None
            return f"{name} is {'missing or no file' if gone else 'not what was recorded'}"
    for name in files_below(store.nodes_path):
        if f"nodes/{name}" not in chain.files:
            return f"nodes/{name} was not there when the run was recorded"
    missing = {"plan.json", "history.jsonl"} - chain.files.keys()
    return f"{min(missing)} was never recorded" if missing else None


def lacking_check(plan: Mapping[str, Any], derived: Mapping[str, Any]) -> str | None:
    """Name a check that a plan lacks, of those that are derived from it."""
    for spec in _canonical(derived["checks"]) - _canonical(plan["checks"]):
        return f"its plan lacks a check that its workload demands: {one_line(spec)}"
    return None


def _wrong_plan(plan: Mapping[str, Any], results: RunResults, rules: Rules) -> str | None:
    """Name what the plan, its workload and the judged plan do not agree about."""
    derived = json.loads(json.dumps(dict(rules.derive(plan))))
    for key, value in derived.items():
        if key != "checks" and key in plan and plan[key] != value:
            return f"its plan contradicts itself: {key} follows from the rest and is another"
    if (lacking := lacking_check(plan, derived)) is not None:
        return lacking
    for spec in _canonical(plan["checks"]) - _canonical(derived["checks"]):
        return f"its plan has a check that its workload does not demand: {one_line(spec)}"
    for key, value in results.plan.items():
        if plan.get(key) != value:
            return f"it was judged by another plan: {one_line(key)} differs; judge the run again"
    return None


def _wrong_checks(plan: Mapping[str, Any], results: RunResults) -> str | None:
    """Name a check that is missing, one too many, or one that contradicts itself."""
    wanted = Counter(spec.name for spec in _specs(plan))
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
    plan: Mapping[str, Any], results: RunResults, run: RunInput, tried: CheckResult
) -> str | None:
    """Name what the journal says otherwise than the results."""
    if tried.status is not Status.PASS:
        return f"its journal says {tried.status}: {one_line(tried.summary)}"
    counts = counts_of(run)
    if {name: results.statistics.get(name) for name in counts} != counts:
        return "its results count other operations than its journal has"
    if results.statistics.get("dropped_bytes"):
        return "the end of its journal is torn"
    stored = {check.checker: check for check in results.checks}
    for spec in _specs(plan):
        if spec.name not in _RECOUNTED:
            continue
        fresh = as_stored(run_check(spec, run))
        if fresh.status is not Status.PASS:
            return f"its journal says {fresh.status}: {spec.name}: {one_line(fresh.summary)}"
        if fresh != stored.get(spec.name):
            return f"its check {spec.name} says other than its journal; judge the run again"
    return None


def _specs(plan: Mapping[str, Any]) -> list[CheckSpec]:
    """Return what judging applies to a run of a plan. Raises StoreError, CheckError."""
    return check_specs(plan, "plan.json")


def _canonical(checks: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(
        f"{check['name']} {json.dumps(check.get('options') or {}, sort_keys=True)}"
        for check in checks
    )


def _reason(results: RunResults) -> str:
    return next(
        (
            f"{one_line(c.checker)}: {one_line(c.summary)}"
            for c in results.checks
            if c.status is results.status
        ),
        "nothing was checked",
    )


def _verdicts(results: RunResults) -> Counter[tuple[str, Status, int]]:
    return Counter((c.checker, c.status, c.operations) for c in results.checks)


def _difference(stored: RunResults, again: RunResults) -> str:
    """Name a check of which a stored judgement and a new one differ."""
    for check in again.checks:
        if (check.checker, check.status, check.operations) not in _verdicts(stored):
            before = next((c for c in stored.checks if c.checker == check.checker), None)
            was = "is not among the stored ones" if before is None else f"was {before.status}"
            return f"{check.checker} {was}, is {check.status}: {one_line(check.summary)}"
    return "the stored results hold checks that do not follow from the run"
