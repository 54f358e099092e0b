"""Whole campaigns on hosts behind ssh, and what a killed one leaves there."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.runs.command import until_decided

pytestmark = [pytest.mark.cluster]

PLAN = """
backend = "ssh"
duration_s = 9
rate_per_s = 60
concurrency = 9
seed = 4
[expectations]
min_operations = 60
leader_changes = 1
[[schedule]]
at_s = 1
fault = "partition"
parameters = { shape = "isolate", targets = "leader" }
for_s = 4
[[schedule]]
at_s = 6
fault = "kill"
parameters = { targets = "leader" }
for_s = 2
"""


BOUND_S = 900
"""For what takes a minute on an idle machine."""
STRANDS = Path(__file__).parents[2] / "conformance" / "strands.toml"


def start(lab, name, inventory, text=PLAN):
    plan = lab.folder / f"{name}.toml"
    plan.write_text(text)
    return lab.kraftprobe(
        *("run", "--campaign", plan, "--inventory", inventory, "--runs", lab.folder / "runs"),
        "--no-report",
    )


def passed(lab, name, inventory, text=PLAN):
    """Run a campaign to its PASS; its run folder."""

    def perform(_attempt):
        process = start(lab, name, inventory, text)
        output = process.communicate(timeout=BOUND_S)
        return subprocess.CompletedProcess(process.args, process.returncode, *output)

    done = until_decided(perform)
    assert done.returncode == 0, done.stdout + done.stderr
    return max((lab.folder / "runs" / name).iterdir())


def wait_for_fault(lab, name, process):
    """Wait until the campaign's first fault is in force; its run folder."""
    deadline = time.monotonic() + BOUND_S
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        for journal in (lab.folder / "runs" / name).glob("*/history.jsonl"):
            if '"verified":true' in journal.read_text():
                return journal.parent
        time.sleep(0.1)
    raise AssertionError(f"{name}: no fault bit")


def faults_verified(run):
    checks = json.loads((run / "results.json").read_text())["checks"]
    (exercised,) = (check for check in checks if check["checker"] == "exercised")
    return exercised["statistics"]["faults_verified"]


@pytest.mark.nightly  # for every commit as a user without root: test_sudo
def test_a_campaign_with_partition_and_kill_passes_and_leaves_nothing(lab):
    run = passed(lab, "whole", lab.inventory())
    assert faults_verified(run) == {"kill": 1, "partition": 1}
    for node in lab.nodes:
        assert (run / "nodes" / node / "trace.jsonl").stat().st_size > 0
        assert (run / "nodes" / node / "stdout.log").exists()
    assert not (run / "hosts.json").exists()
    assert lab.traces() == []


@pytest.mark.nightly
def test_the_strands_of_every_backend_are_played_behind_ssh(lab):
    text = f'backend = "ssh"\n{STRANDS.read_text()}'
    run = passed(lab, "strands", lab.inventory(), text)
    assert faults_verified(run) == {"kill": 1, "partition": 1}
    journal = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    ok = {event["value"] for event in journal if event["type"] == "ok" and event["f"] == "write"}
    assert "kept" in ok
    assert "cut-off" not in ok
    assert lab.traces() == []


def test_a_host_that_is_lost_for_good_ends_the_run_with_one_line(lab):
    # A starved machine may take long to reach its agents, which must not be gone by then.
    inventory = lab.inventory("short.toml", top="reconnect_s = 1\ngrace_s = 20")
    process = start(lab, "lost", inventory)
    wait_for_fault(lab, "lost", process)
    lab.stop_sshd("n3")
    try:
        _, stderr = process.communicate(timeout=BOUND_S)
        assert process.returncode == 2, stderr
        last = stderr.splitlines()[-1]
        assert last.startswith("kraftprobe: ")
        assert "host n3 (root@10.0.0.3:22): the connection" in last
        assert "Traceback" not in stderr
    finally:
        lab.start_sshd("n3")
    deadline = time.monotonic() + BOUND_S
    while lab.labelled() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert lab.labelled() == []


def test_cleanup_restores_the_hosts_of_a_killed_harness(lab):
    process = start(lab, "killed", lab.inventory())
    run = wait_for_fault(lab, "killed", process)
    process.kill()
    process.communicate()
    assert any("dropped" in trace for trace in lab.traces())
    cleanup = lab.kraftprobe("cleanup", "--runs", lab.folder / "runs")
    stdout, stderr = cleanup.communicate(timeout=BOUND_S)
    assert cleanup.returncode == 0, stderr
    assert f"cleaning n1 (root@10.0.0.1:22) of run {run.name}" in stdout
    assert lab.traces() == []
    # Nothing of it is left; what other runs on this machine left at this moment is theirs.
    again = lab.kraftprobe("cleanup", "--runs", lab.folder / "runs", "--json")
    stdout, stderr = again.communicate(timeout=BOUND_S)
    assert again.returncode == 0, stderr
    assert [row for row in json.loads(stdout) if row["run"] == run.name] == []
