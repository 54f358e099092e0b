"""Tables of runs at another place that a URI names: an object store, or a folder.

`<campaign>/<run>/` below it holds of each run:

| file | what |
|---|---|
| `operations.parquet`, `events.parquet`, `records.parquet` | as the run's folder has them |
| `checks.parquet`, `latencies.parquet`, `windows.parquet`, `recoveries.parquet` | the run's rows |
| `runs.parquet` | the run's row, and in its metadata the sizes of the other files, in bytes |

An object store renames nothing, so a run is there when its `runs.parquet` is: it is removed before
anything else is replaced, and written when all else is there. A run whose files are not as long as
it says does not count either. What is read says what it says, as in any folder: nothing is proved.

Nothing is sent but to the place. Credentials are those of the environment or of the store's own
files (`~/.aws`); a URI that holds one is refused, since every user of the machine can read it in
the list of processes.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit, urlunsplit

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from results.catalogue.fault_figures import SCHEMAS, figure_tables
from results.catalogue.query import STORED, answer, files_as_table
from results.catalogue.rows import (
    CHECKS_SCHEMA,
    RUNS_SCHEMA,
    Entry,
    Filter,
    Row,
    checks_table,
    row_from,
    runs_table,
)
from results.store.files import StoreError

SCHEMES: Final = ("file", "s3", "gs", "gcs", "abfs", "abfss")
_RUNS: Final = "runs"
_TABLES: Final[Mapping[str, pa.Schema]] = {
    **{name: schema for name, (_, schema) in STORED.items()},
    "checks": CHECKS_SCHEMA,
    **SCHEMAS,
}
"""But for `runs`."""
_SIZES: Final = b"kraftprobe.bytes"
_BUILDS: Final = b"kraftprobe.builds"
_READ_TOGETHER: Final = 16
_SECRETS: Final = ("secret", "password", "key", "token")


@dataclass(frozen=True, slots=True)
class Place:
    """Where runs are exported to."""

    name: str
    """Its URI without what says how to reach it."""
    filesystem: pafs.FileSystem
    root: str


@dataclass(frozen=True, slots=True)
class Exported:
    """A run that is there as a whole."""

    row: Row
    builds: tuple[str, ...]
    files: Mapping[str, str]
    """By table: its path."""


def place_of(uri: str) -> Place:
    """Find the place that a URI names; nothing is asked of it yet. Raises StoreError."""
    try:
        parts = urlsplit(uri)
        password = parts.password
    except ValueError as error:
        raise StoreError(f"this is no URI: {error}") from error
    if parts.scheme not in SCHEMES:
        hint = "such as s3://bucket/folder or file:///folder"
        raise StoreError(f"{_bare(parts)!r}: a place is a URI of {', '.join(SCHEMES)}, {hint}")
    if parts.fragment:
        raise StoreError(f"{_bare(parts)}: what is behind '#' would be left out; '#' is '%23'")
    named = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    secret = any(word in name.lower() for name in named for word in _SECRETS)
    if password is not None or secret or (parts.scheme == "s3" and parts.username is not None):
        raise StoreError(f"{_bare(parts)}: give credentials by the environment, not by the URI")
    # The SDK would look for credentials at an address of the cloud's when there are none.
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    if parts.scheme == "s3" and "region" not in named:
        uri = urlunsplit(_in_region(parts))
    try:
        filesystem, root = pafs.FileSystem.from_uri(uri)
    except (ValueError, OSError, pa.ArrowException) as error:
        raise StoreError(f"{_bare(parts)}: {_line(error)}") from error
    if not root.strip("/"):
        raise StoreError(f"{_bare(parts)}: it names no bucket or folder")
    return Place(_bare(parts).rstrip("/"), filesystem, root.rstrip("/"))


def export(entry: Entry, place: Place) -> int:
    """Put the tables of a run there, in place of older ones; return their size in bytes.

    Raises StoreError; then the run is not there.
    """
    folder = f"{place.root}/{entry.store.name}"
    paths = {name: f"{folder}/{name}.parquet" for name in (_RUNS, *_TABLES)}
    filesystem = place.filesystem
    with _one_line_errors(place), entry.store.lock():  # a judgement replaces the tables
        if isinstance(filesystem, pafs.LocalFileSystem):
            filesystem.create_dir(folder)
        for path in _there(filesystem, paths.values()):
            filesystem.delete_file(path)
        stored = {name: entry.store.parquet_path / file for name, (file, _) in STORED.items()}
        kept = {name: file for name, file in stored.items() if file.is_file()}
        for name, file in kept.items():
            pafs.copy_files(
                str(file.absolute()),
                paths[name],
                source_filesystem=pafs.LocalFileSystem(),
                destination_filesystem=filesystem,
            )
        for name, table in {"checks": checks_table([entry]), **figure_tables([entry])}.items():
            _write(filesystem, paths[name], table)
        sizes = _there(filesystem, paths.values())
        for name, file in kept.items():
            if sizes.get(paths[name]) != file.stat().st_size:
                raise StoreError(f"{place.name}: {paths[name]} is not what was written")
        said = {
            _SIZES: json.dumps({n: sizes[p] for n, p in paths.items() if p in sizes}),
            _BUILDS: json.dumps(entry.builds),
        }
        _write(filesystem, paths[_RUNS], runs_table([entry]).replace_schema_metadata(said))
    return sum(sizes.values())


def read_export(place: Place, wanted: Filter) -> tuple[list[Exported], list[str]]:
    """Return the runs that are there, and a line for each that is not there as a whole.

    Raises StoreError where the place cannot be read.
    """
    with _one_line_errors(place):
        infos = place.filesystem.get_file_info(pafs.FileSelector(place.root, recursive=True))
    sizes = {info.path: info.size for info in infos if info.type is pafs.FileType.File}
    names = {f"{name}.parquet" for name in (_RUNS, *_TABLES)}
    ours = [path.rpartition("/") for path in sizes]
    folders = sorted({folder for folder, _, name in ours if name in names})
    with ThreadPoolExecutor(_READ_TOGETHER) as pool:
        found = list(pool.map(lambda folder: _read_export(place, folder, sizes), folders))
    runs = [each for each in found if isinstance(each, Exported)]
    lines = [each for each in found if isinstance(each, str)]
    return [run for run in runs if wanted.takes(run.row, run.builds)], lines


def query(sql: str, runs: Sequence[Exported], place: Place) -> pa.Table:
    """Answer a query over exported runs. Raises QueryError, and StoreError."""
    tables: dict[str, Any] = {
        _RUNS: pa.Table.from_pylist([asdict(run.row) for run in runs], RUNS_SCHEMA)
    }
    with _one_line_errors(place):
        for name, schema in _TABLES.items():
            files = [run.files[name] for run in runs if name in run.files]
            tables[name] = files_as_table(files, schema, place.filesystem)
    return answer(sql, tables)


def _read_export(place: Place, folder: str, sizes: Mapping[str, int]) -> Exported | str:
    """Return the run of a folder, or why it does not count."""
    name = f"{place.name}{folder.removeprefix(place.root)}"
    path = f"{folder}/{_RUNS}.parquet"
    if path not in sizes:
        return f"{name}: it was not exported to its end"
    try:
        with place.filesystem.open_input_file(path) as file:
            table = pq.ParquetFile(file).read()
        said = table.schema.metadata or {}
        builds = tuple(str(build) for build in json.loads(said[_BUILDS]))
        written = {n: s for n, s in json.loads(said[_SIZES]).items() if n in _TABLES}
        row = row_from(table, name)
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError, AttributeError):
        return f"{name}: its {_RUNS}.parquet is not one that was exported"
    files = {table: f"{folder}/{table}.parquet" for table in written}
    for table, file in files.items():
        if sizes.get(file) != written[table]:
            return f"{name}: its {table}.parquet is not as it was exported"
    return Exported(row, builds, files)


def _there(filesystem: pafs.FileSystem, paths: Iterable[str]) -> dict[str, int]:
    """Return the sizes of those files that are there, in bytes."""
    infos = filesystem.get_file_info([*paths])
    return {info.path: info.size for info in infos if info.type is pafs.FileType.File}


def _write(filesystem: pafs.FileSystem, path: str, table: pa.Table) -> None:
    with filesystem.open_output_stream(path) as file:
        pq.write_table(table, file)


def _in_region(parts: SplitResult) -> SplitResult:
    """Name the region that the environment has; else Amazon would be asked for the bucket's.

    Also where the store is another one by `AWS_ENDPOINT_URL`, which takes any region.
    """
    known = [os.environ.get(name) for name in ("AWS_REGION", "AWS_DEFAULT_REGION")]
    if os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT_URL_S3"):
        known.append("us-east-1")
    region = next(filter(None, known), None)
    if region is None:
        return parts
    return parts._replace(query="&".join(filter(None, (parts.query, f"region={quote(region)}"))))


def _bare(parts: SplitResult) -> str:
    """Return a URI without its query, and without a name and password in front of its host."""
    host = parts.netloc
    if parts.scheme not in ("abfs", "abfss") or ":" in host.partition("@")[0]:
        host = host.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


@contextlib.contextmanager
def _one_line_errors(place: Place) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{place.name}: {_line(error)}") from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
