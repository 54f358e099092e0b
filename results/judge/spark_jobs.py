"""The jobs of Spark: it decides where and when a piece of work runs, and the pieces are files.

Each task is given the number of its piece by `spark.range`, one a partition, and reads what it
needs from the store itself. Nothing is sent through the driver or shuffled between the processes of
Python and the JVM but results: what is computed for a piece is computed by the function that this
process would call, and pieces are whole, so that the verdicts are the same.

Tasks start in order of their partitions, the largest pieces first: a key of a million operations,
which nothing can split, begins at once and has a task to itself while others pass it by.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.evidence.assisted import Change, apply_changes
from checkers.evidence.log_audit import Found, LogAudit, LogFindings, Logs, audit_range, merge
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
from checkers.verdict import CheckResult
from porcupine_py.search.outcome import Cancelled
from results.judge.session import SparkError, one_line_errors
from results.store.model import check_from_json
from results.store.tables import log_columns

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
