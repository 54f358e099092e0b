"""Evidence-assisted histories: what the nodes' logs say about indeterminate operations.

A client that met a time-out does not know whether its write took effect. The metadata logs know:
a written value that is unique in the run is in a committed ConfigRecord, at an offset, or in no log
at all; a topic that a create made has its TopicRecord. `resolve` uses that, and only that:

- An indeterminate operation with a committed record (below a high watermark that was announced
  with a majority's final logs behind it) took effect: it becomes `ok` with an open end (it may
  take effect until the end of time) and the record's offset.
- One with a value in no log of any node never took effect: it becomes `fail`. Only where every
  node's whole log is there (from offset 0, since a snapshot may hold what a log has lost), every
  record in it could be decoded, and every acknowledged write is in some log: else these logs do not
  hold everything.
- Everything else stays as it is.

Soundness: an indeterminate operation may take effect or not, so every order of the resolved history
is one of the history as it came. Resolving therefore never makes a wrong history right; it turns
UNKNOWN into a verdict, or PASS into FAIL where the logs contradict the only explanation. Offsets of
acknowledged writes are not touched. What it cannot see: values that are not unique, and operations
without a record of their effect (a SET of the value that is there, on a topic).

The nodes are trusted about their logs here and nowhere else; `log-agreement` judges whether the
logs agree. The option `evidence: false` of `linearizable` turns all this off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkers.evidence import Evidence, LogRecord
from checkers.evidence.trace_fields import UNDECODABLE, well_formed
from checkers.history import INFINITY_NS, EventType, Operation
from checkers.history.recorded import Recorded
from porcupine_py.columns import KINDS, Columns, Fields, Rest, Table
from porcupine_py.values import freeze

OPEN_END_NS = INFINITY_NS - 1
"""Completion of what certainly took effect, nobody knows when: after every other completion."""

CONFIG = "ConfigRecord"
TOPIC = "TopicRecord"
Wanted = tuple[str, str, Hashable]
"""(kind of the record, the key it is about, its value)"""
_Index = dict[tuple[str, Hashable], list[tuple[str, int]]]
"""(kind, value of a config or name of a topic) -> (name, offset) of each such record"""


Change = dict[str, Any]
"""Fields of an operation that are others once it is resolved."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A history with what the logs say of it."""

    operations: Sequence[Operation]
    changes: Mapping[int, Change]
    """Of those resolved, by their rows."""
    took_effect: int
    never: int


def resolve(operations: Sequence[Operation], evidence: Evidence | None) -> Resolved:
    """Resolve indeterminate writes and creates, as far as the logs are whole and agree."""
    unresolved = Resolved(operations, {}, 0, 0)
    if evidence is None or any(node not in evidence.logs for node in evidence.nodes):
        return unresolved
    left = list(_records_left(operations))
    unsure = {row: wanted for row, kind, wanted in left if kind is EventType.INFO}
    if not unsure:
        return unresolved
    evidence, _ = well_formed(evidence)
    committed = _committed_end(evidence)
    found = _records(evidence, committed)
    if found is None:
        return unresolved
    offsets, anywhere = found
    whole = _whole(evidence)
    acknowledged = (wanted for _, kind, wanted in left if kind is EventType.OK)
    whole = whole and all(_matching(wanted, anywhere) for wanted in acknowledged)
    asked = set(unsure.values())
    times = Counter(wanted for _, _, wanted in left if wanted in asked)
    changes: dict[int, Change] = {}
    for row, wanted in unsure.items():
        matching = _matching(wanted, offsets)
        if times[wanted] > 1:
            continue
        if len(matching) == 1:
            end = {"complete_ns": OPEN_END_NS, "offset": matching[0]}
            changes[row] = {"type": EventType.OK, **end}
        elif whole and wanted[0] == CONFIG and not _matching(wanted, anywhere):
            changes[row] = {"type": EventType.FAIL, "error": "never-in-any-log"}
    never = sum(change["type"] is EventType.FAIL for change in changes.values())
    return Resolved(apply_changes(operations, changes), changes, len(changes) - never, never)


def _whole(evidence: Evidence) -> bool:
    """Whether the logs begin at offset 0, and every record could be decoded."""
    logs = evidence.logs.values()
    from_zero = all(log and log[0].offset == 0 for log in logs)
    return from_zero and not any(record.kind == UNDECODABLE for log in logs for record in log)


def _records_left(operations: Sequence[Operation]) -> Iterator[tuple[int, EventType, Wanted]]:
    """Yield row, outcome and record of each operation that may have left one."""
    rows: Iterable[tuple[int, EventType, str, str | None, Any]]
    if isinstance(operations, Recorded):
        rows = _rows(operations.columns)
    else:
        rows = ((i, o.type, o.f, o.key, o.input) for i, o in enumerate(operations))
    for row, kind, f, key, given in rows:
        wanted = _wanted_record(f, key, given)
        if wanted is not None and kind is not EventType.FAIL:
            yield row, kind, wanted


def _rows(columns: Columns) -> Iterator[tuple[int, EventType, str, str | None, Any]]:
    """Yield row, outcome, function, key and input of what may leave a record."""
    rows = np.flatnonzero(columns.calls("write", "add"))
    fields = (columns.type, columns.f, columns.key, columns.input)
    for row, kind, f, key, given in zip(
        rows.tolist(), *(field[rows].tolist() for field in fields), strict=True
    ):
        yield row, KINDS[kind], columns.functions[f], columns.keys[key], columns.values[given]


def apply_changes(
    operations: Sequence[Operation], changes: Mapping[int, Change]
) -> Sequence[Operation]:
    """Return operations with changes of some rows."""
    if not changes:
        return operations
    if not isinstance(operations, Recorded):
        found = list(operations)
        for row, change in changes.items():
            found[row] = replace(found[row], **change)
        return found
    columns = operations.columns
    kind, error, complete_ns = (
        columns.type.copy(),
        columns.error.copy(),
        columns.complete_ns.copy(),
    )
    errors = Table(columns.errors)
    for row, change in changes.items():
        kind[row] = KINDS.index(change["type"])
        complete_ns[row] = change.get("complete_ns", complete_ns[row])
        error[row] = errors.code(change["error"]) if "error" in change else error[row]
    return Recorded(
        replace(
            columns,
            type=kind,
            error=error,
            complete_ns=complete_ns,
            errors=tuple(errors.items),
            rest=_with_offsets(columns, changes),
            _cache={},
        )
    )


def _with_offsets(columns: Columns, changes: Mapping[int, Change]) -> Rest | None:
    """Return the fields that are looked up, with the offsets that are known now."""
    rest = columns.rest
    if rest is None:
        return None
    known = {int(rest.rows[row]): change.get("offset") for row, change in changes.items()}

    def lookup(rows: NDArray[Any]) -> list[Fields]:
        return [
            (node, offset if known.get(row) is None else known[row], epoch)
            for row, (node, offset, epoch) in zip(rows.tolist(), rest.lookup(rows), strict=True)
        ]

    return replace(rest, lookup=lookup)


def _wanted_record(f: str, key: str | None, given: Any) -> Wanted | None:
    """Name the record that an operation leaves; None when it leaves none that names it."""
    if f == "write" and key is not None and given is not None:
        return (CONFIG, key, freeze(given))
    if f == "add" and isinstance(key, str):
        return (TOPIC, key, None)
    return None


def _committed_end(evidence: Evidence) -> int:
    """Return the end of what was announced as committed and is in the logs of a majority."""
    ends = sorted(log[-1].offset + 1 if log else 0 for log in evidence.logs.values())
    return min(evidence.announced_end(), ends[(len(ends) - 1) // 2]) if ends else 0


def _records(evidence: Evidence, committed: int) -> tuple[_Index, _Index] | None:
    """Index the committed records, and all; None where committed logs differ."""
    first: dict[int, LogRecord] = {}
    everywhere: _Index = {}
    for log in evidence.logs.values():
        for record in log:
            if record.offset < committed:
                other = first.setdefault(record.offset, record)
                if (other.epoch, other.batch_crc) != (record.epoch, record.batch_crc):
                    return None
            _note(record, everywhere)
    below: _Index = {}
    for _, record in sorted(first.items()):
        _note(record, below)
    return below, everywhere


def _note(record: LogRecord, index: _Index) -> None:
    fields = record.value
    name = str(fields.get("name"))
    if record.kind == CONFIG and fields.get("value") is not None:
        index.setdefault((CONFIG, freeze(fields["value"])), []).append((name, record.offset))
    elif record.kind == TOPIC:
        index.setdefault((TOPIC, name), []).append((name, record.offset))


def _matching(wanted: Wanted, index: _Index) -> list[int]:
    """Return the offsets of the records that an operation can have left.

    A register's key is the end of its config's name (`kraftprobe.register.k1`).
    """
    kind, key, value = wanted
    named = index.get((kind, key if kind == TOPIC else value), [])
    return [offset for name, offset in named if name == key or name.endswith(f".{key}")]
