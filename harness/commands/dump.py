"""`log dump` and `snapshot dump`: what a node wrote, as JSON lines on standard output.

Every CRC is checked. Damage is one line on stderr, after all that is intact before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from cluster.node.log.partition_folder import DELETE_SUFFIX, FUTURE_SUFFIX
from cluster.node.log.records import BatchHeader, CorruptBatchError, iter_batches
from cluster.node.log.snapshot import CorruptSnapshotError, parse_snapshot, parse_snapshot_name
from harness.errors import UsageError
from harness.evidence import batch_records
from harness.json_names import camel_case
from harness.partition_evidence import data_records, partition_in, segments_in
from harness.targets import for_each

_PATH = click.Path(path_type=Path)


@click.group()
def log() -> None:
    """Look into a node's logs."""


@log.command("dump")
@click.argument("folders", type=_PATH, metavar="DIR...", nargs=-1, required=True)
def dump_log(folders: tuple[Path, ...]) -> int:
    """Print every record of the segments in DIR (a folder like __cluster_metadata-0, or topic-3).

    Any other folder, such as one of a run or a campaign, means all logs below it, of metadata and
    of data. With several logs, the field `log` of each line names the log. A damaged log does not
    stop the others.
    """
    return for_each([log for folder in folders for log in _logs(folder)], _dump_log)


def _logs(folder: Path) -> list[Path]:
    """Name the folders with segments, this one or those below it. Raises UsageError."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder")
    if segments_in(folder):
        return [folder]
    found = sorted({path.parent for path in folder.rglob("*.log") if segments_in(path.parent)})
    if not found:
        raise UsageError(f"{folder}: there are no segments in it")
    return found


def _dump_log(folder: Path, name: str) -> int:
    segments = segments_in(folder)
    next_offset = segments[0][0]
    own = folder.resolve()
    # Names of logs that are moved to another log directory, or about to be removed, say so.
    of_data = partition_in(own) is not None or own.name.endswith((FUTURE_SUFFIX, DELETE_SUFFIX))
    for base_offset, path in segments:
        if base_offset < next_offset or (base_offset > next_offset and not of_data):
            raise UsageError(f"{path}: begins at offset {base_offset}, not {next_offset}")
        where = {"log": str(folder)} if name else {}
        next_offset = _dump(path, base_offset, where, of_data=of_data)
    return 0


@click.group()
def snapshot() -> None:
    """Look into a snapshot of the metadata log."""


@snapshot.command("dump")
@click.argument("files", type=_PATH, metavar="FILE...", nargs=-1, required=True)
def dump_snapshot(files: tuple[Path, ...]) -> int:
    """Print every record of FILE (<end offset>-<epoch>.checkpoint), header and footer included.

    With several files, the field `snapshot` of each line names the file.
    """
    return for_each(files, _dump_snapshot)


def _dump_snapshot(file: Path, name: str) -> int:
    parsed = parse_snapshot_name(file.name)
    if parsed is None:
        raise UsageError(f"{file}: the name is not <20 digits>-<10 digits>.checkpoint")
    if not file.is_file():
        raise UsageError(f"{file}: there is no such file")
    try:
        parse_snapshot(str(file), parsed[0], file.read_bytes())
    except CorruptSnapshotError as error:
        raise UsageError(str(error)) from error
    _dump(file, 0, {"snapshot": str(file)} if name else {})
    return 0


def _dump(path: Path, next_offset: int, where: dict[str, str], *, of_data: bool = False) -> int:
    """Print a file's records; returns the offset that follows the last. Raises UsageError.

    `where` begins each line. Data may have gaps, where they were compacted.
    """
    position = 0
    lines = _data_lines if of_data else _lines
    try:
        for header, batch in iter_batches(path.read_bytes(), gaps=of_data):
            skips = header.base_offset > next_offset and not of_data
            if header.base_offset < next_offset or skips:
                found = f"offset {header.base_offset}, not {next_offset}"
                raise UsageError(f"{path}: byte {position}: {found}")
            for line in lines(header, batch, where):
                click.echo(line)
            position += header.size_bytes
            next_offset = header.next_offset
    except CorruptBatchError as error:
        reason = str(error).partition(": ")[2] or str(error)
        raise UsageError(f"{path}: byte {position}, offset {next_offset}: {reason}") from error
    return next_offset


def _lines(header: BatchHeader, batch: bytes, where: dict[str, str]) -> Iterator[str]:
    for record in batch_records("", header, batch):
        fields = asdict(record)
        del fields["node"]
        fields["timestamp_ms"] = header.base_timestamp_ms
        yield json.dumps({**where, **camel_case(fields)}, ensure_ascii=True)


def _data_lines(header: BatchHeader, batch: bytes, where: dict[str, str]) -> Iterator[str]:
    for fields in data_records(header, batch):
        yield json.dumps({**where, **camel_case(fields)}, ensure_ascii=True)
