"""History files of every size as columns: by Arrow, or line by line.

Arrow (`history.column_files`) reads a million operations in seconds, but takes a tenth of a second
and 45 MB before it reads anything, so small files do without, and all files where pyarrow is not
installed: it is no requirement of the distribution porcupine-py. The slow way through
`history.formats` and `history.pair` also reads what is not plain, and names what is wrong.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from checkers.history import HistoryError
from checkers.history.foreign import (
    ASKING,
    INPUTS,
    READS,
    WRITE,
    Reading,
    left_out,
    refuse_other_answer,
    refuse_pairs,
    shows_nothing,
)
from checkers.history.formats import read_text
from checkers.history.sources import open_history
from porcupine_py.columns import FAIL, NO_PAIR, OK, Columns, from_operations

SMALL_BYTES = 1 << 16
"""Files up to this are read line by line in less time than Arrow is loaded."""


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """A file in columns."""

    columns: Columns
    """All client operations."""
    judged: Columns
    """Without those that show nothing, by the file's format or by what the caller said."""
    notes: tuple[str, ...] = ()


def load_columns(path: str | Path, *, independent: bool = False) -> Columns:
    """Read a history file, of any format that `load_history` knows. Raises HistoryError."""
    return _read(Path(path), independent=independent)[0]


def load_judged(path: str | Path, reading: Reading) -> ColumnFile:
    """Read a history file for a check of its operations. Raises HistoryError."""
    columns, notes, is_foreign = _read(Path(path), independent=reading.independent)
    return judged_of(columns, reading, notes, is_foreign=is_foreign, name=str(path))


def judged_of(
    columns: Columns, reading: Reading, notes: Sequence[str], *, is_foreign: bool, name: str
) -> ColumnFile:
    """Leave out what shows nothing. Raises HistoryError that names the file."""
    no_refusals, no_nil = shows_nothing(reading, is_foreign=is_foreign)
    failed = (columns.type == FAIL) & no_refusals
    unknown = (columns.type == OK) & (columns.output == 0) & columns.calls(*READS) & no_nil
    if is_foreign:
        _refuse_pairs(columns, name)
    kept = columns
    if failed.any() or unknown.any():
        kept = columns.take(np.flatnonzero(~(failed | unknown)))
    more = left_out(int(failed.sum()), int(unknown.sum()))
    return ColumnFile(columns, kept, (*notes, *more))


def _refuse_pairs(columns: Columns, name: str) -> None:
    ok, writes = columns.calls(*READS) & (columns.type == OK), columns.calls(WRITE)
    given = (columns.input[columns.calls(*ASKING)], columns.output[ok], columns.input[writes])
    try:
        refuse_pairs(*((columns.values[c] for c in np.unique(codes)) for codes in given))
        for f in INPUTS:
            _refuse_other_answers(columns, f)
    except HistoryError as error:
        raise HistoryError(f"{name}: {error}") from error


def _refuse_other_answers(columns: Columns, f: str) -> None:
    done = columns.calls(f) & (columns.type == OK)
    rows = np.flatnonzero(done & ((columns.output != columns.input) | (columns.input == 0)))
    codes = (codes[rows].tolist() for codes in (columns.expected, columns.input, columns.output))
    for expected, given, code in zip(*codes, strict=True):
        asked, got = columns.values[given], columns.values[code]
        if expected != NO_PAIR:
            asked = [columns.values[expected], asked]
            if got == asked:  # nearly all: answers repeat the pair, which has a code of its own
                continue
        refuse_other_answer(f, asked, got)


def _read(path: Path, *, independent: bool) -> tuple[Columns, tuple[str, ...], bool]:
    """Return the columns of a file, notes, and whether it is foreign."""
    with open_history(path) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        if size > SMALL_BYTES:
            found = _by_arrow(file, independent=independent)
            if found is not None:
                return found
            file.seek(0)
        history = read_text(file, path, independent=independent)
    try:
        return from_operations(history.operations), history.notes, history.is_foreign
    except HistoryError as error:
        raise HistoryError(f"{path}: {error}") from error


def _by_arrow(file: BinaryIO, *, independent: bool) -> tuple[Columns, tuple[str, ...], bool] | None:
    try:
        from checkers.history import column_files  # noqa: PLC0415  (see above)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "pyarrow":
            raise
        return None
    return column_files.read(file, independent=independent)
