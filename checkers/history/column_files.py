"""History files straight into columns: a million operations in seconds instead of a minute.

Journals (`history.jsonl`) are parsed by `history.journal_columns`, EDN by `history.edn_lines`.
Events are paired by sorting.

Whatever is not plain (another format, a damaged line, events that do not pair) goes the slow way
(`history.files`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from checkers.history import INFINITY_NS, NEMESIS, edn_lines
from checkers.history.arrow import (
    coded_array,
    encode,
    null_first,
    nulls,
    numbers,
    numbers_or,
    numpy_of,
    take_rows,
)
from checkers.history.edn import read_all
from checkers.history.edn_lines import EDN_MARK, MARK, NotPlainError
from checkers.history.journal_columns import EVENTS, blocks_of, journal_table
from checkers.history.json_text import JsonError, parse
from porcupine_py.columns import (
    FUNCTIONS_MAX,
    INFO,
    KINDS,
    NO_END,
    NO_PAIR,
    Columns,
    Fields,
    Int64s,
    Rest,
    Table,
)

_NEVER_NULL = ("index", "time_ns", "process", "type", "f")
_TOO_MUCH = (OverflowError, RecursionError)
Lookup = Callable[[NDArray[Any]], Sequence[Fields]]
_TYPES = ("invoke", "ok", "fail", "info")
_REST = ("node", "offset", "epoch")
"""Fields that are looked up where they are wanted."""


def read(file: BinaryIO, *, independent: bool) -> tuple[Columns, tuple[str, ...], bool] | None:
    """Return columns of a file, notes, and whether it is foreign; None where it is not plain."""
    try:
        start = file.read(4096)
        file.seek(0)
        if edn_lines.begins(start):
            found = [*edn_lines.read_table(file, independent=independent)]
            return from_events(found.pop(0))[0], found.pop(), True
        if not independent:
            return from_events(journal_table(blocks_of(file)))[0], (), False
    except (NotPlainError, pa.ArrowException, OSError, ValueError, *_TOO_MUCH):
        pass  # the slow way knows more, or says what is wrong
    return None


def from_events(table: pa.Table) -> tuple[Columns, Int64s, Int64s]:
    """Return the operations of a table of events, and the rows of their events.

    The rows are those of invocations and of completions (-1: there is none), in order of
    invocation. Values are texts, JSON behind `MARK`, EDN behind `EDN_MARK`. Raises NotPlainError
    and pa.ArrowException.
    """
    table = _cast(table)
    value, values, pairs = _values(table)
    table = table.drop_columns(["value"])  # of the fields the largest
    time = numbers(table, "time_ns")
    index = numbers(table, "index")
    process, names = encode(table, "process")
    kind, kinds = encode(table, "type")
    loaded = [_load(name) for name in names]
    if not set(kinds) <= set(_TYPES):
        raise NotPlainError("an unknown type")
    kind = np.array([_TYPES.index(name) for name in kinds], np.int8)[kind]
    clients = np.array([name != NEMESIS for name in loaded])[process]
    if np.any(index[1:] <= index[:-1]) or np.any(time[1:] < time[:-1]):
        raise NotPlainError("out of order")
    if np.any(index[:1] < 0) or np.any(time[:1] < 0):
        raise NotPlainError("out of order")
    if np.any(time[-1:] >= INFINITY_NS):
        raise NotPlainError("a time that stands for never")
    f, functions = encode(table, "f")
    if len(functions) > FUNCTIONS_MAX:
        raise NotPlainError(f"more than {FUNCTIONS_MAX} functions")
    key, keys = encode(table, "key")
    error, errors = encode(table, "error")
    keyless = nulls(table, "key")
    # A table of a million operations is 130 MB: what was read from it goes before more is made.
    table = table.select(_REST)
    pa.default_memory_pool().release_unused()
    begins, ends = _pair(process, kind, clients)
    done = ends >= 0
    last = np.where(done, ends, begins)
    same_key = (key[last] == key[begins]) | keyless[last]
    if np.any(f[last] != f[begins]) or not same_key.all():
        raise NotPlainError("completes another operation")
    finished = np.where(done, kind[last] - 1, INFO).astype(np.int8)
    cas = np.array([name == "cas" for name in functions], np.bool_)[f[begins]]
    given = value[begins]
    apart = cas & (pairs[given, 0] >= 0)
    errors, error = null_first(errors, error)
    columns = Columns(
        index=index[begins],
        process=np.array(_number(loaded), np.int64)[process[begins]],
        type=finished,
        f=f[begins].astype(np.int16),
        key=key[begins].astype(np.int32),
        input=np.where(apart, pairs[given, 1], given).astype(np.int32),
        expected=np.where(apart, pairs[given, 0], NO_PAIR).astype(np.int32),
        output=np.where(done, value[last], 0).astype(np.int32),
        error=np.where(done, error[last], 0).astype(np.int32),
        invoke_ns=time[begins],
        complete_ns=np.where(finished == INFO, INFINITY_NS, time[last]),
        functions=tuple(functions) or ("",),
        keys=tuple(keys) or (None,),
        values=values,
        errors=tuple(errors),
        names=tuple(name for name in loaded if isinstance(name, str)),
        rest=Rest(
            _event_rest(table, begins, ends),
            np.where(done, index[last], NO_END),
            np.arange(len(begins)),
        ),
    )
    return columns, begins, ends


def _event_rest(table: pa.Table, begins: Int64s, ends: Int64s) -> Lookup:
    def lookup(rows: NDArray[Any]) -> list[Fields]:
        first, last = begins[rows], ends[rows]
        done = last >= 0
        asked = take_rows(table.column("node"), first).to_pylist()
        node, offset, epoch = (take_rows(table.column(n), last, done).to_pylist() for n in _REST)
        named = [answering or at_first for answering, at_first in zip(node, asked, strict=True)]
        return list(zip(named, offset, epoch, strict=True))

    return lookup


def _pair(
    process: NDArray[Any], kind: NDArray[Any], clients: NDArray[np.bool_]
) -> tuple[Int64s, Int64s]:
    """Return rows of invocations and of their completions (-1: none), in order of invocation."""
    rows = np.flatnonzero(clients)
    if len(clients) < 2**31:
        rows = rows.astype(np.int32)
    rows = rows[np.argsort(process[rows], kind="stable")]
    begins = kind[rows] == 0
    follows = np.concatenate([[False], process[rows][1:] == process[rows][:-1]])[: len(rows)]
    before = np.concatenate([[False], begins[:-1]])[: len(rows)]
    gone = np.concatenate([[False], kind[rows][:-1] == 3])[: len(rows)]
    lonely = ~begins & ~(follows & before)
    if lonely.any() or np.any(begins & follows & (before | gone)):
        raise NotPlainError("events that do not pair")
    places = np.flatnonzero(begins)
    completed = np.zeros(len(rows) + 1, np.bool_)
    completed[: len(rows)] = ~begins
    ends = np.where(completed[places + 1], rows[np.minimum(places + 1, len(rows) - 1)], -1)
    first = rows[places]
    order = np.argsort(first)
    return first[order].astype(np.int64), ends[order].astype(np.int64)


def _cast(table: pa.Table) -> pa.Table:
    """Return the events with columns as they must be: pa.ArrowException, or NotPlainError."""
    for field in EVENTS:
        place = table.schema.get_field_index(field.name)
        kind = table.schema.field(place).type
        coded = pa.types.is_dictionary(kind) and kind.value_type == field.type
        if not coded and kind != field.type:
            table = table.set_column(place, field, table.column(place).cast(field.type))
        if field.name in _NEVER_NULL and table.column(place).null_count:
            raise NotPlainError(f"{field.name} is missing")
    return table


def _load(text: str | None) -> Any:
    """Return the value that a text stands for."""
    if text is None or not text.startswith((MARK, EDN_MARK)):
        return text
    if text.startswith(EDN_MARK):
        (value,) = read_all(text[1:])
        return value
    try:
        return parse(text[1:])
    except JsonError as error:
        raise NotPlainError(str(error)) from error


def _values(table: pa.Table) -> tuple[NDArray[Any], list[Any], NDArray[np.int64]]:
    """Return (code of each row, values, and of each pair the codes of its two)."""
    codes, texts, has_null = coded_array(table, "value")
    plain_number = f"^{MARK}(?:0|[1-9][0-9]{{0,17}})$"
    if pc.all(pc.match_substring_regex(texts, plain_number)).as_py() is not False:
        # Whole numbers only: different texts are different values, and none is a pair.
        own = np.append(np.arange(1, len(texts) + 1, dtype=np.int32), np.int32(0))
        values = numpy_of(pc.utf8_slice_codeunits(texts, 1).cast(pa.int64())).tolist()
        pairs = np.full((len(values) + 1, 2), -1, np.int64)
        return own[codes], [None, *values], pairs
    known = Table([None])
    listed = [*texts.to_pylist(), *([None] if has_null else [])]
    translate, pairs = _translate(map(_load, listed), known)
    return translate[codes], known.items, pairs


def _translate(loaded: Iterable[Any], known: Table) -> tuple[Int64s, NDArray[np.int64]]:
    translate, twos = [], {}
    for item in loaded:
        code = 0 if item is None else known.code(item)
        translate.append(code)
        if isinstance(item, list) and len(item) == 2:
            twos[code] = (known.code(item[0]), known.code(item[1]))
    pairs = np.full((len(known.items), 2), -1, np.int64)
    for code, two in twos.items():
        pairs[code] = two
    return np.array(translate or [0], np.int64), pairs


def _number(processes: list[Any]) -> list[int]:
    """Return process numbers; names count down from -1, in their order."""
    for process in processes:
        if type(process) is not str and (type(process) is not int or process < 0):
            raise NotPlainError(f"process is {process!r}, not a number from 0 on or a name")
    names = [name for name in processes if isinstance(name, str)]
    return [-1 - names.index(p) if isinstance(p, str) else int(p) for p in processes]


def from_table(table: pa.Table) -> Columns:
    """Return the columns of a run's operations as they are stored (`results.store.tables`)."""
    table = table.sort_by("index")
    process, names = encode(table, "process")
    loaded = [parse(name) for name in names]
    kind, kinds = encode(table, "type")
    known = Table([None])
    given, texts = encode(table, "input")
    output, more = encode(table, "output")
    translate, pairs = _translate((_json_value(text) for text in [*texts, *more]), known)
    given, output = translate[given], translate[len(texts) + output] if more else given
    f, functions = encode(table, "f")
    key, keys = encode(table, "key")
    error, errors = encode(table, "error")
    errors, error = null_first(errors, error)
    names_of = {k.value: code for code, k in enumerate(KINDS)}
    rest = [table.column(name) for name in ("node", "offset", "epoch")]

    def lookup(rows: NDArray[Any]) -> list[Fields]:
        return list(zip(*(take_rows(column, rows).to_pylist() for column in rest), strict=True))

    apart = np.array([n == "cas" for n in functions] or [False])[f] & (pairs[given, 0] >= 0)
    return Columns(
        index=numbers(table, "index"),
        process=np.array(_number(loaded), np.int64)[process],
        type=np.array([names_of[name] for name in kinds] or [0], np.int8)[kind],
        f=f.astype(np.int16),
        key=key.astype(np.int32),
        input=np.where(apart, pairs[given, 1], given).astype(np.int32),
        expected=np.where(apart, pairs[given, 0], NO_PAIR).astype(np.int32),
        output=output.astype(np.int32),
        error=error.astype(np.int32),
        invoke_ns=numbers(table, "invoke_ns"),
        complete_ns=numbers(table, "complete_ns"),
        functions=tuple(functions) or ("",),
        keys=tuple(keys) or (None,),
        values=known.items,
        errors=tuple(errors),
        names=tuple(name for name in loaded if isinstance(name, str)),
        rest=Rest(lookup, numbers_or(table, "end_index", NO_END), np.arange(len(f))),
    )


def _json_value(text: str | None) -> Any:
    if text is not None and text.startswith('"') and "\\" not in text:
        return text[1:-1]
    return None if text is None else parse(text)
