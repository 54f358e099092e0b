"""From a run's journal straight to columns: its events and its operations, as tables.

Plain journals, which all of ours are, are parsed and paired in columns, and no line becomes an
object. What is not plain goes through `results.store.journal` and `history.pair`, line by line,
which say what is wrong or, where nothing is, give the same tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.history import Event, HistoryError, Operation, pair
from checkers.history.arrow import integers, take_rows, texts
from checkers.history.column_files import from_events
from checkers.history.edn_lines import MARK, NotPlainError
from checkers.history.event_columns import EventColumns
from checkers.history.journal_columns import blocks_of, journal_table
from checkers.history.json_text import may_be_torn
from checkers.history.recorded import Recorded
from extensions.plain_files import open_plain
from porcupine_py.columns import KINDS, Columns, Int64s
from results.store.journal import LINE, decode_event, read_journal
from results.store.tables import (
    EVENTS_SCHEMA,
    OPERATIONS_SCHEMA,
    RunName,
    events_table,
    operations_table,
)

_CONTROL = "[\\x00-\\x1f]"
_NOT_PLAIN = (
    NotPlainError,
    pa.ArrowException,
    HistoryError,
    ValueError,
    OverflowError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class RunHistory:
    """The history of a run: for checks, and as tables."""

    events: Sequence[Event]
    operations: Sequence[Operation]
    events_table: pa.Table
    operations_table: pa.Table
    dropped_bytes: int
    """Of a torn last line."""


def read_history(path: Path, name: RunName) -> RunHistory:
    """Read a journal. Raises HistoryError when it is damaged, OSError."""
    lines = _WholeLines(path)
    try:
        return _in_columns(lines, name)
    except _NOT_PLAIN:
        pass  # the reader of single lines knows more, or says what is wrong
    events, dropped_bytes = read_journal(path)
    try:
        operations = pair(events)
    except HistoryError as error:
        raise HistoryError(f"{path}: {error}") from error
    tables = events_table(name, events), operations_table(name, operations)
    return RunHistory(events, operations, *tables, dropped_bytes)


class _WholeLines:
    """The lines of a journal, several in a block, without a last one that was torn."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.dropped_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        with open_plain(self._path) as file:
            for block in blocks_of(file):
                whole = _without_torn_line(block)
                self.dropped_bytes = len(block) - len(whole)
                if whole:
                    yield whole


def _without_torn_line(data: bytes) -> bytes:
    """Leave out a last line that a kill tore; whatever else is wrong stays."""
    begin = data.rfind(b"\n") + 1
    if begin == len(data):
        return data
    try:
        decode_event(data[begin:])
    except HistoryError:
        if not may_be_torn(data[begin:], LINE):
            raise
        return data[:begin]
    return data


def _in_columns(journal: _WholeLines, name: RunName) -> RunHistory:
    lines = journal_table(journal).unify_dictionaries()
    columns, begins, ends = from_events(lines)
    index = np.from_dlpack(lines.column("index").combine_chunks())
    if index[0] != 0 or index[-1] != len(index) - 1:  # they grow: `from_events` says so
        raise NotPlainError("lines are missing")
    events = _events(lines, name)
    operations = _operations(events, columns, begins, ends, name)
    return RunHistory(
        EventColumns(events), Recorded(columns), events, operations, journal.dropped_bytes
    )


def _events(lines: pa.Table, name: RunName) -> pa.Table:
    named = {**_names(name, lines.num_rows)}
    for field in lines.schema:
        column = lines.column(field.name)
        as_json = field.name in ("process", "value")
        named[field.name] = _json_texts(column) if as_json else column
    return pa.Table.from_arrays([named[n] for n in EVENTS_SCHEMA.names], schema=EVENTS_SCHEMA)


def _operations(
    events: pa.Table, columns: Columns, begins: Int64s, ends: Int64s, name: RunName
) -> pa.Table:
    done = ends >= 0

    def begin_column(field: str) -> pa.ChunkedArray:
        return take_rows(events.column(field), begins)

    def end_column(field: str) -> pa.ChunkedArray:
        return take_rows(events.column(field), ends, done)

    node = pc.coalesce(end_column("node").cast(pa.string()), begin_column("node").cast(pa.string()))
    kinds = pa.DictionaryArray.from_arrays(
        integers(columns.type.astype(np.int32)), texts([kind.value for kind in KINDS])
    )
    named = {
        **_names(name, len(columns)),
        **{field: begin_column(field) for field in ("index", "process", "f", "key")},
        **{field: end_column(field) for field in ("error", "offset", "epoch")},
        "input": begin_column("value"),
        "output": end_column("value"),
        "type": kinds,
        "invoke_ns": integers(columns.invoke_ns),
        "complete_ns": integers(columns.complete_ns),
        "node": node.dictionary_encode(),
        "end_index": end_column("index"),
    }
    ordered = [named[field] for field in OPERATIONS_SCHEMA.names]
    return pa.Table.from_arrays(ordered, schema=OPERATIONS_SCHEMA)


def _names(name: RunName, rows: int) -> dict[str, pa.Array]:
    zeros = integers(np.zeros(rows, np.int32))
    of = {"campaign": name.campaign, "run": name.run}
    return {key: pa.DictionaryArray.from_arrays(zeros, texts([text])) for key, text in of.items()}


def _json_texts(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return values as JSON text, which are JSON text after the mark and else plain text."""
    whole = column.unify_dictionaries().combine_chunks()
    return pa.DictionaryArray.from_arrays(whole.indices, _as_json(whole.dictionary))


def _as_json(values: pa.StringArray) -> pa.StringArray:
    """Return distinct texts so. Options alone, no scalars: pa.scalar imports pandas."""
    marked = pc.starts_with(values, pattern=MARK)
    bare = pc.utf8_slice_codeunits(values, start=1)
    if pc.any(pc.and_not(pc.match_substring_regex(values, pattern=_CONTROL), marked)).as_py():
        raise NotPlainError("control characters")
    escaped = pc.replace_substring(values, pattern="\\", replacement="\\\\")
    escaped = pc.replace_substring(escaped, pattern='"', replacement='\\"')
    quoted = pc.replace_substring_regex(escaped, pattern="^(?s:(.*))$", replacement='"\\1"')
    return pc.if_else(marked, bare, quoted)
