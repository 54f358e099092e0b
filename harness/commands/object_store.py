"""Runs at an object store, for the commands that write and read them there."""

from __future__ import annotations

from collections.abc import Sequence

import click
import pyarrow as pa

from results.catalogue import places
from results.catalogue.rows import Entry, Filter


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
