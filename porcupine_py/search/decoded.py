"""What the codes of columns stand for, in arrays: numbers, elements of sets, records of logs.

Rules in columns and their verifiers read histories through these. Where values are not plain enough
(a mixture of types, a value inserted twice) the answer is None, and objects are looked at instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porcupine_py.columns import FAIL, OK, Columns, Int64s
from porcupine_py.models.counters import ADDING

Rows = NDArray[np.intp]
NONE = -1


def integers(columns: Columns, codes: NDArray[Any]) -> Int64s | None:
    """Return what codes stand for; None unless all are whole numbers of reasonable size."""
    if len(codes) == 0:
        return np.zeros(0, np.int64)
    if codes.min() <= 0:
        return None  # the code of None, which is no number
    values = columns.values
    if len(values) <= 4 * len(codes) + 1024:
        used = np.zeros(len(values), np.bool_)
        used[codes] = True
        wanted, place = np.flatnonzero(used), np.cumsum(used)[codes] - 1
    else:
        wanted, place = np.unique(codes, return_inverse=True)
    numbers = [values[code] for code in wanted.tolist()]
    return np.array(numbers, np.int64)[place] if _plain(numbers) else None


def _plain(values: list[Any]) -> bool:
    """Return whether all are whole numbers, none of them huge (sums must not overflow)."""
    return not values or (set(map(type, values)) == {int} and max(map(abs, values)) < 1 << 53)


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What the reads of a collection show."""

    made: Rows
    """Rows of the insertions that did not fail."""
    reads: Rows
    """Rows of the reads that were answered."""
    bounds: Int64s
    """Read r shows `source[bounds[r]:bounds[r + 1]]`; one entry more than reads."""
    source: Int64s
    """Which of `made` inserted the element, NONE: nobody."""
    offset: Int64s
    """Of a log: at which offset it was shown."""


def decode(columns: Columns, into: str, *reading: str, records: bool = False) -> Shown | None:
    """Decode reads; None unless all elements are whole numbers, or strings, and none repeats.

    `records`: reads show [offset, element] pairs.
    """
    name = f"{into} of records" if records else into
    if name not in columns._cache:
        columns._cache[name] = _decode(columns, into, reading, records=records)
    found: Shown | None = columns._cache[name]
    return found


def _decode(columns: Columns, into: str, reading: Sequence[str], *, records: bool) -> Shown | None:
    made = np.flatnonzero(columns.calls(into) & (columns.type != FAIL))
    reads = np.flatnonzero(columns.calls(*reading) & (columns.type == OK))
    lists = [columns.values[code] for code in columns.output[reads].tolist()]
    if not all(type(element) in (list, tuple) for element in lists):
        return None
    bounds = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)), out=bounds[1:])
    flat = list(chain.from_iterable(lists))
    offset = np.zeros(0, np.int64)
    if records:
        if not all(type(r) in (list, tuple) and len(r) == 2 for r in flat):
            return None
        offsets = [record[0] for record in flat]
        if not _plain(offsets):
            return None
        offset = np.array(offsets, np.int64)
        flat = [record[1] for record in flat]
    source = _sources(columns, made, flat)
    return None if source is None else Shown(made, reads, bounds, source, offset)


def _sources(columns: Columns, made: Rows, flat: list[Any]) -> Int64s | None:
    codes = columns.input[made]
    kinds = set(map(type, flat))
    numbers = integers(columns, codes)
    if numbers is not None and kinds <= {int}:
        return _among(numbers, flat)
    values = [columns.values[code] for code in codes.tolist()]
    if set(map(type, values)) | kinds != {str}:
        return None
    known = {value: i for i, value in enumerate(values)}
    if len(known) < len(values):
        return None
    return np.fromiter((known.get(e, NONE) for e in flat), np.int64, len(flat))


def _among(numbers: Int64s, flat: list[int]) -> Int64s | None:
    """Return the place of each of `flat` in `numbers`, NONE where it is not; None: repeated."""
    try:
        wanted = np.array(flat, np.int64)
    except OverflowError:
        return None
    if len(numbers) == 0:
        return np.full(len(flat), NONE, np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    if high - low <= 4 * len(numbers) + 1024:
        table = np.full(high - low + 1, NONE, np.int64)
        table[numbers - low] = np.arange(len(numbers))
        if not np.array_equal(table[numbers - low], np.arange(len(numbers))):
            return None
        inside = (wanted >= low) & (wanted <= high)
        return np.where(inside, table[np.where(inside, wanted - low, 0)], NONE)
    by_number = np.argsort(numbers, kind="stable")
    ordered = numbers[by_number]
    if np.any(ordered[1:] == ordered[:-1]):
        return None
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.where(ordered[place] == wanted, by_number[place], NONE)


def amounts(columns: Columns, adds: Rows) -> Int64s | None:
    """Return what each addition adds; None unless all are whole numbers from 0 on."""
    added = np.ones(len(adds), np.int64)
    adding, up, down = (columns.f[adds] == columns.function(f) for f in ADDING)
    given = adding | (columns.input[adds] != 0)  # an increment of no amount is of 1
    amounts_read = integers(columns, columns.input[adds[given]])
    if amounts_read is None or not np.all(adding | up | down):
        return None
    added[given] = amounts_read
    added[down] *= -1
    return None if np.any(added < 0) else added


def append_offsets(columns: Columns, appends: Rows) -> Int64s | None:
    """Return the offset that each append returned, NONE: none; None unless all are offsets.

    The field `offset` of an operation, where it has one, else its output if it is `ok`.
    """
    found = np.full(len(appends), NONE, np.int64)
    answered = (columns.output[appends] != 0) & (columns.type[appends] == OK)
    offsets = integers(columns, columns.output[appends[answered]])
    if offsets is None or np.any(offsets < 0):
        return None
    found[answered] = offsets
    if columns.rest is not None:
        fields = [offset for _, offset, _ in columns.rest.fields(appends)]
        if not _plain([offset for offset in fields if offset is not None]):
            return None
        known = np.array([NONE if offset is None else offset for offset in fields], np.int64)
        if np.any(known < NONE):
            return None
        found = np.where(known >= 0, known, found)
    return found


def starts(columns: Columns, reads: Rows) -> Int64s | None:
    """Return the offset from which each read of a log began; None unless all are offsets."""
    found = np.zeros(len(reads), np.int64)
    given = columns.input[reads] != 0
    begins = integers(columns, columns.input[reads[given]])
    if begins is None or np.any(begins < 0):
        return None
    found[given] = begins
    return found
