"""Histories in EDN with one flat operation map on each line, straight into an Arrow table.

A million operations are two million lines, and a reader of EDN written in Python takes half a
minute for each million. Nearly all lines of such a file look alike, so one regular expression takes
them apart, made from the order of the fields in the first line; it runs in Arrow, over some
megabytes of lines at a time, and what it finds is kept as codes of distinct texts. A line that it
does not match is read by `checkers.history.edn`; where many do not match, or where the rules of
`checkers.history.foreign` need more than order and pairs, the whole file goes there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.history import INFINITY_NS, NEMESIS, HistoryError, seconds
from checkers.history.arrow import integers, numpy_of
from checkers.history.arrow import texts as strings
from checkers.history.edn import IndependentTuple, Keyword, key_text, read_all, write
from checkers.history.foreign import NO_INDEXES
from checkers.history.kafka_log import are_steps
from porcupine_py.columns import Int64s

MARK = "\x01"
"""Before a value that is JSON text."""
EDN_MARK = "\x02"
"""Before a value that is EDN text."""
_CHUNK_BYTES = 1 << 21
_LINE_BYTES_MAX = 1 << 24
_NULLS = 1 << 16
_OTHER_LINES_MAX = 0.05
"""Share of lines that may look otherwise."""
_INT = r"-?(?:0|[1-9][0-9]*)"
_WORD = r"[A-Za-z*!_?$%&=<>+-][A-Za-z0-9*!_?$%&=<>+./'-]*"
_TEXT = r'"[^"\\]*"'
_VALUE = rf'(?:{_INT}|:{_WORD}|{_TEXT}|true|false|\[[^\[\]{{}}()"#\\;^\']*\])'
_FIELDS = {
    "index": rf"(?P<index>{_INT})",
    "time": rf"(?P<time>{_INT})",
    "process": rf"(?P<process>[0-9]+|:{NEMESIS})",
    "type": r":(?P<type>invoke|ok|fail|info)",
    "f": rf":(?P<f>{_WORD})",
    "error": rf"(?P<error>{_VALUE})",
}
_RECORD = r"(?:#(?:jepsen\.history|knossos\.op)\.Op)?"
_TAG = r"#jepsen\.independent/tuple "
_NAMES = ("index", "time", "process", "type", "f", "key", "value", "error")


def begins(start: bytes) -> bool:
    """Return whether a file that begins so may be of this form."""
    return re.match(rf"\s*{_RECORD}\{{\s*:".encode(), start) is not None


class NotPlainError(Exception):
    """The file is not of this form; the reader of any EDN has to read it."""


def read_table(file: BinaryIO, *, independent: bool) -> tuple[pa.Table, tuple[str, ...]]:
    """Return events as `checkers.history.column_files` takes them, and notes; see `foreign`.

    Raises NotPlainError, OSError, and what Arrow raises for a text that is not UTF-8.
    """
    pattern: str | None = None
    chunks: list[dict[str, pa.Array]] = []
    others = total = 0
    for lines in _blocks(file):
        pattern = pattern or _pattern(lines[0].as_py(), independent=independent)
        found = pc.extract_regex(lines, pattern)
        there = [name for name in _NAMES if found.type.get_field_index(name) >= 0]
        fields = {name: found.field(found.type.get_field_index(name)) for name in there}
        missed = np.flatnonzero(np.from_dlpack(pc.is_null(found).cast(pa.uint8())))
        others, total = others + len(missed), total + len(lines)
        if others > 100 + _OTHER_LINES_MAX * total:
            raise NotPlainError("many lines of another form")
        chunks.append(_with_others(fields, lines, missed, independent=independent))
    if not chunks:
        raise NotPlainError("no lines")
    table = _table(chunks)
    pa.default_memory_pool().release_unused()
    return table


def _blocks(file: BinaryIO) -> Iterator[pa.Array]:
    """Yield the lines of a file that are not blank, some megabytes at a time."""
    left = b""
    while block := file.read(_CHUNK_BYTES):
        whole, newline, left = (left + block).rpartition(b"\n")
        if newline:
            yield from _lines(whole)
        elif len(left) > _LINE_BYTES_MAX:
            raise NotPlainError("a long line")
    yield from _lines(left)


def _lines(data: bytes) -> Iterator[pa.Array]:
    if b"\0" in data:
        raise NotPlainError("a NUL byte")
    text = strings([data.decode("utf-8")])
    lines = pc.utf8_trim(pc.split_pattern(text, "\n").flatten(), " \r\t,")
    lines = lines.filter(pc.match_substring_regex(lines, "."))
    if len(lines):
        yield lines


def _pattern(line: str, *, independent: bool) -> str:
    """Make the expression from the fields of the first line."""
    try:
        (form,) = read_all(line)
    except (HistoryError, ValueError) as error:
        raise NotPlainError("no map on the first line") from error
    if not isinstance(form, dict) or not {"process", "type", "f", "value"} <= set(form):
        raise NotPlainError("not one operation on each line")
    tag = f"(?:{_TAG})?" if independent else _TAG
    key = rf"(?P<key>{_INT}|:{_WORD}|{_TEXT})"
    value = rf"(?:nil|(?P<value>{_VALUE}))"
    if independent or isinstance(form["value"], IndependentTuple):
        value = rf"(?:nil|{tag}\[{key} (?:nil|(?P<value>{_VALUE}))\])"
    parts = []
    for name in form:
        expression = value if name == "value" else _FIELDS.get(str(name))
        if not isinstance(name, Keyword) or expression is None:
            raise NotPlainError(f"a field {name}")
        parts.append(rf":{name} {expression}")
    if "error" not in form:
        parts[-1] += rf"(?:,? :error {_FIELDS['error']})?"
    return rf"^{_RECORD}\{{" + r",? ".join(parts) + r"\}$"


def _with_others(
    fields: dict[str, pa.Array], lines: pa.Array, missed: Int64s, *, independent: bool
) -> dict[str, pa.Array]:
    """Return the texts of each field, with those of lines that were not matched read one by one."""
    rows = [_read(lines[int(i)].as_py(), independent=independent) for i in missed]
    mask = np.zeros(len(lines), np.bool_)
    mask[missed] = True
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    other = pa.Array.from_buffers(pa.bool_(), len(lines), [None, bits])
    result: dict[str, pa.Array] = {}
    for name in _NAMES:
        if name in fields:
            column = _convert(fields[name].dictionary_encode(), name)
        else:
            column = pa.nulls(len(lines), pa.string())
        if rows:
            texts = strings([row[name] for row in rows])
            column = pc.replace_with_mask(column.cast(pa.string()), other, texts)
        if name in ("index", "time"):
            column = column.cast(pa.string()).cast(pa.int64())
        elif name == "value":  # too many to make one table of codes of all chunks'
            column = column.cast(pa.string())
        elif not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        result[name] = column
    return result


def _convert(column: pa.DictionaryArray, name: str) -> pa.Array:
    """Return texts as the columns hold them: JSON or EDN marked, names bare; null for nothing."""
    convert = _CONVERT.get(name)
    if convert is None:
        return column
    texts = convert(column.dictionary)
    indices = column.indices
    if texts.null_count:  # a code of nothing is no code
        nothing = pa.nulls(1, indices.type)[0]
        indices = pc.if_else(pc.is_null(texts).take(indices), nothing, indices)
    return pa.DictionaryArray.from_arrays(indices, texts.fill_null(_scalar("")))


def _values(texts: pa.Array) -> pa.Array:
    quoted = pc.match_substring_regex(texts, '^"')
    whole = pc.match_substring_regex(texts, rf"^(?:{_INT}|true|false)$")
    marked = pc.if_else(whole, _mark(texts, MARK), _mark(texts, EDN_MARK))
    bare = pc.utf8_slice_codeunits(pc.if_else(quoted, texts, _scalar('""')), 1, -1)
    if pc.any(pc.match_substring_regex(bare, f"^[{MARK}{EDN_MARK}]")).as_py():
        raise NotPlainError("a marked text")
    return pc.if_else(quoted, bare, pc.if_else(_is_empty(texts), _scalar(None), marked))


def _mark(texts: pa.Array, mark: str) -> pa.Array:
    return pc.replace_substring_regex(texts, "^", mark)


def _is_empty(texts: pa.Array) -> pa.Array:
    return pc.match_substring_regex(texts, "^$")


def _scalar(text: str | None) -> pa.Scalar:
    """Return a text for Arrow, which would import pandas for one of Python's."""
    return strings([text])[0]


def _empty_is_none(texts: pa.Array) -> pa.Array:
    return pc.if_else(_is_empty(texts), _scalar(None), texts)


def _keys(texts: pa.Array) -> pa.Array:
    return strings([key_text(next(read_all(text))) if text else None for text in texts.to_pylist()])


def _errors(texts: pa.Array) -> pa.Array:
    return strings([_text(text) for text in texts.to_pylist()])


def _text(text: str | None) -> str | None:
    """Return an error as `foreign` shows it."""
    if not text:
        return None
    (value,) = read_all(text)
    return str(value) if isinstance(value, str) else write(value)


def _processes(texts: pa.Array) -> pa.Array:
    number = pc.match_substring_regex(texts, "^[0-9]+$")
    return pc.if_else(number, _mark(texts, MARK), pc.utf8_ltrim(texts, ":"))


_CONVERT: dict[str, Callable[[pa.Array], pa.Array]] = {
    "value": _values,
    "key": _keys,
    "error": _errors,
    "process": _processes,
    "index": _empty_is_none,
    "time": _empty_is_none,
}


def _read(line: str, *, independent: bool) -> dict[str, str | None]:
    """Return the texts of one line that looks otherwise."""
    try:
        forms = list(read_all(line))
    except HistoryError as error:
        raise NotPlainError("a form on several lines") from error
    form = forms[0] if len(forms) == 1 else None
    if not isinstance(form, dict) or not {"process", "type", "f"} <= set(form):
        raise NotPlainError("not one operation on each line")
    process, value, key = form["process"], form.get("value"), form.get("key")
    is_nemesis = isinstance(process, Keyword) and process == NEMESIS
    if type(process) is not int and not is_nemesis:
        raise NotPlainError("another process")
    if form.keys() & {"node", "offset", "epoch"} or not isinstance(form["f"], str):
        raise NotPlainError("more fields")
    if are_steps(value):
        raise NotPlainError("sends and polls, which are read as a log's")
    if not is_nemesis and (
        isinstance(value, IndependentTuple) or (independent and value is not None)
    ):
        if not isinstance(value, list) or len(value) != 2:
            raise NotPlainError("no [key value]")
        key, value = value
    index, time = form.get("index"), form.get("time")
    if type(index) not in (int, type(None)):
        raise NotPlainError("an index that is none")
    return {
        "index": None if index is None else str(index),
        "time": str(time) if type(time) is int else None,
        "process": NEMESIS if is_nemesis else f"{MARK}{process}",
        "type": str(form["type"]),
        "f": str(form["f"]),
        "key": None if key is None else key_text(key),
        "value": None if value is None else EDN_MARK + write(value),
        "error": None if form.get("error") is None else _text(write(form["error"])),
    }


def _table(chunks: list[dict[str, pa.Array]]) -> tuple[pa.Table, tuple[str, ...]]:
    columns = {name: pa.chunked_array([chunk.pop(name) for chunk in chunks]) for name in _NAMES}
    count = len(columns["type"])
    position = np.arange(count, dtype=np.int64)
    is_indexed = columns["index"].null_count < count
    index = _integers(columns.pop("index"))
    more: tuple[str, ...] = ()
    if np.any(index < 0) or np.any(index[1:] <= index[:-1]):
        if len(np.unique(index)) == count and not np.any(index < 0):
            raise NotPlainError("another order")
        more = (NO_INDEXES,) if is_indexed else ()
        index = position
    time, notes = _times(_integers(columns.pop("time")), position)
    if _acts_as_clients(columns["process"], columns["f"]):
        raise NotPlainError("a nemesis that does what clients do")
    none = {name: _nothing(count, kind) for name, kind in _ABSENT.items()}
    own = {"index": integers(index), "time_ns": integers(time)}
    return pa.table({**own, **columns, **none}), (*more, *notes)


def _acts_as_clients(process: pa.ChunkedArray, f: pa.ChunkedArray) -> bool:
    """Return whether the nemesis does what clients do."""
    process = process.unify_dictionaries()
    names = process.chunk(0).dictionary.to_pylist()
    if NEMESIS not in names:
        return False
    code = integers(np.array([names.index(NEMESIS)], np.int64))[0]
    masks = [pc.equal(chunk.indices.cast(pa.int64()), code) for chunk in process.chunks]
    nemesis = pa.chunked_array(masks)
    clients = set(pc.unique(f.filter(pc.invert(nemesis))).to_pylist())
    return bool(clients & set(pc.unique(f.filter(nemesis)).to_pylist()))


_ABSENT = {"node": pa.string(), "offset": pa.int64(), "epoch": pa.int64()}


def _nothing(count: int, kind: pa.DataType) -> pa.ChunkedArray:
    """Return nulls, of which all chunks are one piece of memory."""
    whole, rest = divmod(count, _NULLS)
    piece = pa.nulls(min(count, _NULLS), kind)
    return pa.chunked_array([piece] * whole + [piece.slice(0, rest)], kind)


def _integers(column: pa.ChunkedArray) -> Int64s:
    """Return whole numbers; -1 where there is none. May be Arrow's own memory."""
    if column.null_count:
        column = column.fill_null(integers(np.array([-1], np.int64))[0])
    return numpy_of(column.combine_chunks())


def _times(own: Int64s, position: Int64s) -> tuple[Int64s, tuple[str, ...]]:
    """Return times that grow, as `foreign` makes them, and a note where clocks went back."""
    time = np.maximum(own, 0)
    time -= position
    np.maximum.accumulate(time, out=time)
    time += position
    if int(time[-1]) >= INFINITY_NS:
        raise NotPlainError("a time that stands for never")
    latest = np.maximum.accumulate(np.maximum(own, -1))
    back = np.flatnonzero((own[1:] >= 0) & (own[1:] < latest[:-1]))
    if not len(back):
        return time, ()
    by = seconds(int((latest[back] - own[back + 1]).max()))
    return time, (f"times go back {len(back)} times, by up to {by}: ordered by index or position",)
