"""Scenarios as data: drawn ones survive storing, wrong ones are told in one line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import ScenarioError
from harness.sim.coverage import cell, empty, steer_for, universe
from harness.sim.draw import Steer, draw
from harness.sim.parse import from_document, read_scenario


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**31))
def test_a_drawn_scenario_is_the_same_after_it_was_stored(seed):
    scenario = draw(seed)

    stored = json.loads(json.dumps(scenario.to_json()))

    assert from_document(stored).to_json() == stored
    assert from_document(stored).strands == scenario.strands


def test_a_seed_draws_the_same_scenario_every_time():
    assert draw(17) == draw(17)


def test_seeds_visit_different_worlds():
    scenarios = [draw(seed) for seed in range(60)]

    assert {3, 4, 5, 7} <= {scenario.nodes for scenario in scenarios}  # and observers
    assert len({str(scenario.settings) for scenario in scenarios}) > 50
    drawn = {scenario.workload.name for scenario in scenarios}
    assert {"register", "topics", "set", "brokers"} <= drawn


def test_steering_asks_for_empty_cells():
    covered = {cell(*one): 1 for one in universe()}
    missing = ("kill", "leader", "establishing")
    del covered[cell(*missing)]

    assert empty(covered) == (missing,)
    steered = draw(3, steer=steer_for(3, covered)).strands[0].steps[0]
    assert (steered.kind, steered.targets, steered.until.event) == (
        "kill", "leader", "epoch-start",
    )  # fmt: skip
    assert draw(3, steer=Steer()) == draw(3)


def step(kind, **options):
    return {"strands": [{"steps": [{"kind": "heal"}, {"kind": kind, **options}]}]}


WRONG = [
    ({"version": 2}, "version must be 1"),
    ({"nodes": 0}, "nodes must be a whole number from 1 to 15"),
    ({"nods": 3}, "nods"),
    ({"mutant": "M99"}, "unknown mutant"),
    ({"settings": {"controller.quorum.lingr": 1}}, "lingr"),
    ({"world": {"latency": 1}}, "latency"),
    ({"workload": {"name": "bank"}}, "bank"),
    ({"strands": [{"at_ms": 1, "steps": [{"kind": "kil"}]}]}, "did you mean"),
    ({"strands": [{"at_ms": 1, "steps": [{"kind": "kill", "targets": "@A"}]}]}, "@A"),
    ({"strands": [{"at_ms": 1, "steps": [{"kind": "kill", "targets": "node:n4"}]}]}, "node:n4"),
    ({"strands": [{"at_ms": -1, "steps": []}]}, "at_ms"),
    ({"strands": [{"steps": [{"kind": "cut", "links": "node:n1"}]}]}, "a link is written"),
    ({"strands": [{"steps": [{"kind": "heal", "for_ms": 5}]}]}, "takes no for_ms"),
    (step("kill", targets="all", keeep=1), "strands 1: steps 2: unknown key 'keeep'; did you mean"),
    (step("kill", targets="all", keep="al"), "strands 1: steps 2: unknown keep 'al'"),
    (step("kill", targets="all", for_ms=True), "steps 2: for_ms must be a number from 0 to 8640"),
    (step("kill"), "strands 1: steps 2: unknown target ''"),
    (step("lossy", loss=1.5), "strands 1: steps 2: loss must be a number from 0 to 1, not 1.5"),
    (step("hold", types="FetchReq"), "'FetchReq'; did you mean 'FetchRequest'?"),
    (step("cast"), "strands 1: steps 2: names is missing"),
    (step("cast", names={"A": "leadr"}), "unknown target 'leadr'; did you mean 'leader'"),
    (step("cast", names={}), "names must be names of nodes, such as {A = 'leader'}, not {}"),
    (step("expect"), "strands 1: steps 2: that is missing"),
    (step("expect", that={}), "that must be a condition that says something, not {}"),
    (step("expect", that={"stat": "Leader"}), "that: unknown key 'stat'; did you mean 'state'?"),
    (step("expect", that={"at": "@B"}), "strands 1: steps 2: unknown target '@B'"),
    (step("wait", until={}), "steps 2: until must say something of nodes or of an operation"),
    (step("wait", until={"epoch": "late"}), "until: unknown epoch 'late'; did you mean 'later'?"),
    (step("wait", until={"synced": 1}), "steps 2: until.synced must be true or false, not 1"),
    (step("op", value=1.5), "value must be a string, a whole number or a table, not 1.5"),
    ({"workload": {"operations": [{"f": "write", "node": "n9"}]}}, "unknown node 'n9'"),
    ({"workload": {"operations": [{"key": "k"}]}}, "workload.operations 1: f is missing"),
    ({"bounds": {"events_max": 0}}, "bounds.events_max must be a whole number from 1 to 1e+12"),
]


@pytest.mark.parametrize(("part", "told"), WRONG, ids=[told for _, told in WRONG])
def test_what_is_wrong_is_told_in_one_line(part, told):
    with pytest.raises(ScenarioError) as caught:
        from_document({"version": 1, **part})

    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_scenario_is_named(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text("{")

    with pytest.raises(ScenarioError, match=r"broken\.json: cannot be read"):
        read_scenario(path)
