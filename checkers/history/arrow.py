"""Arrow's columns as NumPy's and back, without pandas.

`pa.array`, `pa.scalar` and `to_numpy` import pandas to see whether they are given some, which takes
a second. Nothing here does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from porcupine_py.columns import Int64s


def take_rows(
    column: pa.ChunkedArray, rows: NDArray[Any], there: NDArray[np.bool_] | None = None
) -> pa.ChunkedArray:
    """Return some rows of a column, null where they are not `there`."""
    valid = None
    if there is not None:
        valid = pa.py_buffer(np.packbits(there, bitorder="little"))
        rows = np.where(there, rows, 0)
    numbers = pa.py_buffer(np.ascontiguousarray(rows, dtype=np.int64))
    return column.take(pa.Array.from_buffers(pa.int64(), len(rows), [valid, numbers]))


def numpy_of(integers: pa.Array) -> Int64s:
    """Return integers of any width as int64, which may be Arrow's own memory: not to be changed."""
    assert integers.null_count == 0, "there is a number in each row"
    return np.from_dlpack(integers).astype(np.int64, copy=False)


def numbers(table: pa.Table, name: str) -> Int64s:
    """Return integers, one in each row."""
    return numpy_of(table.column(name).combine_chunks())


def numbers_or(table: pa.Table, name: str, otherwise: int) -> Int64s:
    """Return integers, and something else where there is none."""
    column = table.column(name).combine_chunks()
    found = np.full(len(column), otherwise, np.int64)
    found[~nulls(table, name)] = numpy_of(column.drop_null())
    return found


def nulls(table: pa.Table, name: str) -> NDArray[np.bool_]:
    """Return which rows hold nothing."""
    found = pc.is_null(table.column(name)).combine_chunks().cast(pa.uint8())
    return numpy_of(found).astype(np.bool_)


def encode(table: pa.Table, name: str) -> tuple[NDArray[Any], list[Any]]:
    """Return (code of each row, what the codes stand for); null has a code of its own."""
    codes, dictionary, has_null = coded_array(table, name)
    texts = dictionary.to_pylist()
    return codes, [*texts, None] if has_null else texts


def coded_array(table: pa.Table, name: str) -> tuple[NDArray[Any], pa.Array, bool]:
    """Return (code of each row, what codes stand for, whether one more code stands for null)."""
    column = table.column(name)
    if not pa.types.is_dictionary(column.type):
        column = pa.chunked_array([column.combine_chunks()]).dictionary_encode()
    coded = column.unify_dictionaries().combine_chunks()
    assert len(coded.dictionary) < 2**31, "codes are of 32 bits"
    if not coded.null_count:
        codes = np.from_dlpack(coded.indices).astype(np.int32, copy=False)
        return codes, coded.dictionary, False
    codes = np.full(len(coded), len(coded.dictionary), np.int32)
    there = numpy_of(coded.is_valid().cast(pa.uint8())).astype(np.bool_)
    codes[there] = np.from_dlpack(coded.indices.drop_null())
    return codes, coded.dictionary, True


def null_first(items: list[Any], codes: NDArray[Any]) -> tuple[list[Any], NDArray[Any]]:
    """Return the table with null under code 0, and the codes of that table."""
    ordered = [None, *(item for item in items if item is not None)]
    return ordered, np.array([ordered.index(item) for item in items] or [0], np.int32)[codes]


def integers(numbers: NDArray[Any]) -> pa.Array:
    """Return whole numbers as an array of Arrow's."""
    kind = pa.from_numpy_dtype(numbers.dtype)
    buffer = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(kind, len(numbers), [None, buffer])


def texts(items: Sequence[str | None]) -> pa.StringArray:
    """Return texts as an array of Arrow's; None as null."""
    encoded = [b"" if item is None else item.encode("utf-8") for item in items]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    known = np.array([item is not None for item in items], np.bool_)
    valid = np.packbits(known, bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(items), buffers)
