"""History files straight into columns: a million operations in seconds instead of a minute.

Journals (`history.jsonl`) are parsed by Arrow. Its columns have one type each, and values have
none in common, so numbers and flat lists are made texts first, marked by a character that no
other text begins with. `events.parquet` and `operations.parquet` of a run hold values as JSON text
already. Events are paired by sorting.

Whatever is not plain (another format, nested values, a damaged line, events that do not pair) goes
the slow way through `history.formats` and `history.pair`, which name what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from numpy.typing import NDArray

from checkers.history import INFINITY_NS, NEMESIS, HistoryError, edn_lines
from checkers.history.columns import (
    FAIL,
    FUNCTIONS_MAX,
    INFO,
    KINDS,
    NO_PAIR,
    OK,
    Columns,
    Int64s,
    Rest,
    Table,
    check_columns,
    from_operations,
)
from checkers.history.edn import read_all
from checkers.history.edn_lines import EDN_MARK, NotPlainError
from checkers.history.foreign import READS, Reading, left_out, plain, shows_nothing
from checkers.history.formats import load
from checkers.history.json_text import JsonError, parse
from checkers.history.sealed import FIELD, is_changed

_MARK = "\\u0001"
_NUMBER = r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?"
_PLAIN = rf'"(process|value)":({_NUMBER}|null|true|false|\[[^\[\]{{}}"]*\])'
_MARKED = r'"\1":"\\u0001\2"'
_MARKED_MORE_BYTES = 8
"""What marking adds to each: the mark and two quotes."""
_EVENTS = pa.schema(
    [
        *(pa.field(name, pa.int64()) for name in ("index", "time_ns", "offset", "epoch")),
        *(
            pa.field(n, pa.string())
            for n in ("process", "type", "f", "key", "value", "error", "node")
        ),
    ]
)
_JOURNAL = _EVENTS.append(pa.field(FIELD, pa.int64()))
_OPERATIONS = pa.schema(
    [
        *(
            pa.field(name, pa.int64())
            for name in ("index", "invoke_ns", "complete_ns", "offset", "epoch", "end_index")
        ),
        *(
            pa.field(n, pa.string())
            for n in ("process", "type", "f", "key", "input", "output", "error", "node")
        ),
    ]
)
_NEVER_NULL = ("index", "time_ns", "invoke_ns", "complete_ns", "process", "type", "f")
_TOO_MUCH = (OverflowError, RecursionError)
Lookup = Callable[[int], tuple[str | None, int | None, int | None, int | None]]
_TYPES = ("invoke", "ok", "fail", "info")


class _NotPlainError(Exception):
    """The fast way does not know this file; the slow one will say what it is."""


def load_columns(path: str | Path, *, independent: bool = False) -> Columns:
    """Read a history file, of any format that `load_history` knows, or a run's Parquet file.

    Raises HistoryError.
    """
    return _loaded_file(path, independent=independent)[0]


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """A file in columns."""

    columns: Columns
    """All client operations."""
    judged: Columns
    """Without those that show nothing, by the file's format or by what the caller said."""
    notes: tuple[str, ...] = ()


def load_judged(path: str | Path, reading: Reading) -> ColumnFile:
    """Read a history file for a check of its operations. Raises HistoryError."""
    columns, notes, is_foreign = _loaded_file(path, independent=reading.independent)
    no_refusals, no_nil = shows_nothing(reading, is_foreign=is_foreign)
    failed = (columns.type == FAIL) & no_refusals
    reads = [code for code, name in enumerate(columns.functions) if name in READS]
    unknown = (columns.type == OK) & (columns.output == 0) & np.isin(columns.f, reads) & no_nil
    kept = columns
    if failed.any() or unknown.any():
        kept = columns.take(np.flatnonzero(~(failed | unknown)))
    more = left_out(int(failed.sum()), int(unknown.sum()))
    return ColumnFile(columns, kept, (*notes, *more))


def _loaded_file(path: str | Path, *, independent: bool) -> tuple[Columns, tuple[str, ...], bool]:
    """Return the columns of a file, notes, and whether it is foreign."""
    if Path(path).suffix == ".parquet" and not independent:
        try:
            return from_table(_stored(Path(path))), (), False
        except (_NotPlainError, pa.ArrowException, OSError, ValueError, *_TOO_MUCH) as error:
            raise HistoryError(f"{path}: cannot be read: {_line(error)}") from error
    try:
        if _is_edn(Path(path)):
            events, notes = edn_lines.read_table(Path(path), independent=independent)
            return from_table(events), notes, True
        if not independent:
            return from_table(_parsed(Path(path).read_bytes())), (), False
    except (_NotPlainError, NotPlainError, pa.ArrowException, OSError, ValueError, *_TOO_MUCH):
        pass  # the slow way knows more, or says what is wrong
    history = load(path, independent=independent)
    try:
        return from_operations(history.operations), history.notes, history.is_foreign
    except HistoryError as error:
        raise HistoryError(f"{path}: {error}") from error


def _is_edn(path: Path) -> bool:
    with path.open("rb") as file:
        return re.match(rb"\s*\{\s*:", file.read(4096)) is not None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _stored(path: Path) -> pa.Table:
    import pyarrow.parquet as pq  # noqa: PLC0415  (most histories are no Parquet)

    table = pq.read_table(path)
    table.validate(full=True)  # raises: a text may hold any bytes
    return table


def _parsed(data: bytes) -> pa.Table:
    if b'"time_ns":' not in data[:400]:
        raise _NotPlainError("not a journal")
    # Not by pa.array, which imports pandas to see whether it is given some.
    buffers = [None, pa.py_buffer(np.array([0, len(data)], np.int64)), pa.py_buffer(data)]
    whole = pa.Array.from_buffers(pa.large_binary(), 1, buffers)
    whole.cast(pa.large_utf8())  # raises: the reader below takes any bytes for a text
    marked = pc.replace_substring_regex(whole, pattern=_PLAIN, replacement=_MARKED)[0].as_buffer()
    count = (marked.size - len(data)) // _MARKED_MORE_BYTES
    plain = data.count(b'"value":"') + data.count(b'"process":"')
    if count + plain != data.count(b'"value":') + data.count(b'"process":'):
        raise _NotPlainError("nested values")
    if b'":"' + _MARK.encode() in data:
        raise _NotPlainError("marked texts")
    # Histories from elsewhere have no seals: one search, not one for each line.
    if b',"crc":' in data and any(is_changed(line) for line in data.split(b"\n")):
        raise _NotPlainError("a changed line")
    options = pj.ParseOptions(explicit_schema=_JOURNAL, unexpected_field_behavior="error")
    # Arrow takes two objects on one line for two rows, and a `null` outside of any object ends the
    # process (26.0.1: segmentation fault). A brace within a text is left to the plain reader, too.
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    opened = data.count(b"\n{") + data.startswith(b"{")
    closed = data.count(b"}\n") + data.endswith(b"}")
    if not lines == opened == closed == data.count(b"{") == data.count(b"}"):
        raise _NotPlainError("not one event on each line")
    return pj.read_json(pa.BufferReader(marked), parse_options=options)


def from_table(table: pa.Table) -> Columns:
    """Return the columns of a table of events or of operations, of one run.

    Values are JSON text (as in a run's Parquet files) or, where a text begins with the mark, JSON
    after it and else plain text. Raises HistoryError for events that do not pair.
    """
    if "invoke_ns" in table.column_names:
        return _from_operation_table(_typed(table, _OPERATIONS))
    table = _typed(table, _EVENTS)
    time = _numbers(table, "time_ns")
    index = _numbers(table, "index")
    process, names = _coded(table, "process")
    kind, kinds = _coded(table, "type")
    loaded = [_loaded(name, table) for name in names]
    if not set(kinds) <= set(_TYPES):
        raise _NotPlainError("an unknown type")
    kind = np.array([_TYPES.index(name) for name in kinds])[kind]
    clients = np.array([name != NEMESIS for name in loaded])[process]
    if np.any(index[1:] <= index[:-1]) or np.any(time[1:] < time[:-1]):
        raise _NotPlainError("out of order")
    if np.any(index[:1] < 0) or np.any(time[:1] < 0):
        raise _NotPlainError("out of order")
    if np.any(time[-1:] >= INFINITY_NS):
        raise _NotPlainError("a time that stands for never")
    begins, ends = _paired(process, kind, clients)
    f, functions = _coded(table, "f")
    if len(functions) > FUNCTIONS_MAX:
        raise _NotPlainError(f"more than {FUNCTIONS_MAX} functions")
    key, keys = _coded(table, "key")
    value, values, pairs = _values(table)
    done = ends >= 0
    last = np.where(done, ends, begins)
    same_key = (key[last] == key[begins]) | (_nulls(table, "key")[last])
    if np.any(f[last] != f[begins]) or not same_key.all():
        raise _NotPlainError("completes another operation")
    error, errors = _coded(table, "error")
    finished = np.where(done, kind[last] - 1, INFO).astype(np.int8)
    cas = np.array([name == "cas" for name in functions], np.bool_)[f[begins]]
    given = value[begins]
    apart = cas & (pairs[given, 0] >= 0)
    errors, error = _null_first(errors, error)
    return Columns(
        index=index[begins],
        process=np.array(_numbered(loaded), np.int64)[process[begins]],
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
        rest=Rest(_event_rest(table, begins, ends, index), np.arange(len(begins))),
    )


def _event_rest(table: pa.Table, begins: Int64s, ends: Int64s, index: Int64s) -> Lookup:
    node, offset, epoch = (table.column(name) for name in ("node", "offset", "epoch"))

    def lookup(row: int) -> tuple[str | None, int | None, int | None, int | None]:
        begin, end = int(begins[row]), int(ends[row])
        if end < 0:
            return node[begin].as_py(), None, None, None
        answering = node[end].as_py() or node[begin].as_py()
        return answering, offset[end].as_py(), epoch[end].as_py(), int(index[end])

    return lookup


def _paired(process: Int64s, kind: Int64s, clients: NDArray[np.bool_]) -> tuple[Int64s, Int64s]:
    """Return rows of invocations and of their completions (-1: none), in order of invocation."""
    rows = np.flatnonzero(clients)
    rows = rows[np.argsort(process[rows], kind="stable")]
    begins = kind[rows] == 0
    follows = np.concatenate([[False], process[rows][1:] == process[rows][:-1]])[: len(rows)]
    before = np.concatenate([[False], begins[:-1]])[: len(rows)]
    gone = np.concatenate([[False], kind[rows][:-1] == 3])[: len(rows)]
    lonely = ~begins & ~(follows & before)
    if lonely.any() or np.any(begins & follows & (before | gone)):
        raise _NotPlainError("events that do not pair")
    places = np.flatnonzero(begins)
    completed = np.zeros(len(rows) + 1, np.bool_)
    completed[: len(rows)] = ~begins
    ends = np.where(completed[places + 1], rows[np.minimum(places + 1, len(rows) - 1)], -1)
    order = np.argsort(rows[places])
    return rows[places][order], ends[order]


def _typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with its columns as they must be: pa.ArrowException, or _NotPlainError."""
    for field in schema:
        if field.name not in table.column_names:
            raise _NotPlainError(f"there is no column {field.name}")
        place = table.schema.get_field_index(field.name)
        if place < 0:
            raise _NotPlainError(f"column {field.name} is there twice")
        kind = table.schema.field(place).type
        coded = pa.types.is_dictionary(kind) and kind.value_type == field.type
        if not coded and kind != field.type:
            table = table.set_column(place, field, table.column(place).cast(field.type))
        if field.name in _NEVER_NULL and table.column(place).null_count:
            raise _NotPlainError(f"{field.name} is missing")
    return table


def _numpy(integers: pa.Array) -> Int64s:
    """Return integers of any width as int64. Arrow's own to_numpy imports pandas."""
    assert integers.null_count == 0, "there is a number in each row"
    return np.from_dlpack(integers).astype(np.int64)


def _numbers(table: pa.Table, name: str) -> Int64s:
    return _numpy(table.column(name).combine_chunks())


def _nulls(table: pa.Table, name: str) -> NDArray[np.bool_]:
    nulls = pc.is_null(table.column(name)).combine_chunks().cast(pa.uint8())
    return _numpy(nulls).astype(np.bool_)


def _coded(table: pa.Table, name: str) -> tuple[Int64s, list[Any]]:
    """Return (code of each row, what the codes stand for); null has a code of its own."""
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        coded = column.unify_dictionaries().combine_chunks()
        texts = coded.dictionary.to_pylist()
        codes = np.full(len(coded), len(texts), np.int64)
        there = _numpy(coded.is_valid().cast(pa.uint8())).astype(np.bool_)
        codes[there] = _numpy(coded.indices.drop_null())
        return codes, [*texts, None] if coded.null_count else texts
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return _numpy(coded.indices), coded.dictionary.to_pylist()


def _null_first(items: list[Any], codes: Int64s) -> tuple[list[Any], Int64s]:
    """Return the table with null under code 0, and the codes of that table."""
    ordered = [None, *(item for item in items if item is not None)]
    return ordered, np.array([ordered.index(item) for item in items] or [0], np.int64)[codes]


def _loaded(text: str | None, table: pa.Table) -> Any:
    """Return the value that a text stands for."""
    if text is None:
        return None
    stored = "run" in table.column_names
    if not stored and text.startswith(EDN_MARK):
        return plain(next(read_all(text[1:])))
    if not stored and not text.startswith("\x01"):
        return text
    try:
        return parse(text if stored else text[1:])
    except JsonError as error:
        raise _NotPlainError(str(error)) from error


def _values(table: pa.Table, name: str = "value") -> tuple[Int64s, list[Any], NDArray[np.int64]]:
    """Return (code of each row, values, and of each pair the codes of its two)."""
    codes, texts = _coded(table, name)
    bare = 0 if "run" in table.column_names else 1
    numbers = [text[bare:] for text in texts if text is not None]
    if all(map(str.isdecimal, numbers)) and (
        not bare or all(text is None or text[0] == "\x01" for text in texts)
    ):
        # Whole numbers only: different texts are different values, and none is a pair.
        translate = np.cumsum([text is not None for text in texts] or [False])
        translate[[text is None for text in texts] or [False]] = 0
        pairs = np.full((len(numbers) + 1, 2), -1, np.int64)
        return translate[codes], [None, *map(int, numbers)], pairs
    known = Table([None])
    translate, pairs = _translated((_loaded(text, table) for text in texts), known)
    return translate[codes], known.items, pairs


def _translated(loaded: Iterable[Any], known: Table) -> tuple[Int64s, NDArray[np.int64]]:
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


def _numbered(processes: list[Any]) -> list[int]:
    """Return process numbers; names count down from -1, in their order."""
    for process in processes:
        if type(process) is not str and (type(process) is not int or process < 0):
            raise _NotPlainError(f"process is {process!r}, not a number from 0 on or a name")
    names = [name for name in processes if isinstance(name, str)]
    return [-1 - names.index(p) if isinstance(p, str) else int(p) for p in processes]


def _from_operation_table(table: pa.Table) -> Columns:
    """Return the columns of a run's operations, which are paired already."""
    table = table.sort_by("index")
    process, names = _coded(table, "process")
    loaded = [_loaded(name, table) for name in names]
    kind, kinds = _coded(table, "type")
    known = Table([None])
    given, texts = _coded(table, "input")
    output, more = _coded(table, "output")
    translate, pairs = _translated((_loaded(text, table) for text in [*texts, *more]), known)
    given, output = translate[given], translate[len(texts) + output] if more else given
    f, functions = _coded(table, "f")
    key, keys = _coded(table, "key")
    error, errors = _coded(table, "error")
    errors, error = _null_first(errors, error)
    names_of = {k.value: code for code, k in enumerate(KINDS)}
    if not set(kinds) <= set(names_of):
        raise _NotPlainError("an unknown type")
    if len(functions) > FUNCTIONS_MAX:
        raise _NotPlainError(f"more than {FUNCTIONS_MAX} functions")
    rest = [table.column(name) for name in ("node", "offset", "epoch", "end_index")]
    apart = np.array([n == "cas" for n in functions] or [False])[f] & (pairs[given, 0] >= 0)
    return check_columns(
        Columns(
            index=_numbers(table, "index"),
            process=np.array(_numbered(loaded), np.int64)[process],
            type=np.array([names_of[name] for name in kinds] or [0], np.int8)[kind],
            f=f.astype(np.int16),
            key=key.astype(np.int32),
            input=np.where(apart, pairs[given, 1], given).astype(np.int32),
            expected=np.where(apart, pairs[given, 0], NO_PAIR).astype(np.int32),
            output=output.astype(np.int32),
            error=error.astype(np.int32),
            invoke_ns=_numbers(table, "invoke_ns"),
            complete_ns=_numbers(table, "complete_ns"),
            functions=tuple(functions) or ("",),
            keys=tuple(keys) or (None,),
            values=known.items,
            errors=tuple(errors),
            names=tuple(name for name in loaded if isinstance(name, str)),
            rest=Rest(lambda row: tuple(c[row].as_py() for c in rest), np.arange(len(f))),
        )
    )
