"""Orders verified in columns: what `search.certificate.verify_order` does, for arrays.

Knows the columns and what the functions of registers and strings mean, and none of the algorithms.
Rows are in order of invocation. Checked are: every operation that must be placed is, once, and none
that must not; nothing stands behind an operation that was invoked after it had completed; every
answer is the one that the model gives at its place. Orders may be those of many keys, one behind
another. O(n), and what reads show.
"""

from __future__ import annotations

import numpy as np

from porcupine_py.columns import FAIL, INFO, OK, Bools, Columns, Int64s
from porcupine_py.kernels import load, why_not
from porcupine_py.kernels.library import Replayed
from porcupine_py.models import KeyValue, Model, Register
from porcupine_py.models.registers import CAS_REFUSED
from porcupine_py.search.certificate import RefusedError

_REASONS = {
    Replayed.TWICE: "the order holds an operation twice or one that is not in the history",
    Replayed.MISSING: "operation {} is missing in the order",
    Replayed.UNREAL: "the order holds an operation that did not happen",
    Replayed.MIXED: "the orders of two keys are mixed",
    Replayed.EARLY: "operation {} had completed before one placed earlier",
    Replayed.UNFIT: "the model refuses operation {} at its place",
}


def verify_orders(
    columns: Columns, model: Model, order: Int64s, judged: Bools | None = None
) -> None:
    """Accept rows as an order of each key; RefusedError says what is wrong.

    `judged`: for each key whether it is among them; None: all. Orders of registers are taken in one
    compiled loop; where the library is missing they are refused, and objects decide.
    """
    if judged is None:
        judged = np.ones(len(columns.keys), np.bool_)
    if isinstance(model, Register):
        _replay(columns, model, order, judged)
    else:
        assert isinstance(model, KeyValue), "only registers and strings are judged in columns"
        _verify_strings(columns, model, order, judged)


def _replay(columns: Columns, model: Register, order: Int64s, judged: Bools) -> None:
    kernels = load()
    if kernels is None:
        raise RefusedError(why_not())
    refusals = np.array([e is None or e in CAS_REFUSED for e in columns.errors], np.bool_)
    names = [*map(columns.function, ("read", "write", "cas")), columns.code(model.initial)]
    wrong, row = kernels.replay(columns, order, judged, refusals, names)
    if wrong != Replayed.ACCEPTED:
        raise _refusal(wrong, columns, row if wrong != Replayed.TWICE else 0)


def _verify_strings(columns: Columns, model: KeyValue, order: Int64s, judged: Bools) -> None:
    """Replay gets, puts and appends; strings are compared as they are."""
    effects = columns.calls("put", "append")
    _verify_placed(columns, order, effects, effects | columns.calls("get"), judged)
    values, replaces = columns.values, columns.f[order] == columns.function("put")
    effect = effects[order]
    operand = np.where(effect, columns.input[order], columns.output[order]).tolist()
    key = columns.key[order].tolist()
    state, at = model.initial, -1
    steps = zip(key, effect.tolist(), replaces.tolist(), operand, strict=True)
    for place, (of_key, makes, anew, code) in enumerate(steps):
        if of_key != at:
            state, at = model.initial, of_key
        text = values[code]
        if makes and type(text) is not str:
            raise RefusedError(f"operation {columns.index[order[place]]} has no text")
        if not makes and (type(text) is not str or text != state):
            raise _refusal(Replayed.UNFIT, columns, order[place])
        if makes:
            state = text if anew else state + text


def _refusal(wrong: Replayed, columns: Columns, row: int | np.integer = 0) -> RefusedError:
    """Return why an order is refused, because of the operation in a row where one is named."""
    return RefusedError(_REASONS[wrong].format(columns.index[row] if len(columns) else ""))


def _verify_placed(
    columns: Columns, order: Int64s, effect: Bools, known: Bools, judged: Bools
) -> None:
    """Everything that happened is there once, and nothing that did not.

    Indeterminate is there only what has an `effect`; `known`: what the model knows.
    """
    if np.any((columns.type != FAIL) & ~known):
        raise RefusedError("the model does not know every operation")
    must = columns.type == OK
    if not judged.all():
        must &= judged[columns.key]
    if len(order) and not 0 <= order.min() <= order.max() < len(columns):
        raise _refusal(Replayed.TWICE, columns)
    placed = np.zeros(len(columns), np.bool_)
    placed[order] = True
    if np.count_nonzero(placed) != len(order):
        raise _refusal(Replayed.TWICE, columns)
    if np.any(must & ~placed):
        raise _refusal(Replayed.MISSING, columns, np.argmax(must & ~placed))
    if np.any(placed & ~(must | ((columns.type == INFO) & effect))):
        raise _refusal(Replayed.UNREAL, columns)
    _verify_times(columns, order)


def _verify_times(columns: Columns, order: Int64s) -> None:
    """Accept orders, grouped by key, in which nothing stands behind what it precedes."""
    # Rows stand in order of invocation, so the latest invocation so far is that of the largest row;
    # within each key, hence the rows of a key are lifted above all of the key before it.
    key = columns.key[order]
    changes = key[1:] != key[:-1]
    if 1 + np.count_nonzero(changes) != np.count_nonzero(np.bincount(key)) and len(key):
        raise _refusal(Replayed.MIXED, columns)
    lift = np.zeros(len(order), np.int64)
    np.cumsum(changes, out=lift[1:])
    lift *= len(columns)
    highest = np.maximum.accumulate(lift + order) - lift
    early = columns.complete_ns[order] < columns.invoke_ns[highest]
    if np.any(early):
        raise _refusal(Replayed.EARLY, columns, order[np.argmax(early)])
