"""Many seeds: kept as they finish, continued, grouped; on Spark and in a loop alike."""

import json
import os
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.sim.batch import Batch, BatchPlan, run_on_spark, run_plainly
from harness.sim.errors import BatchError
from harness.sim.parse import read_scenario
from harness.sim.runner import run_scenario
from results.session import Spark


def run(folder, plan):
    batch = Batch(folder, plan)
    run_plainly(batch, lambda row: None)
    return batch, batch.finish()


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
    assert run_scenario(read_scenario(files[0])).property == "durable-vote"
    assert "durable-vote" in (tmp_path / "summary.txt").read_text()


def test_the_first_failure_can_end_it(tmp_path):
    _, summary = run(tmp_path, BatchPlan(0, 50, "M03", stop_at_first=True))

    assert summary["finished"] < 50
    assert summary["first_failure"] is not None


def test_a_killed_batch_loses_no_finished_seed(tmp_path):
    code = (
        "from pathlib import Path; from harness.sim.batch import *;"
        f"run_plainly(Batch(Path({str(tmp_path)!r}), BatchPlan(0, 6)), lambda row: None)"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    lines = tmp_path / "running" / "000000000-000000005.jsonl"
    while not lines.exists() or lines.read_text().count("\n") < 2:
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = lines.read_text().count("\n")

    again = Batch(tmp_path, BatchPlan(0, 6))
    assert len(again.rows) == finished
    ran = []
    run_plainly(again, lambda row: ran.append(row["seed"]))

    assert ran == list(range(finished, 6))
    assert [row["seed"] for row in stored(tmp_path)] == list(range(6))


def test_a_folder_holds_one_batch(tmp_path):
    run(tmp_path, BatchPlan(0, 1))

    with pytest.raises(BatchError, match="holds another batch"):
        Batch(tmp_path, BatchPlan(0, 2))


@pytest.mark.spark
def test_spark_finds_what_the_loop_finds(tmp_path):
    plan = BatchPlan(0, 6, "M02")
    run(tmp_path / "loop", plan)
    batch = Batch(tmp_path / "spark", plan)
    with Spark("local[2]") as handle:
        run_on_spark(batch, handle.spark, lambda row: None)
    batch.finish()

    assert stored(tmp_path / "loop") == stored(tmp_path / "spark")


def invoke(*arguments):
    result = CliRunner().invoke(main, list(arguments))
    return result.exit_code, result.output


def test_the_command_runs_a_seed_and_replays_it(tmp_path):
    folder = tmp_path / "run"
    code, output = invoke("sim", "--seed", "14", "--out", str(folder))
    assert (code, output.splitlines()[-1]) == (0, str(folder / "report.html"))
    again = tmp_path / "again"
    assert invoke("replay", str(folder / "scenario.json"), "--out", str(again))[0] == 0

    for name in ("history.jsonl", "nodes/n1/trace.jsonl", "nodes/n3/trace.jsonl"):
        assert (folder / name).read_bytes() == (again / name).read_bytes()


def test_the_command_fails_a_mutant(tmp_path):
    code, output = invoke("sim", "--seed", "0", "--mutant", "M03", "--out", str(tmp_path / "run"))

    assert code == 1
    assert "FAIL            monitor: durable-vote" in output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sim"], "give one of"),
        (["sim", "--seeds", "5..5"], "--seeds is a range"),
        (["sim", "--seed", "1", "--mutant", "M99"], "unknown mutant"),
        (["replay", "no-such-file"], "No such file"),
    ],
)
def test_bad_usage_is_one_line(arguments, told):
    code, output = invoke(*arguments)

    assert code == 2
    assert told in output
    assert output.count("\n") == 1
