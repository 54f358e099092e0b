"""A history as tables: `history.parquet/` of a run, and what Spark's jobs pass around.

`events.parquet`, one row an event of the journal:

| column | type | meaning |
|---|---|---|
| run | string | name of the run |
| index, time_ns | int64 | as in the journal |
| process | string | JSON: `7` is a client, `"nemesis"` the nemesis |
| type, f | string | |
| key, error, node | string, null | |
| value | string, null | JSON text; null where the journal has no value |
| offset, epoch | int64, null | |

`operations.parquet`, one row a client operation, paired from the events: `run`, `index`,
`process`, `f`, `key`, `input` and `output` (JSON as above), `type`, `invoke_ns`, `complete_ns`
(2^63-1 where it never completed), `error`, `node`, `offset`, `epoch`, `end_index` (null where it
never completed).

Values are JSON text because they have no type in common: a register's value is a string, a
topic's is an object, a final read's is a list of names.
"""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.history import Event, EventType, Operation

EVENTS_FILE = "events.parquet"
OPERATIONS_FILE = "operations.parquet"

_TEXT_EVENT = ("type", "f", "key", "error", "node")
_JSON_EVENT = ("process", "value")
_TEXT_OPERATION = ("f", "key", "type", "error", "node")
_JSON_OPERATION = ("process", "input", "output")


def _schema(fields: str) -> pa.Schema:
    types = {"s": pa.string(), "i": pa.int64()}
    pairs = (field.split(":") for field in fields.split())
    return pa.schema([pa.field(name, types[kind]) for name, kind in pairs])


EVENTS_SCHEMA = _schema(
    "run:s index:i time_ns:i process:s type:s f:s key:s value:s error:s node:s offset:i epoch:i"
)
OPERATIONS_SCHEMA = _schema(
    "run:s index:i process:s f:s key:s input:s output:s type:s invoke_ns:i complete_ns:i "
    "error:s node:s offset:i epoch:i end_index:i"
)


def spark_ddl(schema: pa.Schema) -> str:
    """Return the schema as Spark spells it."""
    names = {pa.string(): "string", pa.int64(): "long"}
    return ", ".join(f"`{field.name}` {names[field.type]}" for field in schema)


def events_table(run: str, events: Sequence[Event]) -> pa.Table:
    """Return the events of a run as a table."""
    return _table(run, events, EVENTS_SCHEMA, _JSON_EVENT)


def operations_table(run: str, operations: Sequence[Operation]) -> pa.Table:
    """Return the operations of a run as a table."""
    return _table(run, operations, OPERATIONS_SCHEMA, _JSON_OPERATION)


def events_from(table: pa.Table) -> list[Event]:
    """Return the events of a table, in order of their index."""
    return sorted((_event(row) for row in table.to_pylist()), key=lambda event: event.index)


def operations_from(table: pa.Table) -> list[Operation]:
    """Return the operations of a table, in order of invocation."""
    rows = (_operation(row) for row in table.to_pylist())
    return sorted(rows, key=lambda operation: operation.index)


def write_tables(folder: Path, events: pa.Table, operations: pa.Table) -> None:
    """Put both tables at `folder`; an older pair there is replaced as a whole.

    The caller is the only one that writes there: what a killed one left aside is removed.
    """
    prefix = f".{folder.name}."
    for left in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    aside = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    aside.chmod(0o755)
    pq.write_table(events, aside / EVENTS_FILE)
    pq.write_table(operations, aside / OPERATIONS_FILE)
    if folder.exists():
        shutil.rmtree(folder)
    aside.rename(folder)


def _table(run: str, rows: Sequence[Any], schema: pa.Schema, as_json: Sequence[str]) -> pa.Table:
    columns: list[pa.Array] = []
    for field in schema:
        values: list[Any]
        if field.name == "run":
            values = [run] * len(rows)
        elif field.name in as_json:
            values = [_to_json(getattr(row, field.name)) for row in rows]
        elif field.name == "type":
            values = [row.type.value for row in rows]
        else:
            values = [getattr(row, field.name) for row in rows]
        columns.append(pa.array(values, type=field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _event(row: dict[str, Any]) -> Event:
    del row["run"]
    row["type"] = EventType(row["type"])
    row["process"] = _process(row["process"])
    row["value"] = _from_json(row["value"])
    return Event(**row)


def _operation(row: dict[str, Any]) -> Operation:
    del row["run"]
    row["type"] = EventType(row["type"])
    row["process"] = _process(row["process"])
    row["input"] = _from_json(row["input"])
    row["output"] = _from_json(row["output"])
    return Operation(**row)


def _to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"), allow_nan=False)


def _from_json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


@functools.lru_cache(maxsize=100_000)
def _process(text: str) -> int | str:
    process = json.loads(text)
    assert isinstance(process, int | str)
    return process
