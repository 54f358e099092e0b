"""The verifier of orders of registers as one loop; `linearizability.replay` says what it checks.

Each operation is taken in its place, as a reader would: was it there already, is its key's turn,
did it happen, had it completed before one that stands earlier was invoked, does it fit the value.
"""

from __future__ import annotations

import numpy as np

from checkers.linearizability.kernels.compiled import jit

ACCEPTED, TWICE, MISSING, UNREAL, MIXED, EARLY, UNFIT = 0, 1, 2, 3, 4, 5, 6
_OK, _FAIL, _INFO = 0, 1, 2
"""checkers.history.columns.OK, FAIL, INFO."""


@jit
def replay(
    order, judged, key, type_, f, error, refusals, given, expected, shown, invoke, complete, names
):
    """Return (ACCEPTED or what is wrong, the row where).

    `order`: rows, grouped by key; `judged`: of each key, whether its operations must be there;
    `refusals`: of each error, whether a compare-and-set that failed with it was refused; `names`:
    the codes of read, write and cas, and of the first value.
    """
    read, write, cas, initial = names[0], names[1], names[2], names[3]
    placed = np.zeros(len(key), np.bool_)
    begun = np.zeros(len(judged), np.bool_)
    at, highest, state = np.int64(-1), np.int64(-1), np.int64(initial)
    for place in range(len(order)):
        row = order[place]
        if row < 0 or row >= len(key) or placed[row]:
            return TWICE, place
        placed[row] = True
    for row in range(len(key)):
        if not placed[row] and judged[key[row]]:
            kind = f[row]
            if type_[row] == _OK and kind in (read, write, cas):
                return MISSING, row
            if type_[row] == _FAIL and kind == cas and refusals[error[row]]:
                return MISSING, row
    for place in range(len(order)):
        row = order[place]
        kind, outcome = f[row], type_[row]
        refused = outcome == _FAIL and kind == cas and refusals[error[row]]
        must = judged[key[row]] and (refused or (outcome == _OK and kind in (read, write, cas)))
        if not must and not (outcome == _INFO and kind in (write, cas)):
            return UNREAL, row
        if key[row] != at:
            at = np.int64(key[row])
            if begun[at]:
                return MIXED, row
            begun[at] = True
            highest, state = row, np.int64(initial)
        highest = max(highest, row)
        if complete[row] < invoke[highest]:
            return EARLY, row
        if kind == read:
            if shown[row] != state:
                return UNFIT, row
        elif kind == write:
            state = np.int64(given[row])
        else:
            if (expected[row] == state) == refused:
                return UNFIT, row
            if not refused:
                state = np.int64(given[row])
    return ACCEPTED, 0
