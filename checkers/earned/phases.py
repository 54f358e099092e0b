"""Conditions of a PASS: faults came and were healed, and clients were served meanwhile."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkers.earned.base import HOLDS, Judged, Outcome, not_applicable, under_exercised, unknown
from checkers.evidence import FINAL_READS
from checkers.history import NEMESIS, EventType, seconds
from checkers.history.recorded import since
from checkers.nodes import agreement, durability
from checkers.runs.exercised import planned_faults
from checkers.runs.faults import HEAL, not_healed
from checkers.verdict import Status
from porcupine_py.columns import OK

_NO_PHASES = "the journal names no phases"


def load_phase(judged: Judged) -> Outcome:
    """While faults came, at least one operation of a client was ok.

    Else nothing was tried of what the faults could break: too little, as `exercised` says of the
    same run, and not unknown, since no evidence is missing. A script of faults with a single
    operation, a seed of many, is such a run; the batch adds up what its seeds tried.
    """
    if "faults" not in judged.phases:
        return unknown(_NO_PHASES)
    tried = judged.tried
    begin_ns, end_ns = judged.phases["faults"], judged.phases.get(HEAL)
    during = tried.invoke_ns >= begin_ns
    if end_ns is not None:
        during &= tried.invoke_ns < end_ns
    if bool((during & (tried.type == OK)).any()):
        return HOLDS
    return under_exercised("no operation was ok while faults came")


def last_phase(judged: Judged) -> Outcome:
    """After the last heal every key that clients tried was served, or the final reads were taken.

    The last operations are repeated until they are ok, within a bound of half a minute or the
    plan's: a cluster that serves none of a key by then has not come back. Where a workload leaves
    the end to the final reads, these show it: they begin with a write that is committed. An
    operation that is for one node alone, as the read of a set at every node, must be served there.
    Each of the last operations comes when the one before it was ok, so the very last is ok, too.
    An operation of a client that was under way when the faults ended is none of the last ones.
    """
    if HEAL not in judged.phases:
        return unknown("the journal does not say that everything was healed")
    tried = judged.tried
    begin_ns = judged.phases.get(FINAL_READS, judged.phases[HEAL])
    after = tried.invoke_ns >= begin_ns
    if not after.any():
        if _sentinel(judged) is not None:
            return HOLDS
        when = seconds(judged.phases[HEAL])
        return unknown(
            f"nothing was asked after the heal at {when}: the workload has no final operations"
        )
    done = after & (tried.type == OK)
    served = np.unique(tried.key[done])
    never = [key for key in np.unique(tried.key[after]).tolist() if key not in served]
    if not never:
        return _served_at(judged, done, begin_ns) or _very_last(judged, after)
    if not len(served):
        return unknown("after the last heal no operation was ok: the cluster did not come back")
    if len(keyed := [tried.keys[key] for key in never if tried.keys[key] is not None]) < len(never):
        return _very_last(judged, after & np.isin(tried.key, [tried.keys.index(None)]))
    names = ", ".join(map(str, keyed[:5]))
    return unknown(f"after the last heal no operation was ok on {names}")


def _very_last(judged: Judged, asked: NDArray[np.bool_]) -> Outcome:
    """Whether the last of these operations was ok."""
    last = judged.tried.operation(int(np.flatnonzero(asked)[-1]))
    if last.type is EventType.OK:
        return HOLDS
    of = "" if last.key is None else f" of {last.key}"
    return unknown(f"after the last heal no {last.f}{of} was ok; the last ended in {last.error}")


def _served_at(judged: Judged, done: NDArray[np.bool_], begin_ns: int) -> Outcome | None:
    """Say which node did not serve what it alone was asked for in the end; `done`: what was ok."""
    asked = {
        (event.key, event.node): None
        for event in since(judged.run.events, begin_ns)
        if event.process != NEMESIS and event.type is EventType.INVOKE and event.node is not None
    }
    ok = map(judged.tried.operation, np.flatnonzero(done).tolist())
    answered = {(operation.key, operation.node) for operation in ok}
    for key, node in (place for place in asked if place not in answered):
        what = "its operation" if key is None else f"that on {key}"
        return unknown(f"after the last heal {node} did not serve {what} of the end")
    return None


def final_reads(judged: Judged) -> Outcome:
    """Every node that serves clients was read at the end, behind a write that was committed."""
    if not {agreement.NAME, durability.NAME} & set(judged.wanted):
        return not_applicable("the system has no metadata quorum whose state could be read")
    value = _final(judged)
    if value is None:
        return unknown("the journal holds no final reads")
    missing = value.get("missing")
    if isinstance(missing, dict) and missing:
        node, reason = next(iter(sorted(missing.items())))
        return unknown(f"{len(missing)} nodes were not read at the end; {node}: {reason}")
    if _sentinel(judged) is None or not value.get("read"):
        return unknown("no node was read at the end behind a committed write")
    return HOLDS


def _final(judged: Judged) -> dict[str, object] | None:
    values = [note.value for note in judged.notes if note.f == FINAL_READS]
    return values[-1] if values and isinstance(values[-1], dict) else None


def _sentinel(judged: Judged) -> object:
    return (_final(judged) or {}).get("sentinel")


NO_FAULTS = "without_faults"
"""Field of a plan: that no fault is injected was asked for in so many words."""


def faults_wanted(judged: Judged) -> Outcome:
    """Faults were planned, or a run without any was asked for in so many words.

    A schedule that holds none because its table is mistyped, or its list is empty, looks like a run
    that nobody wanted to hurt: the plan says `faults = []`, or the command line `--faults none`.
    """
    if planned_faults(judged.required_plan):
        return HOLDS
    if judged.required_plan.get(NO_FAULTS) is True:
        return Outcome(Status.PASS, "without faults, as was asked for")
    return under_exercised("no fault was planned, and nobody asked for none (--faults none)")


def faults_healed(judged: Judged) -> Outcome:
    """Every fault that took effect was healed, and measured to be gone.

    Else what was read at the end was read from a cluster that may still be broken. A heal that did
    not work is tried again when the run heals everything, and the last one counts; whatever a slow
    machine does to the first one, a cluster that is never measured to be whole is no PASS.
    """
    left = not_healed(judged.notes)
    if not left:
        return HOLDS
    shown = "; ".join(left[:3])
    more = f" (and {len(left) - 3} more)" if len(left) > 3 else ""
    return unknown(f"{shown}{more}")
