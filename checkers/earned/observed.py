"""Conditions of a PASS: all was read and judged, enough of it was ok, something was observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkers import transactions
from checkers.earned.base import HOLDS, Judged, Outcome, not_applicable, under_exercised, unknown
from checkers.guarantees import sessions
from checkers.nodes import agreement, durability
from checkers.runs import answers, exercised, monitor, statistics
from checkers.runs.faults import HEAL
from checkers.verdict import Status
from porcupine_py.columns import OK, Columns

SHARE_MIN = 0.05
"""Of what was tried, so much must have been ok."""
BLIND = frozenset(
    {
        *("write", "set", "put", "append", "add", "enqueue", "push", "create", "delete", "remove"),
        *("increment", "decrement", "subtract", "transfer", "send", "insert", "release"),
    }
)
"""Functions whose ok says only that they happened."""
_TRANSACTION = "txn"
_READS = frozenset({"r", "read"})
_STEPS = _READS | {"w", "write", "append"}
_EMPTY: tuple[object, ...] = (None, [], ())
"""What reads of a register, or of a list, show that was never written."""


def service_share(judged: Judged) -> Outcome:
    """At least one in twenty operations that were tried was ok.

    The plan's floor is a share of its rate, and clients that are refused at once try far more often
    than that: 112 of 19,508 says that the system was down. Operations of the end do not count,
    since they are repeated until they are ok. A twentieth is far below what faults cost: three
    kinds of fault in turn leave four fifths, a compare-and-set that mostly misses a tenth.
    """
    tried = judged.tried
    loaded = np.ones(len(tried), np.bool_)
    if judged.plan is not None and HEAL in judged.phases:
        loaded = tried.invoke_ns < judged.phases[HEAL]
    ok, total = int((loaded & (tried.type == OK)).sum()), int(loaded.sum())
    if ok >= SHARE_MIN * total:
        return HOLDS
    return under_exercised(
        f"{ok} of {total} operations were ok, {ok / total:.1%}: at least {SHARE_MIN:.0%} must be"
    )


def observations(judged: Judged) -> Outcome:
    """Something was observed: there are reads that were ok, and as much as a file was asked for.

    What only writes, or whose every read failed, fits any system. One observation is enough unless
    more is asked for, as the smallest histories of the literature have no more. Of a metadata
    quorum the final reads show what was written. What read nothing shows where it stands, by real
    time, before a write: at weaker levels, and to sessions, so would the reads of a system that
    keeps nothing.
    """
    if judged.plan is not None and {agreement.NAME, durability.NAME} & set(judged.wanted):
        return not_applicable("final reads show the state")
    tried, floor = judged.showing, judged.floor
    ok = tried.type == OK
    isolation = judged.check(transactions.NAME)
    shown: Mapping[str, Any] = {} if isolation is None else isolation.statistics
    strict = "strict-serializable" in shown.get("strongest_satisfied", ())
    seen = ok & observes(tried, nothing=strict and shown["edges"] > 0)
    if judged.check(sessions.NAME) is not None:
        seen &= tried.output != 0
    for found, least, what in (
        (int(ok.sum()), floor.ok, "operations were ok"),
        (int(seen.sum()), floor.reads, "operations that were ok observed something"),
        (len(np.unique(tried.key[seen])), floor.keys, "keys were observed"),
    ):
        if found < least:
            return under_exercised(f"{found} {what}, {least} at least must be")
    return HOLDS


def observes(tried: Columns, *, nothing: bool) -> NDArray[np.bool_]:
    """Say of each operation whether its ok shows something of the state.

    `nothing`: so does a step of a transaction that read nothing.
    """
    found = ~tried.calls(*BLIND)
    for name in set(tried.functions).difference(BLIND):
        rows = np.flatnonzero(tried.calls(name) & (tried.type == OK))
        asked = [_steps(tried.values[value]) for value in tried.input[rows[:1]]]
        if any(asked) or name == _TRANSACTION:
            for row in rows.tolist():
                steps = _steps(tried.values[tried.output[row]])
                found[row] = any(f in _READS and (nothing or v not in _EMPTY) for f, _, v in steps)
    return found


def _steps(value: Any) -> list[tuple[str, Any, Any]]:
    """Return the steps of a transaction, whatever its function is called; none where it is none."""
    steps = value if isinstance(value, list | tuple) else ()
    wholes = [step for step in steps if isinstance(step, list | tuple) and len(step) == 3]
    named = [(str(f).removeprefix(":"), key, read) for f, key, read in wholes]
    return [step for step in named if step[0] in _STEPS]


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
    if len(silent) == len(promises):
        return unknown(f"nothing to look at for any check of a promise: {', '.join(silent)}")
    return Outcome(Status.PASS, f"nothing to look at for {', '.join(silent)}" if silent else "")


def exercise(judged: Judged) -> Outcome:
    """As much was tried as the plan expects, and every kind of fault took effect (`exercised`)."""
    found = judged.check(exercised.NAME)
    if found is None:
        return unknown("nobody counted how much was tried")
    return HOLDS if found.status is Status.PASS else under_exercised(found.summary)
