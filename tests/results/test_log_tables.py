"""The audit of logs by row groups of the stored records is that of the logs themselves."""

from dataclasses import asdict, replace

import pyarrow.parquet as pq
import pytest
from factory import make_run

from checkers.evidence.log_audit import audit_logs
from results.judge import spark_jobs
from results.judge.pipeline import judge
from results.judge.session import SparkError
from results.store import tables
from results.store.tables import RECORDS_FILE, RunName


@pytest.fixture(autouse=True)
def _in_process(monkeypatch):
    """Do the work of each piece here, last first: no piece may rely on another."""

    def spread(spark, pieces, work):
        answers = {piece: list(work(piece)) for piece in reversed(range(pieces))}
        return [answers[piece] for piece in range(pieces)]

    monkeypatch.setattr(spark_jobs, "spread", spread)
    monkeypatch.setattr(tables, "ROWS_TOGETHER", 40)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run"), duration_s=12)


@pytest.fixture
def logs(store):
    return dict(store.evidence(store.plan()).evidence.logs)


def stored(folder, logs):
    """Store these logs as judging does, and return their auditor."""
    run = RunName("c", "r")
    empty = tables.events_table(run, []), tables.operations_table(run, [])
    tables.write_tables(folder, *empty, tables.records_table(run, logs))
    return spark_jobs.log_auditor(None, folder / RECORDS_FILE)


def bytes_differ(log):
    return [*log[:30], replace(log[30], batch_crc=1), *log[31:]]


def epoch_differs(log):
    return [*log[:50], replace(log[50], epoch=99), *log[51:]]


def begins_late(log):
    return log[45:]


def lacks_one(log):
    return [*log[:60], *log[61:]]


@pytest.mark.parametrize(
    "alter", [list, bytes_differ, epoch_differs, begins_late, lacks_one, lambda _: []]
)
def test_by_row_groups_the_same_is_found(tmp_path, logs, alter):
    logs["n2"] = alter(logs["n2"])
    committed = dict.fromkeys(logs, 55)
    audit = stored(tmp_path / "tables", logs)
    assert pq.read_metadata(tmp_path / "tables" / RECORDS_FILE).num_row_groups > 2
    found, expected = audit(logs, committed), audit_logs(logs, committed)
    assert [list(of.items()) for of in asdict(found).values()] == [
        list(of.items()) for of in asdict(expected).values()
    ]


def test_no_offset_lies_in_two_row_groups(tmp_path, logs):
    stored(tmp_path / "tables", logs)
    file = pq.ParquetFile(tmp_path / "tables" / RECORDS_FILE)
    groups = [set(file.read_row_group(n)["offset"].to_pylist()) for n in range(file.num_row_groups)]
    assert sum(map(len, groups)) == len(set().union(*groups))


@pytest.mark.slow
def test_judging_stores_every_record_of_every_node(store, logs):
    judge(store)
    rows = pq.read_table(store.parquet_path / RECORDS_FILE).to_pylist()
    assert {(row["campaign"], row["run"]) for row in rows} == {("synthetic", store.folder.name)}
    assert sorted((row["node"], row["offset"], row["batch_crc"]) for row in rows) == sorted(
        (record.node, record.offset, record.batch_crc) for log in logs.values() for record in log
    )


def test_records_that_are_not_those_of_the_logs_are_no_audit(tmp_path, logs):
    audit = stored(tmp_path / "tables", {"n1": logs["n1"]})
    with pytest.raises(SparkError, match="the nodes' logs"):
        audit(logs, {})


def test_a_kind_that_is_no_text_is_stored_all_the_same(tmp_path, logs):
    logs["n1"] = [replace(logs["n1"][0], kind="\ud800")]
    stored(tmp_path / "tables", logs)
