"""The jobs: functions of `checkers`, called by Spark once for each group of rows.

Spark decides only where and in which order the groups run. What is computed for a group is
computed by the same function that a plain loop would call, so the verdict is the same; and no
result depends on the order in which groups or rows arrive, since each is sorted before use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from checkers.history import NEMESIS, pair
from checkers.registry import CheckSpec, KeyCheck, find_check, never
from checkers.verdict import CheckResult
from results.model import check_from_json
from results.session import one_line_errors
from results.tables import (
    OPERATIONS_SCHEMA,
    events_from,
    operations_from,
    operations_table,
    spark_ddl,
)

_VERDICTS_SCHEMA = pa.schema([pa.field("result", pa.string())])

TableFunction = Callable[[pa.Table], pa.Table]


def pair_in_spark(spark: Any, events: pa.Table) -> pa.Table:
    """Pair the events of each (run, process) into operations, in order of invocation.

    Raises SparkError.
    """
    clients = events.filter(pa.compute.not_equal(events["process"], json.dumps(NEMESIS)))
    if clients.num_rows == 0:
        return OPERATIONS_SCHEMA.empty_table()
    with one_line_errors():
        frame = spark.createDataFrame(clients)
        paired = frame.groupBy("run", "process").applyInArrow(
            _pair_group, spark_ddl(OPERATIONS_SCHEMA)
        )
        table: pa.Table = paired.toArrow().cast(OPERATIONS_SCHEMA)
    return table.sort_by([("run", "ascending"), ("index", "ascending")])


def check_keys_in_spark(
    spark: Any, operations: pa.Table, specs: Sequence[CheckSpec]
) -> list[list[CheckResult]]:
    """Judge each (run, key) group by each key-scoped check; results by check, in any order.

    Raises SparkError.
    """
    if operations.num_rows == 0:
        return [[] for _ in specs]
    with one_line_errors():
        frame = spark.createDataFrame(operations).repartition("run", "key").cache()
        judged = []
        for spec in specs:
            verdicts = frame.groupBy("run", "key").applyInArrow(
                _key_function(spec), spark_ddl(_VERDICTS_SCHEMA)
            )
            texts = verdicts.toArrow()["result"].to_pylist()
            judged.append([check_from_json(json.loads(text)) for text in texts])
        frame.unpersist()
    return judged


def _pair_group(table: pa.Table) -> pa.Table:
    run = table["run"][0].as_py()
    return operations_table(run, pair(events_from(table)))


def _key_function(spec: CheckSpec) -> TableFunction:
    def check_group(table: pa.Table) -> pa.Table:
        check = find_check(spec)
        assert isinstance(check, KeyCheck)
        result = check.check_key(operations_from(table), spec.options, never)
        text = json.dumps(asdict(result), allow_nan=False)
        return pa.table({"result": [text]}, schema=_VERDICTS_SCHEMA)

    return check_group
