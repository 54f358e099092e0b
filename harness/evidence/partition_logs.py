"""Decodes the logs of partitions that a node's disk holds, ours or Kafka's, as evidence.

Each folder `<topic>-<partition>` with segments is a log; folders that are about to be deleted, or
that hold a replica which is being moved, have other names. Of a move whose source is gone, such a
folder is the log that the node goes on with, and keeps its name until the node gives it another
(Kafka at its start). A log is stored as it is found. A torn tail, the first bytes of a batch at the
end of the last segment, is what a kill or a power loss may leave, and ends the log. Everything else
that is no log is `damage`, stored in place of the log; so is one whose end is not what the node
noted as it stopped in order, when it synced all and saved all high watermarks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from checkers.evidence import TEXT_MAX, DataBatch, PartitionLog
from cluster.node.log.batch.records import (
    MAGIC,
    SEQUENCE_MAX,
    BatchHeader,
    CorruptBatchError,
    batch_size_bytes,
    check_batch,
    decode_batch,
    inflate_batch,
)
from cluster.node.log.data.directory_checkpoints import CLEAN_SHUTDOWN_FILE
from cluster.node.log.data.partition_folder import parse_folder
from cluster.node.log.storage.checkpoint import RECOVERY_POINT_FILE, TopicPartition, decode_offsets
from cluster.node.log.storage.epoch_cache import EPOCH_FILE, LeaderEpochCache
from cluster.node.log.storage.segment import segment_base_offset
from cluster.node.log.types import METADATA_TOPIC
from extensions.plain_files import read_plain

SEGMENT_BYTES_MAX: Final = 1 << 31
"""A segment has at most log.segment.bytes, an int32."""
_HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
_LOG_STARTS: Final = "log-start-offset-checkpoint"
_MAGIC_BYTE: Final = 16
_INFLATED_MAX_BYTES: Final = 1 << 28


class _DamageError(Exception):
    """What lies there is no log; one line."""


def decode_partitions(node: str, folders: Iterable[Path]) -> list[PartitionLog]:
    """Decode every partition's log in a node's log directories, by name. Raises OSError.

    A crash may leave a log in two of them. The node goes on with the longer one: the other is what
    a move has copied so far, or what is left of the log that was copied.
    """
    current: dict[str, PartitionLog] = {}
    future: dict[str, PartitionLog] = {}
    for folder in folders:
        for log, is_future in _decode_folder(node, folder):
            found = future if is_future else current
            other = found.get(log.partition)
            if other is None or log.end_offset > other.end_offset:
                found[log.partition] = log
    return [log for _, log in sorted((future | current).items())]


def _decode_folder(node: str, folder: Path) -> Iterator[tuple[PartitionLog, bool]]:
    """Yield each log, and whether it is to replace another."""
    marks, starts = _offsets(folder / _HIGH_WATERMARKS), _offsets(folder / _LOG_STARTS)
    ends = (
        _offsets(folder / RECOVERY_POINT_FILE) if (folder / CLEAN_SHUTDOWN_FILE).exists() else None
    )
    for directory in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            partition, is_future = parse_folder(directory.name)
        except ValueError:
            continue
        if partition.topic == METADATA_TOPIC or not segments_in(directory):
            continue
        try:
            start, end, batches = _decode(directory, torn=ends is None)
            if ends is not None:
                noted = ends.get(partition) if partition in marks else None
                _check_end(directory, batches, end, noted)
        except _DamageError as damage:
            yield PartitionLog(node, str(partition), 0, 0, None, (), str(damage)), is_future
            continue
        mark, start = marks.get(partition), max(start, starts.get(partition, 0))
        yield PartitionLog(node, str(partition), start, end, mark, batches), is_future


def _check_end(directory: Path, batches: list[DataBatch], end: int, noted: int | None) -> None:
    """Compare a log with what its node noted as it stopped in order. Raises _DamageError."""
    if noted != end:
        raise _DamageError(f"it ends at {end}, though its node stopped in order and noted {noted}")
    epochs = leader_epochs(directory)
    if any(epochs.epoch_at(each.base_offset) not in (None, each.epoch) for each in batches):
        raise _DamageError(f"its batches are not of the epochs that {EPOCH_FILE} names")


def leader_epochs(directory: Path) -> LeaderEpochCache:
    """Read which epochs a log's file names; one that is not there, or not whole, names none."""
    try:
        return LeaderEpochCache.decode(read_plain(directory / EPOCH_FILE, bytes_max=1 << 24))
    except (FileNotFoundError, ValueError):
        return LeaderEpochCache(())


def segments_in(folder: Path) -> list[tuple[int, Path]]:
    """Return the segments of one log with the offsets at which they begin, in order."""
    return sorted(
        (base_offset, path)
        for path in folder.glob("*.log")
        if (base_offset := segment_base_offset(path.name)) is not None
    )


def data_records(header: BatchHeader, batch: bytes) -> Iterator[dict[str, Any]]:
    """Render the records of one intact batch of data. Raises CorruptBatchError."""
    try:
        records = decode_batch(inflate_batch(batch, _INFLATED_MAX_BYTES))
    except (OverflowError, ValueError) as error:
        raise CorruptBatchError(f"offset {header.base_offset}: {error}") from error
    for number, record in enumerate(records):
        sequenced = {}
        if header.producer_id >= 0:
            sequenced = {"producer_id": header.producer_id, "producer_epoch": header.producer_epoch}
        if header.base_sequence >= 0:
            sequenced["sequence"] = (header.base_sequence + number) & SEQUENCE_MAX
        yield {
            "offset": record.offset,
            "epoch": header.partition_leader_epoch,
            "batch_crc": header.crc,
            "kind": "control" if header.is_control else "record",
            **sequenced,
            **_text("key", record.key),
            **_text("value", record.value),
            "timestamp_ms": record.timestamp,
        }


def _text(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: bytes(content).decode()}
    except UnicodeDecodeError:
        return {f"{name}_hex": bytes(content).hex()}


def intact_batch_in(data: bytes) -> bool:
    """Whether an intact batch begins anywhere in `data`: every possible magic byte is tried.

    Behind a torn tail there is none: a length that a flipped bit made too large hides some.
    """
    found = data.find(MAGIC, _MAGIC_BYTE)
    while found != -1:
        try:
            check_batch(data, found - _MAGIC_BYTE, gaps=True)
        except CorruptBatchError:
            found = data.find(MAGIC, found + 1)
        else:
            return True
    return False


def _offsets(path: Path) -> Mapping[TopicPartition, int]:
    """Read a file of offsets; one that is not there, or not whole, says nothing."""
    try:
        return decode_offsets(read_plain(path, bytes_max=SEGMENT_BYTES_MAX))
    except (FileNotFoundError, ValueError):
        return {}


def _decode(directory: Path, *, torn: bool) -> tuple[int, int, list[DataBatch]]:
    """Return where a log begins and ends, and its batches. Raises _DamageError.

    `torn`: it may end in a torn tail.
    """
    segments = segments_in(directory)
    start = next_offset = segments[0][0]
    batches: list[DataBatch] = []
    for number, (base_offset, path) in enumerate(segments):
        if base_offset < next_offset:
            raise _DamageError(f"{path.name} begins at offset {base_offset}, below {next_offset}")
        next_offset = base_offset
        data, position = read_plain(path, bytes_max=SEGMENT_BYTES_MAX), 0
        while position < len(data):
            try:
                size_bytes = batch_size_bytes(data, position)
                whole = size_bytes is not None and position + size_bytes <= len(data)
                last = torn and number == len(segments) - 1
                if not whole and last and not intact_batch_in(data[position + 1 :]):
                    return start, next_offset, batches  # a torn tail
                header = check_batch(data, position, gaps=True)
                batches.append(_batch(header, data[position : position + header.size_bytes]))
            except CorruptBatchError as error:
                reason = str(error).partition(": ")[2] or str(error)
                raise _DamageError(f"{path.name}: byte {position}: {reason}") from error
            if header.base_offset < next_offset:
                at = f"{path.name}: byte {position}"
                raise _DamageError(f"{at}: offset {header.base_offset} behind {next_offset - 1}")
            next_offset = header.next_offset
            position += header.size_bytes
    return start, next_offset, batches


def _batch(header: BatchHeader, batch: bytes) -> DataBatch:
    values = [] if header.is_control else [_short(r) for r in data_records(header, batch)]
    return DataBatch(
        header.base_offset, header.last_offset, header.partition_leader_epoch, header.crc, values
    )


def _short(record: Mapping[str, Any]) -> str | None:
    value = record.get("value")
    return value if isinstance(value, str) and len(value) <= TEXT_MAX else None
