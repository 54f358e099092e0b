"""Orders verified in columns: what `search.certificate.verify_order` does, for arrays.

Knows the columns and what the functions of each model mean, and none of the algorithms. Rows are in
order of invocation. Checked are: every operation that must be placed is, once, and none that must
not; nothing stands behind an operation that was invoked after it had completed; every answer is the
one that the model gives at its place (`search.replay_types`). Orders of registers and strings may
be those of many keys, one behind another; all others are of one key. O(n), and what reads show.
"""

from __future__ import annotations

import numpy as np

from porcupine_py.columns import Bools, Columns, Int64s
from porcupine_py.kernels import load, why_not
from porcupine_py.kernels.library import Replayed
from porcupine_py.models import KeyValue, Model, Register
from porcupine_py.models.registers import CAS_REFUSED
from porcupine_py.search.certificate import RefusedError
from porcupine_py.search.replay_types import VERIFIERS, refusal, verify_placed


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
    elif isinstance(model, KeyValue):
        _verify_strings(columns, model, order, judged)
    else:
        assert judged.all(), "an order of one key"
        VERIFIERS[type(model)](columns, order)


def _replay(columns: Columns, model: Register, order: Int64s, judged: Bools) -> None:
    kernels = load()
    if kernels is None:
        raise RefusedError(why_not())
    refusals = np.array([e is None or e in CAS_REFUSED for e in columns.errors], np.bool_)
    names = [*map(columns.function, ("read", "write", "cas")), columns.code(model.initial)]
    wrong, row = kernels.replay(columns, order, judged, refusals, names)
    if wrong != Replayed.ACCEPTED:
        raise refusal(wrong, columns, row if wrong != Replayed.TWICE else 0)


def _verify_strings(columns: Columns, model: KeyValue, order: Int64s, judged: Bools) -> None:
    """Replay gets, puts and appends; strings are compared as they are."""
    effects = columns.calls("put", "append")
    verify_placed(columns, order, None, effects, columns.calls("get"), judged)
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
            raise refusal(Replayed.UNFIT, columns, order[place])
        if makes:
            state = text if anew else state + text
