"""Decodes the nodes' disks after the last stop, as evidence for the white-box checks.

Reads each node's metadata log, segment by segment, and its quorum-state file, and stores them in
the form of `checkers.evidence`. Nothing here repairs or judges: a log is stored as it is found.

A killed node may leave a partly written batch at the end of its log: a *torn tail*, the first bytes
of the next batch, fewer than its header announces. The batches before it are stored and the bytes
of the tail counted (`tornTailBytes` beside the quorum state). `log-agreement` reports them, and
takes them for damage where the node's trace says that they were flushed.

Everything else that is no log is *damage*: a batch of its full length with a wrong checksum, bytes
that begin no batch, an intact batch or a segment behind them, an end below the recovery point, an
epoch that contradicts the leader-epoch file. A damaged log is not stored at all, since a check must
not judge evidence with a hole in it, and the checks that need it are UNKNOWN. They are not FAIL,
even for a node that stopped cleanly and that no fault touched: the bytes do not show whether the
node, its disk or an edit of the archive changed them. A node that writes what it cannot read ends
itself when it starts again, and `log-agreement` counts that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from checkers.evidence import LogRecord, Snapshot
from cluster.node.controller.records import MetadataRecordError, decode_record, record_to_json
from cluster.node.log.batch.control import ControlRecordType, control_type, decode_control
from cluster.node.log.batch.records import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    CorruptBatchError,
    Record,
    decode_records,
    iter_batches,
    parse_header,
)
from cluster.node.log.metadata.snapshot import SUFFIX, parse_snapshot_name
from cluster.node.log.storage.checkpoint import RECOVERY_POINT_FILE, decode_recovery_point
from cluster.node.log.storage.epoch_cache import EPOCH_FILE
from cluster.node.meta_properties import FILE_NAME as META_PROPERTIES
from cluster.node.wire.uuid_text import uuid_from_text
from cluster.systems import secured
from cluster.systems.base import Layout
from cluster.systems.kinds import SystemKind
from cluster.systems.registry import system_named
from cluster.values import valueclass
from extensions.plain_files import read_plain
from harness.evidence.partition_logs import (
    SEGMENT_BYTES_MAX,
    decode_partitions,
    intact_batch_in,
    leader_epochs,
    segments_in,
)
from harness.full_disk import lack_of_room
from results.store.evidence_files import (
    LOG_FILE,
    PARTITION_LOGS_FILE,
    QUORUM_STATE_FILE,
    SNAPSHOTS_FILE,
)
from results.store.run_store import RunStore

QUORUM_STATE = "quorum-state"
_NO_STATE = {"leaderId": -1, "leaderEpoch": 0, "votedId": -1, "absent": True}
"""What a node that starts without the file begins with."""


class EvidenceError(Exception):
    """What a node left cannot be used; one line."""


@valueclass
class DecodedLog:
    """A node's whole log."""

    records: tuple[LogRecord, ...]
    start_offset: int
    end_offset: int
    torn_tail_bytes: int


def collect(store: RunStore, nodes: tuple[str, ...]) -> list[str]:
    """Store the evidence of every node; returns one line for each node without any or with damage.

    The stored plan names the system, which knows where a node's files lie; one that is no metadata
    quorum leaves none. Raises SettingError for a system that is not known, and OSError where there
    is no room to store the evidence.
    """
    if not kind_of(store).metadata_quorum:
        return []
    layout = layout_of(store)
    problems = []
    for node in nodes:
        try:
            _collect_node(store, layout, node)
        except (EvidenceError, OSError) as error:
            if lack_of_room(error) is not None:
                raise  # the store's disk is full; the node's files are still there
            problems.append(f"{node}: {error}")
    return problems


def conceal(store: RunStore, nodes: tuple[str, ...]) -> None:
    """Leave no key and no password in the folders of a secured run's nodes, which have ended.

    Raises OSError.
    """
    if store.plan().get("security"):
        for node in nodes:
            secured.conceal(store.node_path(node))


def layout_of(store: RunStore) -> Layout:
    """Return where the nodes of a stored run keep their files. Raises SettingError."""
    return kind_of(store).layout


def kind_of(store: RunStore) -> SystemKind:
    """Return the kind of a stored run's system. Raises SettingError where it is not known."""
    return system_named(str(store.plan().get("system")))


def _collect_node(store: RunStore, layout: Layout, node: str) -> None:
    trace_file = Path(layout.trace_file(store.node_path(node)))
    reader = layout.trace_reader(store.node_path(node))
    if reader is not None:
        source = Path(layout.trace_source(store.node_path(node)))
        trace_file.write_bytes(reader.take(_content(source)) + reader.end())
    folder = Path(layout.log_folder(store.node_path(node)))
    folders = [Path(each) for each in layout.log_dirs(store.node_path(node))]
    data = Path(layout.data_folder(store.node_path(node)))
    for each in (data, *folders):
        if (owner := _property(each, "node.id")) not in ("", node.removeprefix("n")):
            raise EvidenceError(f"{each}: {META_PROPERTIES} says that it is of node {owner}")
    log = decode_log(node, folder, in_order=reader is not None)
    store.write_evidence(node, LOG_FILE, log.records)
    store.write_evidence(node, SNAPSHOTS_FILE, decode_snapshots(node, folder))
    store.write_evidence(node, PARTITION_LOGS_FILE, decode_partitions(node, folders))
    path = folder / QUORUM_STATE
    try:
        state = json.loads(read_plain(path, bytes_max=SEGMENT_BYTES_MAX).decode("utf-8"))
    except FileNotFoundError:
        state = dict(_NO_STATE)
    except ValueError as error:
        raise EvidenceError(f"{path}: it is no JSON document") from error
    if not isinstance(state, dict):
        raise EvidenceError(f"{path}: it holds no JSON object")
    state["logStartOffset"] = log.start_offset
    state["logEndOffset"] = log.end_offset
    state["tornTailBytes"] = log.torn_tail_bytes
    state["traceBytes"] = len(_content(trace_file))
    state["directoryId"] = directory_of(data)
    store.write_evidence(node, QUORUM_STATE_FILE, [state])
    if state.get("absent"):
        raise EvidenceError(f"there is no {QUORUM_STATE} file")


def directory_of(folder: Path) -> str:
    """Return the directory id of a node's data folder, as its trace names it; "" if it has none.

    A quorum-state file binds the replica of that folder and no other (KIP-853).
    """
    try:
        return str(uuid_from_text(_property(folder, "directory.id")))
    except ValueError:
        return ""


def _property(folder: Path, name: str) -> str:
    """Return what a folder's meta.properties says last under a name; empty if nothing."""
    lines = _content(folder / META_PROPERTIES).decode("utf-8", "replace").splitlines()
    found = [line.partition("=")[2] for line in lines if line.startswith(f"{name}=")]
    return found[-1] if found else ""


def decode_log(node: str, folder: Path, *, in_order: bool = False) -> DecodedLog:
    """Decode all segments in a folder, in offset order. Raises EvidenceError.

    `in_order`: its node traces no flush, cuts what is torn at each start, and was stopped in order.
    """
    segments = segments_in(folder)
    if not segments:
        raise EvidenceError(f"{folder}: there is no log")
    start_offset = next_offset = segments[0][0]
    records: list[LogRecord] = []
    torn_tail_bytes = 0
    for number, (base_offset, path) in enumerate(segments):
        if base_offset != next_offset:
            raise EvidenceError(f"{path}: begins at offset {base_offset}, not {next_offset}")
        data = read_plain(path, bytes_max=SEGMENT_BYTES_MAX)
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
            last = number == len(segments) - 1 and not in_order
            if not last or not _is_torn(data[position:], next_offset):
                reason = str(error).partition(": ")[2] or str(error)
                raise EvidenceError(f"{path}: byte {position}: damaged: {reason}") from error
            torn_tail_bytes = len(data) - position
    _check_durable(folder, records, next_offset, in_order=in_order)
    return DecodedLog(tuple(records), start_offset, next_offset, torn_tail_bytes)


def decode_snapshots(node: str, folder: Path) -> list[Snapshot]:
    """Decode all snapshots in a folder, in offset order. Raises EvidenceError."""
    snapshots = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):  # the names' digits are padded
        named = parse_snapshot_name(path.name)
        if named is None:
            continue
        try:
            records = [
                (record.kind, record.value)
                for header, batch in iter_batches(read_plain(path, bytes_max=SEGMENT_BYTES_MAX))
                for record in batch_records(node, header, batch)
            ]
        except CorruptBatchError as error:
            raise EvidenceError(f"{path}: damaged: {error}") from error
        snapshots.append(Snapshot(node, named[0].offset, named[0].epoch, records))
    return snapshots


def _is_torn(rest: bytes, offset: int) -> bool:
    """Whether the last bytes of a log are a proper prefix of the batch that begins at `offset`."""
    begin = offset.to_bytes(8, "big")
    if rest[:8] != begin[: len(rest)] or intact_batch_in(rest[1:]):
        return False
    if len(rest) < HEADER_BYTES:
        return rest[_MAGIC_BYTE : _MAGIC_BYTE + 1] in (b"", bytes([MAGIC]))
    try:
        return parse_header(rest).size_bytes > len(rest)
    except CorruptBatchError:
        return False


_MAGIC_BYTE = 16


def _check_durable(
    folder: Path, records: Sequence[LogRecord], end_offset: int, *, in_order: bool
) -> None:
    """Compare a log with its recovery point and its leader-epoch file. Raises EvidenceError.

    A batch's checksum covers neither its offset nor its epoch. A changed offset shows as a gap; a
    changed epoch contradicts the leader-epoch file, which the node makes durable before it counts
    a batch of a new epoch as durable.
    """
    durable = decode_recovery_point(_content(folder / RECOVERY_POINT_FILE))
    if end_offset < durable:
        raise EvidenceError(
            f"{folder}: damaged: the log ends at offset {end_offset}, though everything below "
            f"{durable} was durable"
        )
    epochs = leader_epochs(folder)
    known = end_offset if in_order else durable
    for record in records:
        epoch = epochs.epoch_at(record.offset) if record.offset < known else None
        if epoch not in (None, record.epoch):
            raise EvidenceError(
                f"{folder}: damaged: the record at offset {record.offset} is of epoch "
                f"{record.epoch}, though {EPOCH_FILE} says {epoch}"
            )


def _content(path: Path) -> bytes:
    try:
        return read_plain(path, bytes_max=SEGMENT_BYTES_MAX)
    except FileNotFoundError:
        return b""


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
    """Decode one metadata record; an undecodable record keeps its place and holds the reason."""
    try:
        decoded, _ = decode_record(record.value or b"")
    except MetadataRecordError as error:
        return "undecodable", {"error": str(error), "hex": (record.value or b"")[:64].hex()}
    return type(decoded).__name__, record_to_json(decoded)


def camel_case(value: Any) -> Any:
    """Rename the keys of all objects in a JSON value from snake_case to camelCase."""
    if isinstance(value, dict):
        return {_camel(key): camel_case(part) for key, part in value.items()}
    if isinstance(value, list):
        return [camel_case(part) for part in value]
    return value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
