"""A short campaign of real nodes in namespaces: kill, a partition, a bad link; then Ctrl-C."""

import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from netns_world import require_namespaces

from checkers.verdict import Status
from cluster.backends.cleanup import clean, find_leftovers
from cluster.backends.registry import BACKENDS, BackendRequest
from cluster.systems.kraft import KraftSystem
from harness.plan.document import from_document
from harness.plan.plan import Plan
from harness.plan.stored_document import plan_document
from harness.run.run_to_verdict import starvation
from results.judge.pipeline import judge
from results.store.run_store import RunStore
from tests.conduct import perform
from tests.runs.command import ATTEMPTS

KRAFTPROBE = str(Path(sys.executable).with_name("kraftprobe"))
PLAN = """
backend = "netns"
nodes = 3
duration_s = 12
seed = 5
rate_per_s = 30
concurrency = 8

[[schedule]]
at_s = 1
for_s = 2
fault = "delay"
parameters = { targets = "all", delay_ms = 40, jitter_ms = 20 }

[[schedule]]
at_s = 6
for_s = 4
fault = "partition"
parameters = { shape = "isolate", targets = "leader", direction = "outgoing" }

[[schedule]]
at_s = 7
for_s = 1
fault = "kill"
parameters = { targets = "followers" }
"""


@pytest.mark.cluster
def test_a_campaign_with_real_network_faults_passes_and_leaves_nothing(tmp_path: Path):
    """A starved machine may serve too little in this time, or nobody in the end: then again."""
    require_namespaces()
    plan = from_document({**tomllib.loads(PLAN), "campaign": "netns"})
    for attempt in range(ATTEMPTS):
        store = on_namespaces(plan, tmp_path, f"run-{attempt}")
        status = (results := judge(store)).status
        starved = status is Status.UNKNOWN and starvation()
        if status is not Status.UNDER_EXERCISED and not starved:
            break
    found = {check.checker: (check.status, check.summary) for check in results.checks}
    assert results.status is Status.PASS, "\n".join(map(str, found.items()))
    assert "faults that bit: delay 1, kill 1, partition 1" in found["exercised"][1]
    faults = [event for event in store.events() if event.f in ("delay", "partition", "kill")]
    assert {str(event.type) for event in faults} == {"invoke", "ok"}, faults
    assert find_leftovers(tmp_path) == []


def on_namespaces(plan: Plan, runs: Path, name: str) -> RunStore:
    store = RunStore.create(runs, plan_document(plan, name, "kraftprobe run"))
    nodes = BackendRequest(KraftSystem(), store.folder, plan.nodes, frozenset(), None, print)
    perform(plan, store, lambda: BACKENDS["netns"].create(nodes))
    return store


@pytest.mark.cluster
def test_ctrl_c_in_the_middle_of_a_fault_leaves_nothing(tmp_path: Path):
    require_namespaces()
    plan, runs = tmp_path / "netns.toml", tmp_path / "runs"
    plan.write_text(PLAN)
    command = [KRAFTPROBE, "run", "--campaign", str(plan), "--runs", str(runs), "--no-report"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        while not any('"delay"' in path.read_text() for path in runs.glob("*/*/history.jsonl")):
            assert run.poll() is None, run.stdout.read()
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=900)
    assert run.returncode == 130, output
    left = find_leftovers(runs)
    clean(left)
    assert left == []
