"""Which runs Spark judges, and that every run is judged whatever becomes of Spark."""

import os
import signal

import pytest
from click.testing import CliRunner
from factory import make_run
from test_pipeline import judgement

from checkers.verdict import Status
from harness.cli import main
from results import engine, spark_jobs
from results.engine import Engine
from results.jvm import JvmError
from results.pipeline import judge
from results.session import Spark


@pytest.fixture
def starts(monkeypatch):
    """A Spark that never starts; each attempt is noted."""
    seen = []

    def start(spark):
        seen.append(spark.master)
        raise JvmError("no java found")

    monkeypatch.setattr(Spark, "start", start)
    return seen


def judged(store, master=None):
    warnings = []
    with Engine(master, warnings.append) as judges:
        return judges.judge(store), warnings


def test_a_small_run_is_judged_without_spark(tmp_path, starts):
    results, warnings = judged(make_run(tmp_path))
    assert (results.status, warnings, starts) == (Status.PASS, [], [])


def test_a_large_run_is_judged_with_spark(tmp_path, starts, monkeypatch):
    monkeypatch.setattr(engine, "SPARK_FROM_OPERATIONS", 1000)
    judged(make_run(tmp_path))
    assert starts == ["local[*]"]


def test_any_run_is_judged_with_a_spark_that_was_asked_for(tmp_path, starts):
    judged(make_run(tmp_path, duration_s=6), "spark://there:7077")
    assert starts == ["spark://there:7077"]


def test_a_spark_that_does_not_start_costs_one_warning_and_no_verdict(tmp_path, starts):
    stores = [make_run(tmp_path, run=f"r{n}", stale_reads=n) for n in range(2)]
    warnings = []
    with Engine("local[*]", warnings.append) as judges:
        statuses = [judges.judge(store).status for store in stores]
    assert statuses == [Status.PASS, Status.FAIL]
    assert warnings == ["WARNING: judging without Spark: no java found"]
    assert len(starts) == 1


@pytest.mark.spark
def test_a_jvm_killed_while_judging_leaves_the_plain_verdict(tmp_path, monkeypatch):
    store = make_run(tmp_path, stale_reads=1)
    plain = judge(store)
    sessions = []
    start, check_keys = Spark.start, spark_jobs.check_keys_in_spark

    def noted(spark):
        sessions.append(spark)
        return start(spark)

    def killed(*arguments):
        os.killpg(sessions[0]._process.pid, signal.SIGKILL)
        return check_keys(*arguments)

    monkeypatch.setattr(Spark, "start", noted)
    monkeypatch.setattr(spark_jobs, "check_keys_in_spark", killed)
    result = CliRunner().invoke(main, ["check", str(store.folder), "--spark-master", "local[2]"])
    assert result.exit_code == 1, result.output
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert "WARNING: judging without Spark: a Spark job died: " in result.stderr
    assert "; its JVM ended" in result.stderr
    assert judgement(store.read_results()) == judgement(plain)
    assert len(sessions) == 1
