"""What orders in columns must meet: those of all models, and of all but registers and strings.

Used by `search.replay`, which verifies. Where values are not plain enough for arrays the order is
refused, and objects decide.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from porcupine_py.columns import FAIL, INFO, OK, Bools, Columns, Int64s
from porcupine_py.kernels.library import Replayed
from porcupine_py.models import Counter, GrowingSet, ListAppend, Log, Model, Queue, UniqueIds
from porcupine_py.models.counters import ADDING
from porcupine_py.models.queues import EMPTY_ERRORS
from porcupine_py.search.certificate import RefusedError
from porcupine_py.search.decoded import Shown, amounts, append_offsets, decode, integers, starts

_LONG_READ = 2_000
_SUM_MAX = 1 << 62


_REASONS = {
    Replayed.TWICE: "the order holds an operation twice or one that is not in the history",
    Replayed.MISSING: "operation {} is missing in the order",
    Replayed.UNREAL: "the order holds an operation that did not happen",
    Replayed.MIXED: "the orders of two keys are mixed",
    Replayed.EARLY: "operation {} had completed before one placed earlier",
    Replayed.UNFIT: "the model refuses operation {} at its place",
}


def refusal(wrong: Replayed, columns: Columns, row: int | np.integer = 0) -> RefusedError:
    """Return why an order is refused, because of the operation in a row where one is named."""
    return RefusedError(_REASONS[wrong].format(columns.index[row] if len(columns) else ""))


def verify_placed(
    columns: Columns,
    order: Int64s,
    observed: Bools | None,
    effect: Bools,
    other: Bools | None = None,
    judged: Bools | None = None,
) -> None:
    """Everything that happened or was observed is there once, and nothing that did not.

    `observed`: what failed and showed the state by that; None: nothing did. Indeterminate is there
    only what has an `effect`; what the model knows has one, or is among the `other`.
    """
    known = effect if other is None else effect | other
    if np.any((columns.type != FAIL) & ~known):
        raise RefusedError("the model does not know every operation")
    must = columns.type == OK
    if observed is not None:
        must |= observed
    if judged is not None and not judged.all():
        must &= judged[columns.key]
    if len(order) and not 0 <= order.min() <= order.max() < len(columns):
        raise refusal(Replayed.TWICE, columns)
    placed = np.zeros(len(columns), np.bool_)
    placed[order] = True
    if np.count_nonzero(placed) != len(order):
        raise refusal(Replayed.TWICE, columns)
    if np.any(must & ~placed):
        raise refusal(Replayed.MISSING, columns, np.argmax(must & ~placed))
    if np.any(placed & ~(must | ((columns.type == INFO) & effect))):
        raise refusal(Replayed.UNREAL, columns)
    verify_times(columns, order)


def verify_times(columns: Columns, order: Int64s) -> None:
    """Accept orders, grouped by key, in which nothing stands behind what it precedes."""
    # Rows stand in order of invocation, so the latest invocation so far is that of the largest row;
    # within each key, hence the rows of a key are lifted above all of the key before it.
    if len(columns.keys) == 1:
        highest = np.maximum.accumulate(order)
    else:
        key = columns.key[order]
        changes = key[1:] != key[:-1]
        if 1 + np.count_nonzero(changes) != np.count_nonzero(np.bincount(key)) and len(key):
            raise refusal(Replayed.MIXED, columns)
        lift = np.zeros(len(order), np.int64)
        np.cumsum(changes, out=lift[1:])
        lift *= len(columns)
        highest = np.maximum.accumulate(lift + order) - lift
    early = columns.complete_ns[order] < columns.invoke_ns[highest]
    if np.any(early):
        raise refusal(Replayed.EARLY, columns, order[np.argmax(early)])


def verify_met(columns: Columns, order: Int64s, met: Bools) -> None:
    """Accept an order if every operation meets what the model gives at its place."""
    if not np.all(met):
        raise refusal(Replayed.UNFIT, columns, order[np.argmax(~met)])


def _verify_queue(columns: Columns, order: Int64s) -> None:
    """What comes out is the oldest; what finds nothing finds it empty."""
    inserting, removing = columns.calls("enqueue"), columns.calls("dequeue")
    saw_nothing = np.array([error in EMPTY_ERRORS for error in columns.errors], np.bool_)
    refused = removing & (columns.type == FAIL) & saw_nothing[columns.error]
    verify_placed(columns, order, refused, inserting, removing)
    goes_in = inserting[order]
    value = np.where(goes_in, columns.input[order], columns.output[order])
    value[refused[order]] = 0
    comes_out = ~goes_in & (value != 0)
    inside = np.cumsum(goes_in.astype(np.int64) - comes_out)
    verify_met(columns, order, goes_in | comes_out | (inside == 0))
    verify_met(columns, order, inside >= 0)
    inserted, which = value[goes_in], np.cumsum(comes_out)[comes_out] - 1
    met = np.ones(len(order), np.bool_)
    met[comes_out] = inserted[which] == value[comes_out]
    verify_met(columns, order, met)


def _verify_counter(columns: Columns, order: Int64s) -> None:
    """Every read returns the sum of the additions before it."""
    reading = columns.calls("read")
    verify_placed(columns, order, None, columns.calls(*ADDING), reading)
    adds = np.flatnonzero(~reading & (columns.type != FAIL))
    added, read = amounts(columns, adds), reading[order]
    total = integers(columns, columns.output[order[read]])
    if added is None or total is None or float(added.sum(dtype=np.float64)) >= _SUM_MAX:
        raise RefusedError("the numbers are not plain")
    amount = np.zeros(len(columns), np.int64)
    amount[adds] = added
    met = np.ones(len(order), np.bool_)
    met[read] = np.cumsum(amount[order])[read] == total
    verify_met(columns, order, met)


def _verify_ids(columns: Columns, order: Int64s) -> None:
    """No identifier is returned twice."""
    nothing = np.zeros(len(columns), np.bool_)
    verify_placed(columns, order, None, nothing, columns.calls("generate"))
    given = columns.output[order]
    first = np.full(len(columns.values), -1, np.int64)
    first[given[::-1]] = np.arange(len(given))[::-1]
    verify_met(columns, order, first[given] == np.arange(len(given)))


def _verify_list(columns: Columns, order: Int64s) -> None:
    """Every read returns what was appended before it, in order."""
    seen, position, number = _collect(columns, order, "append", ("read",))
    sizes, which = np.diff(seen.bounds), number[seen.made[seen.source]]
    inside = np.arange(len(which)) - np.repeat(seen.bounds[:-1], sizes)
    met = np.ones(len(order), np.bool_)
    met[position[seen.reads]] = sizes == number[seen.reads]
    reader = np.repeat(position[seen.reads], sizes)
    met[reader[which != inside]] = False
    verify_met(columns, order, met)


def _verify_set(columns: Columns, order: Int64s) -> None:
    """Every read returns what was added before it, each element once."""
    seen, position, number = _collect(columns, order, "add", ("read",))
    sizes, at = np.diff(seen.bounds), position[seen.made[seen.source]]
    met = np.ones(len(order), np.bool_)
    met[position[seen.reads]] = sizes == number[seen.reads]
    reader = np.repeat(position[seen.reads], sizes)
    met[reader[(at < 0) | (at > reader)]] = False
    verify_met(columns, order, met)
    if _repeats(seen):
        raise RefusedError("a read shows an element twice")


def _repeats(seen: Shown) -> bool:
    sizes = np.diff(seen.bounds)
    last = np.empty(len(seen.made), np.int64)
    for read in np.flatnonzero(sizes > _LONG_READ).tolist():
        elements = seen.source[seen.bounds[read] : seen.bounds[read + 1]]
        last[elements] = np.arange(len(elements))
        if not np.array_equal(last[elements], np.arange(len(elements))):
            return True
    short = np.repeat(sizes <= _LONG_READ, sizes)
    reader = np.repeat(np.arange(len(sizes)), sizes)[short]
    pairs = np.sort(reader * len(seen.made) + seen.source[short])
    return bool(np.any(pairs[1:] == pairs[:-1]))


def _verify_log(columns: Columns, order: Int64s) -> None:
    """Offsets grow; every read shows all records from its beginning to its last, or to the end."""
    seen, position, number = _collect(columns, order, "append", ("read", "read-all"), log=True)
    offset, begin = append_offsets(columns, seen.made), starts(columns, seen.reads)
    if offset is None or begin is None:
        raise RefusedError("the offsets are not plain")
    fresh = offset < 0  # no append returned it: then reads show it
    known = offset.copy()
    known[seen.source] = np.where(fresh[seen.source], seen.offset, known[seen.source])
    placed = position[seen.made] >= 0
    if np.any(known[placed] < 0):
        raise RefusedError("an append of nobody knows where")
    by_number = np.argsort(position[seen.made][placed], kind="stable")
    offsets = known[placed][by_number]
    if np.any(offsets[1:] <= offsets[:-1]):
        raise RefusedError("offsets do not grow")
    sizes = np.diff(seen.bounds)
    at, reader = position[seen.made[seen.source]], np.repeat(position[seen.reads], sizes)
    met = np.ones(len(order), np.bool_)
    met[reader[(at < 0) | (at > reader) | (known[seen.source] != seen.offset)]] = False
    low = np.repeat(begin, sizes)
    met[reader[seen.offset < low]] = False
    again = (seen.offset[1:] <= seen.offset[:-1]) & (reader[1:] == reader[:-1])
    met[reader[1:][again]] = False
    there = number[seen.reads]
    last = begin - 1
    last[sizes > 0] = seen.offset[seen.bounds[1:][sizes > 0] - 1]
    end = np.minimum(np.searchsorted(offsets, last, side="right"), there)
    end = np.where(columns.f[seen.reads] == columns.function("read-all"), there, end)
    first = np.minimum(np.searchsorted(offsets, begin, side="left"), there)
    met[position[seen.reads]] &= np.maximum(end - first, 0) == sizes
    verify_met(columns, order, met)


def _collect(
    columns: Columns, order: Int64s, into: str, reading: tuple[str, ...], *, log: bool = False
) -> tuple[Shown, Int64s, Int64s]:
    """Return (reads decoded, position of each row or -1, insertions before each row).

    For an insertion itself: those before it.
    """
    inserting = columns.calls(into)
    verify_placed(columns, order, None, inserting, columns.calls(*reading))
    seen = decode(columns, into, *reading, records=log)
    if seen is None:
        raise RefusedError("the values are not plain")
    if np.any(seen.source < 0):
        raise RefusedError("a read shows what nobody inserted")
    position = np.full(len(columns), -1, np.int64)
    position[order] = np.arange(len(order))
    number = np.full(len(columns), -1, np.int64)
    goes_in = inserting[order]
    number[order] = np.cumsum(goes_in) - goes_in
    return seen, position, number


VERIFIERS: dict[type[Model], Callable[[Columns, Int64s], None]] = {
    ListAppend: _verify_list,
    GrowingSet: _verify_set,
    Counter: _verify_counter,
    UniqueIds: _verify_ids,
    Queue: _verify_queue,
    Log: _verify_log,
}
