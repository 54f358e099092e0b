"""`log dump` and `snapshot dump`: what a node wrote, as JSON lines or one list on standard output.

Every CRC is checked. Damage is one line on stderr, after all that is intact before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cluster.node.log.batch.records import BatchHeader, CorruptBatchError, iter_batches
from cluster.node.log.data.partition_folder import DELETE_SUFFIX, parse_folder
from cluster.node.log.metadata.snapshot import (
    CorruptSnapshotError,
    parse_snapshot,
    parse_snapshot_name,
)
from cluster.node.log.types import METADATA_TOPIC
from harness.commands.options import Group, shown_options
from harness.errors import EXIT_USAGE, UsageError
from harness.evidence.node_disks import batch_records, camel_case
from harness.evidence.partition_logs import data_records, segments_in
from harness.judge.stored_runs import for_each
from harness.terminal.answers import Shown

_PATH = click.Path(path_type=Path)
_options = shown_options(
    json="Print one list of all records.", quiet="Print no record: check them alone."
)


class _Records:
    """Records on stdout, as they are read: of a log that fits in no memory, too."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._any = False

    def print(self, fields: dict[str, Any]) -> None:
        """Print one."""
        text = json.dumps(fields, ensure_ascii=True)
        if self._shown is Shown.LINES:
            click.echo(text)
        elif self._shown is Shown.JSON:
            click.echo(f"{',' if self._any else '['}\n{text}", nl=False)
        self._any = True

    def end(self, code: int) -> None:
        """End the list; of nothing but errors there is none."""
        if self._shown is Shown.JSON and (self._any or code == 0):
            click.echo("\n]" if self._any else "[]")


def _dump_paths(
    paths: Sequence[Path], dump: Callable[[Path, str, _Records], int], shown: Shown
) -> int:
    records, code = _Records(shown), EXIT_USAGE
    try:
        code = for_each(paths, lambda path, name: dump(path, name, records))
    finally:
        records.end(code)
    return code


@click.group(cls=Group)
def log() -> None:
    """Look into a node's logs."""


@log.command("dump")
@click.argument("folders", type=_PATH, metavar="DIR...", nargs=-1, required=True)
@_options
def dump_log(folders: tuple[Path, ...], shown: Shown) -> int:
    """Print every record of the segments in DIR (a folder like __cluster_metadata-0, or topic-3).

    Any other folder, such as one of a run or a campaign, means all logs below it, of metadata and
    of data. With several logs, the field `log` of each line names the log. A damaged log does not
    stop the others.
    """
    return _dump_paths([log for folder in folders for log in _logs(folder)], _dump_log, shown)


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


def _dump_log(folder: Path, name: str, records: _Records) -> int:
    segments = segments_in(folder)
    next_offset = segments[0][0]
    of_data = _is_of_data(folder.resolve().name)
    for base_offset, path in segments:
        if base_offset < next_offset or (base_offset > next_offset and not of_data):
            raise UsageError(f"{path}: begins at offset {base_offset}, not {next_offset}")
        where = {"log": str(folder)} if name else {}
        next_offset = _dump(path, base_offset, where, records, of_data=of_data)
    return 0


def _is_of_data(name: str) -> bool:
    try:
        partition, _ = parse_folder(name)
    except ValueError:
        return name.endswith(DELETE_SUFFIX)
    return partition.topic != METADATA_TOPIC


@click.group(cls=Group)
def snapshot() -> None:
    """Look into a snapshot of the metadata log."""


@snapshot.command("dump")
@click.argument("files", type=_PATH, metavar="FILE...", nargs=-1, required=True)
@_options
def dump_snapshot(files: tuple[Path, ...], shown: Shown) -> int:
    """Print every record of FILE (<end offset>-<epoch>.checkpoint), header and footer included.

    With several files, the field `snapshot` of each line names the file.
    """
    return _dump_paths(files, _dump_snapshot, shown)


def _dump_snapshot(file: Path, name: str, records: _Records) -> int:
    parsed = parse_snapshot_name(file.name)
    if parsed is None:
        raise UsageError(f"{file}: the name is not <20 digits>-<10 digits>.checkpoint")
    if not file.is_file():
        raise UsageError(f"{file}: there is no such file")
    try:
        parse_snapshot(str(file), parsed[0], file.read_bytes())
    except CorruptSnapshotError as error:
        raise UsageError(str(error)) from error
    _dump(file, 0, {"snapshot": str(file)} if name else {}, records)
    return 0


def _dump(
    path: Path, next_offset: int, where: dict[str, str], records: _Records, *, of_data: bool = False
) -> int:
    """Print a file's records; returns the offset that follows the last. Raises UsageError.

    `where` begins each record. Data may have gaps, where they were compacted.
    """
    position = 0
    fields_of = data_records if of_data else _metadata_records
    try:
        for header, batch in iter_batches(path.read_bytes(), gaps=of_data):
            skips = header.base_offset > next_offset and not of_data
            if header.base_offset < next_offset or skips:
                found = f"offset {header.base_offset}, not {next_offset}"
                raise UsageError(f"{path}: byte {position}: {found}")
            for fields in fields_of(header, batch):
                records.print({**where, **camel_case(fields)})
            position += header.size_bytes
            next_offset = header.next_offset
    except CorruptBatchError as error:
        reason = str(error).partition(": ")[2] or str(error)
        raise UsageError(f"{path}: byte {position}, offset {next_offset}: {reason}") from error
    return next_offset


def _metadata_records(header: BatchHeader, batch: bytes) -> Iterator[dict[str, Any]]:
    for record in batch_records("", header, batch):
        fields = asdict(record)
        del fields["node"]
        yield {**fields, "timestamp_ms": header.base_timestamp_ms}
