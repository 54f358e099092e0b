"""SQL over the catalogue and over what is stored of each run, by DuckDB: in this process, no JVM.

| table | rows |
|---|---|
| `runs`, `checks` | those of `results.catalogue` |
| `operations`, `events`, `records` | of all these runs (`results.tables`), read where they lie |
| `latencies`, `windows`, `recoveries` | by active fault (`results.fault_figures`) |

A query reads these tables and nothing else: files beside the runs, the network and the loading of
extensions are switched off before it begins, and there is nothing that it could change.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from results.catalogue import Entry, checks_table, runs_table
from results.fault_figures import SCHEMAS, figure_tables
from results.tables import (
    EVENTS_FILE,
    EVENTS_SCHEMA,
    OPERATIONS_FILE,
    OPERATIONS_SCHEMA,
    RECORDS_FILE,
    RECORDS_SCHEMA,
)

_FILES = {
    "operations": (OPERATIONS_FILE, OPERATIONS_SCHEMA),
    "events": (EVENTS_FILE, EVENTS_SCHEMA),
    "records": (RECORDS_FILE, RECORDS_SCHEMA),
}


class QueryError(ValueError):
    """The query cannot be answered; one line."""


def query(sql: str, entries: Sequence[Entry]) -> pa.Table:
    """Answer one query. Raises QueryError, also where DuckDB is not installed."""
    try:
        import duckdb  # noqa: PLC0415  (an extra: nothing else needs it)
    except ImportError as error:
        raise QueryError(
            "queries need DuckDB, which is not installed: pip install duckdb"
        ) from error
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
            connection.register("runs", runs_table(entries))
            connection.register("checks", checks_table(entries))
            for name, (file, schema) in _FILES.items():
                paths = [str(entry.store.parquet_path.resolve() / file) for entry in entries]
                stored = [path for path in paths if Path(path).is_file()]
                if not stored:
                    connection.register(name, schema.empty_table())
                    continue
                quoted = ", ".join("'" + path.replace("'", "''") + "'" for path in stored)
                connection.execute(
                    f"CREATE VIEW {name} AS FROM read_parquet([{quoted}], union_by_name = true)"
                )
            for name, figures in figure_tables(entries if _names_any(sql) else ()).items():
                connection.register(name, figures)
            _lock(connection, entries)
            found = connection.sql(sql)
            if found is None:
                raise QueryError("this is no query: it gives no table")
            table: pa.Table = found.to_arrow_table()
            return table
    except duckdb.Error as error:
        raise QueryError(" ".join(str(error).split())[:500]) from error


def _names_any(sql: str) -> bool:
    """Whether a query may name a table of figures, which are computed for it."""
    return any(name in sql.lower() for name in SCHEMAS)


def _lock(connection: Any, entries: Sequence[Entry]) -> None:
    """Let the connection read the tables of the runs, and no other file."""
    folders = [str(entry.store.parquet_path.resolve()) + "/" for entry in entries]
    quoted = ", ".join("'" + folder.replace("'", "''") + "'" for folder in folders)
    connection.execute(f"SET allowed_directories = [{quoted}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
