"""A run's operations inside its page: columns, compressed, which the page's script unpacks.

A row of JSON takes a hundred bytes, an operation here three to eight, so a page holds each of a
million operations and still opens at once. The text in the page is base64 of zlib of:

    4 bytes    length of the header, little-endian
    header     JSON: `count`, `quantum_ns`, `detail` [from, to), `columns` [[name, bytes, rows]],
               and the tables `functions`, `keys`, `processes`, `nodes`, `texts`
    columns    one after the other; of each first all lowest bytes, then all next ones, and so on:
               equal bytes beside each other are what zlib is good at

Rows stand in order of invocation. `index` and `from` are differences to the row before, signs in
the lowest bit (zigzag). `from` and `took` count quanta; `took` is one more than that, and 0 stands
for an operation that never completed. `asked`, `answer` and `error` are codes of `texts`, and are
there for the rows of `detail` alone: unique values are most of a page.

Of more operations than fit into TEXT_MAX, those nearest to the violation are packed; values are
kept of the DETAIL_MAX nearest.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkers.history import Event, Operation
from checkers.history.recorded import columns_of, ended_ns
from porcupine_py.columns import NO_PAIR, Columns, Int64s, Table
from results.report.narration import value_text

ROWS_MAX = 1_500_000
"""More are not even tried: they would not fit, and a script would take seconds over them."""
TEXT_MAX = 4_500_000
"""Characters of all operations in a page: with all else it stays below 5 MB."""
DETAIL_MAX = 20_000
FINE_MAX = 50_000
"""So many operations have their times to the microsecond, more to a tenth of a millisecond."""
_FINE_NS, _COARSE_NS = 1_000, 100_000
_CODE_MAX = 1 << 30
"""No column holds more, so that signs and shifts stay within 32 bits in a script."""
_TOGETHER = 1 << 16
_VALUE_MAX = 200


@dataclass(frozen=True, slots=True)
class Packed:
    """What a page holds of a run's operations."""

    text: str
    """Base64: letters, digits, `+`, `/` and `=`."""
    rows: int
    detailed: int
    """Rows with what was asked, what was answered and the error."""
    quantum_ns: int
    of: int
    """Operations of the run."""


def pack(
    operations: Sequence[Operation], events: Sequence[Event], near_ns: tuple[int, int] | None = None
) -> Packed:
    """Pack operations, those nearest to the interval `near_ns` if not all; else the first."""
    columns, ends_ns = columns_of(operations), ended_ns(operations, events)
    rows_max, detail_max = ROWS_MAX, DETAIL_MAX
    while True:
        packed = _pack(columns, ends_ns, near_ns, rows_max, detail_max)
        excess = len(packed.text) / TEXT_MAX
        if excess <= 1 or not packed.rows:
            return packed
        rows_max = int(packed.rows / excess * 0.95)
        detail_max = min(detail_max, rows_max // 10)


def _pack(
    columns: Columns,
    ends_ns: Int64s,
    near_ns: tuple[int, int] | None,
    rows_max: int,
    detail_max: int,
) -> Packed:
    order = np.lexsort((columns.index, columns.invoke_ns))
    invoked = columns.invoke_ns[order]
    begin, end = _nearest(invoked, near_ns, rows_max)
    rows, invoked = order[begin:end], invoked[begin:end]
    detail = _nearest(invoked, near_ns, detail_max)
    took_ns = ends_ns[rows]
    took_ns = np.where(took_ns < 0, -1, np.maximum(0, took_ns - invoked))
    quantum_ns = _quantum(invoked, took_ns)
    texts = Table([""])
    processes, process_codes = np.unique(columns.process[rows], return_inverse=True)
    nodes, node_codes = _nodes(columns, rows)
    shown = rows[slice(*detail)]
    found: dict[str, NDArray[Any]] = {
        "index": _differences(columns.index[rows]),
        "from": _differences(invoked // quantum_ns),
        "took": np.where(took_ns < 0, 0, 1 + took_ns // quantum_ns),
        "type": columns.type[rows],
        "f": columns.f[rows],
        "key": columns.key[rows],
        "process": process_codes,
        "node": node_codes,
        "asked": _input_codes(columns, shown, texts),
        "answer": _codes(columns.output[shown], lambda c: _value(columns.values[c]), texts),
        "error": _codes(columns.error[shown], lambda c: columns.errors[c] or "", texts),
    }
    planes = {name: _planes(values) for name, values in found.items()}
    header = {
        "count": len(rows),
        "quantum_ns": quantum_ns,
        "detail": detail,
        "columns": [[name, width, len(found[name])] for name, (width, _) in planes.items()],
        "functions": [cut(name) for name in columns.functions],
        "keys": [cut(key or "") for key in columns.keys],
        "processes": [
            cut(columns.names[-1 - code]) if code < 0 else str(code) for code in processes.tolist()
        ],
        "nodes": nodes,
        "texts": [cut(text) for text in texts.items],
    }
    head = json.dumps(header, separators=(",", ":")).encode("ascii")
    data = b"".join([struct.pack("<I", len(head)), head, *(plane for _, plane in planes.values())])
    text = base64.b64encode(zlib.compress(data, 6)).decode("ascii")
    return Packed(text, len(rows), len(shown), quantum_ns, len(columns))


def _nearest(invoked: Int64s, near_ns: tuple[int, int] | None, most: int) -> tuple[int, int]:
    """Return the rows around an interval of time, or the first ones: [from, to)."""
    count = len(invoked)
    if count <= most:
        return 0, count
    middle_ns = 0 if near_ns is None else (near_ns[0] + near_ns[1]) // 2
    middle = int(np.searchsorted(invoked, middle_ns))
    begin = min(max(0, middle - most // 2), count - most)
    return begin, begin + most


def _quantum(invoked: Int64s, took_ns: Int64s) -> int:
    quantum_ns = _FINE_NS if len(invoked) <= FINE_MAX else _COARSE_NS
    largest = max(int(np.max(np.abs(part), initial=0)) for part in (invoked, took_ns))
    while largest // quantum_ns >= _CODE_MAX // 4:
        quantum_ns *= 10
    return quantum_ns


def _differences(values: Int64s) -> Int64s:
    """Return each value less the one before it, the sign in the lowest bit."""
    steps: Int64s = np.diff(values, prepend=np.int64(0))
    zigzag: Int64s = (steps << 1) ^ (steps >> 63)
    return zigzag


def _planes(values: NDArray[Any]) -> tuple[int, bytes]:
    """Return how many bytes a value takes, and the column byte by byte."""
    largest = int(values.max(initial=0))
    assert int(values.min(initial=0)) >= 0, "codes count from 0"
    assert largest < 1 << 32, "codes fit into 32 bits"
    width = 1 if largest < 1 << 8 else 2 if largest < 1 << 16 else 4
    as_bytes = values.astype(np.dtype(f"<u{width}")).view(np.uint8).reshape(len(values), width)
    return width, as_bytes.T.tobytes()


def _nodes(columns: Columns, rows: NDArray[np.intp]) -> tuple[list[str], NDArray[Any]]:
    """Return the names of nodes and the code of the one that each operation was sent to."""
    names: dict[str, int] = {"": 0}
    codes = np.zeros(len(rows), np.int64)
    if columns.rest is not None:
        for begin in range(0, len(rows), _TOGETHER):
            fields = columns.rest.fields(rows[begin : begin + _TOGETHER])
            codes[begin : begin + len(fields)] = [
                names.setdefault(node or "", len(names)) for node, _, _ in fields
            ]
    return [cut(name) for name in names], codes


def _codes(codes: NDArray[Any], text_of: Any, texts: Table) -> NDArray[Any]:
    """Translate the codes of a column to those of texts, each distinct value once."""
    distinct, inverse = np.unique(codes, return_inverse=True)
    known = np.array([texts.code(text_of(code)) for code in distinct.tolist()], np.int64)
    return known[inverse] if len(codes) else np.zeros(0, np.int64)


def _input_codes(columns: Columns, rows: NDArray[Any], texts: Table) -> NDArray[Any]:
    pairs = np.stack([columns.expected[rows], columns.input[rows]], axis=1)
    distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
    known = [texts.code(text) for text in _asked_texts(columns, distinct)]
    return np.array(known, np.int64)[inverse.ravel()] if len(rows) else np.zeros(0, np.int64)


def _asked_texts(columns: Columns, pairs: NDArray[Any]) -> Iterator[str]:
    for expected, given in pairs.tolist():
        value = columns.values[given]
        yield _value(value if expected == NO_PAIR else [columns.values[expected], value])


def _value(value: object) -> str:
    return "" if value is None else value_text(value)


def cut(text: str) -> str:
    """Return a name or a value as the page's columns hold it."""
    return text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]}…"
