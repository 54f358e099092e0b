"""A run's history as tables, the contract between recording and judging: `history.parquet/`.

All tables are read by whatever reads Parquet; `campaign` and `run` are columns, so that the files
of many runs (`runs/*/*/history.parquet/operations.parquet`) are one table. Times are nanoseconds
since the run began, of the harness's monotonic clock.

`operations.parquet`, one row an operation of a client, paired from its events:

| column | type | meaning |
|---|---|---|
| campaign, run | text | of which run, by the plan |
| index | int64 | index of the invocation in the journal; names the operation in its run |
| process | JSON text | who did it: `7` is a client; a process that met `info` is never seen again |
| f | text | what was done: read, write, cas, create, ... |
| key | text, null | on what |
| input | JSON text, null | argument of the invocation |
| output | JSON text, null | result of the completion |
| type | text | certainty: `ok` it happened, `fail` it never will, `info` nobody knows |
| invoke_ns | int64 | when it was invoked |
| complete_ns | int64 | when it completed; 2^63-1 of `info`: it may take effect at any time |
| error | text, null | of fail and info: why |
| node | text, null | the node that answered, or else that was asked |
| offset, epoch | int64, null | where the server said that it put the write |
| end_index | int64, null | index of the completion; null where there is none |

Its rows stand by key, and within a key in order of invocation. No key lies in two row groups, so
that a row group is a piece of work for a check by key, which needs to see nothing else. A row group
holds some `ROWS_TOGETHER` rows, or one key with more.

`events.parquet`, one row an event of the journal, in its order, those of the nemesis included:
`campaign`, `run`, `index` and `time_ns` (int64), `process` (JSON text, `"nemesis"` injects faults),
`type` (invoke, ok, fail or info), `f`, `key`, `value` (JSON text), `error`, `node`, `offset`,
`epoch`, of which all from `key` on may be null.

`records.parquet`, one row a record of a node's metadata log, of all nodes, as far as the journal
covers their logs: `campaign`, `run`, `node`, `offset`, `epoch` (of its batch), `batch_crc` (CRC-32C
of its batch; int64), `kind` (as `checkers.evidence.LogRecord` has it) and `value` (JSON text). Its
rows stand by offset, and within an offset by node. No offset lies in two row groups, so that a row
group is a piece of work for the audit of the logs (`checkers.evidence.log_audit`).

Values are JSON text because they have no type in common: a register's value is a string, a
topic's is an object, a final read's is a list of names. Texts are dictionary-encoded.

The journal remains what a judgement begins with (`results.store.ingest`): tables that could be
changed without it would be something to trust.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from checkers.evidence import LogRecord
from checkers.evidence.log_audit import LogColumns
from checkers.history import Event, Operation
from checkers.history.arrow import encode, integers, numbers, take_rows, texts
from porcupine_py.columns import Int64s

EVENTS_FILE = "events.parquet"
OPERATIONS_FILE = "operations.parquet"
RECORDS_FILE = "records.parquet"
ROWS_TOGETHER = 1 << 17

_TEXT = pa.dictionary(pa.int32(), pa.string())


def _schema(fields: str) -> pa.Schema:
    types = {"s": _TEXT, "t": pa.string(), "i": pa.int64()}
    pairs = (field.split(":") for field in fields.split())
    return pa.schema([pa.field(name, types[kind]) for name, kind in pairs])


EVENTS_SCHEMA = _schema(
    "campaign:s run:s index:i time_ns:i process:s type:s f:s key:s value:s error:s node:s "
    "offset:i epoch:i"
)
OPERATIONS_SCHEMA = _schema(
    "campaign:s run:s index:i process:s f:s key:s input:s output:s type:s invoke_ns:i "
    "complete_ns:i error:s node:s offset:i epoch:i end_index:i"
)
RECORDS_SCHEMA = _schema("campaign:s run:s node:s offset:i epoch:i batch_crc:i kind:s value:t")
_AT_ONCE = 1 << 14
"""Records of which the values are texts of Python at one time."""
_JSON = frozenset({"process", "value", "input", "output"})


@dataclass(frozen=True, slots=True)
class RunName:
    """Which run the rows of a table are of."""

    campaign: str
    run: str


def events_table(name: RunName, events: Sequence[Event]) -> pa.Table:
    """Return the events of a run as a table."""
    return _table(name, events, EVENTS_SCHEMA)


def operations_table(name: RunName, operations: Sequence[Operation]) -> pa.Table:
    """Return the operations of a run as a table."""
    return _table(name, operations, OPERATIONS_SCHEMA)


def records_table(name: RunName, logs: Mapping[str, Sequence[LogRecord]]) -> pa.Table:
    """Return the records of all logs as a table, by offset and then in the order of the nodes."""
    records = sorted(chain.from_iterable(logs.values()), key=attrgetter("offset"))
    kinds = list(dict.fromkeys(record.kind for record in records))  # sorted: nodes keep their order
    kind_of, node_of = ({text: n for n, text in enumerate(each)} for each in (kinds, logs))

    def column(values: Iterable[int]) -> Int64s:
        return np.fromiter(values, np.int64, len(records))

    coded_as = {"campaign": [name.campaign], "run": [name.run], "node": [*logs], "kind": kinds}
    codes = {
        "node": column(node_of[record.node] for record in records),
        "kind": column(kind_of[record.kind] for record in records),
    }
    starts = range(0, max(1, len(records)), _AT_ONCE)
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        **{
            field: pa.DictionaryArray.from_arrays(
                integers(codes.get(field, np.zeros(len(records))).astype(np.int32)),
                texts([_sound(text) for text in known]),
            )
            for field, known in coded_as.items()
        },
        **{
            f: integers(column(map(attrgetter(f), records)))
            for f in ("offset", "epoch", "batch_crc")
        },
        "value": pa.chunked_array([_values(records[at : at + _AT_ONCE]) for at in starts]),
    }
    ordered = [columns[field] for field in RECORDS_SCHEMA.names]
    return pa.Table.from_arrays(ordered, schema=RECORDS_SCHEMA)


def _values(records: Sequence[LogRecord]) -> pa.Array:
    return texts([json.dumps(record.value, separators=(",", ":")) for record in records])


def _sound(text: str) -> str:
    """Return a text of unknown origin without halves of characters, which Arrow cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def log_columns(table: pa.Table, nodes: Sequence[str]) -> LogColumns:
    """Return the records of these nodes for an audit."""
    codes, names = encode(table, "node")
    place = np.array([nodes.index(n) if n in nodes else -1 for n in names] or [-1], np.int64)[codes]
    mine = np.flatnonzero(place >= 0)
    found = [numbers(table, field)[mine] for field in ("offset", "epoch", "batch_crc")]
    return LogColumns(nodes, place[mine], *found)


def write_tables(folder: Path, events: pa.Table, operations: pa.Table, records: pa.Table) -> None:
    """Put the tables at `folder`; older ones there are replaced as a whole.

    The caller is the only one that writes there: what a killed one left aside is removed.
    """
    prefix = f".{folder.name}."
    for left in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    aside = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    aside.chmod(0o755)
    pq.write_table(events, aside / EVENTS_FILE, write_page_checksum=True)
    _write_groups(aside / OPERATIONS_FILE, operations, *_by_key(operations))
    begins = np.flatnonzero(np.diff(numbers(records, "offset"))) + 1
    _write_groups(
        aside / RECORDS_FILE, records, np.arange(records.num_rows), _cuts(begins, records.num_rows)
    )
    if folder.exists():
        shutil.rmtree(folder)
    aside.rename(folder)


def _write_groups(path: Path, table: pa.Table, order: Int64s, cuts: Sequence[int]) -> None:
    """Write the rows in this order, those between two cuts as one row group.

    One group of rows is copied at a time: a copy of all would be the most that a judgement holds.
    """
    table = table.unify_dictionaries()
    with pq.ParquetWriter(path, table.schema, write_page_checksum=True) as file:
        for begin, end in pairwise(cuts):
            rows = order[begin:end]
            group = [take_rows(column, rows) for column in table.columns]
            part = pa.Table.from_arrays(group, schema=table.schema)
            file.write_table(part, row_group_size=end - begin)


def _by_key(operations: pa.Table) -> tuple[Int64s, list[int]]:
    """Return the rows in order of key, and where row groups begin and end."""
    codes, keys = encode(operations, "key")
    ends = np.cumsum(np.bincount(codes, minlength=len(keys)))
    return np.argsort(codes, kind="stable"), _cuts(ends[:-1], len(codes))


def _cuts(allowed: NDArray[Any], rows: int) -> list[int]:
    """Return where row groups begin and end: at rows where they may, some `ROWS_TOGETHER` apart."""
    cuts = [0]
    before = 0
    for end in [*allowed.tolist(), rows]:
        if end - cuts[-1] > ROWS_TOGETHER and before > cuts[-1]:
            cuts.append(before)
        before = end
    if before > cuts[-1]:
        cuts.append(before)
    return cuts


def _table(name: RunName, rows: Sequence[Any], schema: pa.Schema) -> pa.Table:
    columns: list[pa.Array] = []
    for field in schema:
        values: list[Any]
        if field.name in ("campaign", "run"):
            values = [getattr(name, field.name)] * len(rows)
        elif field.name in _JSON:
            values = [_to_json(getattr(row, field.name)) for row in rows]
        elif field.name == "type":
            values = [row.type.value for row in rows]
        else:
            values = [getattr(row, field.name) for row in rows]
        plain = pa.string() if field.type == _TEXT else field.type
        columns.append(pa.array(values, type=plain).cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"), allow_nan=False)
