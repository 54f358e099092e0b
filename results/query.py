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

from collections.abc import Iterable, Mapping, Sequence
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

STORED = {
    "operations": (OPERATIONS_FILE, OPERATIONS_SCHEMA),
    "events": (EVENTS_FILE, EVENTS_SCHEMA),
    "records": (RECORDS_FILE, RECORDS_SCHEMA),
}
"""By table: its file in a run's folder, and its columns."""


class QueryError(ValueError):
    """The query cannot be answered; one line."""


def query(sql: str, entries: Sequence[Entry]) -> pa.Table:
    """Answer one query. Raises QueryError, also where DuckDB is not installed."""
    tables = {"runs": runs_table(entries), "checks": checks_table(entries)}
    stored: dict[str, list[Path]] = {}
    for name, (file, schema) in STORED.items():
        paths = [entry.store.parquet_path.resolve() / file for entry in entries]
        stored[name] = [path for path in paths if path.is_file()]
        if not stored[name]:
            tables[name] = schema.empty_table()
    return answer(sql, tables | figure_tables(entries if _names_any(sql) else ()), stored)


def answer(
    sql: str, tables: Mapping[str, Any], stored: Mapping[str, Sequence[Path]] | None = None
) -> pa.Table:
    """Answer a query over tables or data sets of Arrow, and stored files. Raises QueryError."""
    try:
        import duckdb  # noqa: PLC0415  (an extra: nothing else needs it)
    except ImportError as error:
        raise QueryError(
            "queries need DuckDB, which is not installed: pip install duckdb"
        ) from error
    stored = stored or {}
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
            for name, table in tables.items():
                connection.register(name, table)
            for name, paths in stored.items():
                if paths:
                    files = f"read_parquet([{_quoted(paths)}], union_by_name = true)"
                    connection.execute(f"CREATE VIEW {name} AS FROM {files}")
            _lock(connection, {path.parent for paths in stored.values() for path in paths})
            found = connection.sql(sql)
            if found is None:
                raise QueryError("this is no query: it gives no table")
            result: pa.Table = found.to_arrow_table()
            return result
    except duckdb.Error as error:
        raise QueryError(" ".join(str(error).split())[:500]) from error


def _names_any(sql: str) -> bool:
    """Whether a query may name a table of figures, which are computed for it."""
    return any(name in sql.lower() for name in SCHEMAS)


def _lock(connection: Any, folders: Iterable[Path]) -> None:
    """Let the connection read files of these folders, and no other file."""
    quoted = _quoted(f"{folder}/" for folder in folders)
    connection.execute(f"SET allowed_directories = [{quoted}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _quoted(texts: Iterable[object]) -> str:
    return ", ".join("'" + str(text).replace("'", "''") + "'" for text in texts)
