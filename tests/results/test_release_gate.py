"""Only a PASS that is stored, unchanged and not of a mutant passes the gate."""

import json

import pytest
from factory import make_run

from results.gate import gate
from results.pipeline import judge
from results.store import RunStore

FAST = ({"name": "linearizable", "options": {"model": "register"}},)


def judged(root, **options):
    store = make_run(root, duration_s=20, checks=options.pop("checks", FAST), **options)
    judge(store)
    return store


def test_runs_that_pass_open_the_gate(tmp_path):
    stores = [judged(tmp_path, seed=seed) for seed in (1, 2)]
    decision = gate(stores)
    assert decision.exit_code == 0
    assert decision.lines[0] == "synthetic/20261121T010203Z-seed1: PASS"
    assert decision.lines[-1] == "gate open: 2 of 2 runs pass"


def test_one_failed_run_closes_it(tmp_path):
    good, bad = judged(tmp_path, seed=1), judged(tmp_path, seed=2, rate_per_s=100, stale_reads=1)
    decision = gate([good, bad])
    assert decision.exit_code == 1
    assert "FAIL: linearizable: " in decision.lines[1]
    assert decision.lines[-1] == "gate closed: 1 of 2 runs pass"


def test_no_runs_are_no_pass():
    assert gate([]).exit_code == 2


def test_a_run_without_checks_is_no_pass(tmp_path):
    decision = gate([judged(tmp_path, checks=())])
    assert decision.exit_code == 3
    assert "nothing was checked" in decision.lines[0]


def test_under_exercised_closes_it_with_its_own_code(tmp_path):
    checks = ({"name": "exercised", "options": {}},)
    store = make_run(tmp_path, duration_s=20, checks=checks)
    plan = store.plan()
    plan["checks"][0]["options"]["expectations"]["min_operations"] = 1_000_000
    store.plan_path.write_text(json.dumps(plan))
    judge(store)
    assert gate([store]).exit_code == 4


def test_a_mutant_that_passes_says_nothing_about_a_release(tmp_path):
    decision = gate([judged(tmp_path, mutant="M15")])
    assert decision.exit_code == 3
    assert "mutant M15" in decision.lines[0]
    assert "says nothing about a release" in decision.lines[0]


def test_a_mutant_cannot_be_hidden_by_editing_the_results(tmp_path):
    store = judged(tmp_path, mutant="M15")
    document = json.loads(store.results_path.read_text())
    document["plan"]["mutant"] = None
    store.results_path.write_text(json.dumps(document))
    assert gate([store]).exit_code == 3


def missing(store):
    store.results_path.unlink()


def torn(store):
    store.results_path.write_bytes(store.results_path.read_bytes()[:-50])


def claimed(store):
    text = store.results_path.read_text()
    store.results_path.write_text(text.replace('"status": "PASS"', '"status": "FAIL"', 1))


def journal_changed(store):
    with store.journal_path.open("ab") as file:
        file.write(b"\n")


def plan_changed(store):
    store.plan_path.write_text(store.plan_path.read_text().replace('"seed": 7', '"seed": 8'))


def evidence_lost(store):
    (store.evidence_path("n1") / "log.jsonl").unlink()


def evidence_added(store):
    (store.evidence_path("n4")).mkdir(parents=True)
    (store.evidence_path("n4") / "log.jsonl").write_text("")


def foreign_results(store):
    other = judged(store.folder.parent.parent, run="other")
    store.results_path.write_bytes(other.results_path.read_bytes())


def plan_missing(store):
    store.plan_path.unlink()


def a_folder(store):
    store.results_path.unlink()
    store.results_path.mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        missing,
        torn,
        claimed,
        journal_changed,
        plan_changed,
        evidence_lost,
        evidence_added,
        foreign_results,
        plan_missing,
        a_folder,
    ],
)
def test_anything_wrong_with_the_store_closes_the_gate_with_one_clear_line(tmp_path, damage):
    store = judged(tmp_path)
    assert gate([store]).exit_code == 0
    damage(store)
    decision = gate([store])
    assert decision.exit_code == 3
    assert "\n" not in decision.lines[0]
    assert decision.lines[0].startswith(f"synthetic/{store.folder.name}: ")


def test_a_run_that_is_not_there_closes_it(tmp_path):
    assert gate([RunStore(tmp_path / "c" / "absent")]).exit_code == 3
