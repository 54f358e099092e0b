"""All runs together against `[[require]]`, `[[canary]]` and `[baseline]` of a policy.

Only runs that pass the gate count, each once. What is missing is UNDER-EXERCISED: nothing wrong was
seen, and too little was tried. A canary that did not FAIL is UNKNOWN: what does not find a bug that
is known to be there says nothing when it finds none.

Figures are compared with those of runs of the baseline that did the same: by the same plan, but for
name and seed (`results.store.facts`). `results.catalogue.comparison` has the test. The level of the
policy is that of all comparisons together: each is tested at its share (Bonferroni), so that five
figures of four campaigns do not raise an alarm twenty times as often.

Each run by itself is held against `[each]`: whether it speaks for this release, and kept its
limits. A run that is no evidence about this release (another build, system, backend or campaign;
too old; not signed by a trusted key) is UNKNOWN; too little of it is UNDER-EXERCISED; a limit that
the release broke is FAIL. A canary speaks for the alarm and not for the release: only its age and
its signature count.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from checkers.verdict import Status
from cluster.mutants import find
from harness.policy.document import Baseline, Canary, Each, Policy, Require
from results.catalogue.comparison import Compared, Comparison, compare_all
from results.gate.policy_gate import GateEntry, Requirement, each_once
from results.store.facts import Facts, Stratum, by_stratum, matches
from results.store.model import one_line

_SKEW = dt.timedelta(minutes=5)
"""Clocks of two machines differ by less."""
Held = tuple[Status, str]


def hold_against(entry: GateEntry, each: Each, now: dt.datetime) -> GateEntry:
    """Return the entry with what its run does not keep. What does not pass already stays."""
    facts = entry.facts
    if facts is None or not entry.passed:
        return entry
    broken = [*_age(facts, each, now), *_signature(facts, each)]
    if facts.mutant is None:
        broken += [*_kind(facts, each), *_amount(facts, each), *_check_limits(facts, each)]
    lines = [(status, one_line(reason)) for status, reason in broken]
    return entry.held_against(lines) if lines else entry


def refuse_unsigned(entry: GateEntry, each: Each) -> GateEntry:
    """Return the entry of a run of the baseline, which must be signed as well, and no more."""
    if entry.facts is None or not entry.passed:
        return entry
    broken = [*_signature(entry.facts, each)]
    return entry.held_against(broken) if broken else entry


def _age(facts: Facts, each: Each, now: dt.datetime) -> Iterator[Held]:
    if each.age_max_h is not None:
        if facts.started is None:
            yield Status.UNKNOWN, "its name does not say when it began, so its age is unknown"
        elif facts.started > now + _SKEW:
            yield Status.UNKNOWN, f"it began in the future ({facts.started:%Y-%m-%d %H:%M} UTC)"
        elif (age := (now - facts.started) / dt.timedelta(hours=1)) > each.age_max_h:
            most = _hours(each.age_max_h)
            yield (
                Status.UNKNOWN,
                f"it is {_hours(age)} old, at most {most} are allowed: run it again",
            )


def _signature(facts: Facts, each: Each) -> Iterator[Held]:
    if each.signed_by and facts.signer is None:
        yield Status.UNKNOWN, facts.unsigned


def _kind(facts: Facts, each: Each) -> Iterator[Held]:
    for word, found, wanted in (
        ("campaign", facts.campaign, each.campaigns),
        ("system", facts.system, each.systems),
        ("backend", facts.backend, each.backends),
    ):
        if wanted and found not in wanted:
            yield (
                Status.UNKNOWN,
                f"its {word} is {found}, and the policy is about {' and '.join(wanted)}",
            )
    if each.builds and not any(matches(pattern, facts.builds) for pattern in each.builds):
        yield (
            Status.UNKNOWN,
            f"it ran build {facts.build}, and the policy is about {' and '.join(each.builds)}",
        )


def _amount(facts: Facts, each: Each) -> Iterator[Held]:
    if facts.ok < each.operations_min:
        yield (
            Status.UNDER_EXERCISED,
            f"{facts.ok:,} operations were ok, the policy wants {each.operations_min:,}",
        )
    changes, least = facts.leader_changes, each.leader_changes_min
    if changes < least:
        yield (
            Status.UNDER_EXERCISED,
            f"the leader changed {changes} times, the policy wants {least}",
        )


def _check_limits(facts: Facts, each: Each) -> Iterator[Held]:
    for figure, limit_s, what in (
        ("unavailability_s", each.unavailability_max_s, "nothing was served for {}"),
        ("recovery_s", each.recovery_max_s, "after a fault it took {} until writes were served"),
    ):
        if limit_s is None:
            continue
        found_s = facts.figures.get(figure)
        if found_s is None:
            yield Status.UNKNOWN, f"it has no figure {figure}, and the policy limits it"
        elif found_s > limit_s:
            yield (
                Status.FAIL,
                f"{what.format(f'{found_s:.1f} s')}, and the policy allows {limit_s:g} s",
            )


def _hours(hours: float) -> str:
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} h"


def requirements_of(policy: Policy, entries: Sequence[GateEntry]) -> list[Requirement]:
    """Judge each requirement and each canary over what the gate says of the runs."""
    counted = each_once(entries)
    release = [e.facts for e in counted if e.passed and e.facts and e.facts.mutant is None]
    found = [_requirement(require, release) for require in policy.require]
    found += [_canary(canary, counted) for canary in policy.canary]
    if counted and all(entry.passed and entry.facts and entry.facts.mutant for entry in counted):
        nothing = "all of these are canaries, which say nothing about a release"
        found.append(Requirement("a run of the release", Status.UNDER_EXERCISED, nothing))
    return found


def _requirement(require: Require, runs: Iterable[Facts]) -> Requirement:
    matching = [facts for facts in runs if _matches(require, facts)]
    seeds = {seed for facts in matching for seed in facts.seeds}
    bit = {fault for facts in matching for fault, count in facts.faults.items() if count}
    operations, leader_changes = _amounts(matching)
    lacking = [
        f"{found:,} of {wanted:,} {what}"
        for what, found, wanted in (
            ("runs", len(matching), require.runs),
            ("seeds", len(seeds), require.seeds),
            ("operations", operations, require.operations),
            ("leader changes", leader_changes, require.leader_changes),
        )
        if found < wanted
    ]
    missing = [fault for fault in require.faults if fault not in bit]
    if missing:
        lacking.append(f"no run in which {' or '.join(missing)} bit")
    if lacking:
        if not matching:
            sentence = "there is no such run that passes"
        elif lacking[0].startswith("no run"):
            sentence = f"there is {lacking[0]}"
        else:
            sentence = f"there are only {', '.join(lacking)}"
        return Requirement(_name(require), Status.UNDER_EXERCISED, sentence)
    bitten = f", in which {', '.join(require.faults)} bit" if require.faults else ""
    runs_word = "run" if len(matching) == 1 else "runs"
    seeds_word = "seed" if len(seeds) == 1 else "seeds"
    return Requirement(
        _name(require),
        Status.PASS,
        f"{len(matching)} {runs_word} on {len(seeds)} {seeds_word}, "
        f"{operations:,} operations{bitten}",
    )


def _amounts(runs: Iterable[Facts]) -> tuple[int, int]:
    """Count operations and leader changes, of a seed that several batches have those of one."""
    found: dict[object, tuple[int, int]] = {}
    for number, facts in enumerate(runs):
        for seed, (ok, changes) in facts.of_seeds.items():
            world = facts.campaign, facts.system, facts.builds, seed
            most = found.get(world, (0, 0))
            found[world] = max(most[0], ok), max(most[1], changes)
        if not facts.of_seeds:
            found[number] = facts.ok, facts.leader_changes
    return sum(ok for ok, _ in found.values()), sum(changes for _, changes in found.values())


def _matches(require: Require, facts: Facts) -> bool:
    for name in ("campaign", "workload", "system", "backend", "nodes"):
        if getattr(require, name) not in (None, getattr(facts, name)):
            return False
    return require.build is None or matches(require.build, facts.builds)


def _name(require: Require) -> str:
    """Name a requirement by what it asks for, so that its name is the same in each gate."""
    keys = ("campaign", "workload", "system", "backend", "build", "nodes")
    asked = [(key, getattr(require, key)) for key in keys]
    parts = [f"{key} {value}" for key, value in asked if value is not None]
    return one_line("require " + (", ".join(parts) or "any run"))


def _canary(canary: Canary, entries: Iterable[GateEntry]) -> Requirement:
    mutant = find(canary.mutant)
    name = f"canary {mutant.id}" + (f" in campaign {canary.campaign}" if canary.campaign else "")
    runs = [
        entry
        for entry in entries
        if entry.facts is not None
        and entry.facts.mutant == mutant.id
        and canary.campaign in (None, entry.facts.campaign)
    ]
    if not runs:
        command = f"kraftprobe run --mutant {mutant.id}"
        if canary.campaign:
            command += f" --campaign {canary.campaign}"
        sentence = f"there is no run of mutant {mutant.id}: make one by {command}"
        return Requirement(name, Status.UNDER_EXERCISED, one_line(sentence))
    for entry in runs:
        if entry.passed and (found := _found_by(entry, canary.check)) is not None:
            return Requirement(name, Status.PASS, f"{found} found it in {entry.run}")
    if canary.check is not None and any(entry.passed for entry in runs):
        sentence = f"it failed, but not by the check {canary.check}"
    else:
        sentence = f"{runs[0].run} did not show that the alarm rings"
    return Requirement(name, Status.UNKNOWN, one_line(sentence))


def _found_by(entry: GateEntry, check: str | None) -> str | None:
    """Name the check that FAILed in a canary's run; None where it is not the one that must."""
    if entry.results is None:
        return None
    failed = [c.checker for c in entry.results.checks if c.status is Status.FAIL]
    if check is not None:
        return check if check in failed else None
    return one_line(failed[0], 60) if failed else None


def comparisons_of(
    baseline: Baseline, entries: Sequence[GateEntry], earlier: Sequence[GateEntry]
) -> list[Requirement]:
    """Compare each figure of each kind of run; `earlier`: what the gate says of the baseline."""
    damaged = [entry for entry in earlier if not entry.passed]
    if damaged:
        sentence = f"a run of the baseline does not pass the gate itself: {damaged[0].line}"
        return [Requirement("baseline", Status.UNKNOWN, one_line(sentence))]
    known = {e.identity for e in earlier if e.identity}
    again = [e.run for e in entries if e.identity in known]
    if again:
        sentence = f"{one_line(min(again))} is among the runs and in the baseline: nothing compares"
        return [Requirement("baseline", Status.UNKNOWN, sentence)]
    old, new = by_stratum(_figures(earlier)), by_stratum(_figures(entries))
    if not new:
        return [Requirement("baseline", Status.UNKNOWN, "no run passes that could be compared")]
    names = [(stratum, figure) for stratum in new for figure in baseline.figures]
    shares = {"level": baseline.level, "tolerance": baseline.tolerance}
    return [_compare(each) for each in compare_all(names, new, old, **shares)]


def _figures(entries: Sequence[GateEntry]) -> Iterator[tuple[Stratum, Mapping[str, float]]]:
    for entry in each_once(entries):
        facts = entry.facts
        if entry.passed and facts is not None and facts.mutant is None and facts.figures:
            yield facts.stratum, facts.figures


def _compare(each: Compared) -> Requirement:
    name = one_line(f"no regression of {each.figure} in {each.stratum}")
    if each.found is None:
        if not each.new and not each.baseline:
            return Requirement(name, Status.PASS, "neither these runs nor the baseline have any")
        lacking = "these runs have" if not each.new else "the baseline has"
        return Requirement(name, Status.UNKNOWN, f"{lacking} none to compare")
    ending = {
        Status.PASS: ": not worse beyond noise",
        Status.FAIL: ": worse beyond noise",
        Status.UNKNOWN: f"; so few runs can show no difference at the level {each.level:.2g}: "
        f"{_runs_needed(each.level)} of each would",
    }[each.status]
    sentence = _sentence(each.found, len(each.new), len(each.baseline))
    return Requirement(name, each.status, f"{sentence}{ending}")


def _sentence(found: Comparison, new: int, old: int) -> str:
    return (
        f"median {found.new_median:.4g} of {new} runs, {found.baseline_median:.4g} of {old} of the "
        f"baseline, ratio {found.ratio:.2f}, p {found.p:.2g}"
    )


def _runs_needed(level: float) -> int:
    """Return how many runs of each side a comparison at this level needs."""
    count = 1
    while 1 / math.comb(2 * count, count) > level:
        count += 1
    return count
