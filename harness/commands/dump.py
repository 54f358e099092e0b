"""`log dump` and `snapshot dump`: what a node wrote, as JSON lines on standard output.

Every CRC is checked. Damage is one line on stderr, after all that is intact before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from cluster.log.records import BatchHeader, CorruptBatchError, iter_batches
from cluster.log.segment import segment_base_offset
from cluster.log.snapshot import CorruptSnapshotError, parse_snapshot, parse_snapshot_name
from harness.errors import UsageError
from harness.evidence import batch_records
from harness.json_names import camel_case


@click.group()
def log() -> None:
    """Look into a node's metadata log."""


@log.command("dump")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
def dump_log(folder: Path) -> None:
    """Print every record of the segments in DIR (a folder like __cluster_metadata-0)."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder")
    segments = sorted(
        (base_offset, path)
        for path in folder.glob("*.log")
        if (base_offset := segment_base_offset(path.name)) is not None
    )
    if not segments:
        raise UsageError(f"{folder}: there are no segments in it")
    next_offset = segments[0][0]
    for base_offset, path in segments:
        if base_offset != next_offset:
            raise UsageError(f"{path}: begins at offset {base_offset}, not {next_offset}")
        next_offset = _dump(path, next_offset)


@click.group()
def snapshot() -> None:
    """Look into a snapshot of the metadata log."""


@snapshot.command("dump")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
def dump_snapshot(file: Path) -> None:
    """Print every record of FILE (<end offset>-<epoch>.checkpoint), header and footer included."""
    parsed = parse_snapshot_name(file.name)
    if parsed is None:
        raise UsageError(f"{file}: the name is not <20 digits>-<10 digits>.checkpoint")
    if not file.is_file():
        raise UsageError(f"{file}: there is no such file")
    try:
        parse_snapshot(str(file), parsed[0], file.read_bytes())
    except CorruptSnapshotError as error:
        raise UsageError(str(error)) from error
    _dump(file, 0)


def _dump(path: Path, next_offset: int) -> int:
    """Print a file's records; returns the offset that follows the last. Raises UsageError."""
    position = 0
    try:
        for header, batch in iter_batches(path.read_bytes()):
            if header.base_offset != next_offset:
                told = f"{path}: byte {position}: offset {header.base_offset}, not {next_offset}"
                raise UsageError(told)
            for line in _lines(header, batch):
                click.echo(line)
            position += header.size_bytes
            next_offset = header.next_offset
    except CorruptBatchError as error:
        reason = str(error).partition(": ")[2] or str(error)
        raise UsageError(f"{path}: byte {position}, offset {next_offset}: {reason}") from error
    return next_offset


def _lines(header: BatchHeader, batch: bytes) -> Iterator[str]:
    for record in batch_records("", header, batch):
        fields = asdict(record)
        del fields["node"]
        fields["timestamp_ms"] = header.base_timestamp_ms
        yield json.dumps(camel_case(fields), ensure_ascii=True)
