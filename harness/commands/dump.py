"""`log dump` and `snapshot dump`: what a node wrote, as JSON lines on standard output.

Every CRC is checked. Damage is one line on stderr, after all that is intact before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from cluster.node.log.records import BatchHeader, CorruptBatchError, iter_batches
from cluster.node.log.segment import segment_base_offset
from cluster.node.log.snapshot import CorruptSnapshotError, parse_snapshot, parse_snapshot_name
from harness.errors import UsageError
from harness.evidence import batch_records
from harness.json_names import camel_case
from harness.targets import for_each

_PATH = click.Path(path_type=Path)


@click.group()
def log() -> None:
    """Look into a node's metadata log."""


@log.command("dump")
@click.argument("folders", type=_PATH, metavar="DIR...", nargs=-1, required=True)
def dump_log(folders: tuple[Path, ...]) -> int:
    """Print every record of the segments in DIR (a folder like __cluster_metadata-0).

    Any other folder, such as one of a run or a campaign, means all logs below it. With several
    logs, the field `log` of each line names the log. A damaged log does not stop the others.
    """
    return for_each([log for folder in folders for log in _logs(folder)], _dump_log)


def _logs(folder: Path) -> list[Path]:
    """Name the folders with segments, this one or those below it. Raises UsageError."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder")
    if _segments(folder):
        return [folder]
    found = sorted({path.parent for path in folder.rglob("*.log") if _segments(path.parent)})
    if not found:
        raise UsageError(f"{folder}: there are no segments in it")
    return found


def _segments(folder: Path) -> list[tuple[int, Path]]:
    return sorted(
        (base_offset, path)
        for path in folder.glob("*.log")
        if (base_offset := segment_base_offset(path.name)) is not None
    )


def _dump_log(folder: Path, name: str) -> int:
    segments = _segments(folder)
    next_offset = segments[0][0]
    for base_offset, path in segments:
        if base_offset != next_offset:
            raise UsageError(f"{path}: begins at offset {base_offset}, not {next_offset}")
        next_offset = _dump(path, next_offset, {"log": str(folder)} if name else {})
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


def _dump(path: Path, next_offset: int, where: dict[str, str]) -> int:
    """Print a file's records; returns the offset that follows the last. Raises UsageError.

    `where` begins each line.
    """
    position = 0
    try:
        for header, batch in iter_batches(path.read_bytes()):
            if header.base_offset != next_offset:
                found = f"offset {header.base_offset}, not {next_offset}"
                raise UsageError(f"{path}: byte {position}: {found}")
            for line in _lines(header, batch, where):
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
