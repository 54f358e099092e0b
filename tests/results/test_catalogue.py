"""The catalogue shows what runs say about themselves, whatever they say."""

import json

import pytest
from factory import make_run

from results.catalogue.rows import Filter, catalogue, entry_of
from results.judge.pipeline import judge


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    judge(make_run(root, duration_s=20, rate_per_s=20))
    judge(make_run(root, duration_s=20, rate_per_s=20, seed=9, stale_reads=3, run="bad"))
    make_run(root, duration_s=20, rate_per_s=20, seed=3, run="unjudged")
    return root


@pytest.mark.slow
def test_a_row_holds_what_ran_how_much_and_the_verdict(root):
    good = next(e for e in catalogue(root) if e.row.verdict == "PASS")
    row = good.row
    assert (row.run, row.campaign, row.seed) == ("20261121T010203Z-seed7", "synthetic", 7)
    assert (row.workload, row.system, row.build, row.backend) == (
        "register",
        "kraft",
        "0.1.0",
        "local",
    )
    tried = next(c for c in good.results.checks if c.checker == "exercised").statistics
    assert row.ok == good.results.statistics["by_type"]["ok"]
    assert row.leader_changes == tried["leader_changes"]
    assert row.faults == "kill 1, partition 1, pause 1"
    assert row.to_json()["started"] == "2026-11-21T01:02:03Z"
    assert row.write_p99_ms > 1
    assert not row.signed


@pytest.mark.slow
def test_reads_that_are_served_end_no_outage_of_writes(tmp_path):
    judge(make_run(tmp_path, duration_s=20, rate_per_s=20))
    (entry,) = catalogue(tmp_path)
    path = entry.store.folder / "results.json"
    document = json.loads(path.read_text())
    (figures,) = (c["statistics"] for c in document["checks"] if c["checker"] == "statistics")
    figures["longest_write_outage"]["duration_ms"] = 77_000
    path.write_text(json.dumps(document))
    assert catalogue(tmp_path)[0].row.unavailability_s == pytest.approx(77)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "runs"),
    [
        (Filter(), ["20261121T010203Z-seed7", "bad", "unjudged"]),
        (Filter(verdict=("PASS", "FAIL")), ["20261121T010203Z-seed7", "bad"]),
        (Filter(verdict=("not judged",)), ["unjudged"]),
        (Filter(build="0.1.*", campaign="synth*"), ["20261121T010203Z-seed7", "bad", "unjudged"]),
        (Filter(build="0.2.*"), []),
        (Filter(campaign="[s]ynthetic"), []),
        (Filter(system="apache-kafka"), []),
        (Filter(workload="register", backend="docker"), []),
    ],
)
def test_filters_choose_runs(root, wanted, runs):
    assert [entry.row.run for entry in catalogue(root, wanted)] == runs


@pytest.mark.slow
def test_a_verdict_that_left_out_a_fault_is_found_by_its_status(tmp_path):
    store = make_run(tmp_path, duration_s=20, rate_per_s=20)
    plan = {**store.plan(), "skipped": [{"fault": "clock-jump"}]}
    store.plan_path.write_text(json.dumps(plan))
    judge(store)
    (entry,) = catalogue(tmp_path, Filter(verdict=("UNKNOWN",)))
    assert entry.row.verdict == "UNKNOWN WITHOUT clock-jump"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "verdict"),
    [
        ("plan.json", b"{", "damaged"),
        ("plan.json", b'{"version": 1, "checks": [], "nodes": 1e400}', "damaged"),
        ("results.json", b"[]", "damaged"),
    ],
)
def test_a_damaged_run_has_a_row(tmp_path, name, content, verdict):
    store = make_run(tmp_path, duration_s=20, rate_per_s=20)
    judge(store)
    (store.folder / name).write_bytes(content)
    assert entry_of(store).row.verdict == verdict


@pytest.mark.slow
def test_results_of_another_run_are_no_verdict(tmp_path):
    for seed in (1, 2):
        judge(make_run(tmp_path, duration_s=20, rate_per_s=20, seed=seed))
    one, other = (entry.store for entry in catalogue(tmp_path))
    other.results_path.write_bytes(one.results_path.read_bytes())
    assert [entry.row.verdict for entry in catalogue(tmp_path)] == ["PASS", "damaged"]


def test_hostile_figures_and_names_are_rows_too(tmp_path):
    store = make_run(tmp_path, duration_s=20, rate_per_s=20)
    judge(store)
    plan = json.loads(store.plan_path.read_text())
    plan |= {"workload": "\x1b[2J\ud800", "nodes": 1 << 80, "seed": True, "versions": [1]}
    store.plan_path.write_text(json.dumps(plan))
    results = json.loads(store.results_path.read_text())
    for check in results["checks"]:
        if check["checker"] == "statistics":
            check["statistics"] = {"latency_ms": {"read": 3}, "recoveries": [1, {"x": 2}]}
        if check["checker"] == "exercised":
            check["statistics"] = {"ok": 1 << 70, "faults_verified": [1]}
    store.results_path.write_text(json.dumps(results))
    entry = entry_of(store)
    assert (entry.row.workload, entry.row.nodes, entry.row.seed) == (" [2J ", None, None)
    assert (entry.row.ok, entry.row.faults, entry.row.read_p99_ms) == (None, "", None)
