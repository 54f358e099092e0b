"""A short campaign on Apache Kafka itself, its evidence decoded, and a wrong history of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.evidence import Evidence, TraceEvent
from checkers.evidence.extent import WHOLE
from checkers.history import EventType, pair
from checkers.registry import CheckSpec, run_check
from checkers.run_input import RunInput
from checkers.verdict import CheckResult, Status
from harness.plan.document import from_document
from harness.run.run_to_verdict import run_unseen
from results.judge.pipeline import judge
from results.store.run_store import RunStore
from tests.kafka_release import VERSION, release
from tests.runs import every_workload
from tests.runs.command import kraftprobe
from workloads.registry import WORKLOADS

ROOT = Path(__file__).resolve().parents[2]
CAMPAIGN = ("--campaign", "quick", "--duration", "25", "--rate", "40")


@pytest.fixture(scope="module")
def version() -> str:
    return release()


@pytest.mark.cluster
def test_real_kafka_passes_a_campaign_and_a_lost_topic_is_found(version: str, tmp_path: Path):
    for duration_s in (25, 60, 120):  # in which a busy machine may serve too little
        runs = tmp_path / str(duration_s)
        more = f"ARGS=--workload set --duration {duration_s} --rate 40 --seed 1 --runs {runs}"
        command = ["make", "kafka", f"KAFKA={version}", more]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        [folder] = (runs / "quick").iterdir()
        results = RunStore(folder).read_results()
        if results.status not in (Status.UNDER_EXERCISED, Status.UNKNOWN):
            break
    assert done.returncode == 0, done.stderr
    store = RunStore(folder)
    by_name = {check.checker: check for check in results.checks}
    assert {check.status for check in results.checks} == {Status.PASS}
    assert by_name["log-agreement"].statistics["records"] > 100
    assert by_name["invariants"].statistics["epochs_with_leader"] >= 2
    logs = [folder / f"nodes/{node}/evidence/log.jsonl" for node in ("n1", "n2", "n3")]
    kinds = {json.loads(line)["kind"] for log in logs for line in log.read_text().splitlines()}
    assert {"TopicRecord", "control:LEADER_CHANGE"} <= kinds
    assert "undecodable" not in kinds
    for node in ("n1", "n2", "n3"):
        ends = (folder / f"nodes/{node}/stdout.log").read_text().rpartition("to SHUTTING_DOWN")[2]
        assert "] Graceful shutdown " in ends, "it writes until it ends"
    assert kraftprobe("gate", "--judge-again", folder).returncode == 0
    assert f"<dd>apache-kafka {VERSION}, commit " in (folder / "report.html").read_text()

    trace = folder / "nodes/n1/trace.jsonl"
    trace.write_bytes(trace.read_bytes() + trace.read_bytes().splitlines(keepends=True)[-1])
    assert kraftprobe("gate", "--judge-again", folder).returncode != 0, "traces follow from output"

    events = store.events()
    run = RunInput(events, pair(events), store.evidence(store.plan()).evidence)
    spec = CheckSpec("durability", {"workload": "set"})
    assert run_check(spec, run).status is Status.PASS
    reads = dict(run.evidence.final_reads)
    acknowledged = (op.key for op in run.operations if op.type is EventType.OK)
    lost = next(name for name in acknowledged if name in reads["n1"].topics)
    kept = {name: topic for name, topic in reads["n1"].topics.items() if name != lost}
    reads["n1"] = replace(reads["n1"], topics=kept)
    wrong = replace(run, evidence=replace(run.evidence, final_reads=reads))
    result = run_check(spec, wrong)
    assert result.status is Status.FAIL
    assert lost in json.dumps(result.anomalies)


@pytest.mark.nightly  # tests/harness/sim plays it in simulation for every commit
@pytest.mark.cluster
def test_the_plan_of_the_simulated_nodes_passes_on_real_kafka(version: str, tmp_path: Path):
    plan = ROOT / "tests/harness/one-plan.toml"
    system = ("--system", "apache-kafka", "--kafka-version", version, "--backend", "netns")
    done = kraftprobe("run", "--campaign", plan, *system, "--seed", 1, "--runs", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    [folder] = (tmp_path / "one-plan").iterdir()
    assert judged(folder)["invariants"].statistics["epochs_with_leader"] >= 3


def voters_of(evidence: Evidence) -> list[TraceEvent]:
    return [
        event for trace in evidence.traces.values() for event in trace if event.event == "voters"
    ]


def judged(folder: Path) -> dict[str, CheckResult]:
    return {check.checker: check for check in RunStore(folder).read_results().checks}


@pytest.mark.nightly  # tests/harness/sim plays such quorums for every commit
@pytest.mark.cluster
def test_a_quorum_of_both_kinds_passes_a_campaign_in_containers(version: str, tmp_path: Path):
    system = ("--system", "mixed", "--kafka-version", version, "--workload", "register")
    faults = ("--faults", "power-loss,clock-jump,disk-wipe")
    system = (*system, "--backend", "docker")
    done = kraftprobe("run", *system, *CAMPAIGN, *faults, "--seed", 2, "--runs", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    [folder] = (tmp_path / "quick").iterdir()
    assert kraftprobe("gate", "--judge-again", folder).returncode == 0
    starts = [
        json.loads(line)
        for node in ("n1", "n2", "n3")
        for line in (folder / f"nodes/{node}/trace.jsonl").read_text().splitlines()
        if '"e":"start"' in line
    ]
    assert {("check_quorum_timeout_ms" in start) for start in starts} == {True, False}, "both kinds"
    assert judged(folder)["log-agreement"].status is Status.PASS
    sessions = judged(folder)["sessions"]
    assert sessions.status is Status.PASS
    promise = "monotonic-reads, monotonic-writes, writes-follow-reads (of each client at each node)"
    assert f"every key keeps {promise}" in sessions.summary


SEPARATE = """
system = "apache-kafka"
system_options = {{ version = "{version}", roles = "controller,controller,controller,broker" }}
security = {{ protocol = "SASL_SSL", mechanism = "PLAIN" }}
workload = "topics"
nodes = 4
duration_s = 40
rate_per_s = 40
expectations = {{ min_operations = 50 }}
schedule = [
    {{ at_s = 1, fault = "kill", parameters = {{ targets = "leader" }}, for_s = 4 }},
    {{ at_s = 3, fault = "disk-wipe", parameters = {{ targets = "node:n4" }}, for_s = 1 }},
]
"""


@pytest.mark.nightly
@pytest.mark.cluster
def test_separate_roles_pass_and_a_broker_that_lost_its_disk_has_the_whole_log(
    version: str, tmp_path: Path
):
    plan = tmp_path / "separate.toml"
    plan.write_text(SEPARATE.format(version=version))
    done = kraftprobe("run", "--campaign", plan, "--seed", 3, "--runs", tmp_path / "runs")
    assert done.returncode == 0, done.stdout + done.stderr
    [folder] = (tmp_path / "runs" / "separate").iterdir()
    evidence = RunStore(folder).evidence(RunStore(folder).plan()).evidence
    assert set(evidence.final_reads) == {"n4"}
    assert set(evidence.logs) == {"n1", "n2", "n3", "n4"}
    directories = {e.fields["directory_id"] for e in evidence.traces["n4"] if e.event == "start"}
    assert len(directories) == 2
    assert all(set(e.fields["voters"]) == {"1", "2", "3"} for e in voters_of(evidence))


@pytest.mark.nightly  # their requests and Kafka's answers: tests/conformance, for every commit
@pytest.mark.cluster
def test_every_workload_that_reads_keeps_what_kafka_promises_of_it(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(WORKLOADS._own, every_workload.KIND.name, every_workload.KIND)
    plan = from_document(
        {
            "campaign": "every-workload",
            "workload": every_workload.KIND.name,
            "system": "apache-kafka",
            "system_options": {"version": version},
            "node_settings": {"metadata.log.max.record.bytes.between.snapshots": 4_000},
            "backend": "netns",
            "seed": 1,
            "nodes": 3,
            "duration_s": 30,
            "rate_per_s": 90,
            "concurrency": 24,
            "expectations": {"min_operations": 200},
            "schedule": [
                {"fault": "kill", "parameters": {"targets": "leader"}, "at_s": 8, "for_s": 1}
            ],
        }
    )
    store = run_unseen(plan, tmp_path, "test")
    found = judge(store)
    assert found.status is Status.PASS, [(check.checker, check.summary) for check in found.checks]
    [snapshots] = [check for check in found.checks if check.checker == "snapshots"]
    assert snapshots.operations >= 3, snapshots.summary
    for name in every_workload.PARTS:
        for result in every_workload.results_of(store, name):
            assert result.status is Status.PASS, f"{name}: {result.checker}: {result.summary}"


UPGRADE = """
system = "apache-kafka"
system_options = {{ releases = ["{version}", "4.4.0"] }}
workload = "register"
duration_s = 240
rate_per_s = 40
expectations = {{ min_operations = 50 }}
[[schedule]]
at_ms = 1000
steps = [
    {{ kind = "upgrade", targets = "all" }},
    {{ kind = "upgrade", targets = "node:n1", to = "previous", after_ms = 500 }},
    {{ kind = "upgrade", targets = "node:n1", after_ms = 500 }},
    {{ kind = "wait", until = {{ at = "node:n1", event = "release" }}, within_ms = 200000 }},
    {{ kind = "wait", until = {{ at = "node:n1", event = "release" }}, within_ms = 200000 }},
    {{ kind = "wait", until = {{ at = "node:n1", event = "release" }}, within_ms = 200000 }},
    {{ kind = "finalize", after_ms = 1000 }},
]
"""


@pytest.mark.nightly
@pytest.mark.cluster
def test_an_upgrade_passes_and_fails_without_one_record_of_its_level(version: str, tmp_path: Path):
    release("4.4.0")
    plan = tmp_path / "upgrade.toml"
    plan.write_text(UPGRADE.format(version=version))
    done = kraftprobe("run", "--campaign", plan, "--seed", 1, "--runs", tmp_path / "runs")
    [folder] = (tmp_path / "runs" / "upgrade").iterdir()
    found = judged(folder)
    assert done.returncode == 0, done.stdout
    levels = found["upgrade"].statistics["levels"]
    assert levels["metadata.version"] == 33
    assert found["upgrade"].status is Status.PASS
    junit = (folder / "junit.xml").read_text()
    assert f'value="{version}, commit ' in junit
    assert ", to 4.4.0, commit " in junit
    assert kraftprobe("gate", "--judge-again", folder).returncode == 0
    loses_a_finalized_record(RunStore(folder))


def loses_a_finalized_record(store: RunStore) -> None:
    """The run's own logs FAIL the check once one of them lacks the record of the last level."""
    events, evidence = store.events(), store.evidence(store.plan()).evidence
    run = RunInput(events, [], evidence, WHOLE)
    spec = CheckSpec("upgrade", {})
    assert run_check(spec, run).status is Status.PASS
    levels = [record for record in evidence.logs["n2"] if record.kind == "FeatureLevelRecord"]
    kept = [record for record in evidence.logs["n2"] if record is not levels[-1]]
    shorn = replace(evidence, logs={**evidence.logs, "n2": kept})
    result = run_check(spec, replace(run, evidence=shorn))
    assert result.status is Status.FAIL
    assert {(a["kind"], a["node"]) for a in result.anomalies} == {("level-lost", "n2")}
