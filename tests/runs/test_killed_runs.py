"""Real runs that are interrupted, killed or deliberately faulty, as a user would see them."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

KRAFTPROBE = (str(Path(sys.executable).with_name("kraftprobe")),)


PYTHON_STARTS = ("Fatal Python error: init_", "KeyboardInterrupt")
"""What an interpreter says that is interrupted before it has run anything of ours."""


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*KRAFTPROBE, "run", "--campaign", "quick", "--runs", str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kraftprobe(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*KRAFTPROBE, *arguments], capture_output=True, text=True, timeout=1200, check=False
    )


def run_folder(folder: Path, timeout_s: float = 600) -> Path:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = sorted(folder.glob("*/*/plan.json"))
        if found:
            return found[0].parent
        time.sleep(0.05)
    raise AssertionError("no run folder appeared")


def journaled(run: Path) -> list[str]:
    path = run / "history.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def wait_for_operations(run: Path, count: int, timeout_s: float = 600) -> None:
    deadline = time.monotonic() + timeout_s
    while len(journaled(run)) < count:
        assert time.monotonic() < deadline, f"only {len(journaled(run))} events"
        time.sleep(0.1)


def processes_of(run_id: str) -> list[int]:
    """Every process of this machine that carries the run's label."""
    label = f"KRAFTPROBE_RUN={run_id}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if label in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def test_a_killed_run_keeps_its_journal_is_judged_and_cleaned_up(tmp_path: Path):
    process = start(tmp_path, "--seed", "4")
    run = run_folder(tmp_path)
    wait_for_operations(run, 400)
    process.kill()
    process.communicate()
    before = journaled(run)
    assert processes_of(run.name), "the nodes of a killed harness live on until cleanup"

    early = kraftprobe("check", str(run))
    assert (early.returncode, len(early.stderr.splitlines())) == (2, 1), early.stderr
    command = early.stderr.partition("kraftprobe cleanup ")[2]
    cleaned = kraftprobe("cleanup", *shlex.split(command))
    assert (cleaned.returncode, processes_of(run.name)) == (0, []), cleaned.stderr

    checked = kraftprobe("check", str(run))
    assert checked.returncode == 3, checked.stdout + checked.stderr
    assert "Traceback" not in checked.stderr
    assert "UNKNOWN" in checked.stdout
    results = json.loads((run / "results.json").read_text())
    by_name = {check["checker"]: check for check in results["checks"]}
    assert by_name["linearizable"]["status"] == "PASS"
    assert by_name["linearizable"]["operations"] >= 150
    assert by_name["log-agreement"]["status"] == "PASS"
    assert [line for line in journaled(run) if line in set(before)] == before[: len(journaled(run))]
    assert kraftprobe("gate", str(run)).returncode == 3


@pytest.mark.parametrize("after_s", [0.3, 2.0, 9.0])
def test_ctrl_c_at_any_moment_leaves_nothing(tmp_path: Path, after_s: float):
    process = start(tmp_path, "--seed", "5")
    run = run_folder(tmp_path)
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert processes_of(run.name) == []


def test_ctrl_c_before_anything_was_made_is_quiet(tmp_path: Path):
    for wait_s in (0.05, 0.2, 0.8, 1.6):
        process = start(tmp_path)
        time.sleep(wait_s)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
        if not errors.startswith(PYTHON_STARTS):
            break
    assert process.returncode in {130, -signal.SIGINT}, errors
    assert [p for p in tmp_path.glob("*/*") if processes_of(p.name)] == []


@pytest.mark.nightly  # tests/readme runs M15 for every commit
@pytest.mark.parametrize(
    ("mutant", "checker"), [("M32", "linearizable"), ("M31", "invariants"), ("M19", "invariants")]
)
def test_a_mutant_ends_in_fail_and_is_named(tmp_path: Path, mutant: str, checker: str):
    process = start(tmp_path, "--seed", "6", "--mutant", mutant)
    output, errors = process.communicate(timeout=900)
    assert process.returncode == 1, output + errors
    assert f"MUTANT {mutant}" in output
    run = run_folder(tmp_path)
    results = json.loads((run / "results.json").read_text())
    failed = {c["checker"]: c for c in results["checks"] if c["status"] == "FAIL"}
    assert checker in failed, failed
    assert failed[checker]["anomalies"][0]["explanation"]
    report = (run / "report.html").read_text()
    assert f"mutant {mutant}" in report
    gate = kraftprobe("gate", str(run))
    assert gate.returncode == 1


def test_two_runs_at_once_do_not_disturb_each_other(tmp_path: Path):
    folders = [tmp_path / "one", tmp_path / "two"]
    processes = [
        start(folder, "--seed", "8", "--rate", "40", "--faults", "kill", "--duration", "12")
        for folder in folders
    ]
    killed = run_folder(folders[0])
    wait_for_operations(killed, 50)
    processes[0].kill()
    processes[0].communicate()
    for folder in folders:  # not --all: other tests on this machine have killed runs, too
        assert kraftprobe("cleanup", "--runs", str(folder)).returncode == 0
    assert processes_of(killed.name) == []
    output, errors = processes[1].communicate(timeout=900)
    assert processes[1].returncode in {0, 4}, output + errors
    assert (run_folder(folders[1]) / "report.html").exists()
