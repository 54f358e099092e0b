"""`kraftprobe run --backend sim`: a plan made for real nodes, in virtual time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import kraftprobe

KRAFTPROBE = str(Path(sys.executable).with_name("kraftprobe"))
PLAN = ("--backend", "sim", "--campaign", "quick", "--seed", "11", "--no-report")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [KRAFTPROBE, "run", *PLAN, "--runs", str(folder), *arguments],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


@pytest.mark.spark
def test_a_plan_for_real_nodes_runs_simulated_and_repeats_exactly(tmp_path: Path):
    journals = []
    for name in ("one", "two"):
        done = run(tmp_path / name)
        assert done.returncode == 0, done.stdout + done.stderr
        (journal,) = (tmp_path / name).glob("*/*/history.jsonl")
        start, *events = journal.read_bytes().splitlines()
        assert json.loads(start)["value"]["run"] == journal.parent.name
        journals.append(events)  # the first alone says which run it is of, and when it was
    assert len(journals[0]) > 3_000
    assert journals[0] == journals[1]


@pytest.mark.spark
def test_a_mutant_is_found_on_the_simulated_backend(tmp_path: Path):
    done = run(tmp_path, "--mutant", "M15")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "MUTANT M15" in done.stdout


@pytest.mark.slow
def test_a_plan_that_asks_for_nothing_runs_and_is_no_pass(tmp_path):
    """What shrinking leaves where the first election shows a bug: no operations, no faults."""
    plan = tmp_path / "nothing.toml"
    plan.write_text("duration_s = 0.5\nrate_per_s = 0\noperations = []\nfaults = []\n")
    arguments = ("run", "--campaign", str(plan), "--backend", "sim", "--runs", str(tmp_path))
    result = kraftprobe(*arguments, "--build", "9.9-abc")

    assert result.exit_code in (3, 4), result.output
    for line in (result.stderr.splitlines()[0], result.stdout.splitlines()[-2]):
        assert "of system kraft " in line, "whose verdict it is"
        assert "9.9-abc" in line
