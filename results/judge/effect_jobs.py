"""The join of operations and records by key, as a job of Spark over the tables of a run.

Row groups of operations and of records are read where tasks run, and shuffled by key into buckets,
as many as there are row groups of operations: a bucket has all operations and all effects of its
keys, and `checkers.evidence.effects` judges it as it does a whole run in this process.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.evidence import LogRecord
from checkers.evidence.effects import RULES, EffectAudit, Effects, audit_effects, effects_of, merge
from checkers.history import Operation
from checkers.history.arrow import encode, integers, numbers
from checkers.history.column_files import from_table
from checkers.verdict import Anomaly
from results.judge.session import SparkError, one_line_errors
from results.store.tables import OPERATIONS_FILE, OPERATIONS_SCHEMA, RECORDS_FILE

_BUCKET = pa.field("bucket", pa.int64())
_OPERATIONS = pa.schema(
    [_BUCKET]
    + [
        pa.field(field.name, pa.int64() if field.type == pa.int64() else pa.string())
        for field in OPERATIONS_SCHEMA
    ]
)
_EFFECTS = pa.schema(
    [
        _BUCKET,
        pa.field("key", pa.string()),
        pa.field("value", pa.string()),
        pa.field("offset", pa.int64()),
    ]
)
_ANSWERS = pa.schema([pa.field("answer", pa.string())])
_ROWS_TOGETHER = 1 << 14


def effect_auditor(spark: Any, folder: Path) -> EffectAudit:
    """Return what compares operations and records by a job over the tables of a run.

    Rules that do not go by key are judged in this process, and so are records of more logs than
    one. It raises SparkError.
    """
    folder = folder.absolute()
    files = {name: pq.read_metadata(folder / name) for name in (OPERATIONS_FILE, RECORDS_FILE)}

    def audit(
        workload: str, log: Sequence[LogRecord], operations: Sequence[Operation], end: int
    ) -> list[Anomaly]:
        if not RULES[workload].by_key or log[0].node != log[-1].node:
            return audit_effects(workload, log, operations, end)
        if files[OPERATIONS_FILE].num_rows != len(operations):
            raise SparkError(f"{folder / OPERATIONS_FILE}: the operations are not the journal's")
        node = log[0].node
        groups, others = (files[name].num_row_groups for name in (OPERATIONS_FILE, RECORDS_FILE))
        buckets = max(1, groups)

        def operations_table(group: int) -> pa.Table:
            return operations_of(folder / OPERATIONS_FILE, group, buckets)

        def done(group: int) -> pa.Table:
            return effects_in(folder / RECORDS_FILE, group, buckets, workload, node)

        def judge(mine: pa.Table, theirs: pa.Table) -> pa.Table:
            found = judge_bucket(workload, mine, theirs, end)
            return pa.table({"answer": [json.dumps(a) for a in found]}, schema=_ANSWERS)

        with one_line_errors():
            sides = (
                _spread(spark, groups, operations_table, _OPERATIONS),
                _spread(spark, others, done, _EFFECTS),
            )
            mine, theirs = (side.groupBy("bucket") for side in sides)
            answers = mine.cogroup(theirs).applyInArrow(judge, _ddl(_ANSWERS)).toArrow()
        return merge(json.loads(text) for text in answers.column("answer").to_pylist())

    return audit


def operations_of(path: Path, group: int, buckets: int) -> pa.Table:
    """Return a row group of stored operations, with the bucket of each."""
    table = pq.ParquetFile(path).read_row_group(group)
    return _add_buckets(table, buckets).cast(_OPERATIONS)


def effects_in(path: Path, group: int, buckets: int, workload: str, node: str) -> pa.Table:
    """Return the effects of a node's records in a row group, with the bucket of each."""
    rule = RULES[workload]
    rows = pq.ParquetFile(path).read_row_group(group, columns=["node", "offset", "kind", "value"])
    kinds = sorted(rule.kinds)
    wanted = (pc.field("node") == node) & pc.field("kind").isin(kinds)
    records = (
        LogRecord(node, row["offset"], 0, 0, row["kind"], json.loads(row["value"]))
        for batch in rows.filter(wanted).to_batches(_ROWS_TOGETHER)
        for row in batch.to_pylist()
    )
    found = effects_of(rule, records)
    columns = {"key": found.keys, "value": found.values, "offset": integers(found.offsets)}
    table = pa.table(columns, schema=pa.schema([*_EFFECTS][1:]))
    return _add_buckets(table, buckets)


def judge_bucket(workload: str, operations: pa.Table, effects: pa.Table, end: int) -> list[Anomaly]:
    """Judge one bucket."""
    effects = effects.sort_by("offset")  # a shuffle keeps no order
    keys, values = (effects.column(name).to_pylist() for name in ("key", "value"))
    found = Effects(keys, values, numbers(effects, "offset"))
    return list(RULES[workload].judge(found, from_table(operations), end))


def _add_buckets(table: pa.Table, buckets: int) -> pa.Table:
    codes, keys = encode(table, "key")
    texts = [(key or "").encode("utf-8", "surrogatepass") for key in keys]
    bucket = np.array([zlib.crc32(text) % buckets for text in texts] or [0], np.int64)
    return table.add_column(0, _BUCKET, integers(bucket[codes]))


def _spread(spark: Any, groups: int, read: Callable[[int], pa.Table], schema: pa.Schema) -> Any:
    """Return the rows of all row groups as a frame; each is read by a task of its own."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for group in batch.column(0).to_pylist():
                yield from read(group).to_batches(_ROWS_TOGETHER)

    return spark.range(0, groups, 1, max(1, groups)).mapInArrow(rows, _ddl(schema))


def _ddl(schema: pa.Schema) -> str:
    kinds = {pa.int64(): "long", pa.string(): "string"}
    return ", ".join(f"`{field.name}` {kinds[field.type]}" for field in schema)
