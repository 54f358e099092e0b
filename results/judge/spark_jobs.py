"""The jobs of Spark: it decides where and when a piece of work runs, and the pieces are files.

Each task is given the number of its piece by `spark.range`, one a partition, and reads what it
needs from the store itself. Nothing is sent through the driver or shuffled between the processes of
Python and the JVM but results: what is computed for a piece is computed by the function that this
process would call, and pieces are whole, so that the verdicts are the same.

Tasks start in order of their partitions, the largest pieces first: a key of a million operations,
which nothing can split, begins at once and has a task to itself while others pass it by.

The join of operations and records by key is the one that shuffles: row groups of both are read
where tasks run, and spread by key into buckets, as many as there are row groups of operations. A
bucket has all operations and all effects of its keys, and `checkers.evidence.effects` judges it as
it does a whole run in this process.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.evidence import LogRecord
from checkers.evidence.assisted import Change, apply_changes
from checkers.evidence.effects import RULES, EffectAudit, Effects, audit_effects, effects_of
from checkers.evidence.effects import merge as merge_effects
from checkers.evidence.log_audit import Found, LogAudit, LogFindings, Logs, audit_range, merge
from checkers.history import Operation
from checkers.history.arrow import encode, integers, numbers
from checkers.history.column_files import from_table
from checkers.history.recorded import Recorded
from checkers.registry import (
    CheckSpec,
    KeyCheck,
    RunInput,
    changes_of,
    check_operations,
    find_check,
    never,
)
from checkers.run_input import asked_for
from checkers.verdict import Anomaly, CheckResult
from porcupine_py.search.outcome import Cancelled
from results.judge.session import SparkError, one_line_errors
from results.store.model import check_from_json
from results.store.tables import OPERATIONS_FILE, OPERATIONS_SCHEMA, RECORDS_FILE, log_columns

_ANSWERS = pa.schema([pa.field("piece", pa.int64()), pa.field("answer", pa.string())])
_ANSWERS_DDL = "piece long, answer string"


def spread(spark: Any, pieces: int, work: Callable[[int], Sequence[str]]) -> list[list[str]]:
    """Do the work of each piece as a task of its own, in this order; return their answers.

    Raises SparkError.
    """

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for piece in batch.column(0).to_pylist():
                for answer in work(piece):
                    yield pa.RecordBatch.from_pydict(
                        {"piece": [piece], "answer": [answer]}, schema=_ANSWERS
                    )

    found: list[list[str]] = [[] for _ in range(pieces)]
    if pieces:
        with one_line_errors():
            frame = spark.range(0, pieces, 1, pieces).mapInArrow(answers, _ANSWERS_DDL)
            for row in frame.toArrow().to_pylist():
                found[row["piece"]].append(row["answer"])
    return found


def key_checker(
    spark: Any, operations: Path
) -> Callable[[KeyCheck, CheckSpec, RunInput, Cancelled], list[CheckResult]]:
    """Return what judges the keys of a run by a job over the row groups of its stored operations.

    It raises SparkError; it is not cancelled.
    """
    operations = operations.absolute()  # Spark's workers run in a folder of their own
    rows = pq.read_metadata(operations)
    sizes = [rows.row_group(group).num_rows for group in range(rows.num_row_groups)]
    groups = sorted(range(len(sizes)), key=lambda group: (-sizes[group], group))

    def check_keys(
        check: KeyCheck, spec: CheckSpec, run: RunInput, cancelled: Cancelled
    ) -> list[CheckResult]:
        del check, cancelled
        changes = changes_of(spec, run)

        def judge_group(piece: int) -> list[str]:
            results = _judge_keys(operations, groups[piece], spec, changes)
            return [json.dumps(asdict(result), allow_nan=False) for result in results]

        answers = spread(spark, len(groups), judge_group)
        in_order = sorted(range(len(groups)), key=lambda piece: groups[piece])
        return [check_from_json(json.loads(text)) for piece in in_order for text in answers[piece]]

    return check_keys


def log_auditor(spark: Any, records: Path) -> LogAudit:
    """Return what audits the logs of a run by a job over the row groups of its stored records.

    A row group is a range of offsets of all nodes. It raises SparkError.
    """
    records = records.absolute()
    groups = pq.read_metadata(records).num_row_groups

    def audit(logs: Logs, committed: Mapping[str, int]) -> LogFindings:
        nodes = tuple(logs)

        def audit_group(group: int) -> list[str]:
            rows = pq.ParquetFile(records).read_row_group(
                group, columns=["node", "offset", "epoch", "batch_crc"]
            )
            return [json.dumps(asdict(audit_range(log_columns(rows, nodes), committed)))]

        answers = spread(spark, groups, audit_group)
        found = merge(LogFindings(**json.loads(text)) for texts in answers for text in texts)
        if found.edges.keys() != {node for node, log in logs.items() if log}:
            raise SparkError(f"{records}: the stored records are not those of the nodes' logs")
        return LogFindings(**{kind: _in_order(nodes, of) for kind, of in asdict(found).items()})

    return audit


def _in_order(nodes: Sequence[str], found: Found) -> Found:
    """Return what was found as one audit of all logs would."""
    return {node: tuple(found[node]) for node in nodes if node in found}


def _judge_keys(
    operations: Path, group: int, spec: CheckSpec, changes: dict[int, Change]
) -> list[CheckResult]:
    """Judge the keys of one row group."""
    check = find_check(spec)
    assert isinstance(check, KeyCheck)
    columns = from_table(pq.ParquetFile(operations).read_row_group(group))
    rows = {int(index): row for row, index in enumerate(columns.index)} if changes else {}
    mine = {rows[index]: change for index, change in changes.items() if index in rows}
    judged = asked_for(apply_changes(Recorded(columns), mine), spec.options)
    return check_operations(check, spec, judged, never)


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
_EFFECT_ANSWERS = pa.schema([pa.field("answer", pa.string())])
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
            return pa.table({"answer": [json.dumps(a) for a in found]}, schema=_EFFECT_ANSWERS)

        with one_line_errors():
            sides = (
                _spread(spark, groups, operations_table, _OPERATIONS),
                _spread(spark, others, done, _EFFECTS),
            )
            mine, theirs = (side.groupBy("bucket") for side in sides)
            answers = mine.cogroup(theirs).applyInArrow(judge, _ddl(_EFFECT_ANSWERS)).toArrow()
        return merge_effects(json.loads(text) for text in answers.column("answer").to_pylist())

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
