"""After the last stop: decode what the nodes left on their disks, for the white-box checks.

Reads each node's metadata log, segment by segment, and its quorum-state file, and stores them in
the form of `checkers.evidence`. Nothing here repairs or judges: a log is stored as it is found.

A node that was killed may have left a batch half written at the very end of its log. What lies
before it is stored, and the bytes after it are counted (`tornTailBytes` beside the quorum state).
A log that is damaged anywhere else is not stored at all, since a check must not judge evidence
with a hole in it; that is told as a problem, and is itself a finding.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from checkers.evidence import LogRecord
from cluster.controller.records import MetadataRecordError, decode_record, record_to_json
from cluster.log.control import ControlRecordType, control_type, decode_control
from cluster.log.records import (
    BatchHeader,
    CorruptBatchError,
    Record,
    decode_records,
    iter_batches,
)
from cluster.log.segment import segment_base_offset
from cluster.systems.base import System
from cluster.values import valueclass
from harness.json_names import camel_case
from results.store import RunStore

QUORUM_STATE = "quorum-state"


class EvidenceError(Exception):
    """What a node left cannot be used; one line."""


@valueclass
class DecodedLog:
    """A node's whole log."""

    records: tuple[LogRecord, ...]
    start_offset: int
    end_offset: int
    torn_tail_bytes: int


def collect(store: RunStore, system: System, nodes: tuple[str, ...]) -> list[str]:
    """Store the evidence of every node; one line for each that has none or a damaged one."""
    problems = []
    for node in nodes:
        try:
            _collect_node(store, system, node)
        except (EvidenceError, OSError) as error:
            problems.append(f"{node}: {error}")
    return problems


def _collect_node(store: RunStore, system: System, node: str) -> None:
    folder = Path(system.log_folder(store.node_path(node)))
    log = decode_log(node, folder)
    store.write_log(node, log.records)
    path = folder / QUORUM_STATE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EvidenceError(f"there is no {QUORUM_STATE} file") from None
    except ValueError as error:
        raise EvidenceError(f"{path}: it is no JSON document") from error
    if not isinstance(state, dict):
        raise EvidenceError(f"{path}: it holds no JSON object")
    state["logStartOffset"] = log.start_offset
    state["logEndOffset"] = log.end_offset
    state["tornTailBytes"] = log.torn_tail_bytes
    store.write_quorum_state(node, state)


def decode_log(node: str, folder: Path) -> DecodedLog:
    """Decode all segments in a folder, in offset order. Raises EvidenceError."""
    segments = sorted(
        (base_offset, path)
        for path in folder.glob("*.log")
        if (base_offset := segment_base_offset(path.name)) is not None
    )
    if not segments:
        raise EvidenceError(f"{folder}: there is no log")
    start_offset = next_offset = segments[0][0]
    records: list[LogRecord] = []
    torn_tail_bytes = 0
    for number, (base_offset, path) in enumerate(segments):
        if base_offset != next_offset:
            raise EvidenceError(f"{path}: begins at offset {base_offset}, not {next_offset}")
        data = path.read_bytes()
        position = 0
        try:
            for header, batch in iter_batches(data):
                if header.base_offset != next_offset:
                    raise EvidenceError(
                        f"{path}: byte {position}: offset {header.base_offset}, not {next_offset}"
                    )
                records.extend(batch_records(node, header, batch))
                position += header.size_bytes
                next_offset = header.next_offset
        except CorruptBatchError as error:
            if number < len(segments) - 1:
                raise EvidenceError(f"{path}: byte {position}: {error}") from error
            torn_tail_bytes = len(data) - position
    return DecodedLog(tuple(records), start_offset, next_offset, torn_tail_bytes)


def batch_records(node: str, header: BatchHeader, batch: bytes) -> Iterator[LogRecord]:
    """Decode the records of one intact batch. Raises CorruptBatchError."""
    for delta, record in enumerate(decode_records(batch)):
        kind, value = _control(record) if header.is_control else _metadata(record)
        yield LogRecord(
            node=node,
            offset=header.base_offset + delta,
            epoch=header.partition_leader_epoch,
            batch_crc=header.crc,
            kind=kind,
            value=value,
        )


def _control(record: Record) -> tuple[str, dict[str, Any]]:
    try:
        code = control_type(record)
        message = decode_control(record)
    except CorruptBatchError as error:
        return "control:undecodable", {"error": str(error)}
    if message is None:
        return f"control:{code}", {}
    value = camel_case(json.loads(json.dumps(asdict(message), default=str)))
    assert isinstance(value, dict), "a control message has fields"
    return f"control:{ControlRecordType(code).name}", value


def _metadata(record: Record) -> tuple[str, dict[str, Any]]:
    """Decode one metadata record; one that cannot be decoded stays in its place and says why."""
    try:
        decoded, _ = decode_record(record.value or b"")
    except MetadataRecordError as error:
        return "undecodable", {"error": str(error), "hex": (record.value or b"")[:64].hex()}
    return type(decoded).__name__, record_to_json(decoded)
