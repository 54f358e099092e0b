"""What the nodes left behind, as files: `nodes/<node>/evidence/` and `nodes/<node>/trace.jsonl`.

The formats are those of `checkers.evidence` and docs/evidence.md, every line sealed with a checksum
(`checkers.history.json_text`). Writing is the harness's part, after it decoded a node's files;
reading is the pipeline's.

Reading never raises. What is missing stays missing, and what cannot be read is left out as a
whole and reported as a problem: a check that needs it then says UNKNOWN. Leaving out only the bad
line would let a check judge evidence with a hole in it.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from checkers.evidence import (
    DataBatch,
    Evidence,
    FinalRead,
    LogRecord,
    PartitionLog,
    Snapshot,
    TraceEvent,
)
from checkers.history.json_text import FIELD, is_changed, may_be_torn, seal
from extensions.plain_files import read_lines
from results.store.files import StoreError, write_atomically

LOG_FILE = "log.jsonl"
SNAPSHOTS_FILE = "snapshots.jsonl"
PARTITION_LOGS_FILE = "partition-logs.jsonl"
QUORUM_STATE_FILE = "quorum-state.json"
STATE_FILE = "state.jsonl"
_EVIDENCE_LINE_BYTES_MAX = 1 << 28
"""A line may hold all that a node served, or a whole log of a partition."""
_TRACE_LINE = b'{"t":'
"""How every line of a trace begins."""
_AFTER_TORN = ("start", "fatal")
"""What a node writes behind a line that it, or its predecessor, could not write to its end."""
_TRACE_HEADER = frozenset({"t", "w", "n", "e"})

_T = TypeVar("_T")
Item = LogRecord | Snapshot | FinalRead | PartitionLog | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LoadedEvidence:
    """The evidence of a run, and what of it could not be read (one line each)."""

    evidence: Evidence
    problems: tuple[str, ...]


def write_lines(path: Path, items: Iterable[Item]) -> None:
    """Store what was decoded of a node's files, each item as a sealed line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = (json.dumps(_row(item), separators=(",", ":"), allow_nan=False) for item in items)
    write_atomically(path, b"".join(map(seal, rows)))


def _row(item: Item) -> Mapping[str, Any]:
    """The fields as they are: what is written at once needs no deep copy, the cost of `asdict`."""
    if isinstance(item, Mapping):
        return item
    if isinstance(item, PartitionLog):
        return _row_of_log(item)
    return {each.name: getattr(item, each.name) for each in dataclasses.fields(item)}


def load_evidence(nodes_folder: Path, nodes: Sequence[str]) -> LoadedEvidence:
    """Everything that can be read of the named nodes."""
    problems: list[str] = []
    logs: dict[str, Sequence[LogRecord]] = {}
    quorum_states: dict[str, Mapping[str, Any]] = {}
    snapshots: dict[str, Sequence[Snapshot]] = {}
    partition_logs: dict[str, Sequence[PartitionLog]] = {}
    traces: dict[str, Sequence[TraceEvent]] = {}
    final_reads: dict[str, FinalRead] = {}
    for node in nodes:
        folder = nodes_folder / node / "evidence"
        log = _attempt(problems, logs, _read_log, folder / LOG_FILE, node)
        state = _attempt(
            problems, quorum_states, _read_quorum_state, folder / QUORUM_STATE_FILE, node
        )
        if log and state is not None and state.get("logEndOffset") != log[-1].offset + 1:
            problems.append(
                f"{folder / LOG_FILE}: it ends at offset {log[-1].offset + 1}, though the node's "
                f"log ended at {state.get('logEndOffset')}: it was cut"
            )
            del logs[node]
        read = partial(_read_all, _snapshot)
        _attempt(problems, snapshots, read, folder / SNAPSHOTS_FILE, node)
        held = folder / PARTITION_LOGS_FILE
        _attempt(problems, partition_logs, partial(_read_all, _partition_log), held, node)
        _attempt(problems, final_reads, _read_final_read, folder / STATE_FILE, node)
        path = nodes_folder / node / "trace.jsonl"
        if _attempt(problems, traces, _read_trace, path, node) is not None:
            problems += _cut_off(path, (state or {}).get("traceBytes"))
    evidence = Evidence(
        tuple(nodes), logs, quorum_states, traces, final_reads, snapshots, partition_logs
    )
    return LoadedEvidence(evidence, tuple(problems))


def load_trace_events(nodes_folder: Path, nodes: Sequence[str], names: frozenset[str]) -> Evidence:
    """Return only the trace events of these names: other lines are not even parsed.

    What cannot be read is left out: this is for pictures, and judges nothing.
    """
    marks = [f'"e":"{name}"'.encode() for name in names]
    traces: dict[str, Sequence[TraceEvent]] = {}
    for node in nodes:
        path = nodes_folder / node / "trace.jsonl"
        try:
            found = [
                _trace_event(path, node, number, fields)
                for number, line in enumerate(read_lines(path), start=1)
                if any(mark in line for mark in marks)
                and (fields := _parse(line.removesuffix(b"\n"))) is not None
            ]
        except (OSError, StoreError):
            continue
        traces[node] = [event for event in found if event.event in names]
    return Evidence(tuple(nodes), {}, {}, traces, {})


def _cut_off(path: Path, collected_bytes: Any) -> list[str]:
    """Say that a trace is shorter than it was: at a line's border it looks whole."""
    size_bytes = path.stat().st_size
    if not isinstance(collected_bytes, int) or size_bytes >= collected_bytes:
        return []
    sizes = f"it has {size_bytes} bytes, and had {collected_bytes} when the run was over"
    return [f"{path}: {sizes}: it was cut"]


def _attempt(
    problems: list[str],
    found: dict[str, _T],
    read: Callable[[Path, str], _T | None],
    path: Path,
    node: str,
) -> _T | None:
    """Add what a node's file holds to what was found, or why it cannot be read to the problems."""
    if not path.exists():
        return None
    try:
        item = read(path, node)
    except StoreError as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"{path}: {error.strerror}")
    else:
        if item is not None:
            found[node] = item
        return item
    return None


def _rows(
    path: Path, node: str, make: Callable[[str, dict[str, Any]], _T]
) -> Iterator[tuple[int, _T]]:
    """Yield what the object of each line is, with the number of the line, which an error names."""
    for number, fields in _objects(path, node):
        try:
            row = make(node, fields)
        except ValueError as error:
            raise StoreError(f"{path}, line {number}: {error}") from error
        yield number, row


def _read_log(path: Path, node: str) -> list[LogRecord]:
    records: list[LogRecord] = []
    for number, record in _rows(path, node, _record):
        if records and record.offset <= records[-1].offset:
            raise StoreError(f"{path}, line {number}: offset {record.offset} is out of order")
        records.append(record)
    return records


def _record(node: str, fields: dict[str, Any]) -> LogRecord:
    return LogRecord(
        node=node,
        offset=_integer(fields, "offset"),
        epoch=_integer(fields, "epoch"),
        batch_crc=_integer(fields, "batch_crc"),
        kind=sys.intern(_string(fields, "kind")),
        value=_share_names(_mapping(fields, "value")),
    )


def _read_all(make: Callable[[str, dict[str, Any]], _T], path: Path, node: str) -> list[_T]:
    return [row for _, row in _rows(path, node, make)]


def _snapshot(node: str, fields: dict[str, Any]) -> Snapshot:
    offset, epoch = _integer(fields, "offset"), _integer(fields, "epoch")
    return Snapshot(node, offset, epoch, _pairs(fields.get("records")))


def _pairs(records: object) -> list[tuple[str, Mapping[str, Any]]]:
    match records:
        case list() if all(isinstance(r, list) and [*map(type, r)] == [str, dict] for r in records):
            return [(kind, value) for kind, value in records]
    raise StoreError("records must be pairs of a kind and an object")


def _row_of_log(log: PartitionLog) -> dict[str, Any]:
    batches = [[b.base_offset, b.last_offset, b.epoch, b.crc, list(b.values)] for b in log.batches]
    return {
        "partition": log.partition,
        "start_offset": log.start_offset,
        "end_offset": log.end_offset,
        "high_watermark": log.high_watermark,
        "damage": log.damage,
        "batches": batches,
    }


def _partition_log(node: str, fields: dict[str, Any]) -> PartitionLog:
    mark, damage = fields.get("high_watermark"), fields.get("damage")
    return PartitionLog(
        node=node,
        partition=_string(fields, "partition"),
        start_offset=_integer(fields, "start_offset"),
        end_offset=_integer(fields, "end_offset"),
        high_watermark=None if mark is None else _integer(fields, "high_watermark"),
        batches=_batches(fields.get("batches")),
        damage=None if damage is None else _string(fields, "damage"),
    )


def _batches(rows: object) -> list[DataBatch]:
    if not isinstance(rows, list):
        raise StoreError("batches must be a list")
    return [_batch(row) for row in rows]


def _batch(row: object) -> DataBatch:
    match row:
        case [int(base), int(last), int(epoch), int(crc), list(values)] if all(
            value is None or isinstance(value, str) for value in values
        ):
            return DataBatch(base, last, epoch, crc, values)
    raise StoreError("a batch must be four whole numbers and a list of texts")


def _read_quorum_state(path: Path, node: str) -> dict[str, Any]:
    objects = [fields for _, fields in _objects(path, node)]
    if len(objects) != 1:
        raise StoreError(f"{path}: it holds {len(objects)} JSON objects, not one")
    return objects[0]


def _read_final_read(path: Path, node: str) -> FinalRead | None:
    """Take the last line: a node may have been read again until it had caught up."""
    reads = _read_all(_final_read, path, node)
    return reads[-1] if reads else None


def _final_read(node: str, fields: dict[str, Any]) -> FinalRead:
    topics, configs = _mapping(fields, "topics"), _mapping(fields, "configs")
    for part in (*topics.values(), *configs.values()):
        if not isinstance(part, dict):
            raise StoreError("a topic or config is no object")
    return FinalRead(node, _integer(fields, "high_watermark"), topics, configs)


def _read_trace(path: Path, node: str) -> list[TraceEvent]:
    """Read a trace, in which a kill or a full disk may have torn the last line of an incarnation.

    Such a line is ended by the next writer: the next incarnation its `start`, this one its
    `fatal` (`cluster.node.runtime.trace`). Nobody saw what it would have reported, since a line is
    written before what it describes. Anything else that is no line of a trace is damage.
    """
    events: list[TraceEvent] = []
    torn: list[int] = []
    for number, ended_line in enumerate(read_lines(path), start=1):
        line = ended_line.removesuffix(b"\n")
        if not line:
            continue
        fields = _parse(line)
        if fields is None:
            if not may_be_torn(line, _TRACE_LINE):
                raise StoreError(f"{path}, line {number}: it is no line of a trace; it was changed")
            torn.append(number)
            continue
        event = _trace_event(path, node, number, fields)
        if torn and event.event not in _AFTER_TORN:
            raise StoreError(
                f"{path}, line {torn[-1]}: half a line, though no kill can have torn it: "
                f"{event.event!r} follows"
            )
        torn.clear()
        events.append(event)
    return events


def _trace_event(path: Path, node: str, number: int, fields: dict[str, Any]) -> TraceEvent:
    try:
        return TraceEvent(
            node=node,
            incarnation=_integer(fields, "n"),
            time_ns=_integer(fields, "t"),
            event=sys.intern(_string(fields, "e")),
            fields=_share_names(
                {name: v for name, v in fields.items() if name not in _TRACE_HEADER}
            ),
            world_ns=_integer(fields, "w") if "w" in fields else None,
        )
    except ValueError as error:
        raise StoreError(f"{path}, line {number}: {error}") from error


def _objects(path: Path, node: str) -> Iterable[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file's lines, with their numbers; one that names a node names this."""
    lines = read_lines(path, line_bytes_max=_EVIDENCE_LINE_BYTES_MAX)
    for number, ended_line in enumerate(lines, start=1):
        line = ended_line.removesuffix(b"\n")
        if not line:
            continue
        fields = _parse(line)
        if fields is None:
            raise StoreError(f"{path}, line {number}: it is no JSON object, or was changed")
        if fields.get("node", node) != node:
            raise StoreError(f"{path}, line {number}: it is of node {fields['node']!r}")
        yield number, fields


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line, without its seal; None where it is none, or was changed."""
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or is_changed(line):
        return None
    value.pop(FIELD, None)
    return value


def _share_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with names that all lines share: copies are a third of what evidence takes."""
    return {sys.intern(name): value for name, value in fields.items()}


def _integer(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise StoreError(f"{name} must be an integer of 64 bits")
    return value


def _string(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise StoreError(f"{name} must be a string")
    return value


def _mapping(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name, {})
    if not isinstance(value, dict):
        raise StoreError(f"{name} must be an object")
    return value
