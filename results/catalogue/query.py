"""SQL over the catalogue and over what is stored of each run, by DuckDB: in this process, no JVM.

| table | rows |
|---|---|
| `runs`, `checks` | those of `results.catalogue.rows` |
| `operations`, `events`, `records` | of all these runs (`results.store.tables`), read where they
lie |
| `latencies`, `windows`, `recoveries` | by active fault (`results.catalogue.fault_figures`) |

A query reads these tables and nothing else. Arrow reads their files, so that DuckDB needs none:
files, the network and the loading of extensions are switched off before the query begins. A folder
that DuckDB may read it may write as well (`COPY ... TO`, `ATTACH`), so it is allowed none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from results.catalogue.fault_figures import SCHEMAS, figure_tables
from results.catalogue.rows import Entry, checks_table, refuse_namesakes, runs_table
from results.store.tables import (
    EVENTS_FILE,
    EVENTS_SCHEMA,
    OPERATIONS_FILE,
    OPERATIONS_SCHEMA,
    RECORDS_FILE,
    RECORDS_SCHEMA,
)

_STORED = {
    "operations": (OPERATIONS_FILE, OPERATIONS_SCHEMA),
    "events": (EVENTS_FILE, EVENTS_SCHEMA),
    "records": (RECORDS_FILE, RECORDS_SCHEMA),
}
"""By table: its file in a run's folder, and its columns."""


class QueryError(ValueError):
    """The query cannot be answered; one line."""


def query(sql: str, entries: Sequence[Entry]) -> pa.Table:
    """Answer one query. Raises QueryError, also where DuckDB is not installed.

    Raises StoreError where tables could be joined by the name of a run that several have.
    """
    if any(name in sql.lower() for name in (*_STORED, *SCHEMAS, "checks")):
        refuse_namesakes(entry.row.run for entry in entries)
    tables: dict[str, Any] = {"runs": runs_table(entries), "checks": checks_table(entries)}
    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    parquet = ds.ParquetFileFormat(default_fragment_scan_options=checked)
    for name, (file, schema) in _STORED.items():
        paths = [entry.store.parquet_path.absolute() / file for entry in entries]
        files = [str(path) for path in paths if path.is_file()]
        kinds = (getattr(field.type, "value_type", field.type) for field in schema)
        plain = pa.schema([*zip(schema.names, kinds, strict=True)])
        tables[name] = ds.dataset(files, plain, filesystem=pafs.LocalFileSystem(), format=parquet)
    is_of_figures = any(name in sql.lower() for name in SCHEMAS)  # they are computed for it
    tables |= figure_tables(entries if is_of_figures else ())
    try:
        import duckdb  # noqa: PLC0415  (an extra: nothing else needs it)
    except ImportError as error:
        raise QueryError(
            "queries need DuckDB, which is not installed: pip install duckdb"
        ) from error
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
            for name, table in tables.items():
                connection.register(name, table)
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            found = connection.sql(sql)
            if found is None:
                raise QueryError("this is no query: it gives no table")
            result: pa.Table = found.to_arrow_table()
            if len(set(result.column_names)) < result.num_columns:
                raise QueryError("two columns have one name: give each its own with AS")
            return result
    except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
        line = " ".join(str(error).split())[:500]
        if isinstance(error, duckdb.InvalidInputException):
            line = _damage(tables[name] for name in _STORED) or line
        raise QueryError(line) from error


def _damage(stored: Iterable[ds.Dataset]) -> str:
    """Return a line that names a damaged file, or nothing: the error of a page names none."""
    for table in stored:
        for fragment in table.get_fragments():
            try:
                for _ in fragment.to_batches(schema=table.schema):
                    pass
            except (pa.ArrowException, OSError):
                run = Path(fragment.path).parent.parent
                return f"{fragment.path}: damaged; kraftprobe check {run} writes it anew"
    return ""
