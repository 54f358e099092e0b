"""Each run against `[each]` of a policy: whether it speaks for this release, and kept its limits.

A run that is no evidence about this release (another build, system, backend or campaign; too old;
not signed by a trusted key) is UNKNOWN; too little of it is UNDER-EXERCISED; a limit that the
release broke is FAIL. A canary speaks for the alarm and not for the release: only its age and its
signature count.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from checkers.verdict import Status
from harness.policy.document import Each
from results.gate.policy_gate import GateEntry
from results.store.facts import Facts, matches
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
