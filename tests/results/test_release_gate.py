"""Only a PASS that follows from what is stored passes the gate."""

import json
import re
from collections import Counter
from types import SimpleNamespace

import pytest
from factory import make_run

from benchmarks import page
from checkers.earned import EARNED
from checkers.history import Event, EventType
from checkers.history.json_text import FIELD, seal
from checkers.verdict import Status
from harness.plan.stored_document import derive
from harness.policy.document import Canary, Policy
from harness.policy.gate import gate_folder, recompute
from harness.policy.requirements import requirements_of
from harness.sim.batch.chunks import HARNESS_ERROR, write_digests
from results.gate.identity import content_of
from results.gate.policy_gate import GateEntry, Rules, decide, each_once, gate_run
from results.judge.pipeline import judge
from results.store.digests import read_chain
from results.store.run_store import RunStore
from results.store.tables import RunName, events_table
from tests.gate.bench import Bench, edit, forge
from tests.gate.policies import POLICIES
from tests.gate.situations import SITUATIONS
from tests.gate.situations import rows as edit_rows

RULES = Rules(derive)
BEYOND = json.dumps({"operations": 1, "faults": 1, "simulated_s": 10**400, "cpu_s": 1})
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


def test_results_that_deny_a_torn_journal_close_it(bench):
    store = bench.copy("good")
    with store.journal_path.open("ab") as file:
        file.write(b'{"index":')
    forge(store, rejudge=False)
    assert "the last 9 bytes of the journal are no whole line" in gate([store], RULES).lines[0]


@pytest.mark.parametrize("status", [[], {}, "x"])
def test_results_with_an_odd_status_of_a_condition_close_it(bench, status):
    store = bench.copy("good")

    def set_status(results):
        rows = next(c for c in results["checks"] if c["checker"] == EARNED)["statistics"]
        next(r for r in rows["conditions"] if r["name"] == "restarts-meant")["status"] = status

    edit(store.results_path, set_status)
    forge(store, rejudge=False)
    assert gate([store], RULES).exit_code == 3


def test_a_journal_in_which_nothing_can_be_counted_closes_it(bench):
    store = bench.copy("good")
    lines = store.journal_path.read_bytes().splitlines()
    number = next(n for n, line in enumerate(lines) if b'"f":"leader"' in line)
    note = json.loads(lines[number])
    note["value"]["epoch"] = {}
    del note[FIELD]
    lines[number] = seal(json.dumps(note, separators=(",", ":"))).removesuffix(b"\n")
    store.journal_path.write_bytes(b"\n".join(lines) + b"\n")
    forge(store, rejudge=False)
    assert "PASS, but its journal says UNKNOWN" in gate([store], RULES).lines[0]


@pytest.mark.slow
@pytest.mark.parametrize("error", [{}, {"verdict": "FAIL", "property": HARNESS_ERROR}])
def test_a_row_of_a_batch_with_a_number_beyond_all_bounds_closes_it(bench, error):
    folder = bench.copy("batch").folder
    edit_rows(folder, lambda rows: rows[0].update(statistics=BEYOND, **error))
    write_digests(folder)
    assert "an impossible number" in gate_folder(folder, RULES).line


@pytest.mark.parametrize("name", ["read_results", "plan"])
def test_a_document_that_is_exchanged_while_the_gate_reads_closes_it(bench, monkeypatch, name):
    store = bench.copy("bad")
    path = store.results_path if name == "read_results" else store.plan_path
    before, read = path.read_bytes(), getattr(RunStore, name)

    def see_another(store):
        path.write_bytes(before.replace(b'"seed": 9', b'"seed":  9'))
        found = read(store)
        path.write_bytes(before)
        return found

    monkeypatch.setattr(RunStore, name, see_another)
    assert f"FAIL, but {path.name} is not what " in gate([store], RULES).lines[0]


def test_a_canary_that_clients_saw_no_bug_of_is_no_repetition_of_the_run():
    facts = [SimpleNamespace(mutant=mutant, system="kraft", build="1") for mutant in (None, "M03")]
    run, canary = (GateEntry("r", Status.PASS, "", "same", found) for found in facts)
    for entries in ([run, canary], [canary, run]):
        assert each_once([*entries, run]) == entries
        assert sum("counted once" in line for line in decide([*entries, run]).lines) == 1


@pytest.mark.slow
def test_a_mutant_of_a_long_name_in_small_letters_is_a_canary(tmp_path):
    mutant = "X:controller.configs.definitions:is_of_one_broker:connector:0"
    store = judged(tmp_path, seed=15, mutant=mutant, stale_reads=3)
    entry = gate_run(store, Rules(derive, canaries=frozenset({mutant})))
    assert entry.line.startswith(f"synthetic/{store.folder.name}: FAIL, as a run of mutant X:")
    found = requirements_of(Policy(canary=(Canary(mutant=mutant),)), [entry])
    assert found[0].status is Status.PASS, found[0]


@pytest.mark.slow
def test_a_full_disk_while_judging_again_hides_no_verdict(bench):
    def refuse(_):
        raise OSError(28, "No space left on device", "/tmp/log.jsonl")

    found = gate_run(bench.copy("bad"), Rules(derive, recompute=refuse))
    assert found.status is Status.FAIL
    assert found.line.endswith(
        "not judged again: [Errno 28] No space left on device: '/tmp/log.jsonl'"
    )


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
