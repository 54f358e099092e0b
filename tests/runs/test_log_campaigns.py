"""Campaigns of workload `log`: our node in virtual and in real time, and Apache Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.verdict import CheckResult, Status
from results.store.run_store import RunStore
from tests.kafka_release import release
from tests.runs.command import kraftprobe, until_decided

pytestmark = pytest.mark.slow


def ran(tmp_path: Path, *arguments: object) -> tuple[Path, dict[str, CheckResult]]:
    """Run a campaign that has to pass: its folder and checks."""
    done = until_decided(
        lambda attempt: kraftprobe(
            "run", *arguments, "--seed", 1, "--runs", tmp_path / str(attempt)
        )
    )
    assert done.returncode == 0, done.stdout + done.stderr
    folder = max(tmp_path.glob("*/*/*"))
    return folder, {check.checker: check for check in RunStore(folder).read_results().checks}


def assert_kept(checks: dict[str, CheckResult]) -> None:
    """All was acknowledged, read, decoded from disks and decided as it must be."""
    assert {check.status for check in checks.values()} == {Status.PASS}
    assert checks["log"].statistics["acknowledged"] > 50
    assert checks["log"].statistics["allowed_by_kind"] == {}
    assert checks["replica-logs"].statistics["logs"] == 24
    assert checks["replica-logs"].statistics["records_owed"] > 100
    # In real time one broker may lead all partitions, which was alone when they were made.
    assert checks["isr"].statistics["decisions"] > 0


def test_ours_loses_nothing_of_what_all_in_sync_have_in_virtual_time(tmp_path: Path):
    folder, checks = ran(tmp_path, "--backend", "sim", "--campaign", "log", "--duration", 25)
    assert_kept(checks)
    assert checks["isr"].statistics["elections"] > 0
    assert kraftprobe("gate", "--judge-again", folder).returncode == 0
    done = kraftprobe("log", "dump", folder / "nodes/n1/metadata/d0-0")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert {record["kind"] for record in records} == {"record"}
    assert records[0]["value"].startswith("w")


def test_nothing_is_lost_with_a_log_directory_nor_by_moves_between_two(tmp_path: Path):
    faults = ("--faults", "log-dir-loss,log-dir-move")
    folder, checks = ran(
        tmp_path, "--backend", "sim", "--campaign", "log-dirs", "--duration", 40, *faults
    )
    assert_kept(checks)
    assert checks["isr"].statistics["elections"] > 0
    second = folder / "nodes/n1/log-2"
    assert any(path.name.startswith("d0-") for path in second.iterdir())
    traced = {
        json.loads(line)["e"]
        for node in ("n1", "n2", "n3")
        for line in (folder / f"nodes/{node}/trace.jsonl").read_text().splitlines()
    }
    assert {"log-directory-offline", "replica-moved"} <= traced


def test_what_a_leader_alone_had_is_lost_with_its_power_and_shown_as_allowed(tmp_path: Path):
    folder, checks = ran(tmp_path, "--backend", "sim", "--campaign", "log-acks-1")
    log = checks["log"]
    assert log.statistics["allowed_by_kind"]["allowed-loss"] > 10
    assert log.statistics["anomalies_by_kind"] == {}
    explanation = log.allowed[0]["explanation"]
    assert "acknowledged at offset" in explanation
    assert ": partition of n" in explanation
    assert ": 5 explained" in (folder / "report.html").read_text()


ALL_LOSE_POWER = """
campaign = "all-lose-power"
backend = "sim"
workload = "log"
duration_s = 20
rate_per_s = 60
concurrency = 12
node_settings = { "broker.session.timeout.ms" = 2000, "broker.heartbeat.interval.ms" = 300 }
schedule = [
  { at_s = 8.0, fault = "kill", parameters = { targets = "all", keep = "nothing" }, for_s = 2.0 },
]
"""


def test_what_all_replicas_lost_with_their_page_caches_is_found_and_explained(tmp_path: Path):
    """More than Kafka promises to bear: a canary that must fail."""
    plan = tmp_path / "all-lose-power.toml"
    plan.write_text(ALL_LOSE_POWER)
    done = kraftprobe("run", "--campaign", plan, "--seed", 1, "--runs", tmp_path / "runs")
    assert done.returncode == 1, done.stdout + done.stderr
    [folder] = (tmp_path / "runs" / "all-lose-power").iterdir()
    checks = {check.checker: check for check in RunStore(folder).read_results().checks}
    log, disks = checks["log"], checks["replica-logs"]
    assert {log.status, disks.status} == {Status.FAIL}
    assert log.statistics["anomalies_by_kind"]["lost-write"] > 10
    lost = log.anomalies[0]
    assert {"producer", "offset", "epoch", "node", "faults"} <= lost.keys()
    assert ": kill of n1, n2, n3" in lost["explanation"]
    assert disks.statistics["anomalies_by_kind"]["acknowledged-missing"] > 0
    assert kraftprobe("gate", folder).returncode != 0


@pytest.mark.cluster
def test_ours_loses_nothing_on_real_disks_under_kills_and_partitions(tmp_path: Path):
    faults = ("--faults", "kill,partition", "--duration", 25)
    _, checks = ran(tmp_path, "--campaign", "log", *faults)
    assert_kept(checks)


@pytest.mark.cluster
def test_apache_kafka_loses_nothing_under_kills(tmp_path: Path):
    system = ("--system", "apache-kafka", "--kafka-version", release())
    faults = ("--faults", "kill", "--duration", 25)
    folder, checks = ran(tmp_path, *system, "--campaign", "log", *faults)
    assert_kept(checks)
    assert kraftprobe("gate", "--judge-again", folder).returncode == 0
