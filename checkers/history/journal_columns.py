"""A journal's lines as columns, some megabytes of lines at a time.

Arrow parses JSON lines into columns of one type each, and values have no type in common. So
numbers, truth values and flat lists of them are made texts before it parses, marked by a character
that no other text begins with. Lines that hold more (objects, lists of texts or of lists, a brace
within a text) are few in most journals: they are taken out, read by Python, and put back into
their places. Texts are kept as codes of distinct ones.

Whatever a journal must not be (a changed or damaged line, a wrong type) raises NotPlainError, or
what Arrow raises; the readers of single lines (`history.formats`, `results.store.journal`) say why.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from numpy.typing import NDArray

from checkers.history import HistoryError
from checkers.history.edn_lines import MARK, NotPlainError
from checkers.history.formats import event_from_json
from checkers.history.json_text import FIELD, JsonError, is_changed, parse
from porcupine_py.columns import Bools, Int64s

_NUMBER = r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?"
_PLAIN = rf'"(process|value)":({_NUMBER}|null|true|false|\[[^\[\]{{}}"]*\])'
_MARKED = r'"\1":"\\u0001\2"'
_MARKED_MORE_BYTES = 8
"""What marking adds to each: the mark and two quotes."""
_NESTED = r'"value":\[[^\]]*["\[]'
_BLOCK_BYTES = 1 << 24
_LINE_BYTES_MAX = 1 << 24
_SEAL = f',"{FIELD}":'.encode()
_TEXTS = ("process", "type", "f", "key", "value", "error", "node")
EVENTS = pa.schema(
    [
        *(pa.field(name, pa.int64()) for name in ("index", "time_ns", "offset", "epoch")),
        *(pa.field(name, pa.string()) for name in _TEXTS),
    ]
)
"""What becomes of a journal; the texts as codes of distinct ones."""
_LINES = EVENTS.append(pa.field(FIELD, pa.int64()))
_CODED = pa.dictionary(pa.int32(), pa.string())
CODED_EVENTS = pa.schema(
    [field.with_type(_CODED) if field.name in _TEXTS else field for field in EVENTS]
)


def journal_table(blocks: Iterable[bytes]) -> pa.Table:
    """Return the events of a journal, in the order of its lines, of which a block holds several.

    `process` and `value` are JSON text after the mark, and else plain text. Raises NotPlainError,
    pa.ArrowException or ValueError where it is not what a journal is.
    """
    parts: list[pa.Table] = []
    for block in blocks:
        if not parts and b'"time_ns":' not in block[:400]:
            break
        parts.append(_block(block))
    if not parts:
        raise NotPlainError("not a journal")
    return pa.concat_tables(parts)


def blocks_of(file: BinaryIO) -> Iterator[bytes]:
    """Read a file some megabytes of lines at a time, whole unless one is longer. Raises OSError."""
    while block := file.read(_BLOCK_BYTES):
        yield block + file.readline(_LINE_BYTES_MAX)


def _block(data: bytes) -> pa.Table:
    """Return the events of whole lines."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw == ord("\n")) + 1
    if not len(ends) or ends[-1] != len(data):
        ends = np.append(ends, len(data))
    bounds = np.concatenate([[0], ends]).astype(np.int64)
    _texts_of(data, np.array([0, len(data)], np.int64)).cast(pa.large_utf8())  # raises if it is not
    if b'":"\\u0001' in data:
        raise NotPlainError("marked texts")
    odd = _odd(data, raw, bounds)
    if not odd.any():
        return _events(data, bounds, ~odd)
    return _events(*_with_texts(data, bounds, odd), ~odd)


def _with_texts(data: bytes, bounds: Int64s, odd: Bools) -> tuple[bytes, Int64s]:
    """Return the lines, the odd ones with texts for what they hold and without their seals."""
    pieces: list[bytes] = []
    end = 0
    lengths = np.diff(bounds)
    for row in np.flatnonzero(odd).tolist():
        begin = int(bounds[row])
        line = _as_texts(data[begin : bounds[row + 1]])
        pieces += (data[end:begin], line)
        lengths[row] = len(line)
        end = int(bounds[row + 1])
    pieces.append(data[end:])
    return b"".join(pieces), np.concatenate([[0], np.cumsum(lengths)])


def _texts_of(data: bytes, bounds: Int64s) -> pa.Array:
    """Return parts of some bytes, which are not copied. pa.array would import pandas."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)


def _odd(data: bytes, raw: NDArray[np.uint8], bounds: Int64s) -> Bools:
    """Return which lines are for Python.

    Arrow takes two objects on one line for two rows, and a `null` outside of any object ends the
    process (26.0.1: segmentation fault). So what it is given are lines of one object each, with no
    other brace in them.
    """
    opened = np.diff(np.searchsorted(np.flatnonzero(raw == ord("{")), bounds))
    closed = np.diff(np.searchsorted(np.flatnonzero(raw == ord("}")), bounds))
    first = raw[bounds[:-1]]
    last = bounds[1:] - 1
    last = np.where(raw[last] == ord("\n"), last - 1, last)
    whole = (first == ord("{")) & (raw[np.maximum(last, 0)] == ord("}"))
    odd: Bools = (opened != 1) | (closed != 1) | ~whole
    if b'"value":[' in data:
        nested = pc.match_substring_regex(_texts_of(data, bounds), pattern=_NESTED)
        odd |= np.from_dlpack(nested.cast(pa.uint8())).astype(np.bool_)
    return odd


def _events(data: bytes, bounds: Int64s, sealed: Bools) -> pa.Table:
    """Have Arrow parse lines that are plain; `sealed`: whose seals are still to be verified."""
    whole = _texts_of(data, np.array([0, len(data)], np.int64))
    marked = pc.replace_substring_regex(whole, pattern=_PLAIN, replacement=_MARKED)[0].as_buffer()
    count = (marked.size - len(data)) // _MARKED_MORE_BYTES
    plain = data.count(b'"value":"') + data.count(b'"process":"')
    if count + plain != data.count(b'"value":') + data.count(b'"process":'):
        raise NotPlainError("nested values")
    options = pj.ParseOptions(explicit_schema=_LINES, unexpected_field_behavior="error")
    reading = pj.ReadOptions(use_threads=False, block_size=max(len(marked), 1))
    table = pj.read_json(pa.BufferReader(marked), reading, options)
    if table.num_rows != len(bounds) - 1:
        raise NotPlainError("not one event on each line")
    table.validate(full=True)  # raises: a text may hold half a surrogate pair
    _verify_seals(data, bounds, sealed, table.column(FIELD).combine_chunks())
    return _encode(table.select(EVENTS.names))


def _verify_seals(data: bytes, bounds: Int64s, sealed: Bools, seals: pa.Array) -> None:
    """Raise NotPlainError unless each sealed line is what it was when it was sealed."""
    there = np.from_dlpack(seals.is_valid().cast(pa.uint8())).astype(np.bool_) & sealed
    if not there.any():
        return
    if not there[sealed].all():
        raise NotPlainError("lines with seals and without")
    crcs = np.from_dlpack(seals.drop_null())
    assert len(crcs) == np.count_nonzero(there), "lines that were read singly have no seal left"
    if crcs.min() < 0:
        raise NotPlainError("no checksum")
    digits = np.searchsorted(10 ** np.arange(1, 19, dtype=np.int64), crcs, side="right") + 1
    ends = bounds[1:].copy()
    ends[-1] += not data.endswith(b"\n")
    seal_at = ends[there] - len(_SEAL) - digits - 2  # of the brace and the newline
    view = memoryview(data)
    crc32 = zlib.crc32
    lines = zip(bounds[:-1][there].tolist(), seal_at.tolist(), crcs.tolist(), strict=True)
    if any(crc32(view[begin:end]) != crc for begin, end, crc in lines):
        raise NotPlainError("a changed line")


def _encode(table: pa.Table) -> pa.Table:
    columns = [
        column.dictionary_encode() if name in _TEXTS else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=CODED_EVENTS)


def _as_texts(line: bytes) -> bytes:
    """Return a line that Arrow can parse for one that it cannot: with values as marked texts."""
    if is_changed(line.rstrip(b"\n")):
        raise NotPlainError("a changed line")
    try:
        fields = parse(line.decode("utf-8"))
        if not isinstance(fields, dict):
            raise NotPlainError("no event")
        fields.pop(FIELD, None)
        event_from_json(fields)
    except (JsonError, HistoryError) as error:
        raise NotPlainError(str(error)) from error
    for name in ("process", "value"):
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            fields[name] = MARK + json.dumps(value, separators=(",", ":"))
    return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"
