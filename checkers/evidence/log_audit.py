"""What nodes' logs owe each other, as joins over columns: by ranges of offsets, anywhere.

Of the records of all nodes (node, offset, epoch, CRC of the batch), and of the offset below which
each node's log was committed, by its own announcements:

| finding | join | rule |
|---|---|---|
| `unlike` | of rows with the same offset and epoch | they are of the same bytes (Raft 5.3) |
| `changed` | of committed rows with the same offset | they are the same (Raft 5.4.3) |
| `gaps` | of a node's row and the one before it | offsets go on by one |
| `decreases` | the same | epochs never decrease |

The row that others are compared with is that of the first node which has one. Of each node the
first row, in order of offsets, that breaks a rule is reported: what follows is seldom news.

*Why ranges suffice.* The first two joins compare rows of one offset, so that rows of other ranges
say nothing about them. The last two compare neighbours: within a range, and across its border the
last row of a node before it with the first one in it, which is why a part returns the edges of each
log. So `merge` of the parts is the audit of the whole, wherever it is cut (`test_log_audit.py`).

Sound: each finding names two stored rows that no correct system has. It sees nothing of bytes that
a CRC does not tell apart, nor of records that were compacted into a snapshot. Complexity: a sort of
the rows of each range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checkers.evidence import LogRecord
from porcupine_py.columns import Int64s

Logs = Mapping[str, Sequence[LogRecord]]
Found = dict[str, tuple[int, ...]]
"""By node; the fields of `LogFindings` say what the numbers are."""


@dataclass(frozen=True, slots=True)
class LogColumns:
    """Records of several logs; those of one node in order of their offsets."""

    nodes: Sequence[str]
    node: Int64s
    """Place in `nodes`."""
    offset: Int64s
    epoch: Int64s
    crc: Int64s


@dataclass(frozen=True, slots=True)
class LogFindings:
    """What an audit found, the first of each kind on each node."""

    gaps: Found = field(default_factory=dict)
    """Offset, offset of the next record."""
    decreases: Found = field(default_factory=dict)
    """Epoch, epoch of the next record, its offset."""
    unlike: Found = field(default_factory=dict)
    """Offset, epoch."""
    changed: Found = field(default_factory=dict)
    """Offset, epoch, CRC; epoch, CRC of what was committed there."""
    edges: Found = field(default_factory=dict)
    """First offset and epoch, last offset and epoch: of a range, for its neighbours."""


LogAudit = Callable[[Logs, Mapping[str, int]], LogFindings]
"""(logs, offset below which each node's was committed) -> findings."""


def audit_logs(logs: Logs, committed: Mapping[str, int]) -> LogFindings:
    """Audit whole logs in this process."""
    return audit_range(columns_of_logs(logs), committed)


def columns_of_logs(logs: Logs) -> LogColumns:
    """Return logs as columns, one log after the other."""
    rows = [
        (record.offset, record.epoch, record.batch_crc) for log in logs.values() for record in log
    ]
    numbers = np.array(rows, np.int64).reshape(-1, 3)
    node = np.repeat(np.arange(len(logs)), [len(log) for log in logs.values()])
    return LogColumns(tuple(logs), node, numbers[:, 0], numbers[:, 1], numbers[:, 2])


def audit_range(logs: LogColumns, committed: Mapping[str, int]) -> LogFindings:
    """Audit the rows of a range of offsets: of all nodes, and all rows of each offset in it."""
    found = LogFindings()
    for code, node in enumerate(logs.nodes):
        rows = np.flatnonzero(logs.node == code)
        if not len(rows):
            continue
        offset, epoch = logs.offset[rows], logs.epoch[rows]
        found.edges[node] = _plain(offset[0], epoch[0], offset[-1], epoch[-1])
        gap = np.flatnonzero(np.diff(offset) != 1)[:1]
        for at in gap:
            found.gaps[node] = _plain(offset[at], offset[at + 1])
        back = np.flatnonzero(np.diff(epoch) < 0)[:1]
        for at in back:
            found.decreases[node] = _plain(epoch[at], epoch[at + 1], offset[at + 1])
    every = np.arange(len(logs.node))
    known = _first_alike(logs, every, (logs.epoch, logs.offset))
    for node, row in _first_of_nodes(logs, every[logs.crc[known] != logs.crc]):
        found.unlike[node] = _plain(logs.offset[row], logs.epoch[row])
    ends = np.array([committed.get(node, 0) for node in logs.nodes] or [0], np.int64)
    below = every[logs.offset < ends[logs.node]]
    known = _first_alike(logs, below, (logs.offset,))
    other = (logs.crc[known] != logs.crc[below]) | (logs.epoch[known] != logs.epoch[below])
    first = dict(zip(below.tolist(), known.tolist(), strict=True))
    for node, row in _first_of_nodes(logs, below[other]):
        was = first[row]
        place = logs.offset[row], logs.epoch[row], logs.crc[row]
        found.changed[node] = _plain(*place, logs.epoch[was], logs.crc[was])
    return found


def merge(parts: Iterable[LogFindings]) -> LogFindings:
    """Put together what was found in the ranges of whole logs, given in order of their offsets."""
    found = LogFindings()
    for part in parts:
        for node, (offset, epoch, last_offset, last_epoch) in part.edges.items():
            before = found.edges.get(node)
            if before is not None and offset != before[2] + 1:
                found.gaps.setdefault(node, (before[2], offset))
            if before is not None and epoch < before[3]:
                found.decreases.setdefault(node, (before[3], epoch, offset))
            begin = (offset, epoch) if before is None else before[:2]
            found.edges[node] = (*begin, last_offset, last_epoch)
        for into, new in (
            (found.gaps, part.gaps),
            (found.decreases, part.decreases),
            (found.unlike, part.unlike),
            (found.changed, part.changed),
        ):
            for node, numbers in new.items():
                into.setdefault(node, numbers)
    return found


def _first_alike(logs: LogColumns, rows: Int64s, keys: Sequence[Int64s]) -> Int64s:
    """Return for each of these rows that of the first node whose keys are the same."""
    order = rows[np.lexsort([logs.node[rows], *(key[rows] for key in keys)])]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    leading = order[np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))]
    known = np.zeros(len(logs.node), np.int64)
    known[order] = leading
    return known[rows]


def _first_of_nodes(logs: LogColumns, rows: Int64s) -> Iterable[tuple[str, int]]:
    """Yield the first of these rows of each node, in the order of the nodes."""
    codes, places = np.unique(logs.node[rows], return_index=True)
    return ((logs.nodes[code], int(rows[place])) for code, place in zip(codes, places, strict=True))


def _plain(*numbers: Any) -> tuple[int, ...]:
    return tuple(int(number) for number in numbers)
