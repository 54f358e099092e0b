"""Figures of the runs against those of a baseline: whether they are worse beyond noise.

Runs are compared with runs of the baseline that did the same: by the same plan, but for name
and seed (`results.store.facts`). `results.catalogue.comparison` has the test. The level of the
policy is that of all comparisons together: each is tested at its share (Bonferroni), so that five
figures of four campaigns do not raise an alarm twenty times as often.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from checkers.verdict import Status
from harness.policy.document import Baseline
from results.catalogue.comparison import Compared, Comparison, compare_all
from results.gate.policy_gate import GateEntry, Requirement, each_once
from results.store.facts import Stratum, by_stratum
from results.store.model import one_line


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
    return [_requirement(each) for each in compare_all(names, new, old, **shares)]


def _figures(entries: Sequence[GateEntry]) -> Iterator[tuple[Stratum, Mapping[str, float]]]:
    for entry in each_once(entries):
        facts = entry.facts
        if entry.passed and facts is not None and facts.mutant is None and facts.figures:
            yield facts.stratum, facts.figures


def _requirement(each: Compared) -> Requirement:
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
