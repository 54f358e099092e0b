"""Tables as files and as plain rows, and runs at an object store."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from results.catalogue import places
from results.catalogue.rows import Entry, Filter
from results.store.files import write_atomically


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
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, str | int | None) else str(value)


def _json(table: pa.Table) -> bytes:
    return json.dumps(rows_of(table), indent=1).encode("ascii") + b"\n"


def _csv(table: pa.Table) -> bytes:
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
    ".json": _json,
}
"""By the ending of a file's name."""


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table in the format of the path's ending, whole or not at all. Raises OSError."""
    write_atomically(path, FORMATS[path.suffix](table))


def export_runs(entries: Sequence[Entry], uri: str) -> str:
    """Export runs to the place that a URI names, and say what was done. Raises StoreError."""
    place = places.place_of(uri)
    size_bytes = sum(places.export(entry, place) for entry in entries)
    bare = sum(not entry.store.parquet_path.is_dir() for entry in entries)
    without = f", {bare} without operations, as they were not judged" if bare else ""
    runs = f"{len(entries)} run{'s' * (len(entries) != 1)}"
    return f"{place.name}: {runs}, {size_bytes / 1e6:,.1f} MB{without}"


def exported_runs(uri: str, wanted: Filter) -> tuple[places.Place, list[places.Exported]]:
    """Return the runs that were exported to a place; a line on stderr for each that is not whole.

    Raises StoreError.
    """
    place = places.place_of(uri)
    found, lines = places.read_export(place, wanted)
    for line in lines:
        click.echo(f"kraftprobe: {line}; left out", err=True)
    return place, found


def query_exported(sql: str, uri: str, wanted: Filter) -> pa.Table:
    """Answer a query over exported runs. Raises QueryError and StoreError."""
    place, found = exported_runs(uri, wanted)
    return places.query(sql, found, place)
