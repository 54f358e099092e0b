"""The violation of a failed run is found in the simulated world and shrunk to a story."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from checkers.history import NEMESIS, Event, EventType
from checkers.verdict import CheckResult, Status
from harness.errors import UsageError
from harness.plan.document import from_document
from harness.plan.strands import Step, Strand
from harness.sim.runner import run_plan, run_stored
from harness.sim.shrink.reproduce import neighbours, red_run, search
from results.store.model import RunResults
from tests.command_line import kraftprobe
from tests.harness.sim.kafka_runs import plan_of
from tests.harness.sim.plans import read_plan, sim_plan
from tests.kafka_release import VERSION, raft_jars

LOSES_THE_LEADER = sim_plan(
    seed=5, duration_s=6.0, rate_per_s=40.0, mutant="M15",
    strands=(Strand(2_000.0, (Step("partition", targets="leader", for_ms=1_500.0),)),),
)  # fmt: skip


def invoke(*arguments):
    result = kraftprobe(*arguments)
    return result.exit_code, result.output


@pytest.mark.slow
def test_a_failed_run_becomes_a_small_plan_that_replays(tmp_path):
    assert run_stored(LOSES_THE_LEADER, tmp_path / "run") == 1

    code, output = invoke("reproduce", tmp_path / "run", "--time", "60")

    assert code == 0
    assert "VIOLATED" in output
    small = tmp_path / "run" / "reproduced.json"
    found = json.loads(small.read_text())["found"]["property"]
    assert run_plan(read_plan(small)).property == found
    assert read_plan(small).events <= 12
    assert invoke("replay", small)[0] == 1


@pytest.mark.slow
def test_one_of_the_violated_properties_can_be_asked_for(tmp_path):
    assert run_stored(LOSES_THE_LEADER, tmp_path / "run") == 1
    run = tmp_path / "run"

    assert invoke("reproduce", run, "--property", "majority-durable", "--time", "60")[0] == 0
    found = json.loads((run / "reproduced.json").read_text())["found"]
    assert found["property"] == "majority-durable"

    code, output = invoke("reproduce", run, "--property", "majority-durabel")
    assert code == 2
    assert "did you mean 'majority-durable'?" in output


@pytest.mark.slow
def test_a_run_that_passed_has_nothing_to_reproduce(tmp_path):
    run_stored(replace(LOSES_THE_LEADER, mutant=None), tmp_path / "run")

    code, output = invoke("reproduce", tmp_path / "run")

    assert code == 2
    assert "violates nothing" in output
    assert "Traceback" not in output


def test_what_is_no_run_is_refused(tmp_path):
    assert invoke("reproduce", tmp_path)[0] == 2


@pytest.mark.slow
def test_a_search_that_finds_nothing_says_what_it_tried():
    red = replace(red_of(LOSES_THE_LEADER), wanted=frozenset({"no-such-property"}))
    left = iter(range(3))

    state = search(red, lambda: next(left, None) is not None)

    assert (state.found, state.tried) == (None, 3)


def failed(*kinds):
    anomalies = tuple({"kind": kind, "explanation": "so it was"} for kind in kinds)
    check = CheckResult("invariants", Status.FAIL, "two", anomalies=anomalies)
    return RunResults(Status.FAIL, (check,), {}, "run", {}, {})


def journal(*rows):
    """Events of the nemesis: (s, type, f, value)."""
    return [
        Event(number, int(at_s * 1e9), NEMESIS, kind, f, None, value)
        for number, (at_s, kind, f, value) in enumerate(rows)
    ]


INVOKE, OK, INFO = EventType.INVOKE, EventType.OK, EventType.INFO


def injected(entry, *targets, verified=True):
    return {"phase": "inject", "entry": entry, "targets": list(targets), "verified": verified}


def healed(entry):
    return {"phase": "heal", "entry": entry, "targets": [], "verified": True}


EVENTS = journal(
    (1.0, OK, "phase", {"name": "faults"}),
    (1.5, OK, "leader", {"leader": "n2", "epoch": 1}),
    (3.0, INVOKE, "kill", {"phase": "inject", "entry": 0, "parameters": {"targets": "leader"}}),
    (3.2, OK, "kill", injected(0, "n2")),
    (5.0, OK, "kill", healed(0)),
    (6.0, INVOKE, "pause", {"phase": "inject", "entry": 1, "parameters": {"targets": "random"}}),
    (6.1, INFO, "pause", injected(1, "n3", verified=False)),
    (7.0, INVOKE, "limit", {"phase": "inject", "entry": 2, "parameters": {}}),
    (7.1, OK, "limit", injected(2, "n3")),
    (8.0, INVOKE, "stop", {"phase": "inject", "entry": 3, "parameters": {"targets": "random"}}),
    (8.1, OK, "stop", injected(3, "n1")),
)


def red_of(plan, events=EVENTS):
    return red_run(plan, failed("one-vote", "committed-prefix"), events)


def test_the_faults_are_those_that_bit_when_they_did():
    red = red_of(from_document({"seed": 3, "faults": [], "duration_s": 20}))

    assert [(act.fault, act.role, act.at_ms, act.for_ms) for act in red.acted] == [
        ("kill", "leader", 2000.0, 2000.0),
        ("stop", "follower", 7000.0, None),
    ]
    assert red.left_out == ("limit",)
    assert red.wanted == {"invariants", "one-vote", "committed-prefix"}


def test_the_nearest_plan_does_what_the_run_did():
    nearest = next(neighbours(red_of(from_document({"seed": 3, "faults": [], "duration_s": 20}))))

    assert (nearest.backend, nearest.seed, nearest.duration_s) == ("sim", 3, 20)
    assert [(strand.at_ms, *strand.steps) for strand in nearest.strands] == [
        (2000.0, Step("kill", targets="leader", for_ms=2000.0, options={"keep": "everything"})),
        (7000.0, Step("stop", targets="follower", options={})),
    ]


def test_faults_that_came_after_the_schedule_are_played_too():
    nearest = next(neighbours(red_of(from_document({"seed": 3, "faults": [], "duration_s": 5}))))

    assert nearest.duration_s == 8.0
    assert from_document(nearest.to_json()).strands == nearest.strands


def test_neighbours_are_other_worlds_other_times_and_the_very_nodes():
    plans = list(islice(neighbours(red_of(LOSES_THE_LEADER)), 12))

    assert len({plan.seed for plan in plans}) == 12
    assert len({plan.strands[0].at_ms for plan in plans}) > 6
    assert {plan.strands[0].steps[0].targets for plan in plans} == {"leader", "node:n2"}
    assert all(from_document(plan.to_json()).strands == plan.strands for plan in plans)


def test_a_run_that_violates_nothing_is_refused():
    passed = RunResults(Status.PASS, (), {}, "run", {}, {})
    with pytest.raises(UsageError, match="nothing to reproduce"):
        red_run(LOSES_THE_LEADER, passed, EVENTS)


def test_a_run_of_a_system_without_simulated_nodes_is_refused():
    plan = from_document({"system": "apache-kafka", "faults": [], "duration_s": 20})
    with pytest.raises(UsageError, match="system apache-kafka has no"):
        red_of(plan)


def test_the_nearest_plan_of_a_simulated_run_is_its_own():
    assert next(neighbours(red_of(LOSES_THE_LEADER))) == LOSES_THE_LEADER


@pytest.mark.slow
def test_a_run_of_kafkas_raft_is_found_again(tmp_path):
    raft_jars(VERSION)
    plan = read_plan(Path(__file__).parents[3] / "harness/ladder/plans/removed-voter.toml")
    assert run_stored(plan, tmp_path / "run") == 1

    code, output = invoke("reproduce", tmp_path / "run", "--time", "2", "--json")

    found = json.loads(output)
    assert (code, found["found"], found["worlds"]) == (0, True, 1)
    assert found["property"] == "node-died"
    small = read_plan(tmp_path / "run" / "reproduced.json")
    assert (small.system, dict(small.system_options)) == ("kafka-raft", dict(plan.system_options))


@pytest.mark.slow
def test_a_run_of_kafkas_raft_that_passed_has_nothing_to_reproduce(tmp_path):
    raft_jars(VERSION)
    assert run_stored(plan_of(VERSION, 3, nodes=3), tmp_path / "run") == 0

    code, output = invoke("reproduce", tmp_path / "run")

    assert (code, output.count("\n")) == (2, 1)
    assert "nothing to reproduce" in output
