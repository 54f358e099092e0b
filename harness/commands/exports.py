"""Tables as files, as plain rows, and below a URI."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyarrow.compute import replace_substring_regex

from results.catalogue.fault_figures import figure_tables
from results.catalogue.rows import Entry, checks_table, refuse_namesakes, runs_table
from results.store.files import StoreError, write_atomically


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows of what JSON has: times as text, numbers that are none as null."""
    return [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):  # as DuckDB has sums of whole numbers
        return int(value) if value == value.to_integral_value() else float(value)
    return value if isinstance(value, str | int | None) else str(value)


def _csv(table: pa.Table) -> bytes:
    """Return the table with an apostrophe before what a spreadsheet would take for a formula."""
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            plain = replace_substring_regex(table.column(number), "^([-=+@])", r"'\1")
            table = table.set_column(number, field, plain)
    data = io.BytesIO()
    pc.write_csv(table, data)
    return data.getvalue()


def _parquet(table: pa.Table) -> bytes:
    data = io.BytesIO()
    pq.write_table(table, data)
    return data.getvalue()


FORMATS: Mapping[str, Callable[[pa.Table], bytes]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".json": lambda table: json.dumps(rows_of(table), indent=1).encode("ascii") + b"\n",
}
"""By the ending of a file's name."""


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table in the format of the path's ending, whole or not at all. Raises OSError."""
    write_atomically(path, FORMATS[path.suffix](table))


def copy_tables(entries: Iterable[Entry], uri: str) -> None:
    """Copy all tables of each run below a URI, its row last: a run is there when its row is.

    Raises StoreError, also where two runs would have one folder there.
    """
    entries = [*entries]
    refuse_namesakes(entry.store.name for entry in entries)
    try:
        filesystem, root = pafs.FileSystem.from_uri(uri)
        for entry in entries:
            folder = f"{root.rstrip('/')}/{entry.store.name}"
            filesystem.create_dir(folder)
            with entry.store.lock():  # a judgement replaces the tables
                if entry.store.parquet_path.is_dir():
                    source = str(entry.store.parquet_path.absolute())
                    here = pafs.LocalFileSystem()
                    pafs.copy_files(source, folder, here, filesystem)
                made = {"checks": checks_table([entry]), **figure_tables([entry])}
                for name, table in {**made, "runs": runs_table([entry])}.items():
                    with filesystem.open_output_stream(f"{folder}/{name}.parquet") as file:
                        pq.write_table(table, file)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise StoreError(" ".join(str(error).split())[:500]) from error
