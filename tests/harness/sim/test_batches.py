"""Batches of seeds: stored as they finish, continued, grouped; on Spark and in a loop alike."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import cluster
import harness
import porcupine_py
from checkers.earned import EARNED
from checkers.verdict import CheckResult, Status
from cluster.systems.kafka.installation import _RAFT_JARS
from harness.commands import sim
from harness.errors import BatchError
from harness.policy.document import Policy, Require
from harness.policy.requirements import requirements_of
from harness.sim.batch import gate as rows
from harness.sim.batch.batch import Batch, run_on_spark, run_plainly
from harness.sim.batch.chunks import (
    HARNESS_ERROR,
    SCHEMA,
    BatchPlan,
    plan_of,
    read_unfinished,
    run_chunk,
    store_rows,
    write_digests,
)
from harness.sim.batch.gate import gate_batch
from harness.sim.runner import run_plan
from harness.sim.swarm.draw import draw
from harness.source_digest import _digest as source_digests
from harness.source_digest import source_digest
from harness.terminal import progress
from results.judge.session import Spark, SparkError
from results.store.files import StoreError
from tests.command_line import kraftprobe
from tests.harness.sim.plans import read_plan

pytestmark = pytest.mark.slow

KAFKA = ("--system", "kafka-raft", "--kafka-version", "kraft")
SHORT_MS = 20_000.0
"""Of virtual time: enough for worlds whose events do not matter."""


def run(folder, plan):
    with Batch(folder, plan) as batch:
        run_plainly(batch, lambda row: None)
        return batch, batch.finish()


def forge(folder, **asked):
    """Change what a batch was asked for, and its digests."""
    path = folder / "batch.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | asked))
    write_digests(folder)


def stored(folder):
    rows = [
        row for path in (folder / "results").iterdir() for row in pq.read_table(path).to_pylist()
    ]
    for row in rows:
        figures = json.loads(row["statistics"])
        figures.pop("cpu_s", None)
        row["statistics"] = figures
    return sorted(rows, key=lambda row: row["seed"])


def test_failures_are_stored_grouped_and_replayed(tmp_path):
    batch, summary = run(tmp_path, BatchPlan(0, 4, "M03"))

    assert summary["verdict"] == "FAIL"
    assert summary["groups"][0]["property"] == "durable-vote"
    files = sorted((tmp_path / "failures").iterdir())
    assert len(files) == len(batch.failures) > 0
    assert run_plan(read_plan(files[0])).property == "durable-vote"
    assert "durable-vote" in (tmp_path / "summary.txt").read_text()

    for path in (tmp_path / "results").iterdir():
        column = pq.read_metadata(path).row_group(0).column(0)
        begin = column.dictionary_page_offset or column.data_page_offset
        data = bytearray(path.read_bytes())
        data[begin + column.total_compressed_size - 1] ^= 1
        path.write_bytes(data)
    with pytest.raises(BatchError, match="these are no results of seeds"):
        Batch(tmp_path, BatchPlan(0, 4, "M03"))
    for said in ("results/000000000-000000003.parquet", "cannot be read"):
        entry = gate_batch(tmp_path, allow_no_faults=False, judge_again=False)
        assert said in entry.line
        (tmp_path / "digests.sha256").unlink(missing_ok=True)


def test_the_gate_takes_mutant_and_system_of_a_batch_from_what_its_seeds_play(tmp_path):
    mutant, system = tmp_path / "mutant", tmp_path / "system"
    campaign = draw(0, mutant="M35", duration_ms=500.0).to_json()
    _, summary = run(mutant, BatchPlan(0, 1, campaign=campaign))
    run(system, BatchPlan(0, 1, duration_ms=500.0))
    named = {"system": "kafka-raft", "system_options": {"version": "4.1.0,kraft"}}
    forge(system, system=named, builds={"kafka-raft": "4.1.0,kraft"})

    faulty, other = (
        gate_batch(folder, allow_no_faults=True, judge_again=False) for folder in (mutant, system)
    )

    assert "M35" == summary["mutant"] == faulty.facts.mutant
    assert "it ran mutant M35" in faulty.line
    assert (other.facts.system, other.facts.build) == ("kafka-raft", "4.1.0,kraft")


def test_the_gate_runs_no_build_that_a_stored_file_names(tmp_path, monkeypatch):
    batch, build = tmp_path / "batch", tmp_path / "build/libs"
    build.mkdir(parents=True)
    for jar in _RAFT_JARS:
        with zipfile.ZipFile(build / f"{jar.replace('*', '4.1.0')}.jar", "w") as file:
            file.writestr("Main.class", "")
    run(batch, BatchPlan(0, 1, duration_ms=500.0))
    system = {"system": "kafka-raft", "system_options": {"version": str(build.parent)}}
    forge(batch, system=system, builds=BatchPlan(0, 1, system=system).to_json()["builds"])
    monkeypatch.setattr("harness.sim.batch.gate.run_plainly", lambda *_: pytest.fail("it ran"))
    entry = gate_batch(batch, allow_no_faults=True, judge_again=True)
    assert entry.status is Status.UNKNOWN
    assert "not judged again: its build lies in a folder" in entry.line


def test_a_batch_of_a_system_that_is_unusable_keeps_the_gate_shut(tmp_path):
    run(tmp_path, BatchPlan(0, 1, duration_ms=500.0))
    system = {"system": "kafka-raft", "system_options": {"version": "0.8"}}
    forge(tmp_path, system=system)
    entry = gate_batch(tmp_path, allow_no_faults=True, judge_again=False)
    assert entry.status is Status.UNKNOWN, entry.line


@pytest.mark.parametrize(
    "odd", [{"duration_ms": ms} for ms in (-1, 0, 1e-9, 1e300, 10**400)] + [{"mutant": ""}]
)
def test_a_request_that_no_command_makes_keeps_the_gate_shut(tmp_path, odd):
    (tmp_path / "batch.json").write_text(json.dumps(BatchPlan(0, 1).to_json() | odd))
    entry = gate_batch(tmp_path, allow_no_faults=True, judge_again=False)
    assert (entry.status, "this is no batch" in entry.line) == (Status.UNKNOWN, True)


def test_a_value_that_a_dictionary_repeats_counts_each_time(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "_CHUNK_BYTES_MAX", 1 << 20)
    row = dict.fromkeys(SCHEMA.names, "{}") | {"seed": 0, "causes": [], "plan": "x" * 100_000}
    (tmp_path / "results").mkdir()
    for count in (10, 11):
        path = store_rows(tmp_path, [row] * count)
        assert pq.read_metadata(path).row_group(0).total_byte_size < 1 << 18
        if count == 10:
            assert rows._table(path, count).to_pylist() == [row] * count
        else:
            with pytest.raises(StoreError, match="unpacked it is larger"):
                rows._table(path, count)


def test_a_request_of_all_seeds_is_refused_at_once(tmp_path):
    asked = BatchPlan(0, 2**31).to_json()
    (tmp_path / "batch.json").write_text(json.dumps(asked))
    entry = gate_batch(tmp_path, allow_no_faults=False, judge_again=False)
    assert "only 0 of 2147483648 seeds have finished" in entry.line


def test_the_first_failure_can_end_it(tmp_path):
    _, summary = run(tmp_path, BatchPlan(0, 50, "M03", stop_at_first=True))

    assert summary["finished"] < 50
    assert summary["first_failure"] is not None


def test_a_killed_batch_loses_no_finished_seed(tmp_path):
    plan = BatchPlan(0, 5, duration_ms=SHORT_MS)
    code = (
        "from pathlib import Path; from harness.sim.batch.batch import *;"
        f"run_plainly(Batch(Path({str(tmp_path)!r}), {plan!r}), lambda row: None)"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    lines = tmp_path / "running" / "000000000-000000003.jsonl"
    wait_for(process, lines, 1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = lines.read_text().count("\n")

    ran = []
    with Batch(tmp_path, plan) as again:
        assert len(again.rows) == finished
        run_plainly(again, lambda row: ran.append(row["seed"]))

    assert ran == list(range(finished, 5))
    assert [row["seed"] for row in stored(tmp_path)] == list(range(5))


def test_a_folder_holds_one_batch(tmp_path):
    run(tmp_path, BatchPlan(0, 1, duration_ms=SHORT_MS))

    with pytest.raises(BatchError, match="holds another batch"):
        Batch(tmp_path, BatchPlan(0, 2, duration_ms=SHORT_MS))


def test_seeds_of_two_states_of_the_code_do_not_go_together(tmp_path):
    plan = BatchPlan(0, 1, duration_ms=SHORT_MS)
    run(tmp_path, plan)
    path = tmp_path / "batch.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "code": "0123456789abcdef"}))

    with pytest.raises(BatchError, match="with other code"):
        Batch(tmp_path, plan)
    assert len(stored(tmp_path)) == 1


@pytest.mark.parametrize("answer", [[], struct.error("unpack requires a buffer of 4 bytes")])
def test_a_job_whose_results_broke_off_has_died(tmp_path, answer):
    """The JVM died while it sent them: PySpark returns fewer, or finds no whole length."""

    class Context:
        def parallelize(self, *_):
            return self

        def map(self, _):
            return self

        def collect(self):
            if isinstance(answer, Exception):
                raise answer
            return answer

    with Batch(tmp_path, BatchPlan(0, 2)) as batch:
        with pytest.raises(SparkError, match="a Spark job died: "):
            run_on_spark(batch, SimpleNamespace(sparkContext=Context()), lambda row: None)
        assert batch.rows == {}


@pytest.mark.parametrize("late", [True, False])
def test_a_worker_may_finish_its_chunk_while_the_batch_is_loaded(tmp_path, monkeypatch, late):
    """It lives a little longer than Spark: it stores its rows and removes its file."""
    whole, summary = run(tmp_path / "there", BatchPlan(0, 2, duration_ms=SHORT_MS))
    rows = [whole.rows[seed] for seed in (0, 1)]

    def worker_finishes(path):
        store_rows(tmp_path / "here", rows)
        path.unlink()
        return read_unfinished(path) if late else rows[:1]

    monkeypatch.setattr("harness.sim.batch.batch.read_unfinished", worker_finishes)
    with Batch(tmp_path / "here", BatchPlan(0, 2, duration_ms=SHORT_MS)) as batch:
        (tmp_path / "here/running/000000000-000000001.jsonl").touch()
        batch.load()
        assert [batch.rows[seed] for seed in (0, 1)] == rows
        assert batch.finish() == summary


def test_a_worker_whose_rows_were_loaded_meanwhile_goes_on(tmp_path):
    with Batch(tmp_path, BatchPlan(0, 2, duration_ms=SHORT_MS)) as batch:
        ((chunk,),) = batch.waves()
        rows = run_chunk(chunk, lambda _: batch.load() is None)
        batch.load()
        assert [batch.rows[seed] for seed in (0, 1)] == rows
    assert [row["seed"] for row in stored(tmp_path)] == [0, 1]


def test_seeds_that_spark_ran_again_after_a_worker_died_count_once(tmp_path):
    plan = BatchPlan(0, 2, duration_ms=SHORT_MS)
    with Batch(tmp_path, plan) as batch:
        ((chunk,),) = batch.waves()
        for _ in range(2):
            with pytest.raises(SystemExit):  # it dies after its first seed
                run_chunk(chunk, lambda row: sys.exit(row["seed"]))
    with Batch(tmp_path, plan) as again:
        run_plainly(again, lambda row: None)
        again.finish()

    assert [row["seed"] for row in stored(tmp_path)] == [0, 1]


@pytest.mark.nightly
@pytest.mark.spark
def test_a_batch_whose_spark_dies_reports_how_to_go_on(tmp_path, monkeypatch):
    """Found when both were stopped for minutes: the only message was "Connection refused"."""

    def dying(batch, spark, on_row):
        pid = spark._jvm.java.lang.ProcessHandle.current().pid()

        def kill_spark(row):
            on_row(row)
            os.kill(pid, signal.SIGKILL)
            monkeypatch.undo()  # the next run's Spark lives

        run_on_spark(batch, spark, kill_spark)

    state = Path(os.environ["XDG_STATE_HOME"])
    arguments = ("sim", "--seeds", "11..14", "--spark-master", "local[1]", "--out", str(tmp_path))
    monkeypatch.setattr("harness.sim.batch.batch.WAVE", 1)
    monkeypatch.setattr(sim, "run_on_spark", dying)
    code, output = invoke(*arguments)

    assert code == 2, output + "".join(map(Path.read_text, state.rglob("*.txt")))
    assert "Traceback" not in output
    assert output.splitlines()[-1].startswith("kraftprobe: a Spark job")
    assert "; its JVM ended; " in output
    assert "; 1 seeds (1 " in output
    assert "), 2 left; " in output
    assert output.endswith(f"({tmp_path})\n")
    kept = stored(tmp_path)

    code, output = invoke(*arguments)
    assert code in (0, 4), output  # what the worlds say is not the question here
    assert [row["seed"] for row in stored(tmp_path)] == [11, 12, 13]
    assert [row for row in stored(tmp_path) if row["seed"] == 11] == kept


@pytest.mark.nightly
@pytest.mark.spark
def test_seeds_on_spark_are_reported_while_their_wave_runs(tmp_path):
    finished, results = [], tmp_path / "results"
    plan = BatchPlan(0, 16, duration_ms=20_000.0)

    def on_row(_):
        finished.append(len(list(results.iterdir())))

    with Batch(tmp_path, plan) as batch, Spark("local[1]") as handle:
        run_on_spark(batch, handle.spark, on_row)

    assert len(finished) == 16
    assert finished[0] < 4, "the first seed was reported when all chunks had ended"
    assert finished == sorted(finished)


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Lay a package elsewhere; what is given says whether its sources are others by now."""

    def copy(module):
        before = source_digest()
        package = tmp_path / module.__name__
        shutil.copytree(Path(module.__file__).parent, package)
        monkeypatch.setattr(module, "__file__", str(package / "__init__.py"))
        assert source_digest() == before, "where it lies does not matter"

        def is_another():
            source_digests.cache_clear()
            return source_digest() != before

        return package, is_another

    return copy


def test_every_source_counts(copied):
    package, is_another = copied(harness)
    (package / "sim" / "swarm" / "draw.py").write_text("")
    assert is_another()


@pytest.mark.parametrize(
    "file",
    [
        "backends/sim/kafka/jars/4.3.jar",
        "client/java/Clients.java",
        "node/controller/configs/definitions.json",
        "systems/kafka/versions/raft-4.3.1.txt",
    ],
)
def test_what_nodes_run_or_read_counts_as_a_source(copied, file):
    package, is_another = copied(cluster)
    shutil.rmtree(package / "backends/sim/kafka/java")  # as where it is installed
    assert not is_another()
    (package / file).write_bytes(b"")
    assert is_another()


def test_sources_in_c_count_and_what_is_built_from_them_does_not(copied):
    package, is_another = copied(porcupine_py)
    (package / "kernels" / "searches.so").write_bytes(b"")
    assert not is_another()
    (package / "kernels" / "wgl.c").write_text("")
    assert is_another()


def test_one_process_at_a_time_runs_a_batch(tmp_path):
    with Batch(tmp_path, BatchPlan(0, 1)), pytest.raises(BatchError, match="another process"):
        Batch(tmp_path, BatchPlan(0, 1))
    Batch(tmp_path, BatchPlan(0, 1)).close()


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1}'])
def test_what_is_no_batch_is_refused_and_kept(tmp_path, text):
    (tmp_path / "batch.json").write_text(text)

    with pytest.raises(BatchError, match=r"this is no batch|holds another batch"):
        Batch(tmp_path, BatchPlan(0, 1))
    assert (tmp_path / "batch.json").read_text() == text


@pytest.mark.spark
class TestOnSpark:
    @pytest.fixture(scope="class")
    @classmethod
    def spark(cls):
        with Spark("local[2]") as handle:
            yield handle.spark

    def test_a_worker_with_other_code_runs_nothing(self, tmp_path, monkeypatch, spark):
        monkeypatch.setattr("harness.sim.batch.chunks.source_digest", lambda: "of-other-code")
        with Batch(tmp_path, BatchPlan(0, 3)) as batch:
            with pytest.raises(BatchError, match=rf"have other code \({source_digest()}\)"):
                run_on_spark(batch, spark, lambda row: None)
            assert batch.rows == {}
        assert list((tmp_path / "results").iterdir()) == []

    def test_spark_finds_what_the_loop_finds(self, tmp_path, monkeypatch, spark):
        plan = BatchPlan(0, 4, "M02", duration_ms=SHORT_MS)
        run(tmp_path / "loop", plan)
        monkeypatch.chdir(tmp_path)
        with Batch(Path("spark"), plan) as batch:
            run_on_spark(batch, spark, lambda row: None)
            batch.finish()

        assert stored(tmp_path / "loop") == stored(tmp_path / "spark")


def invoke(*arguments):
    result = kraftprobe(*arguments)
    return result.exit_code, result.output


QUIET = """
backend = "sim"
seed = 8
workload = "register"
duration_s = 4
rate_per_s = 2

[[schedule]]
at_ms = 1000
steps = [{ kind = "kill", targets = "leader", for_ms = 500 }]
"""


def test_the_command_says_what_a_quiet_plan_lacked(tmp_path):
    (tmp_path / "quiet.toml").write_text(QUIET)
    code, output = invoke("sim", "--campaign", str(tmp_path / "quiet.toml"))

    assert code == 4
    *lacks, verdict = output.splitlines()
    assert lacks == [
        "  too little was tried: 4 operations were ok, 50 were expected",
        "  too little was tried: 2 reads were ok, 10 were expected",
        "  too little was tried: 2 writes were ok, 10 were expected",
    ]
    assert verdict.startswith("UNDER-EXERCISED quiet, seed 8: ")


def test_a_seed_and_a_batch_say_why_they_are_unknown(tmp_path, monkeypatch):
    row = {"kind": "faults-healed", "status": Status.UNKNOWN, "explanation": "kill was not healed"}
    earned = CheckResult(EARNED, Status.UNKNOWN, "", anomalies=(row,))
    monkeypatch.setattr("harness.sim.runner.earn", lambda judged: earned)
    why = "faults-healed: kill was not healed"

    brief = ("sim", "--duration", "5")
    assert invoke(*brief, "--seed", "1")[1].splitlines()[0] == f"  {why}"
    code, output = invoke(*brief, "--seeds", "1..3", "--out", str(tmp_path))
    assert code == 3
    assert f"    UNKNOWN: 2 seeds (1, 2), e.g. {why}" in output.splitlines()
    (found,) = json.loads((tmp_path / "summary.json").read_text())["undecided"]
    assert (found["property"], found["seeds"], found["explanation"]) == ("UNKNOWN", [1, 2], why)


def test_a_batch_says_which_seeds_were_quiet_and_is_judged_by_the_mean(tmp_path):
    folder = tmp_path / "0-2"
    code, output = invoke("sim", "--seeds", "0..2", "--out", str(folder))

    summary = json.loads((folder / "summary.json").read_text())
    assert (code, summary["verdict"], summary["quiet"]) == (0, "PASS", [0])
    assert summary["verdicts"]["UNDER-EXERCISED"] == 1
    assert summary["exercise"]["needed"]["ok"] == 61 + 50
    assert summary["exercise"]["ok"] >= summary["exercise"]["needed"]["ok"]
    assert "2 seeds (1 PASS, 1 UNDER-EXERCISED), 0 left" in output
    assert ": 1 of 2 seeds (0)" in output
    last = [f"PASS {folder}: 2 seeds", str(folder / "summary.json")]
    assert output.splitlines()[-2:] == last


def test_a_batch_whose_seeds_tried_next_to_nothing_is_no_pass(tmp_path):
    arguments = ("sim", "--seeds", "0..12", "--duration", "0.3", "--out", str(tmp_path))
    code, output = invoke(*arguments)

    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (code, summary["verdict"], len(summary["quiet"])) == (4, "UNDER-EXERCISED", 12)
    assert summary["exercise"]["needed"]["ok"] == 6 * 75 + 6 * 50
    assert "by all seeds together: " in output
    assert ": 12 of 12 seeds (0, 1, 2" in output


def test_a_script_is_replayed_whatever_its_file_is_called(tmp_path):
    script = tmp_path / "script"
    script.write_text("duration_s = 0.5\nrate_per_s = 0\noperations = []\nfaults = []\n")
    assert invoke("replay", str(script))[0] == 4
    assert re.search(r", seed \d+: ", invoke("sim", "--campaign", str(script))[1])


def test_the_command_runs_a_seed_and_replays_it(tmp_path):
    folder = tmp_path / "run"
    code, output = invoke("sim", "--seed", "14", "--out", str(folder))
    assert (code, output.splitlines()[-1]) == (0, str(folder / "report.html"))
    again = tmp_path / "again"
    assert invoke("replay", str(folder / "plan.json"), "--out", str(again))[0] == 0

    for name in ("history.jsonl", "nodes/n1/trace.jsonl", "nodes/n3/trace.jsonl"):
        assert (folder / name).read_bytes() == (again / name).read_bytes()


def test_the_command_fails_a_mutant(tmp_path):
    code, output = invoke("sim", "--seed", "0", "--mutant", "M03", "--out", str(tmp_path / "run"))

    assert code == 1
    assert "FAIL            monitor: durable-vote" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sim"], "give one of"),
        (["sim", "--seeds", "5..5"], "--seeds is a range"),
        (["sim", "--seeds", "0.." + "9" * 5000], "--seeds is a range"),
        (["sim", "--seed", "1", "--mutant", "M99"], "unknown mutant"),
        (["sim", "--seed", "1", "--mutant", "M15", *KAFKA], "has no faulty variants"),
        (["replay", "no-such-file"], "No such file"),
    ],
)
def test_bad_usage_is_one_line(arguments, message):
    code, output = invoke(*arguments)

    assert code == 2
    assert message in output
    assert output.count("\n") == 1


def started(*arguments):
    code = f"from harness.cli import main; main({[str(argument) for argument in arguments]!r})"
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(process, path, lines=0):
    while not path.exists() or path.read_text().count("\n") < lines:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)]
)
def test_an_interrupted_batch_reports_its_progress_and_goes_on(tmp_path, number):
    arguments = ("sim", "--seeds", "0..300", "--out", tmp_path)
    process = started(*arguments)
    wait_for(process, tmp_path / "running" / "000000000-000000003.jsonl", 2)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=600)

    assert process.returncode == 130
    assert "left; " in stderr
    assert "run it again" in stderr
    assert stderr.splitlines()[-1] == "kraftprobe: interrupted"
    assert "Traceback" not in stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert 2 <= summary["finished"] == len(stored(tmp_path)) < 300
    assert list((tmp_path / "running").iterdir()) == []


@pytest.fixture(scope="module")
def failure(tmp_path_factory):
    """The plan of a seed that failed."""
    folder = tmp_path_factory.mktemp("failed")
    run(folder, BatchPlan(0, 1, "M03"))
    return next((folder / "failures").iterdir())


def test_interrupted_shrinking_keeps_the_smallest_so_far(tmp_path, failure):
    small = tmp_path / "small.json"
    code = (
        "import os, signal;"
        "from harness.sim.shrink.shrinker import Shrinker;"
        "from harness.cli import main;"
        "tried, fails = [], Shrinker.fails\n"
        "def interrupted(shrinker, plan):\n"
        "    tried.append(plan)\n"
        "    if len(tried) == 3: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return fails(shrinker, plan)\n"
        "Shrinker.fails = interrupted\n"
        f"main(['shrink', {str(failure)!r}, '--out', {str(small)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "kraftprobe: interrupted"
    assert "the same property: durable-vote" in done.stdout
    assert run_plan(read_plan(small)).property == "durable-vote"


def test_long_work_prints_its_progress_without_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    code, output = invoke("sim", "--seeds", "11..13", "--out", str(tmp_path))

    assert code == 0
    assert re.search(r"^\d+ s: 2 of 2 seeds, 0 failing$", output, re.MULTILINE)


def test_shrinking_asks_first_whether_its_result_can_be_kept(tmp_path, failure):
    code, output = invoke("shrink", str(failure), "--out", str(tmp_path / "no" / "small.json"))

    assert (code, len(output.splitlines())) == (2, 1)
    assert "No such file" in output


TINY = {
    "campaign": "tiny",
    "workload": "log",
    "workload_options": {"topics": 1, "partitions": 1},
    "duration_s": 4,
    "rate_per_s": 20,
    "concurrency": 4,
    "faults": [],
    "world": {"power_loss": "written"},
}


def test_a_campaign_is_played_once_for_each_seed_and_judged_by_what_is_on_the_disks(tmp_path):
    plan = BatchPlan(3, 5, campaign=TINY)
    batch, summary = run(tmp_path, plan)
    assert {row["verdict"] for row in batch.rows.values()} == {"PASS"}
    assert sorted(batch.rows) == [3, 4]
    assert plan_of(plan, 3, {}).world.power_loss == "written"
    entry = gate_batch(tmp_path, allow_no_faults=True, judge_again=True)
    assert entry.status is Status.PASS, entry.line
    with pytest.raises(BatchError):
        Batch(tmp_path, replace(plan, campaign={**TINY, "rate_per_s": 30}))
    assert summary["finished"] == 2


@pytest.mark.parametrize("campaign", [{"workload": "lag"}, 3, {"workload_options": {"x": 1}}])
def test_a_stored_campaign_that_is_no_plan_keeps_the_gate_shut(tmp_path, campaign):
    run(tmp_path, BatchPlan(3, 4, campaign=TINY))
    forge(tmp_path, campaign=campaign)
    entry = gate_batch(tmp_path, allow_no_faults=True, judge_again=False)
    assert entry.status is Status.UNKNOWN
    assert "batch.json" in entry.line


def test_a_seed_of_two_batches_counts_once(tmp_path):
    campaign, entries, ok = {**TINY, "rate_per_s": 30}, [], {}
    for first in (3, 4):
        batch, _ = run(tmp_path / str(first), BatchPlan(first, first + 2, campaign=campaign))
        ok |= {seed: json.loads(row["exercise"])["ok"] for seed, row in batch.rows.items()}
        entries.append(gate_batch(batch.folder, allow_no_faults=True, judge_again=False))

    def judged(operations):
        policy = Policy(require=(Require(workload="log", nodes=3, operations=operations),))
        return requirements_of(policy, entries)[0].status

    total = sum(ok.values())
    assert (sorted(ok), judged(total)) == ([3, 4, 5], Status.PASS)
    assert judged(total + 1) is Status.UNDER_EXERCISED


def test_a_batch_in_which_the_harness_failed_is_a_fail_of_the_gate(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.sim.batch.chunks.run_plan", lambda *_: 1 // 0)
    _, summary = run(tmp_path, BatchPlan(3, 4, campaign=TINY))
    assert summary["groups"][0]["property"] == HARNESS_ERROR
    entry = gate_batch(tmp_path, allow_no_faults=True, judge_again=False)
    assert entry.status is Status.FAIL, entry.line
