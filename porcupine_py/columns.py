"""A history in columns: one NumPy array a field, one row an operation.

Objects are for people, arrays for algorithms: an `Operation` takes about 300 bytes and a
microsecond to look at, its row here 43 bytes and a nanosecond. Rows stand in order of invocation
(ties by index), so that "the latest invocation" is "the last row".

Values, keys, functions and errors are interned: a column holds codes, a table what they stand for.
Equal JSON values have equal codes (`values.freeze`); code 0 of `values` is None, which is
also "no value". The argument of a `cas`, a pair, is taken apart: `expected` and `input`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porcupine_py.operations import EventType, HistoryError, Operation, Value
from porcupine_py.values import freeze, is_list

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Int16s = NDArray[np.int16]
Int8s = NDArray[np.int8]
Bools = NDArray[np.bool_]

KINDS = (EventType.OK, EventType.FAIL, EventType.INFO)
"""What the codes of the column `type` mean."""
OK, FAIL, INFO = 0, 1, 2
FUNCTIONS_MAX = 2**15 - 1
"""How many functions the column `f` can hold."""
_MADE_TOGETHER = 4096
NO_END = -1
"""Stands for the index of a completion that is not there."""
NO_PAIR = -1
"""`expected` of an operation that is no cas of a pair."""


Fields = tuple[str | None, int | None, int | None]
"""node, offset, epoch of an operation."""


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """The fields that no algorithm on columns reads, looked up where they are wanted."""

    lookup: Callable[[NDArray[Any]], Sequence[Fields]]
    """Rows of the source -> their fields."""
    end_index: Int64s
    """Index of the completion of each row of the source; NO_END: it has none."""
    rows: NDArray[Any]
    """Rows of the source."""

    @property
    def ends(self) -> Int64s:
        """Index of the completion of each row."""
        ends: Int64s = self.end_index[self.rows]
        return ends

    def fields(self, rows: NDArray[Any]) -> Sequence[Fields]:
        """Return the fields of some rows."""
        return self.lookup(self.rows[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Operations in order of invocation, at least within each key.

    Arrays have one entry for each, tables one for each code.
    """

    index: Int64s
    process: Int64s
    """Process numbers; -1 - i stands for the name `names[i]`."""
    type: Int8s
    f: Int16s
    key: Int32s
    input: Int32s
    """Of a cas: the value that it sets."""
    expected: Int32s
    """Of a cas: the value that it compares with; else NO_PAIR."""
    output: Int32s
    error: Int32s
    invoke_ns: Int64s
    complete_ns: Int64s
    """`INFINITY_NS` where `type` is INFO."""
    functions: tuple[str, ...]
    keys: tuple[str | None, ...]
    values: Sequence[Value]
    errors: tuple[str | None, ...] = (None,)
    names: tuple[str, ...] = ()
    rest: Rest | None = None
    _cache: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[Operation]:
        """Make objects of all rows, some thousand at a time."""
        for begin in range(0, len(self), _MADE_TOGETHER):
            yield from self._objects(np.arange(begin, min(begin + _MADE_TOGETHER, len(self))))

    def function(self, name: str) -> int:
        """Return the code of a function, -1 where no operation has it."""
        return self.functions.index(name) if name in self.functions else -1

    def calls(self, *names: str) -> Bools:
        """Return which operations call one of these functions."""
        found = np.zeros(len(self), np.bool_)
        for code in {self.function(name) for name in names} - {-1}:
            found |= self.f == code
        return found

    def code(self, value: Hashable) -> int:
        """Return the code of a frozen value, -1 where no operation has it."""
        if value is None:
            return 0
        if "codes" not in self._cache:
            self._cache["codes"] = {freeze(v): code for code, v in enumerate(self.values)}
        found: int = self._cache["codes"].get(value, -1)
        return found

    def take(self, rows: NDArray[Any] | slice) -> Columns:
        """Return some rows, in the order given; tables are shared."""
        arrays = {name: getattr(self, name)[rows] for name in _ARRAYS}
        rest = None if self.rest is None else replace(self.rest, rows=self.rest.rows[rows])
        cache = {name: self._cache[name] for name in ("codes",) if name in self._cache}
        return replace(self, **arrays, rest=rest, _cache=cache)

    def by_key(self) -> tuple[NDArray[np.intp] | None, Int64s]:
        """Return (rows in order of key, or None where they are; where each key begins and ends)."""
        if len(self.keys) == 1:
            return None, np.array([0, len(self)], np.int64)
        if "by_key" not in self._cache:
            order = None
            if np.any(self.key[1:] < self.key[:-1]):
                small = len(self.keys) < 1 << 16
                order = np.argsort(self.key.astype(np.uint16) if small else self.key, kind="stable")
            sizes = np.bincount(self.key, minlength=len(self.keys))
            self._cache["by_key"] = order, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        found: tuple[NDArray[np.intp] | None, Int64s] = self._cache["by_key"]
        return found

    def parts(self) -> list[Columns]:
        """Split by key, keys in order of their codes; keys without operations are left out."""
        order, bounds = self.by_key()
        if len(self.keys) == 1:
            return [self] if len(self) else []
        cuts = [slice(begin, end) for begin, end in pairwise(bounds.tolist()) if begin < end]
        return [self.take(cut if order is None else order[cut]) for cut in cuts]

    def operation(self, row: int) -> Operation:
        """Return one row as an object."""
        return self._objects(np.array([row]))[0]

    def _objects(self, rows: NDArray[Any]) -> list[Operation]:
        more: Sequence[Fields] = [(None, None, None)] * len(rows)
        ends = [NO_END] * len(rows)
        if self.rest is not None:
            more = self.rest.fields(rows)
            ends = self.rest.end_index[self.rest.rows[rows]].tolist()
        lists = (getattr(self, name)[rows].tolist() for name in _ARRAYS)
        return [
            self._object(row, node, offset, epoch, None if end == NO_END else end)
            for row, (node, offset, epoch), end in zip(
                zip(*lists, strict=True), more, ends, strict=True
            )
        ]

    def _object(self, row: tuple[int, ...], *more: Any) -> Operation:
        index, process, kind, f, key, given, expected, output, error, *times = row
        value = self.values[given]
        return Operation(
            index,
            process if process >= 0 else self.names[-1 - process],
            self.functions[f],
            self.keys[key],
            value if expected == NO_PAIR else [self.values[expected], value],
            self.values[output],
            KINDS[kind],
            times[0],
            times[1],
            self.errors[error],
            *more,
        )

    def operations(self) -> list[Operation]:
        """Return all rows as objects."""
        return list(self)


_ARRAYS = (
    *("index", "process", "type", "f", "key", "input", "expected", "output", "error"),
    *("invoke_ns", "complete_ns"),
)


class Table:
    """Interns what it is asked for: equal things get equal codes, counted from 0."""

    def __init__(self, first: Sequence[Any] = ()) -> None:
        self.codes: dict[Hashable, int] = {freeze(item): code for code, item in enumerate(first)}
        self.items: list[Any] = list(first)

    def code(self, item: Any) -> int:
        """Return the code of an item, new or known."""
        frozen = freeze(item)
        code = self.codes.get(frozen)
        if code is None:
            code = self.codes[frozen] = len(self.items)
            self.items.append(item)
        return code


def from_operations(operations: Sequence[Operation]) -> Columns:
    """Return the columns of operations, which need not be in order."""
    if any((a.invoke_ns, a.index) > (b.invoke_ns, b.index) for a, b in pairwise(operations)):
        operations = sorted(operations, key=lambda o: (o.invoke_ns, o.index))
    for o in operations:
        if isinstance(o.process, int) and o.process < 0:
            raise HistoryError(f"operation {o.index}: process {o.process} is below 0")
    functions, keys, values, errors, names = Table(), Table(), Table([None]), Table([None]), Table()
    kinds = {kind: code for code, kind in enumerate(KINDS)}
    fields: list[int] = []
    for o in operations:
        given, expected = o.input, NO_PAIR
        if o.f == "cas" and is_list(given) and len(given) == 2:
            expected, given = values.code(given[0]), given[1]
        fields += (
            *(o.index, o.process if isinstance(o.process, int) else -1 - names.code(o.process)),
            *(kinds[o.type], functions.code(o.f), keys.code(o.key), values.code(given), expected),
            *(0 if o.output is None else values.code(o.output), errors.code(o.error)),
            *(o.invoke_ns, o.complete_ns),
        )
    if len(functions.items) > FUNCTIONS_MAX:
        raise HistoryError(f"more than {FUNCTIONS_MAX} functions")
    kept = list(operations)
    rest = Rest(
        lambda rows: [(o.node, o.offset, o.epoch) for o in (kept[row] for row in rows)],
        np.array([NO_END if o.end_index is None else o.end_index for o in kept], np.int64),
        np.arange(len(kept)),
    )
    rows = np.array(fields, np.int64).reshape(len(operations), 11)
    types = [np.int64, np.int64, np.int8, np.int16, *[np.int32] * 5, np.int64, np.int64]
    arrays = {
        name: np.ascontiguousarray(rows[:, i].astype(types[i])) for i, name in enumerate(_ARRAYS)
    }
    return Columns(
        **arrays,  # type: ignore[arg-type]  # each array has its own type, given in `types`
        functions=tuple(functions.items) or ("",),
        keys=tuple(keys.items) or (None,),
        values=values.items,
        errors=tuple(errors.items),
        names=tuple(names.items),
        rest=rest,
    )
