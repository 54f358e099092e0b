"""Figures over many runs: by the fault that was active, and rolled up."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from factory import make_run

from checkers.history import NEMESIS, Event, EventType
from checkers.runs.faults import fault_spans
from results.catalogue.fault_figures import SCHEMAS, _Measured, figure_tables
from results.catalogue.rows import catalogue
from results.judge.pipeline import judge
from results.store.tables import OPERATIONS_FILE


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for seed in (7, 8):
        judge(make_run(root, duration_s=20, rate_per_s=20, seed=seed))
    return root


@pytest.fixture(scope="module")
def entries(root):
    return catalogue(root)


@pytest.fixture(scope="module")
def tables(entries):
    return {name: table.to_pylist() for name, table in figure_tables(entries).items()}


@pytest.mark.slow
def test_each_operation_counts_for_the_faults_that_it_met(entries, tables):
    history = entries[0].store.tables(_name(entries[0]))
    (kill,) = [span for span in fault_spans(list(history.events)) if span.fault == "kill"]
    met = [
        o
        for o in history.operations
        if o.type == "ok" and o.invoke_ns <= kill.end_ns and o.complete_ns >= kill.begin_ns
    ]
    writes = sorted((o.complete_ns - o.invoke_ns) / 1e6 for o in met if o.f == "write")
    (row,) = [
        row
        for row in tables["latencies"]
        if (row["run"], row["fault"], row["kind"]) == (entries[0].row.run, "kill", "write")
    ]
    assert (row["operations"], row["max_ms"]) == (len(writes), writes[-1])
    assert row["p50_ms"] == writes[(len(writes) + 1) // 2 - 1]


def _name(entry):
    from results.store.tables import RunName  # noqa: PLC0415

    return RunName("c", entry.row.run)


@pytest.mark.slow
def test_operations_of_no_fault_and_of_faults_are_all_that_were_ok(entries, tables):
    faults = {row["fault"] for row in tables["latencies"]}
    assert faults == {"none", "kill", "pause", "partition"}
    counted = sum(row["operations"] for row in tables["latencies"])
    assert counted == sum(entry.row.ok for entry in entries)  # no two faults overlap in these runs


def test_recoveries_are_those_that_the_run_stored(entries, tables):
    stored = [
        row
        for entry in entries
        for check in entry.results.checks
        for row in check.statistics.get("recoveries", ())
    ]
    assert [row["at_s"] * 1e9 for row in tables["recoveries"]] == pytest.approx(
        [row["at_ns"] for row in stored]
    )


@pytest.mark.slow
def test_the_longest_window_is_the_unavailability_of_the_run(tmp_path):
    judge(make_run(tmp_path, duration_s=90, rate_per_s=20))
    (entry,) = catalogue(tmp_path)
    rows = figure_tables([entry])["windows"].to_pylist()
    longest = max(rows, key=lambda row: row["lasted_s"])
    assert longest["lasted_s"] <= entry.row.unavailability_s
    assert longest["lasted_s"] >= 1
    assert longest["fault"] in ("kill", "partition")


@pytest.mark.parametrize(("verified", "fault"), [(True, "kill"), (False, "none")])
def test_a_fault_counts_where_it_bit(verified, fault):
    row = {"f": "read", "type": "ok", "invoke_ns": 5, "complete_ns": 6, "end_index": 1}
    inject = {"phase": "inject", "targets": ["n1"], "verified": verified}
    type_ = EventType.OK if verified else EventType.INFO
    note = Event(0, 0, NEMESIS, type_, "kill", None, inject)
    measured = _Measured(pa.Table.from_pylist([row]), [note], np.array([5, 6]))
    assert [row["fault"] for row in measured.latencies("r")] == [fault]


def test_a_run_that_was_not_judged_has_no_figures(entries):
    tables = figure_tables([replace(entries[0], results=None)])
    assert {name: table.num_rows for name, table in tables.items()} == dict.fromkeys(SCHEMAS, 0)


def test_sql_has_the_figures_too(entries):
    pytest.importorskip("duckdb", reason="DuckDB is not installed (make test installs it)")
    from results.catalogue.query import query  # noqa: PLC0415

    found = query(
        "SELECT fault, count(*) AS n FROM latencies JOIN runs USING (run) GROUP BY fault", entries
    )
    assert {row["fault"]: row["n"] for row in found.to_pylist()} == {
        "none": 4, "kill": 4, "pause": 4, "partition": 4,
    }  # fmt: skip
    assert pq.read_metadata(entries[0].store.parquet_path / OPERATIONS_FILE).num_rows > 0
