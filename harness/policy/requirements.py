"""All runs together against `[[require]]` and `[[canary]]` of a policy.

Only runs that pass the gate count, each once. What is missing is UNDER-EXERCISED: nothing wrong was
seen, and too little was tried. A canary that did not FAIL is UNKNOWN: what does not find a bug that
is known to be there says nothing when it finds none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from checkers.verdict import Status
from cluster.mutants import find
from harness.policy.document import Canary, Policy, Require
from results.gate.policy_gate import GateEntry, Requirement, each_once
from results.store.facts import Facts, matches
from results.store.model import one_line


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
    wanted = (
        (require.campaign, facts.campaign),
        (require.workload, facts.workload),
        (require.system, facts.system),
        (require.backend, facts.backend),
        (require.nodes, facts.nodes),
    )
    if any(asked is not None and asked != found for asked, found in wanted):
        return False
    return require.build is None or matches(require.build, facts.builds)


def _name(require: Require) -> str:
    """Name a requirement by what it asks for, so that its name is the same in each gate."""
    parts = [
        f"{key} {value}"
        for key, value in (
            ("campaign", require.campaign),
            ("workload", require.workload),
            ("system", require.system),
            ("backend", require.backend),
            ("build", require.build),
            ("nodes", require.nodes),
        )
        if value is not None
    ]
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
