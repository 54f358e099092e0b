"""Conditions of a PASS: enough of what was tried was ok, and something was observed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkers.earned.base import HOLDS, Judged, Outcome, Tried, not_applicable, under_exercised
from checkers.runs.faults import HEAL

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


def service_share(judged: Judged) -> Outcome:
    """At least one in twenty operations that were tried was ok.

    The plan's floor is a share of its rate, and clients that are refused at once try far more often
    than that: 112 of 19,508 says that the system was down. Operations of the end do not count,
    since they are repeated until they are ok. A twentieth is far below what faults cost: three
    kinds of fault in turn leave four fifths, a compare-and-set that mostly misses a tenth.
    """
    tried = judged.tried
    loaded = np.ones(len(tried.ok), np.bool_)
    if judged.plan is not None and HEAL in judged.phases:
        loaded = tried.invoke_ns < judged.phases[HEAL]
    ok, total = int((loaded & tried.ok).sum()), int(loaded.sum())
    if ok >= SHARE_MIN * total:
        return HOLDS
    return under_exercised(
        f"{ok} of {total} operations were ok, {ok / total:.1%}: at least {SHARE_MIN:.0%} must be"
    )


def observations(judged: Judged) -> Outcome:
    """Something was observed: a lone file holds reads that were ok, and as much as was asked for.

    What only writes, or whose every read failed, fits any system. One observation is enough unless
    more is asked for, as the smallest histories of the literature have no more.
    """
    if judged.plan is not None:
        return not_applicable("a run has its plan's floor")
    tried, floor = judged.showing, judged.floor
    seen = tried.ok & observes(tried)
    for found, least, what in (
        (int(tried.ok.sum()), floor.ok, "operations were ok"),
        (int(seen.sum()), floor.reads, "operations that were ok observed something"),
        (len(np.unique(tried.key[seen])), floor.keys, "keys were observed"),
    ):
        if found < least:
            return under_exercised(f"{found} {what}, {least} at least must be")
    return HOLDS


def observes(tried: Tried) -> NDArray[np.bool_]:
    """Say of each operation whether its ok shows something of the state."""
    blind = [code for code, name in enumerate(tried.functions) if name in BLIND]
    found: NDArray[np.bool_] = ~np.isin(tried.f, blind)
    if _TRANSACTION in tried.functions:
        code = list(tried.functions).index(_TRANSACTION)
        for row in np.flatnonzero((tried.f == code) & tried.ok).tolist():
            found[row] = _reads(tried.output(row))
    return found


def _reads(value: Any) -> bool:
    """Whether a transaction's answer holds what it read."""
    steps: Sequence[Any] = value if isinstance(value, list | tuple) else ()
    return any(
        isinstance(step, list | tuple)
        and len(step) == 3
        and str(step[0]).removeprefix(":") in _READS
        and step[2] is not None
        for step in steps
    )
