"""Only a PASS that follows from what is stored passes the gate."""

import re
from collections import Counter

import pytest
from factory import make_run

from benchmarks import page
from checkers.history import Event, EventType
from harness.plan.stored_document import derive
from harness.policy.gate import recompute
from results.gate.identity import content_of
from results.gate.policy_gate import Rules, decide, gate_run
from results.judge.pipeline import judge
from results.store.digests import read_chain
from results.store.run_store import RunStore
from results.store.tables import RunName, events_table
from tests.gate.bench import Bench, edit, forge
from tests.gate.policies import POLICIES
from tests.gate.situations import SITUATIONS

RULES = Rules(derive)
EVERY = (*SITUATIONS, *POLICIES)


def gate(runs, rules):
    return decide(gate_run(store, rules) for store in runs)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("gate"))


@pytest.mark.slow
@pytest.mark.parametrize("situation", EVERY, ids=lambda situation: situation.name)
def test_the_gate_is_right_in_every_situation_of_the_bench(bench, situation):
    outcome = bench.try_gate(situation)
    assert outcome.problem(situation) is None, outcome.lines
    assert outcome.row(situation) in page.section("gate").splitlines()


def test_situations_have_names_of_their_own():
    assert max(Counter(situation.name for situation in EVERY).values()) == 1
    assert len(POLICIES) >= 30
    rows = [line for line in page.section("gate").splitlines() if re.match(r"\| .+ \| \d \|", line)]
    assert len(rows) == len(EVERY)


CLIENTS = (  # process, type, function, key, value
    *((0, "invoke", "write", "k", 1), (1, "invoke", "read", "k", None)),
    *((0, "ok", "write", "k", 1), (1, "ok", "read", "k", 1)),
)


def content(rows, start_ns=0):
    events = [
        Event(n, start_ns + n, process, EventType(kind), f, key, value)
        for n, (process, kind, f, key, value) in enumerate(rows)
    ]
    return content_of(events_table(RunName("c", "r"), events))


@pytest.mark.parametrize(
    ("rows", "same"),
    [
        ([(p + 7, *rest) for p, *rest in CLIENTS], True),
        ([(*row[:3], "other", row[4] and 9) for row in CLIENTS], True),
        ([("nemesis", "info", "kill", None, {"node": "n1"}), *CLIENTS], True),
        (CLIENTS[:3], False),
        ([*CLIENTS[1::-1], *CLIENTS[2:]], False),
        ([*CLIENTS[:3], (1, "fail", "read", "k", 1)], False),
        ([(p, kind, "add" if f == "write" else f, *rest) for p, kind, f, *rest in CLIENTS], False),
        ([*CLIENTS[:3], (1, "ok", "read", "k", 2)], False),
        ([*CLIENTS[:3], (1, "ok", "read", "l", 1)], False),
        ([*CLIENTS[:3], (0, "ok", "read", "k", 1)], False),
    ],
)
def test_the_content_of_a_run_is_what_clients_did_and_saw_whatever_it_is_called(rows, same):
    assert (content(rows, start_ns=5) == content(CLIENTS)) is same


def judged(root, **options):
    store = make_run(root, duration_s=20, rate_per_s=20, **options)
    judge(store)
    return store


@pytest.mark.slow
def test_the_line_of_a_pass_says_how_much_was_tried(tmp_path):
    store = judged(tmp_path, seed=1)
    first, last = gate([store], RULES).lines
    ok = next(c for c in store.read_results().checks if c.checker == "exercised").statistics
    head = read_chain(store.digests_path).head[:16]
    assert first == (
        f"synthetic/20261121T010203Z-seed1: PASS: {ok['ok']} operations ok ({ok['reads']} reads, "
        f"{ok['writes']} writes), 2 leader changes, faults that bit: kill 1, partition 1, pause 1; "
        f"18.0 s of kraft 0.1.0 on local; recorded as {head}"
    )
    assert last == "gate open: 1 of 1 run passes; without a canary; under test: kraft 0.1.0"


def test_no_runs_are_no_pass():
    assert gate([], RULES).exit_code == 2


def test_a_run_that_is_not_there_closes_it(tmp_path):
    assert gate([RunStore(tmp_path / "c" / "absent")], RULES).exit_code == 3


def test_a_run_without_checks_is_no_pass(tmp_path):
    decision = gate([judged(tmp_path, checks=())], RULES)
    assert decision.exit_code == 3


@pytest.mark.slow
def test_under_exercised_closes_it_with_its_own_code(tmp_path):
    store = make_run(tmp_path, duration_s=20, rate_per_s=20)

    def expect_more(plan):
        expectations = {**plan["expectations"], "min_operations": 10**6}
        plan["expectations"] = expectations
        check = next(c for c in plan["checks"] if c["name"] == "exercised")
        check["options"] = {"expectations": expectations}

    edit(store.plan_path, expect_more)
    forge(store, rejudge=True)
    decision = gate([store], RULES)
    assert decision.exit_code == 4
    assert "UNDER-EXERCISED: exercised: " in decision.lines[0]


def test_what_cannot_be_judged_again_here_closes_the_gate_as_any_other_run(bench):
    """A system of a package that is not installed here; a time-out beyond all bounds."""
    again = Rules(derive, recompute=recompute)
    for name, value in (("system", "acme"), ("operation_timeout_ms", 10**400)):
        store = bench.copy("good")
        edit(store.plan_path, lambda plan, odd={name: value}: plan.update(odd))
        decision = gate([store, bench.copy("bad")], again)
        assert [entry.status for entry in decision.entries] == ["UNKNOWN", "FAIL"]


@pytest.mark.slow
def test_judging_again_changes_nothing_in_the_run(bench, tmp_path):
    store = bench.copy("simulated")
    before = {p: p.read_bytes() for p in store.folder.rglob("*") if p.is_file()}
    (situation,) = (s for s in SITUATIONS if s.name == "the same, judged again")
    assert bench.try_gate(situation).exit_code == 1
    assert recompute(store).status == "PASS"
    assert {p: p.read_bytes() for p in store.folder.rglob("*") if p.is_file()} == before
    store.junit_path.write_text("<testsuites/>")
    assert gate([store], Rules(derive, recompute=recompute)).exit_code == 3
