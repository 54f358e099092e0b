"""Conditions of a PASS: all of the input was read, and every check that was asked for judged it."""

from __future__ import annotations

from collections import Counter

from checkers.earned.base import HOLDS, OF_A_RUN, Judged, Outcome, under_exercised, unknown
from checkers.runs import answers, exercised, monitor, statistics
from checkers.verdict import Status

_OF_THE_RUN = frozenset({answers.NAME, exercised.NAME, monitor.NAME, statistics.NAME})
"""Checks of how a run went: of what the system promises they say nothing."""


def whole_input(judged: Judged) -> Outcome:
    """The journal was read to its last byte.

    A harness that came to its end has written whole lines; only one that was killed, or a file that
    was cut, ends in the middle of one.
    """
    if judged.dropped_bytes:
        return unknown(f"the last {judged.dropped_bytes} bytes of the journal are no whole line")
    return HOLDS


def checks_ran(judged: Judged) -> Outcome:
    """Every check that workload, system and level ask for ran, and one of a promise."""
    missing = Counter(judged.wanted) - Counter(check.checker for check in judged.checks)
    if missing:
        return unknown(f"nothing judged it by {', '.join(sorted(missing))}")
    promises = [check for check in judged.checks if check.checker not in _OF_THE_RUN]
    if not promises:
        return unknown("no check of what the system promises was asked for")
    silent = [c.checker for c in promises if c.status is Status.PASS and not c.operations]
    return Outcome(Status.PASS, f"nothing to look at for {', '.join(silent)}" if silent else "")


def exercise(judged: Judged) -> Outcome:
    """As much was tried as the plan expects, and every kind of fault took effect (`exercised`)."""
    if judged.plan is None:
        return OF_A_RUN
    found = judged.check(exercised.NAME)
    if found is None:
        return unknown("nobody counted how much was tried")
    return HOLDS if found.status is Status.PASS else under_exercised(found.summary)
