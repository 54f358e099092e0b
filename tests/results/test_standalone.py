"""A real master with two workers, of which one is killed in the middle: no verdict is lost."""

import json
import os
import re
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pyspark
import pytest
from factory import DEFAULT_CHECKS, make_run
from test_pipeline import judgement

from checkers.verdict import EXIT_CODES, Status
from harness.source_digest import source_digest
from results.judge import engine
from results.judge.engine import Engine
from results.judge.jvm import find_jvm
from results.judge.pipeline import judge
from results.store.run_store import RunStore

pytestmark = pytest.mark.spark
MASTER = re.compile(r"Starting Spark master at (spark://[\d.]+:\d+)")
WAIT_S = 240.0
"""A machine that runs much else starts a JVM in half a minute."""


class Standalone:
    """A master and workers on the loopback, each a process of Spark's own classes."""

    def __init__(self, folder, stack):
        self._folder = folder
        self._stack = stack
        (folder / "jvm").mkdir(parents=True)
        self._java_home = find_jvm(folder / "jvm").java_home
        self._start("master", "master.Master")
        self.url = self._said("master", MASTER)[1]
        self.workers = []
        for name in ("a", "b"):
            arguments = ("--cores", "1", "--memory", "1g", "--work-dir", folder / name, self.url)
            self.workers.append(self._start(f"worker-{name}", "worker.Worker", *arguments))
        for name in ("a", "b"):
            self._said(f"worker-{name}", re.compile("Successfully registered with master"))

    def _start(self, name, what, *arguments):
        home = Path(pyspark.__file__).parent
        command = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{what}"]
        place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*map(str, command), *place, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={
                    **os.environ,
                    "JAVA_HOME": str(self._java_home),
                    "SPARK_HOME": str(home),
                    "SPARK_LOCAL_DIRS": str(self._folder),
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                },
            )
        self._stack.callback(end, process)
        return process

    def _said(self, name, pattern):
        log = self._folder / f"{name}.log"
        for _ in range(int(WAIT_S / 0.1)):
            if (found := pattern.search(log.read_text(errors="replace"))) is not None:
                return found
            time.sleep(0.1)
        pytest.fail(f"{name} did not start: {log.read_text(errors='replace')[-2000:]}")


def end(process):
    """Kill a process and all that it started."""
    with process:
        try:
            family = [*psutil.Process(process.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            family = []
        for each in (psutil.Process(process.pid), *family) if family else (process,):
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(family, 30)


def worker_of(pid, workers):
    """The worker of Spark below which a process runs."""
    above = {each.pid for each in psutil.Process(pid).parents()}
    return next(worker for worker in workers if worker.pid in above)


@pytest.mark.nightly
def test_a_worker_killed_while_it_judges_loses_no_verdict(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setattr(engine, "_TASK_BYTES_MIN", 1)
    stores = [
        make_run(tmp_path / "runs", run=f"r{n}", duration_s=12, stale_reads=n % 2) for n in range(4)
    ]
    plain = [judgement(judge(store)) for store in stores]
    assert {each["status"] for each in plain} == {Status.PASS, Status.FAIL}
    for store in stores:
        store.results_path.unlink()
    mark, killed = tmp_path / "judging", []

    def work(folder):
        from harness.judge.stored_runs import judged_elsewhere  # noqa: PLC0415  (a worker imports it)

        if not mark.exists():  # the first task never ends by itself
            aside = mark.with_suffix(f".{os.getpid()}")
            aside.write_text(str(os.getpid()))
            aside.rename(mark)
            time.sleep(WAIT_S)
        return judged_elsewhere(folder)

    def kill_one(workers):
        for _ in range(int(WAIT_S / 0.1)):
            if mark.exists():
                break
            time.sleep(0.1)
        worker = worker_of(int(mark.read_text()), workers)
        end(worker)
        killed.append(worker)

    warnings = []
    with ExitStack() as stack:
        cluster = Standalone(tmp_path / "spark", stack)
        thread = threading.Thread(target=kill_one, args=(cluster.workers,))
        with Engine(cluster.url, warnings.append) as judges:
            thread.start()
            answers = judges.each_by_itself([store.folder for store in stores], work)
        thread.join()
    assert warnings == []
    assert len(killed) == 1
    found = [json.loads(answers[store.folder]) for store in stores]
    assert [each["code"] for each in found] == [
        EXIT_CODES[Status(each["status"])] for each in plain
    ], found
    assert {each["source"] for each in found} == {source_digest()}
    again = [judgement(RunStore(store.folder).read_results()) for store in stores]
    count = len(DEFAULT_CHECKS)
    assert [each["checks"][:count] for each in again] == [each["checks"][:count] for each in plain]
