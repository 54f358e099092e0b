"""Which runs Spark judges, and that every run is judged whatever becomes of Spark."""

import os
import signal

import pytest
from factory import make_run
from pyspark.errors import PySparkException
from test_pipeline import judgement

from checkers.verdict import Status
from harness.judge.stored_runs import judged_elsewhere
from results.judge import engine, spark_jobs
from results.judge.engine import Engine
from results.judge.jvm import JvmError
from results.judge.pipeline import judge
from results.judge.session import Spark, SparkError, one_line_errors
from tests.command_line import kraftprobe


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


@pytest.mark.slow
def test_a_small_run_is_judged_without_spark(tmp_path, starts):
    results, warnings = judged(make_run(tmp_path))
    assert (results.status, warnings, starts) == (Status.PASS, [], [])


@pytest.mark.parametrize(
    ("runs", "least_bytes", "expected"),
    [(3, 1, ["local[*]"]), (3, 10**9, []), (1, 1, [])],
    ids=["many bytes", "few bytes", "one run"],
)
def test_many_runs_of_many_bytes_are_judged_with_spark(
    tmp_path, starts, monkeypatch, runs, least_bytes, expected
):
    monkeypatch.setattr(engine, "SPARK_FROM_BYTES", least_bytes)
    monkeypatch.setattr(engine.os, "cpu_count", lambda: 2)
    folders = [make_run(tmp_path, run=f"r{n}", duration_s=6).folder for n in range(runs)]
    with Engine(None, lambda _: None) as judges:
        assert judges.each_by_itself(folders, judged_elsewhere) == {}
    assert starts == expected


def test_a_run_too_large_to_be_a_task_is_left_to_its_keys(tmp_path, starts, monkeypatch):
    monkeypatch.setattr(engine, "ALONE_FROM_BYTES", 1)
    folders = [make_run(tmp_path, run=f"r{n}", duration_s=6).folder for n in range(2)]
    with Engine("local[2]", lambda _: None) as judges:
        assert judges.each_by_itself(folders, judged_elsewhere) == {}
    assert starts == []


def test_a_master_that_was_named_and_cannot_be_had_is_an_error(tmp_path, starts):
    folders = [make_run(tmp_path, run=f"r{n}", duration_s=6).folder for n in range(2)]
    for given in (folders, folders[:1]):
        arguments = ["check", *map(str, given), "--spark-master", "local[2]"]
        result = kraftprobe(*arguments)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr == "kraftprobe: no java found\n"


@pytest.mark.slow
def test_runs_that_no_worker_judged_are_judged_here(tmp_path, starts, monkeypatch):
    monkeypatch.setattr(engine, "SPARK_FROM_BYTES", 1)
    monkeypatch.setattr(engine.os, "cpu_count", lambda: 2)
    folders = [make_run(tmp_path, run=f"r{n}", stale_reads=n).folder for n in range(2)]
    result = kraftprobe("check", *folders)
    assert (result.exit_code, len(starts)) == (1, 1), result.output
    assert result.stderr == "WARNING: judging without Spark: no java found\n"
    assert "PASS r0" in result.stdout
    assert "FAIL r1" in result.stdout


def test_any_run_is_judged_with_a_spark_that_was_asked_for(tmp_path, starts):
    with pytest.raises((SparkError, JvmError)):
        judged(make_run(tmp_path, duration_s=6), "spark://there:7077")
    assert starts == ["spark://there:7077"]


@pytest.mark.slow
def test_a_spark_that_does_not_start_costs_one_warning_and_no_verdict(
    tmp_path, starts, monkeypatch
):
    stores = [make_run(tmp_path, run=f"r{n}", stale_reads=n) for n in range(2)]
    warnings = []
    monkeypatch.setattr(engine, "SPARK_FROM_BYTES", 1)
    monkeypatch.setattr(engine.os, "cpu_count", lambda: 2)
    with Engine(None, warnings.append) as judges:
        assert judges.each_by_itself([s.folder for s in stores], judged_elsewhere) == {}
        statuses = [judges.judge(store).status for store in stores]
    assert statuses == [Status.PASS, Status.FAIL]
    assert warnings == ["WARNING: judging without Spark: no java found"]
    assert len(starts) == 1


@pytest.mark.spark
def test_a_jvm_killed_while_judging_leaves_the_plain_verdict(tmp_path, monkeypatch):
    store = make_run(tmp_path, stale_reads=1)
    plain = judge(store)
    sessions = []
    start, spread = Spark.start, spark_jobs.spread

    def noted(spark):
        sessions.append(spark)
        return start(spark)

    def killed(*arguments):
        os.killpg(sessions[0]._process.pid, signal.SIGKILL)
        return spread(*arguments)

    monkeypatch.setattr(Spark, "start", noted)
    monkeypatch.setattr(spark_jobs, "spread", killed)
    result = kraftprobe("check", store.folder, "--spark-master", "local[2]")
    assert result.exit_code == 1, result.output
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert "WARNING: judging without Spark: " in result.stderr
    assert "; its JVM ended" in result.stderr
    assert judgement(store.read_results()) == judgement(plain)
    assert len(sessions) == 1


def test_why_a_job_died_is_said_and_not_which_call_it_was():
    message = "An error occurred while calling o42.collectToPython.\n: org.X: Job aborted: lost"
    died = pytest.raises(SparkError, match=r": org\.X: Job aborted: lost$")
    with died, one_line_errors():
        raise PySparkException(message)


def test_what_a_worker_raised_is_said_in_one_line():
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nOSError: no room\n'
    message = f"\n  An exception was thrown from the Python worker.\n{trace}"
    died = pytest.raises(SparkError, match=r": OSError: no room$")
    with died, one_line_errors():
        raise PySparkException(message)
