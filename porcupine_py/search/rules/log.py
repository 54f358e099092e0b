"""An append-only log with offsets: sort by offset, then compare with real time. NumPy throughout.

The offset of a record is what its append returned, or what reads showed. Offsets order the records,
so in a linearization they must agree with every operation and with real time:

- an offset holds one value, a value stands at one offset, and nobody reads what nobody appended;
- a read shows every known record between its start and the last one that it shows;
- in the order of offsets, with each `read-all` behind the last record it shows, no operation
  completed before an earlier one was invoked. A record took effect before the first read that
  shows it completed.

These are sufficient: give each record the latest invocation up to it. A read goes in after its last
record; what it shows does not change any more, so later is as good. Indeterminate appends that
nobody saw constrain nothing, since offsets may have gaps.

FAIL: `phantom`, `duplicate-offset`, `moved`, `reordered-read`, `lost-record`, `read-before-append`,
`real-time`. A value may be appended again (a retry that does not know what became of the first
attempt): where the appends returned offsets, or one of them is left for one offset that reads
show, it is known which is which. Refused: appends of one value of which that is not known, and an
acknowledged append that returned no offset and that no read shows. Complexity: O(n log n) for n
operations and records read; 10^7 records take seconds (`judge_columns`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from porcupine_py.models.base import Model
from porcupine_py.models.collections import Log, records, start
from porcupine_py.operations import INFINITY_NS, Operation
from porcupine_py.search.outcome import Outcome
from porcupine_py.search.rules.ladder import fail_outcome, pass_outcome
from porcupine_py.search.wording import text, title
from porcupine_py.values import freeze

Ints = npt.NDArray[np.int64]
UNKNOWN = -1
"""An offset that nothing showed."""


@dataclass(frozen=True, slots=True)
class LogColumns:
    """A history of one log as columns; row numbers identify operations."""

    offset: Ints
    """Of each append: what it returned, or `UNKNOWN`. The value of append i is the number i."""
    append_invoke: Ints
    append_complete: Ints
    """`INFINITY_NS` for indeterminate ones."""
    read_from: Ints
    """Of each read: the first offset that it asked for."""
    read_invoke: Ints
    read_complete: Ints
    read_all: npt.NDArray[np.bool_]
    """Whether the read claims to end at the log's end."""
    first_record: Ints
    """Read r shows the records first_record[r] <= i < first_record[r + 1]; one more than reads."""
    shown_offset: Ints
    shown_value: Ints
    """Row of the append that wrote it; `UNKNOWN` when nobody did."""


@dataclass(frozen=True, slots=True)
class LogVerdict:
    """What is wrong, by row numbers; or, where nothing is, the order."""

    kind: str | None
    appends: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    offset: int = UNKNOWN
    """The offset at which it is wrong."""
    order: Ints | None = None
    """Appends as i, reads as len(offset) + r, in linearized order."""


def judge_columns(columns: LogColumns) -> LogVerdict | None:
    """Judge a log; None when an acknowledged append has no known offset."""
    reader = np.repeat(
        np.arange(len(columns.read_from), dtype=np.int64), np.diff(columns.first_record)
    )
    wrong = _phantom(columns, reader) or _find_reordering(columns, reader)
    if wrong is not None:
        return wrong
    place, effect, first_reader, wrong = _places(columns, reader)
    if wrong is not None:
        return wrong
    known = np.flatnonzero(place >= 0)
    if np.any((place < 0) & (columns.append_complete != INFINITY_NS)):
        return None
    ordered = known[np.argsort(place[known], kind="stable")]
    places = place[ordered]
    same = np.flatnonzero(places[1:] == places[:-1])
    if len(same):
        pair = (int(ordered[same[0]]), int(ordered[same[0] + 1]))
        readers = tuple(int(r) for r in first_reader[list(pair)] if r >= 0)
        return LogVerdict("duplicate-offset", pair, readers, int(places[same[0]]))
    wrong = _holes(columns, ordered, places, first_reader)
    if wrong is not None:
        return wrong
    early = np.flatnonzero(effect < columns.append_invoke)
    if len(early):
        append = int(early[0])
        return LogVerdict("read-before-append", (append,), (int(first_reader[append]),))
    return _real_time(columns, ordered, places, effect, first_reader)


def _phantom(columns: LogColumns, reader: Ints) -> LogVerdict | None:
    bad = np.flatnonzero(columns.shown_value < 0)
    if not len(bad):
        return None
    return LogVerdict("phantom", (), (int(reader[bad[0]]),), int(columns.shown_offset[bad[0]]))


def _find_reordering(columns: LogColumns, reader: Ints) -> LogVerdict | None:
    """Offsets grow within a read, from where it began."""
    shown = columns.shown_offset
    bad = np.flatnonzero((shown[1:] <= shown[:-1]) & (reader[1:] == reader[:-1]))
    if len(bad):
        rows = tuple(int(v) for v in columns.shown_value[[bad[0], bad[0] + 1]])
        return LogVerdict("reordered-read", rows, (int(reader[bad[0]]),), int(shown[bad[0]]))
    below = np.flatnonzero(shown < columns.read_from[reader]) if len(shown) else bad
    if len(below):
        rows = (int(columns.shown_value[below[0]]),)
        return LogVerdict("reordered-read", rows, (int(reader[below[0]]),), int(shown[below[0]]))
    return None


def _places(columns: LogColumns, reader: Ints) -> tuple[Ints, Ints, Ints, LogVerdict | None]:
    """Return each append's offset, when it was done, and its first reader; all must agree."""
    place = columns.offset.copy()
    values, shown = columns.shown_value, columns.shown_offset
    fresh = place[values] < 0
    place[values[fresh]] = shown[fresh]
    effect = columns.append_complete.copy()
    first_reader = np.full(len(place), -1, dtype=np.int64)
    moved = np.flatnonzero(place[values] != shown)
    if len(moved):
        row, witness = int(values[moved[0]]), int(reader[moved[0]])
        others = np.flatnonzero((values == row) & (shown != shown[moved[0]]))
        readers = (witness, *(int(reader[i]) for i in others[:1]))
        verdict = LogVerdict("moved", (row,), readers, int(shown[moved[0]]))
        return place, effect, first_reader, verdict
    if len(values):
        # Backwards by completion, so that the earliest reader is written last.
        late_first = np.argsort(-columns.read_complete[reader], kind="stable")
        first_reader[values[late_first]] = reader[late_first]
        seen = first_reader >= 0
        effect[seen] = np.minimum(effect[seen], columns.read_complete[first_reader[seen]])
    return place, effect, first_reader, None


def _last_shown(columns: LogColumns) -> Ints:
    """Return the last offset that each read shows; where none, the one before its beginning."""
    counts = np.diff(columns.first_record)
    last = columns.read_from - 1
    some = counts > 0
    last[some] = columns.shown_offset[columns.first_record[1:][some] - 1]
    return last


def _holes(
    columns: LogColumns, ordered: Ints, places: Ints, first_reader: Ints
) -> LogVerdict | None:
    """Count the known records in the range of each read."""
    last = _last_shown(columns)
    begin = np.searchsorted(places, columns.read_from, side="left")
    end = np.searchsorted(places, last, side="right")
    counts = np.diff(columns.first_record)
    bad = np.flatnonzero(np.maximum(end - begin, 0) != counts)
    if not len(bad):
        return None
    read = int(bad[0])
    rows = slice(int(columns.first_record[read]), int(columns.first_record[read + 1]))
    shown = set(columns.shown_value[rows].tolist())
    missing = next(int(a) for a in ordered[begin[read] : end[read]] if int(a) not in shown)
    witness = int(first_reader[missing])
    above = int(columns.shown_value[rows][-1])
    readers = (read, witness) if witness >= 0 else (read,)
    offset = int(places[np.flatnonzero(ordered == missing)[0]])
    return LogVerdict("lost-record", (missing, above), readers, offset)


def _real_time(
    columns: LogColumns, ordered: Ints, places: Ints, effect: Ints, first_reader: Ints
) -> LogVerdict:
    """Compare the forced order of appends and of reads to the end with real time."""
    count = len(columns.offset)
    whole = np.flatnonzero(columns.read_all)
    last = _last_shown(columns)
    # A read-all that shows nothing stands before all records from its beginning on, behind none.
    rank = np.concatenate([2 * places, 2 * last[whole] + 1])
    invoke = np.concatenate([columns.append_invoke[ordered], columns.read_invoke[whole]])
    nothing = np.diff(columns.first_record)[whole] == 0
    done = np.concatenate(
        [effect[ordered], np.where(nothing, INFINITY_NS, columns.read_complete[whole])]
    )
    free = np.concatenate([np.zeros(len(ordered), dtype=np.bool_), nothing])
    rows = np.concatenate([ordered, count + whole])
    by_rank = np.lexsort((invoke, rank))
    invoke, done, rows = invoke[by_rank], done[by_rank], rows[by_rank]
    point = np.maximum.accumulate(invoke)
    free = free[by_rank]
    bad = np.flatnonzero(done < point)
    if len(bad):
        after = int(bad[0])
        before = int(np.flatnonzero(invoke[:after] == point[after])[0])
        pair = (int(rows[before]), int(rows[after]))
        appends = tuple(row for row in pair if row < count)
        readers = [row - count for row in pair if row >= count]
        readers += [int(first_reader[row]) for row in appends if first_reader[row] >= 0]
        return LogVerdict("real-time", appends, tuple(readers))
    point[free] = invoke[free]
    return LogVerdict(None, order=_order(columns, ordered, places, rows, point, last))


def _order(
    columns: LogColumns, ordered: Ints, places: Ints, rows: Ints, point: Ints, last: Ints
) -> Ints:
    """Put the other reads in, each at its invocation or after its last record."""
    count = len(columns.offset)
    others = np.flatnonzero(~columns.read_all)
    append_point = np.zeros(count, dtype=np.int64)
    appended = rows < count
    append_point[rows[appended]] = point[appended]
    below = np.searchsorted(places, last[others], side="right") - 1
    shows = np.diff(columns.first_record)[others] > 0
    at = columns.read_invoke[others].copy()
    at[shows] = np.maximum(at[shows], append_point[ordered[below[shows]]])
    position = np.concatenate([np.arange(len(rows)), np.full(len(others), len(rows))])
    everything = np.concatenate([rows, count + others])
    order: Ints = everything[np.lexsort((position, np.concatenate([point, at])))]
    return order


def judge(operations: Sequence[Operation], model: Model) -> Outcome | None:
    """Judge a log of unique values; None otherwise."""
    assert isinstance(model, Log)
    if any(o.f not in ("append", "read", "read-all") for o in operations):
        return None
    appends = [o for o in operations if o.f == "append"]
    reads = [o for o in operations if o.f != "append"]
    columns = _columns(appends, reads, model)
    verdict = None if columns is None else judge_columns(columns)
    if verdict is None:
        return None
    if verdict.kind is not None:
        shown_by = [
            *(appends[i] for i in verdict.appends if i >= 0),
            *(reads[r] for r in verdict.reads),
        ]
        window = _whole_groups(shown_by, appends, verdict)
        return fail_outcome(verdict.kind, _sentence(verdict, shown_by), window)
    assert verdict.order is not None
    both = [*appends, *reads]
    return pass_outcome(
        [both[i] for i in verdict.order.tolist()], f"{len(appends)} appends in order of offset"
    )


def _sentence(verdict: LogVerdict, shown_by: Sequence[Operation]) -> str:
    """Say what is wrong with the operations of a verdict: appends first, then reads."""
    appends = [o for o in shown_by if o.f == "append"]
    reads = [o for o in shown_by if o.f != "append"]
    at = f"offset {verdict.offset}"
    values = [f"{text(o.input)} (operation {o.index})" for o in appends]
    match verdict.kind:
        case "phantom":
            return f"{title(reads[0])} shows at {at} what nobody appended"
        case "duplicate-offset":
            return f"{' and '.join(values)} both stand at {at}"
        case "moved" if reads[1:]:
            return f"{title(reads[0])} shows {values[0]} at {at}, {title(reads[1])} at another one"
        case "moved":
            return f"{title(reads[0])} shows {values[0]} at {at}, its append returned another one"
        case "reordered-read":
            return f"{title(reads[0])} shows {at} out of turn, with {' and '.join(values)}"
        case "lost-record":
            return f"{title(reads[0])} lacks {values[0]} at {at}, but shows what stands behind it"
        case "read-before-append":
            return f"{title(reads[0])} shows {values[0]} before its append began"
        case _ if len(appends) > 1:
            first, second = values
            return f"{second} was in the log before the append of {first} began, but stands behind"
    read, append = reads[0], appends[0]
    if read.complete_ns < append.invoke_ns:
        return f"{title(read)} shows {values[0]} before its append began"
    return f"{title(read)} lacks {values[0]}, which was in the log before the read began"


def _whole_groups(
    shown_by: Sequence[Operation], appends: Sequence[Operation], verdict: LogVerdict
) -> list[Operation]:
    """Return a window: with all appends of its values, and of what is shown where it is wrong."""
    values = {freeze(o.input) for o in shown_by if o.f == "append"}
    for read in shown_by:
        if read.f != "append":
            values |= {value for offset, value in records(read) if offset == verdict.offset}
    return [*shown_by, *(o for o in appends if freeze(o.input) in values)]


def _columns(
    appends: Sequence[Operation], reads: Sequence[Operation], model: Log
) -> LogColumns | None:
    """Return the columns of a history; None when it is not known which append is which record."""
    of_value: dict[Hashable, list[int]] = {}
    for i, operation in enumerate(appends):
        of_value.setdefault(freeze(operation.input), []).append(i)
    offsets = [model.offset(o) for o in appends]
    row: dict[Hashable, int] = {}
    row_at: dict[tuple[Hashable, int], int] = {}
    """Where a value was appended more than once: by value and offset."""
    for value, rows in of_value.items():
        if len(rows) == 1:
            row[value] = rows[0]
            continue
        unknown = [i for i in rows if offsets[i] is None]
        free = model.free(value)
        if len(unknown) > 1 or (unknown and len(free) > 1):
            return None
        if unknown and free:
            offsets[unknown[0]] = free[0]
        for i in rows:
            offset = offsets[i]
            if offset is not None:
                row_at[value, offset] = i
    shown = [records(read) for read in reads]
    flat = [record for records in shown for record in records]
    return LogColumns(
        offset=_ints(UNKNOWN if offset is None else offset for offset in offsets),
        append_invoke=_ints(o.invoke_ns for o in appends),
        append_complete=_ints(o.complete_ns for o in appends),
        read_from=_ints(start(o) for o in reads),
        read_invoke=_ints(o.invoke_ns for o in reads),
        read_complete=_ints(o.complete_ns for o in reads),
        read_all=np.array([o.f == "read-all" for o in reads], dtype=np.bool_),
        first_record=np.concatenate(
            [[0], np.cumsum([len(records) for records in shown], dtype=np.int64)]
        ).astype(np.int64),
        shown_offset=_ints(offset for offset, _ in flat),
        shown_value=_ints(row.get(value, row_at.get((value, at), UNKNOWN)) for at, value in flat),
    )


def _ints(values: Any) -> Ints:
    return np.array(list(values), dtype=np.int64)
