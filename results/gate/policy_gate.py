"""The gate: may this build be released? Only a PASS that follows from what is stored says so.

The gate believes nothing that it can recompute or compare:

- name, seed, times and content belong together (`results.gate.identity`), and equal content is one
run;
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

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from checkers.history import HistoryError
from checkers.history.recorded import span_of
from checkers.registry import CheckError, RunInput, run_check
from checkers.runs import exercised
from checkers.verdict import EXIT_CODES, CheckResult, Status, worst
from results.gate.identity import content_of
from results.gate.refusals import Derive, is_canary, refusal_of, refuse_other_sizes, specs_of
from results.gate.signature import Signers, signer_of
from results.store.digests import read_chain
from results.store.facts import Facts, facts_of
from results.store.files import StoreError
from results.store.model import RunResults, one_line, system_shown
from results.store.run_store import RunStore
from results.store.tables import RunName

_USAGE = 2
_HEAD_SHOWN = 16
_BUILDS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Rules:
    """What the gate needs to know, and what it is allowed to let pass."""

    derive: Derive
    allow_skipped: bool = False
    """Runs that left out faults as impossible may pass, and are said to have done so."""
    allow_no_faults: bool = False
    """Runs in which no fault bit may pass, and are said to have had none."""
    recompute: Callable[[RunStore], RunResults] | None = None
    """Judges a run anew from journal and nodes' files, changing nothing. StoreError."""
    canaries: frozenset[str] = frozenset()
    """Mutants of which a run is wanted: it passes if it FAILed, as it must."""
    signers: Signers | None = None
    """Of whom one must have signed a run."""
    measure: bool = False
    """Whether the figures of each run are wanted, which takes a while."""


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
    facts: Facts | None = None
    """None where the run could not be read."""
    results: RunResults | None = None
    """Its stored judgement; None of a batch, and where it could not be read."""

    @property
    def passed(self) -> bool:
        """Whether this run lets a release through."""
        return self.status is Status.PASS

    def held_against(self, broken: Sequence[tuple[Status, str]]) -> GateEntry:
        """Return the entry of a run that passes by itself, and why it still does not count."""
        verdict = Status.PASS if self.results is None else self.results.verdict
        reasons = "; ".join(reason for _, reason in broken)
        line = f"{self.run}: {verdict}, but {reasons}"
        return replace(self, status=worst(status for status, _ in broken), line=line)


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something that all runs together must show, and whether they do."""

    name: str
    """The same in each gate of a policy."""
    status: Status
    sentence: str

    @property
    def line(self) -> str:
        """For a person."""
        return f"{self.name}: {self.status}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class GateDecision:
    """What the gate says of all runs."""

    entries: tuple[GateEntry, ...]
    exit_code: int
    requirements: tuple[Requirement, ...] = ()
    canary: Requirement | None = None
    """Of the gate itself (`harness.policy.canary`); None: it was left out."""

    @property
    def all_requirements(self) -> tuple[Requirement, ...]:
        """Those of the policy, and the canary."""
        return self.requirements if self.canary is None else (*self.requirements, self.canary)

    @property
    def status(self) -> Status:
        """The verdict over all runs and requirements."""
        statuses = [e.status for e in self.entries] + [r.status for r in self.all_requirements]
        return worst(statuses)

    @property
    def lines(self) -> tuple[str, ...]:
        """One for each run and each requirement, and the decision."""
        repeated = self._repeats()
        shown = [
            entry.line + (f" (the same run as {again}: counted once)" if again else "")
            for entry, again in zip(self.entries, repeated, strict=True)
        ]
        return (*shown, *(found.line for found in self.all_requirements), self.summary)

    @property
    def summary(self) -> str:
        """The decision, how many runs pass, and of what they are."""
        found = each_once(self.entries)
        word = "gate open" if self.exit_code == 0 else "gate closed"
        runs = "run passes" if len(found) == 1 else "runs pass"
        text = f"{word}: {sum(entry.passed for entry in found)} of {len(found)} {runs}"
        if self.requirements:
            met = sum(each.status is Status.PASS for each in self.requirements)
            are = "requirement is" if len(self.requirements) == 1 else "requirements are"
            text += f", {met} of {len(self.requirements)} {are} met"
        return text + ("; without a canary" if self.canary is None else "") + self._subject()

    def _subject(self) -> str:
        """Say of which systems and builds the runs are; a faulty variant is nobody's release."""
        facts = (entry.facts for entry in self.entries)
        known = (found for found in facts if found is not None and found.mutant is None)
        builds = list(dict.fromkeys(f"{found.system} {found.build}" for found in known))
        shown = [one_line(build) for build in builds[:_BUILDS_SHOWN]]
        if len(builds) > _BUILDS_SHOWN:
            shown.append(f"{len(builds) - _BUILDS_SHOWN} more")
        return f"; under test: {' and '.join(shown)}" if shown else ""

    def _repeats(self) -> list[str]:
        """Name for each entry the run that it repeats; empty for the first of an identity."""
        seen: dict[object, str] = {}
        found = []
        for number, entry in enumerate(self.entries):
            key = _counted_as(number, entry)
            found.append(seen.get(key, ""))
            seen.setdefault(key, entry.run)
        return found


def each_once(entries: Sequence[GateEntry]) -> list[GateEntry]:
    """Leave out repetitions; of a run and its damaged copy, the one that does not pass stays."""
    kept: dict[object, GateEntry] = {}
    for number, entry in enumerate(entries):
        key = _counted_as(number, entry)
        if key not in kept or not entry.passed:
            kept[key] = entry
    return list(kept.values())


def _counted_as(number: int, entry: GateEntry) -> object:
    """Return what is equal of the repetitions of a run; clients may see no bug of a mutant."""
    return entry.identity or number, entry.facts and entry.facts.mutant


def decide(
    entries: Iterable[GateEntry],
    requirements: Sequence[Requirement] = (),
    canary: Requirement | None = None,
) -> GateDecision:
    """Decide over entries. The exit code is that of the worst; of none at all it is 2."""
    found, required = tuple(entries), tuple(requirements)
    if not found:
        return GateDecision((), _USAGE)
    decision = GateDecision(found, 0, required, canary)
    return replace(decision, exit_code=EXIT_CODES[decision.status])


def gate_run(store: RunStore, rules: Rules) -> GateEntry:
    """Say whether one run passes. Nothing that is stored raises; it is in the entry's line."""
    name = one_line(store.name)
    try:
        return _gate_run(store, rules)
    except (StoreError, HistoryError, CheckError) as error:
        reason = f"not judged: {one_line(str(error))}"
    except RecursionError:
        reason = "not judged: a file is nested too deeply"
    except OSError as error:
        place = one_line(str(error.filename or store.folder))
        reason = f"cannot be read: {place}: {error.strerror}"
    return GateEntry(name, Status.UNKNOWN, f"{name}: {reason}")


def _gate_run(store: RunStore, rules: Rules) -> GateEntry:
    results = store.read_results()
    plan = store.plan()
    tried, facts = None, None
    identity = one_line(str(plan.get("run")))
    name = one_line(f"{plan.get('campaign')}/{plan.get('run')}")
    if store.folder.resolve().name != plan.get("run"):
        name = one_line(f"{name} (in {store.folder.resolve().name})")
    try:
        chain = read_chain(store.digests_path)
        refuse_other_sizes(store, chain)
        history = store.tables(RunName("", store.folder.name))
        run = RunInput(history.events, history.operations, None)
        identity = content_of(history.events_table)
        tried = _count_tries(run, plan)
        signer, unsigned = None, ""
        if rules.signers is not None:
            signer, unsigned = signer_of(store.digests_path, chain.data, rules.signers, "run")
        facts = facts_of(plan, run, tried.statistics, measure=rules.measure)
        facts = replace(facts, signer=signer, unsigned=unsigned)
        torn = history.dropped_bytes
        facing = (run, torn, tried, rules.derive, rules.canaries)
        refusal = refusal_of(store, chain, plan, results, *facing)
    except (StoreError, HistoryError, CheckError) as error:
        refusal = one_line(str(error))
    if refusal is not None:
        # A verdict that is worse than the refusal stays what it is.
        status = worst((results.status, Status.UNKNOWN))
        line = f"{results.status}, but {refusal}"
    elif is_canary(plan, rules.canaries):
        status, line = _of_canary(plan, results)
    elif results.status is not Status.PASS:
        status, line = results.status, f"{results.status}: {_reason(results)}"
    else:
        assert tried is not None, "nothing was refused"
        status, line = _of_pass(plan, results, tried, rules)
    if rules.recompute is not None:
        again, is_same, said = _judge_again(store, results, rules.recompute)
        if not is_canary(plan, rules.canaries):
            status = worst((status, again))
        if not is_same:
            status = worst((status, Status.UNKNOWN))
        line += f"; {said}"
    return GateEntry(name, status, f"{name}: {line}", identity, facts, results)


def _judge_again(
    store: RunStore, results: RunResults, recompute: Callable[[RunStore], RunResults]
) -> tuple[Status, bool, str]:
    """Return what judging anew gives, whether it is the same as before, and a sentence."""
    try:
        again = recompute(store)
    except (StoreError, HistoryError, CheckError, OSError) as error:
        return Status.UNKNOWN, False, f"not judged again: {one_line(str(error))}"
    if _verdicts(again) == _verdicts(results):
        return again.status, True, "judged again: the same"
    return again.status, False, f"judged again: {again.verdict}: {_difference(results, again)}"


def _of_canary(plan: Mapping[str, Any], results: RunResults) -> tuple[Status, str]:
    """Judge a run that must FAIL: the alarm is only known to work if it rang."""
    mutant = one_line(str(plan.get("mutant")), 40)
    if results.status is Status.FAIL:
        return Status.PASS, f"FAIL, as a run of mutant {mutant} must: {_reason(results)}"
    return Status.UNKNOWN, (
        f"{results.status}, where a run of mutant {mutant} must FAIL: what does not find this bug "
        "proves nothing about a release"
    )


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


def _count_tries(run: RunInput, plan: Mapping[str, Any]) -> CheckResult:
    """Count in the journal how much was tried; and for how long clients acted."""
    spec = next((spec for spec in specs_of(plan) if spec.name == exercised.NAME), None)
    if spec is None:
        raise StoreError("its plan names no checks: nothing was checked")
    found = run_check(spec, run)
    if "ok" not in found.statistics:  # nothing could be counted
        raise StoreError(f"its journal says {found.status}: {found.summary}")
    begin_ns, end_ns = span_of(run.events)
    found.statistics["duration_s"] = (end_ns - begin_ns) / 1e9
    return found


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
