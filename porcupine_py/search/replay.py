"""Orders verified in columns: what `search.certificate.verify_order` does, for arrays.

Knows the columns and what the functions of registers and of strings that are appended to mean, and
none of the algorithms. The orders of all keys stand one behind another; rows are in order of
invocation. Checked for each key: every operation that must be placed is, once, and none that must
not; nothing stands behind an operation that was invoked after it had completed; every read and
compare-and-set meets the value that it returned. O(n).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from porcupine_py.columns import FAIL, INFO, OK, Bools, Columns, Int64s
from porcupine_py.kernels.library import Kernels, Replayed
from porcupine_py.models import KeyValue, Register
from porcupine_py.models.registers import CAS_REFUSED
from porcupine_py.search.certificate import RefusedError

_TWICE = "the order holds an operation twice or one that is not in the history"
_MISSING = "operation {} is missing in the order"
_UNREAL = "the order holds an operation that did not happen"
_MIXED = "the orders of two keys are mixed"
_EARLY = "operation {} had completed before one placed earlier"
_UNFIT = "the model refuses operation {} at its place"


def verify_orders(
    columns: Columns,
    model: Register | KeyValue,
    order: NDArray[np.integer],
    judged: Bools | None = None,
    kernels: Kernels | None = None,
) -> None:
    """Accept the orders of many keys of a register or string; RefusedError says what is wrong.

    `order`: rows, grouped by key. `judged`: for each key whether it is among them; None: all. With
    `kernels` a register's orders are taken in one compiled loop, which says the same in a third of
    the time: a fifth of judging many keys that are searched.
    """
    if judged is None:
        judged = np.ones(len(columns.keys), np.bool_)
    if isinstance(model, KeyValue):
        read, effect = (
            np.isin(columns.f, [columns.function(f) for f in functions])
            for functions in (("get",), ("put", "append"))
        )
        must = (columns.type == OK) & (read | effect)
        _verify_placed(columns, order, must, effect, judged)
        _verify_strings(columns, model, order)
        return
    refusals = np.array([e is None or e in CAS_REFUSED for e in columns.errors], np.bool_)
    if kernels is not None:
        _replay(kernels, columns, model, order, judged, refusals)
        return
    read, write, cas = (columns.f == columns.function(f) for f in ("read", "write", "cas"))
    refused = cas & (columns.type == FAIL) & refusals[columns.error]
    must = ((columns.type == OK) & (read | write | cas)) | refused
    _verify_placed(columns, order, must, write | cas, judged)
    _verify_values(columns, model, order, (read[order], write[order], cas[order], refused[order]))


def _replay(
    kernels: Kernels,
    columns: Columns,
    model: Register,
    order: NDArray[np.integer],
    judged: Bools,
    refusals: Bools,
) -> None:
    names = [*map(columns.function, ("read", "write", "cas")), columns.code(model.initial)]
    wrong, row = kernels.replay(columns, order, judged, refusals, names)
    if wrong == Replayed.ACCEPTED:
        return
    if wrong == Replayed.TWICE:
        raise RefusedError(_TWICE)
    raise RefusedError(
        {
            Replayed.MISSING: _MISSING,
            Replayed.UNREAL: _UNREAL,
            Replayed.MIXED: _MIXED,
            Replayed.EARLY: _EARLY,
            Replayed.UNFIT: _UNFIT,
        }[wrong].format(columns.index[row])
    )


def _verify_placed(
    columns: Columns,
    order: NDArray[np.integer],
    must: Bools,
    effect: Bools,
    judged: Bools,
) -> None:
    """Everything that `must` is there once, and besides only what is indeterminate with effect."""
    if not judged.all():
        must = must & judged[columns.key]
    placed = np.bincount(order, minlength=len(columns))
    if len(placed) > len(columns) or np.any(placed > 1):
        raise RefusedError(_TWICE)
    if np.any((placed == 0) & must):
        row = int(np.argmax((placed == 0) & must))
        raise RefusedError(_MISSING.format(columns.index[row]))
    may = must | ((columns.type == INFO) & effect)
    if not np.all(may[order]):
        raise RefusedError(_UNREAL)
    verify_times(columns, order)


def _verify_strings(columns: Columns, model: KeyValue, order: NDArray[np.integer]) -> None:
    """Replay gets, puts and appends; strings are compared as they are."""
    put, values = columns.function("put"), columns.values
    f = columns.f[order]
    effect = (f == put) | (f == columns.function("append"))
    operand = np.where(effect, columns.input[order], columns.output[order]).tolist()
    key = columns.key[order].tolist()
    state, at = model.initial, -1
    steps = zip(key, effect.tolist(), (f == put).tolist(), operand, strict=True)
    for place, (of_key, makes, replaces, code) in enumerate(steps):
        if of_key != at:
            state, at = model.initial, of_key
        text = values[code]
        if not makes:
            if text != state:
                raise RefusedError(_UNFIT.format(columns.index[order[place]]))
        elif type(text) is not str:
            raise RefusedError(f"operation {columns.index[order[place]]} has no text")
        else:
            state = text if replaces else state + text


def verify_times(columns: Columns, order: NDArray[np.integer]) -> None:
    """Accept orders, grouped by key, in which nothing stands behind what it precedes."""
    # Rows stand in order of invocation, so the latest invocation so far is that of the largest row;
    # within each key, hence the rows of a key are lifted above all of the key before it.
    if len(columns.keys) == 1:
        highest = np.maximum.accumulate(order)
    else:
        key = columns.key[order]
        changes = key[1:] != key[:-1]
        if 1 + np.count_nonzero(changes) != np.count_nonzero(np.bincount(key)) and len(key):
            raise RefusedError(_MIXED)
        lift = np.zeros(len(order), np.int64)
        np.cumsum(changes, out=lift[1:])
        lift *= len(columns)
        highest = np.maximum.accumulate(lift + order) - lift
    early = columns.complete_ns[order] < columns.invoke_ns[highest]
    if np.any(early):
        row = int(order[np.argmax(early)])
        raise RefusedError(_EARLY.format(columns.index[row]))


def _verify_values(
    columns: Columns,
    model: Register,
    order: NDArray[np.integer],
    kinds: tuple[Bools, Bools, Bools, Bools],
) -> None:
    read, write, cas, refused = kinds
    position = np.arange(len(order), dtype=np.int32)  # a history of 2^31 operations fits nowhere
    effect = write | (cas & ~refused)
    # The last effect before each position, in the order of its own key.
    before = np.full(len(order), -1, np.int32)
    np.maximum.accumulate(np.where(effect, position, np.int32(-1))[:-1], out=before[1:])
    start = np.zeros(len(order) if len(columns.keys) > 1 else 1, np.int32)
    if len(columns.keys) > 1:
        key = columns.key[order]
        start[1:] = np.where(key[1:] != key[:-1], position[1:], 0)
        np.maximum.accumulate(start, out=start)
    state: Int64s = columns.input[order[before]]
    state[before < start] = columns.code(model.initial)
    wrong = read & (columns.output[order] != state)
    if np.any(cas):
        wrong |= cas & ((columns.expected[order] == state) == refused)
    if np.any(wrong):
        row = int(order[np.argmax(wrong)])
        raise RefusedError(_UNFIT.format(columns.index[row]))
