"""The gate's own canary: drawn by the runs' seeds, found by its rule, or the gate is UNKNOWN."""

import json
from types import SimpleNamespace

import pytest

from checkers.invariants.watcher import INVARIANTS
from checkers.verdict import Status
from cluster.mutants import MUTANTS
from harness.policy import canary as module
from harness.policy.canary import ALARMS, WORLDS_MAX, canary, canary_of
from tests.command_line import kraftprobe
from tests.gate.bench import Bench


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("canary")).copy("good").folder


@pytest.fixture
def silent(monkeypatch):
    """Worlds in which nothing is found, and the mutants and seeds of those that were played."""
    played = []

    def run_seed(plan, wanted):
        played.append((plan.mutant, plan.seed))
        assert wanted == {ALARMS[plan.mutant]}
        return {"property": None}

    monkeypatch.setattr(module, "run_seed", run_seed)
    monkeypatch.setattr(
        module, "draw", lambda seed, mutant: SimpleNamespace(seed=seed, mutant=mutant)
    )
    canary.cache_clear()
    yield played
    canary.cache_clear()


def gate(*arguments):
    result = kraftprobe("gate", *arguments)
    return result.exit_code, result.stdout


@pytest.mark.parametrize("mutant", ALARMS)
def test_the_rule_of_each_alarm_finds_it_and_not_the_true_node(mutant):
    rule, first = ALARMS[mutant], 900_000_000
    worlds = [module.draw(first + n, mutant=mutant) for n in range(WORLDS_MAX)]
    found = [module.run_seed(world, frozenset({rule}))["property"] for world in worlds[:2]]
    assert rule in found
    assert module.run_seed(module.draw(first, duration_ms=500.0))["property"] is None


def test_every_alarm_is_of_the_catalogue_and_every_rule_is_one():
    assert ALARMS.keys() <= MUTANTS.keys()
    assert {*ALARMS.values()} <= {invariant.name for invariant in INVARIANTS}


@pytest.mark.usefixtures("silent")
def test_a_canary_that_is_not_found_makes_the_gate_unknown(run):
    code, output = gate(run)
    *_, line, last = output.splitlines()
    assert code == 3
    assert line.startswith("canary: UNKNOWN: ")
    assert last.startswith("gate closed: 1 of 1 run passes; ")


def test_the_canary_is_in_the_document(run):
    code, output = gate(run, "--json")
    document = json.loads(output)
    assert (code, document["canary"]["name"], document["canary"]["status"]) == (0, "canary", "PASS")
    assert "kraftprobe sim --seed " in document["canary"]["sentence"]


def test_a_gate_without_a_canary_says_so(run, silent):
    code, output = gate(run, "--no-canary")
    assert (code, silent) == (0, [])
    assert output.splitlines()[-1].startswith("gate open: 1 of 1 run passes; without a canary; ")


def entry(*seeds):
    return SimpleNamespace(facts=SimpleNamespace(seeds=seeds))


def test_the_seeds_of_the_runs_draw_it(silent):
    found = canary_of([entry(7), entry(3, 4), SimpleNamespace(facts=None)])
    assert found.status is Status.UNKNOWN
    (mutant, first), *others = silent
    assert others == [(mutant, first + n) for n in range(1, WORLDS_MAX)]
    again = [*silent]
    canary.cache_clear()
    canary_of([entry(3, 9), entry(7)])
    assert silent == again * 2
    canary_of([entry(3), entry(8)])
    assert silent[-1] != again[-1]


def test_other_seeds_draw_all_of_them(silent):
    for seed in range(200):
        canary((seed,))
    assert {mutant for mutant, _ in silent} == ALARMS.keys()
