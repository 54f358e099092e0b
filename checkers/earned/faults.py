"""Conditions of a PASS: faults were wanted, took effect and were healed."""

from __future__ import annotations

from checkers.earned.base import HOLDS, OF_A_RUN, Judged, Outcome, under_exercised, unknown
from checkers.runs.exercised import planned_faults
from checkers.runs.faults import not_healed
from checkers.verdict import Status

NO_FAULTS = "without_faults"
"""Field of a plan: that no fault is injected was asked for in so many words."""


def faults_wanted(judged: Judged) -> Outcome:
    """Faults were planned, or a run without any was asked for in so many words.

    A schedule that holds none because its table is mistyped, or its list is empty, looks like a run
    that nobody wanted to hurt: the plan says `faults = []`, or the command line `--faults none`.
    """
    if judged.plan is None:
        return OF_A_RUN
    if planned_faults(judged.plan):
        return HOLDS
    if judged.plan.get(NO_FAULTS) is True:
        return Outcome(Status.PASS, "without faults, as was asked for")
    return under_exercised("no fault was planned, and nobody asked for none (--faults none)")


def faults_healed(judged: Judged) -> Outcome:
    """Every fault that took effect was healed, and measured to be gone.

    Else what was read at the end was read from a cluster that may still be broken. A heal that did
    not work is tried again when the run heals everything, and the last one counts; whatever a slow
    machine does to the first one, a cluster that is never measured to be whole is no PASS.
    """
    if judged.plan is None:
        return OF_A_RUN
    left = not_healed(judged.notes)
    if not left:
        return HOLDS
    shown = "; ".join(left[:3])
    more = f" (and {len(left) - 3} more)" if len(left) > 3 else ""
    return unknown(f"{shown}{more}")
