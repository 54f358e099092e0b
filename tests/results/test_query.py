"""Queries read the tables of the runs, and nothing else."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from factory import make_run

from results.catalogue.fault_figures import figure_tables
from results.catalogue.query import QueryError, query
from results.catalogue.rows import catalogue
from results.judge.pipeline import judge
from results.store.files import StoreError

pytest.importorskip("duckdb", reason="DuckDB is not installed (make test installs it)")


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    root = tmp_path_factory.mktemp("it's")
    for seed in (7, 8):
        judge(make_run(root, duration_s=20, rate_per_s=20, seed=seed))
    return catalogue(root)


@pytest.mark.slow
def test_runs_and_checks_join(entries):
    found = query(
        "SELECT count(*) AS n, count(DISTINCT seed) AS seeds FROM runs JOIN checks USING (run)",
        entries,
    )
    checks = sum(len(entry.results.checks) for entry in entries)
    assert found.to_pylist() == [{"n": checks, "seeds": 2}]


@pytest.mark.slow
def test_operations_of_all_runs_are_there(entries):
    found = query(
        "SELECT runs.run, runs.operations, count(*) AS n FROM operations JOIN runs USING (run)"
        " GROUP BY ALL",
        entries,
    )
    assert found.num_rows == 2
    assert all(row["operations"] == row["n"] for row in found.to_pylist())


def test_runs_that_cannot_be_told_apart_are_refused(entries):
    twice = [*entries, entries[0]]
    name = entries[0].row.run
    assert query("SELECT count(*) AS n FROM runs", twice).to_pylist() == [{"n": 3}]
    with pytest.raises(StoreError, match=f"2 runs are called '{name}'"):
        query("SELECT run FROM runs JOIN checks USING (run)", twice)


def test_of_no_runs_there_are_tables_without_rows():
    for table in ("runs", "checks", "operations", "events"):
        assert query(f"SELECT * FROM {table}", []).num_rows == 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT runs.run, checks.run FROM runs, checks",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO '{tmp}/x.csv'",
        "ATTACH '{tmp}/x.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM read_csv('http://127.0.0.1:9/x')",
        "selec 1",
        "SELECT * FROM nothing",
        "",
    ],
)
def test_what_is_no_query_of_these_tables_is_one_line(entries, tmp_path, sql):
    with pytest.raises(QueryError) as refused:
        query(sql.format(tmp=tmp_path), entries)
    assert "\n" not in str(refused.value)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '{tables}/operations.parquet' (FORMAT parquet)",
        "COPY (SELECT 1) TO '{tables}/x.parquet'; SELECT 1",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{tables}/x.csv'",
        "ATTACH '{tables}/x.db' AS x; CREATE TABLE x.t AS SELECT 1; SELECT 1",
        "SELECT * FROM read_parquet('{tables}/operations.parquet')",
        "SELECT * FROM read_text('{tables}/../plan.json')",
    ],
)
def test_a_query_neither_writes_nor_opens_files_of_a_run(entries, sql):
    tables = entries[0].store.parquet_path
    before = {path: path.read_bytes() for path in tables.iterdir()}
    with pytest.raises(QueryError):
        query(sql.format(tables=tables), entries)
    assert {path: path.read_bytes() for path in tables.iterdir()} == before


def cut(data):
    return data[:-20]


def other_time(data):
    """One bit of a time that a client measured."""
    group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    (times,) = [column for column in columns if column.path_in_schema == "complete_ns"]
    changed = bytearray(data)
    begin = times.dictionary_page_offset or times.data_page_offset
    changed[begin + times.total_compressed_size - 1] ^= 1
    return bytes(changed)


@pytest.mark.slow
@pytest.mark.parametrize("damaged", [cut, other_time])
def test_a_damaged_table_is_one_line_that_names_the_file(tmp_path, damaged):
    judge(make_run(tmp_path, duration_s=20, rate_per_s=20))
    (entry,) = catalogue(tmp_path)
    path = entry.store.parquet_path / "operations.parquet"
    path.write_bytes(damaged(path.read_bytes()))
    with pytest.raises(QueryError) as refused:
        query("SELECT count(f), sum(complete_ns) FROM operations", [entry])
    again = f"kraftprobe check {entry.store.folder.absolute()} writes it anew"
    assert f"{path.absolute()}: damaged; {again}" == str(refused.value)
    with pytest.raises(StoreError, match="tables cannot be read"):
        figure_tables([entry])


def test_without_duckdb_a_line_says_what_to_install(entries, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(QueryError, match="pip install duckdb"):
        query("SELECT 1", entries)
