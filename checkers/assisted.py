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
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from checkers.evidence import Evidence, LogRecord
from checkers.history import INFINITY_NS, EventType, Operation
from checkers.history.values import freeze
from checkers.trace_fields import well_formed

OPEN_END_NS = INFINITY_NS - 1
"""Completion of what certainly took effect, nobody knows when: after every other completion."""

CONFIG = "ConfigRecord"
TOPIC = "TopicRecord"
UNDECODABLE = "undecodable"
"""Kind of a record that the harness could not decode."""
Wanted = tuple[str, str, Hashable]
"""(kind of the record, the key it is about, its value)"""
_Index = dict[tuple[str, Hashable], list[tuple[str, int]]]
"""(kind, value of a config or name of a topic) -> (name, offset) of each such record"""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A history with what the logs say of it."""

    operations: list[Operation]
    took_effect: int
    never: int


def resolve(operations: Sequence[Operation], evidence: Evidence | None) -> Resolved:
    """Resolve indeterminate writes and creates, as far as the logs are whole and agree."""
    unresolved = Resolved(list(operations), 0, 0)
    if evidence is None or any(node not in evidence.logs for node in evidence.nodes):
        return unresolved
    evidence, _ = well_formed(evidence)
    committed = _committed_end(evidence)
    found = _records(evidence, committed)
    if found is None:
        return unresolved
    offsets, anywhere = found
    whole = all(log and log[0].offset == 0 for log in evidence.logs.values())
    whole = whole and not any(r.kind == UNDECODABLE for log in evidence.logs.values() for r in log)
    whole = whole and all(_matching(wanted, anywhere) for wanted in _acknowledged(operations))
    unique = Counter(
        wanted for o in operations for wanted in [_wanted(o)] if o.type is not EventType.FAIL
    )
    resolved: list[Operation] = []
    took_effect = never = 0
    for operation in operations:
        wanted = _wanted(operation) if operation.type is EventType.INFO else None
        matching = [] if wanted is None or unique[wanted] > 1 else _matching(wanted, offsets)
        if len(matching) == 1:
            took_effect += 1
            operation = replace(  # noqa: PLW2901  (the resolved one takes its place)
                operation, type=EventType.OK, complete_ns=OPEN_END_NS, offset=matching[0]
            )
        elif wanted is not None and unique[wanted] == 1 and whole:
            if not _matching(wanted, anywhere) and wanted[0] == CONFIG:
                never += 1
                operation = replace(  # noqa: PLW2901  (the resolved one takes its place)
                    operation, type=EventType.FAIL, error="never-in-any-log"
                )
        resolved.append(operation)
    return Resolved(resolved, took_effect, never)


def _acknowledged(operations: Sequence[Operation]) -> list[Wanted]:
    """Name the records that acknowledged operations must have left."""
    done = (_wanted(o) for o in operations if o.type is EventType.OK)
    return [wanted for wanted in done if wanted is not None]


def _wanted(operation: Operation) -> Wanted | None:
    """Name the record that an operation leaves; None when it leaves none that names it."""
    if operation.f == "write" and operation.key is not None and operation.input is not None:
        return (CONFIG, operation.key, freeze(operation.input))
    if operation.f == "add" and isinstance(operation.key, str):
        return (TOPIC, operation.key, None)
    return None


def _committed_end(evidence: Evidence) -> int:
    """Return the end of what was announced as committed and is in the logs of a majority."""
    announced = max(
        (int(e.fields["offset"]) for t in evidence.traces.values() for e in t if e.event == "hw"),
        default=0,
    )
    ends = sorted(log[-1].offset + 1 if log else 0 for log in evidence.logs.values())
    return min(announced, ends[(len(ends) - 1) // 2]) if ends else 0


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
