"""The judgement of a stored run, without Spark."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq
import pytest
from factory import DEFAULT_CHECKS, NODES, events_from, make_run, operations_from

from checkers.history import HistoryError, pair
from checkers.history.formats import load_history
from checkers.linearizability.certificates import verify_lines
from checkers.registry import CheckError, CheckSpec, RunInput, judged_operations
from checkers.verdict import Status
from harness.evidence.recomputation import judge_again
from porcupine_py.models import model_named
from results.judge.lone_files import judge_file
from results.judge.pipeline import judge
from results.store.digests import digest_of, read_chain
from results.store.files import StoreError, write_atomically
from results.store.tables import (
    EVENTS_FILE,
    OPERATIONS_FILE,
    RunName,
    events_table,
    operations_table,
)

REGISTER = CheckSpec("linearizable", {"model": "register"})
RUN = RunName("campaign", "r")


def judgement(results):
    """All that must be equal when a run is judged again."""
    document = results.to_json()
    del document["judging"], document["judged_with"]
    return document


def status_of(results, checker):
    return next(check.status for check in results.checks if check.checker == checker)


@pytest.mark.slow
def test_a_correct_run_passes_every_check(tmp_path):
    results = judge(make_run(tmp_path))
    assert [
        (check.checker, check.status, check.summary)
        for check in results.checks
        if check.status is not Status.PASS
    ] == []
    assert results.status is Status.PASS
    assert len(results.checks) == len(DEFAULT_CHECKS) + 1  # and the conditions of a PASS
    assert results.statistics["operations"] > 1000


@pytest.mark.slow
def test_the_time_that_each_check_took_is_stored(tmp_path):
    store = make_run(tmp_path)
    results = judge(store)
    times_s = store.read_results().judging["checks_s"]
    assert len(times_s) == len(DEFAULT_CHECKS)
    assert all(time_s > 0 for time_s in times_s)
    assert sum(times_s) <= results.judging["duration_s"] + 0.001


@pytest.mark.slow
def test_a_stale_read_fails_linearizability_and_shows_its_window(tmp_path):
    results = judge(make_run(tmp_path, stale_reads=1))
    assert results.status is Status.FAIL
    check = next(check for check in results.checks if check.checker == "linearizable")
    assert check.status is Status.FAIL
    assert {operation["f"] for operation in check.anomalies[0]["window"]} == {"write", "read"}


@pytest.mark.slow
def test_a_lost_write_fails_the_checks_of_final_reads_alone(tmp_path):
    results = judge(make_run(tmp_path, lost_on="n2"))
    failed = [check.checker for check in results.checks if check.status is Status.FAIL]
    assert failed == ["durability", "records"]


@pytest.mark.slow
def test_the_judgement_is_stored_and_judging_again_gives_the_same(tmp_path):
    store = make_run(tmp_path, stale_reads=1)
    first = judge(store)
    assert store.read_results() == first
    assert judgement(judge(store)) == judgement(first)


@pytest.mark.slow
def test_the_proof_of_every_key_is_stored_and_accepted(tmp_path):
    store = make_run(tmp_path, stale_reads=1)
    judge(store)
    run = RunInput(store.events(), pair(store.events()), evidence_of(store))
    operations = judged_operations(REGISTER, run)
    lines = store.certificates_path.read_text().splitlines()
    assert len(lines) == len({operation.key for operation in operations})
    assert {json.loads(line)["status"] for line in lines} == {"PASS", "FAIL"}
    assert verify_lines(lines, operations, model_named("register")) == []


def evidence_of(store):
    return store.evidence(store.plan()).evidence


def test_a_run_that_was_killed_is_judged_by_what_there_is(tmp_path):
    store = make_run(tmp_path, duration_s=30, evidence=False)
    data = store.journal_path.read_bytes()
    store.journal_path.write_bytes(data[: len(data) // 2])
    results = judge(store)
    assert results.status in (Status.UNKNOWN, Status.UNDER_EXERCISED)
    assert status_of(results, "linearizable") is Status.PASS
    assert status_of(results, "durability") is Status.UNKNOWN
    assert results.statistics["dropped_bytes"] > 0


def test_a_killed_run_with_a_violation_still_fails(tmp_path):
    results = judge(make_run(tmp_path, stale_reads=1, evidence=False))
    assert results.status is Status.FAIL


def test_an_empty_journal_never_passes(tmp_path):
    store = make_run(tmp_path, duration_s=6)
    store.journal_path.write_bytes(b"")
    assert judge(store).status is not Status.PASS


@pytest.mark.slow
def test_a_node_without_evidence_keeps_the_run_from_passing(tmp_path):
    store = make_run(tmp_path)
    for path in store.evidence_path("n2").iterdir():
        path.unlink()
    assert judge(store).status is not Status.PASS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["log.jsonl", "quorum-state.json", "state.jsonl"])
def test_unreadable_evidence_is_a_check_of_its_own_that_is_unknown(tmp_path, name):
    store = make_run(tmp_path, duration_s=30)
    (store.evidence_path("n1") / name).write_text("damaged")
    results = judge(store)
    assert results.status is not Status.PASS
    assert status_of(results, "evidence-files") is Status.UNKNOWN


def test_a_plan_without_checks_is_unknown(tmp_path):
    assert judge(make_run(tmp_path, duration_s=6, checks=())).status is Status.UNKNOWN


def test_an_unknown_check_is_refused_with_the_nearest_name(tmp_path):
    store = make_run(tmp_path, duration_s=6, checks=({"name": "linearisable", "options": {}},))
    with pytest.raises(CheckError, match="did you mean 'linearizable'"):
        judge(store)
    assert not store.results_path.exists()


@pytest.mark.parametrize(
    "checks", [["linearizable"], [7], [{"options": {}}], [{"name": "statistics", "options": 3}]]
)
def test_a_malformed_list_of_checks_is_refused(tmp_path, checks):
    store = make_run(tmp_path, duration_s=6)
    plan = {**store.plan(), "checks": checks}
    store.plan_path.write_text(json.dumps(plan))
    with pytest.raises(StoreError, match=r"plan\.json"):
        judge(store)
    with pytest.raises(StoreError, match=r"plan\.json"):
        judge_again(store, judge)


def test_a_history_that_cannot_be_is_refused_by_file(tmp_path):
    store = make_run(tmp_path, duration_s=6)
    lines = store.journal_path.read_text().splitlines()
    event = json.loads(lines[-1])
    again = {**event, "index": event["index"] + 1, "type": "invoke", "process": 0}
    twice = {**again, "index": event["index"] + 2}
    store.journal_path.write_text("\n".join([*lines, json.dumps(again), json.dumps(twice)]) + "\n")
    with pytest.raises(HistoryError, match=r"history\.jsonl: "):
        judge(store)


@pytest.mark.slow
def test_the_tables_hold_the_history_and_read_back(tmp_path):
    store = make_run(tmp_path, duration_s=12)
    judge(store)
    events = store.events()
    assert events_from(pq.read_table(store.parquet_path / EVENTS_FILE)) == events
    assert operations_from(pq.read_table(store.parquet_path / OPERATIONS_FILE)) == pair(events)


def test_tables_of_no_events_have_their_columns():
    assert events_table(RUN, []).num_rows == 0
    assert operations_from(operations_table(RUN, [])) == []


def test_a_lone_file_is_judged_without_a_store(tmp_path):
    store = make_run(tmp_path, duration_s=30, stale_reads=1)
    before = sorted(path.name for path in store.folder.iterdir())
    results = judge_file(store.journal_path, [REGISTER])
    assert (results.status, results.run) == (Status.FAIL, "history.jsonl")
    assert sorted(path.name for path in store.folder.iterdir()) == before
    both = judge_file(store.journal_path, [REGISTER, CheckSpec("sessions")])
    assert [check.checker for check in both.checks] == ["linearizable", "sessions", "earned"]


@pytest.mark.parametrize("check", [REGISTER, CheckSpec("sessions")])
@pytest.mark.parametrize("ends", [[], ["fail"], ["fail", "info"]])
def test_a_lone_file_in_which_nothing_was_ok_is_no_pass(tmp_path, check, ends):
    path = tmp_path / "history.edn"
    kept = [
        f"{{:process {process}, :type :{kind}, :f :write, :value {process}}}"
        for process, end in enumerate(ends)
        for kind in ("invoke", end)
    ]
    path.write_text("[" + "\n".join(kept) + "]")
    results = judge_file(path, [check])
    assert results.status is Status.UNDER_EXERCISED
    assert "observations" in {anomaly["kind"] for anomaly in results.checks[-1].anomalies}


def test_a_truncated_lone_file_is_refused(tmp_path):
    store = make_run(tmp_path, duration_s=6)
    store.journal_path.write_bytes(store.journal_path.read_bytes()[:-10])
    with pytest.raises(HistoryError, match=r"history\.jsonl: line \d+"):
        judge_file(store.journal_path, [REGISTER])


def test_a_lone_file_of_another_model_is_refused(tmp_path):
    store = make_run(tmp_path, duration_s=6)
    spec = CheckSpec("linearizable", {"model": "queue"})
    with pytest.raises(
        HistoryError, match=r"history\.jsonl: operation \d+: the model 'queue' has no"
    ):
        judge_file(store.journal_path, [spec])


def test_no_file_takes_the_place_of_a_pipe(tmp_path):
    place = tmp_path / "certificates.jsonl"
    os.mkfifo(place)
    with pytest.raises(OSError, match="a pipe, not a plain file"):
        write_atomically(place, b"{}")
    assert (place.is_fifo(), [*tmp_path.iterdir()]) == (True, [place])


def test_a_file_takes_the_place_of_a_link_and_not_of_what_that_leads_to(tmp_path):
    place, other = tmp_path / "log.jsonl", tmp_path / "other"
    other.write_bytes(b"[]")
    place.symlink_to(other)
    write_atomically(place, b"{}")
    assert (place.is_symlink(), place.read_bytes(), other.read_bytes()) == (False, b"{}", b"[]")


def test_certificates_that_cannot_be_written_are_reported_by_their_name(tmp_path):
    store = make_run(tmp_path, duration_s=6)
    with pytest.raises(OSError, match=r"nowhere/proof'$"):
        judge_file(store.journal_path, [REGISTER], certificates=tmp_path / "nowhere" / "proof")


@pytest.mark.slow
def test_the_certificates_of_a_lone_file_are_accepted(tmp_path):
    store = make_run(tmp_path, duration_s=30, stale_reads=1)
    results = judge_file(store.journal_path, [REGISTER], certificates=tmp_path / "proof")
    lines = (tmp_path / "proof").read_text().splitlines()
    operations = pair(load_history(store.journal_path))
    assert verify_lines(lines, operations, model_named("register")) == []
    assert results.statistics["operations"] == len(operations)
    assert len(lines) == results.statistics["keys"]


def test_a_mutant_is_named_in_the_results(tmp_path):
    results = judge(make_run(tmp_path, duration_s=6, mutant="M15"))
    assert results.plan["mutant"] == "M15"
    assert results.plan["nodes"] == len(NODES)


@pytest.mark.slow
def test_two_judgements_at_a_time_both_succeed_and_the_run_stays_whole(tmp_path, monkeypatch):
    store = make_run(tmp_path, duration_s=20)
    write = pq.write_table

    def slowly(table, path, **options):
        write(table, path, **options)
        time.sleep(0.1)

    monkeypatch.setattr("results.store.tables.pq.write_table", slowly)
    with ThreadPoolExecutor(3) as threads:
        results = list(threads.map(judge, [store] * 3))
    assert [r.status for r in results] == [Status.PASS] * 3
    assert len(events_from(pq.read_table(store.parquet_path / EVENTS_FILE))) == len(store.events())
    assert store.read_results() in results
    chain = read_chain(store.digests_path)
    assert chain.judged["results.json"] == digest_of(store.results_path)
    assert list(store.folder.glob(".*")) == []


@pytest.mark.slow
def test_what_a_killed_judgement_left_aside_is_removed(tmp_path):
    store = make_run(tmp_path, duration_s=20)
    (store.folder / ".history.parquet.abc").mkdir()
    (store.folder / ".history.parquet.abc" / EVENTS_FILE).write_text("half")
    judge(store)
    assert list(store.folder.glob(".*")) == []
