"""A run is stored before it is judged, and half a run is still a run."""

import json
from dataclasses import replace

import pytest
from factory import NODES, make_plan, make_run

from checkers.history import HistoryError
from checkers.verdict import CheckResult, Status
from results.judge.pipeline import judge
from results.report.junit import write_junit
from results.store.files import StoreError, write_json
from results.store.journal import read_journal
from results.store.model import RunResults
from results.store.run_store import RunStore, list_runs


def results_of(*statuses, status=None):
    checks = tuple(CheckResult("c", each, "said") for each in statuses)
    return RunResults(
        status or max(statuses), checks, {"n": 1}, "r", {"seed": 7}, {"plan.json": "0"}
    )


@pytest.fixture
def store(tmp_path):
    return make_run(tmp_path, duration_s=6)


def test_a_stored_run_reads_back(store):
    assert store.plan()["seed"] == 7
    assert len(store.events()) > 100
    loaded = store.evidence(store.plan())
    assert loaded.problems == ()
    assert loaded.evidence.nodes == NODES
    assert set(NODES) == set(loaded.evidence.logs) == set(loaded.evidence.traces)
    assert set(NODES) == set(loaded.evidence.quorum_states) == set(loaded.evidence.final_reads)
    assert loaded.evidence.logs["n1"][0].kind == "control:LEADER_CHANGE"
    assert loaded.evidence.traces["n1"][-1].incarnation == 1


def test_a_run_is_never_overwritten(tmp_path):
    plan = make_plan("r", seed=1, mutant=None, duration_s=1)
    RunStore.create(tmp_path, plan)
    with pytest.raises(StoreError, match="such a run"):
        RunStore.create(tmp_path, plan)


def test_an_unwritable_folder_is_one_clear_line(tmp_path):
    (tmp_path / "synthetic").write_text("a file is in the way")
    with pytest.raises(StoreError, match="cannot be made"):
        RunStore.create(tmp_path, make_plan("r", seed=1, mutant=None, duration_s=1))


def test_a_run_killed_in_the_middle_has_plan_and_journal_and_empty_evidence(tmp_path):
    store = make_run(tmp_path, duration_s=6, evidence=False)
    store.journal_path.write_bytes(store.journal_path.read_bytes()[:-10])
    assert read_journal(store.journal_path)[1] > 0
    loaded = store.evidence(store.plan())
    assert loaded.problems == ()
    assert loaded.evidence.nodes == NODES
    assert not loaded.evidence.logs


def test_a_node_that_the_plan_asked_for_is_named_even_if_it_left_nothing(store):
    plan = {**store.plan(), "nodes": 5}
    assert (*NODES, "n4", "n5") == store.evidence(plan).evidence.nodes


def test_unreadable_evidence_is_left_out_as_a_whole_and_reported(store):
    for name in ("log.jsonl", "state.jsonl", "quorum-state.json"):
        path = store.evidence_path("n2") / name
        path.write_bytes(path.read_bytes()[:-20])
    loaded = store.evidence(store.plan())
    assert len(loaded.problems) == 3
    assert all("n2" in problem for problem in loaded.problems)
    assert "n2" not in loaded.evidence.logs
    assert "n2" not in loaded.evidence.final_reads
    assert "n2" not in loaded.evidence.quorum_states


def test_a_log_out_of_order_is_unreadable(store):
    path = store.evidence_path("n1") / "log.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[1], lines[0], *lines[2:]]))
    assert "line 2: offset 0 is out of order" in store.evidence(store.plan()).problems[0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2, "checks": []}', '{"version": 1}'])
def test_a_plan_that_is_none_is_refused_in_one_line(store, text):
    store.plan_path.write_text(text)
    with pytest.raises(StoreError, match=r"plan\.json: [^\n]+$"):
        store.plan()


def test_missing_files_are_named(tmp_path):
    store = RunStore(tmp_path)
    with pytest.raises(StoreError, match=r"plan\.json: .* no such file"):
        store.plan()
    with pytest.raises(StoreError, match=r"history\.jsonl: .* no such file"):
        store.events()
    with pytest.raises(StoreError, match=r"results\.json: .* no such file"):
        store.read_results()


def test_a_damaged_journal_is_a_history_error(store):
    data = store.journal_path.read_bytes()
    store.journal_path.write_bytes(data.replace(b"write", b"wrote", 1))
    with pytest.raises(HistoryError, match=r"line \d+: its checksum"):
        store.events()


def test_results_read_back(store):
    written = results_of(Status.UNDER_EXERCISED, Status.PASS)
    store.write_results(written)
    assert written == store.read_results()


@pytest.mark.parametrize("results", [(Status.PASS, Status.PASS), (Status.FAIL, Status.PASS)])
def test_a_pass_without_its_conditions_or_with_a_failed_check_is_refused(store, results):
    store.write_results(results_of(*results, status=Status.PASS))
    with pytest.raises(StoreError, match="contradict"):
        store.read_results()


def test_results_with_a_field_missing_are_damaged(store):
    store.write_results(results_of(Status.PASS))
    document = json.loads(store.results_path.read_text())
    for name in ("checks", "status", "statistics", "inputs", "plan"):
        write_json(store.results_path, {k: v for k, v in document.items() if k != name})
        with pytest.raises(StoreError, match="damaged"):
            store.read_results()


def test_a_key_twice_is_named(tmp_path):
    store = RunStore(tmp_path)
    store.results_path.write_text('{"version": 2, "version": 2}')
    with pytest.raises(StoreError, match="key 'version' is repeated"):
        store.read_results()


def test_pages_of_an_earlier_judgement_do_not_replace_those_of_a_later_one(store):
    first = judge(store)
    second = replace(judge(store), judging={"duration_s": 1.0})
    with store.lock():
        store.write_results(second)
    store.write_pages(second, [write_junit])
    page, chain = store.junit_path.read_bytes(), store.digests_path.read_bytes()
    store.write_pages(first, [write_junit])
    assert (store.junit_path.read_bytes(), store.digests_path.read_bytes()) == (page, chain)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "results.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [path] == list(tmp_path.iterdir())


def test_runs_are_listed_by_campaign_and_name(tmp_path):
    make_run(tmp_path, duration_s=6, run="b")
    make_run(tmp_path, duration_s=6, run="a")
    (tmp_path / "synthetic" / "notes").mkdir()
    assert [store.folder.name for store in list_runs(tmp_path)] == ["a", "b"]
    assert list_runs(tmp_path / "absent") == []
