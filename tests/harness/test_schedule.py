import itertools
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import harness.campaigns
from harness.plan.schedule import Entry, RandomSchedule, ScheduleError, draw, steps
from nemeses.registry import FAULTS

NODES = ("n1", "n2", "n3")
KINDS = tuple(FAULTS)
CAMPAIGNS = Path(harness.campaigns.__file__).parent
ROOMY_S = 30.0 + 6 * len(KINDS)
"""Enough for every kind to come once, with time to spare."""


def schedule(seed=1, kinds=KINDS, duration_s=ROOMY_S, options=None):
    return draw(seed, kinds, duration_s, NODES, options or RandomSchedule())


@pytest.mark.slow
@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=4, unique=True),
    st.floats(28, 300),
)
@settings(max_examples=150, deadline=None)
def test_every_kind_comes_in_time_and_no_two_faults_overlap(seed, kinds, duration_s):
    options = RandomSchedule()
    entries = schedule(seed, kinds, duration_s)
    assert {entry.fault for entry in entries} == set(kinds)
    assert entries[0].at_s > 0
    assert entries[-1].at_s + entries[-1].for_s <= duration_s
    for entry in entries:
        assert options.fault_s[0] - 0.001 <= entry.for_s <= options.fault_s[1] + 0.001
    for before, after in itertools.pairwise(entries):
        assert after.at_s - (before.at_s + before.for_s) >= options.quiet_s[0] - 0.002


@given(st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_each_kind_is_aimed_at_the_leader_first(seed):
    first = {}
    for entry in schedule(seed):
        first.setdefault(entry.fault, entry.parameters)
    assert first["kill"]["targets"] == "leader"
    assert first["pause"]["targets"] == "leader"
    assert first["partition"]["targets"] == "leader"


@given(st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_no_fault_is_aimed_at_the_leader_of_a_system_that_shows_none(seed):
    kinds = ("kill", "pause", "partition", "delay", "power-loss")
    drawn = draw(seed, kinds, 90.0, NODES, RandomSchedule(nested=0.5), is_led=False)
    tried = [parameters for entry in drawn for parameters in entry.alternatives]
    assert {entry.fault for entry in drawn} == set(kinds)
    words = {value for parameters in tried for value in parameters.values()}
    assert words.isdisjoint({"leader", "followers", "leader-to-follower"})
    assert "random" in words


@given(st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_parameters_are_ones_that_the_fault_takes(seed):
    entries = schedule(seed, duration_s=3 * ROOMY_S)
    assert entries
    for entry in entries:
        FAULTS[entry.fault].check(entry.parameters, NODES)


def test_seeds_differ():
    assert len({json.dumps([e.to_json() for e in schedule(seed)]) for seed in range(20)}) == 20


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_one_seed_gives_one_schedule_in_any_process(hash_seed):
    script = (
        "import json; from tests.harness.test_schedule import schedule; "
        "print(json.dumps([e.to_json() for e in schedule(7)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [entry.to_json() for entry in schedule(7)]


def test_too_little_time_is_refused_with_what_would_be_enough():
    with pytest.raises(ScheduleError, match=r"10 s .* kill, pause: .* 13 s"):
        schedule(kinds=("kill", "pause"), duration_s=10)
    assert len(schedule(kinds=("kill", "pause"), duration_s=13)) == 2


def test_no_kinds_give_no_schedule():
    assert schedule(kinds=()) == ()


def test_steps_heal_before_they_inject_at_the_same_moment():
    entries = (Entry(1.0, "kill", {}, 2.0), Entry(3.0, "pause", {}, 1.0))
    assert steps(entries) == [
        (1.0, "inject", 0),
        (3.0, "heal", 0),
        (3.0, "inject", 1),
        (4.0, "heal", 1),
    ]


def test_a_fault_of_no_length_is_injected_before_it_is_healed():
    turns = steps((Entry(1.0, "restart", {}, 0.0),))
    assert [verb for _, verb, _ in turns] == ["inject", "heal"]


@given(st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_a_nested_fault_is_of_another_kind_and_healed_before_the_outer_one(seed):
    kinds = ("kill", "pause", "partition")
    entries = schedule(seed, kinds, 120, RandomSchedule(nested=1.0))
    outer, inner = entries[::2], entries[1::2]
    assert len(outer) == len(inner)
    for out, within in zip(outer, inner, strict=True):
        assert within.fault != out.fault
        assert out.at_s < within.at_s
        assert within.at_s + within.for_s < out.at_s + out.for_s
    for before, after in itertools.pairwise(outer):
        assert after.at_s > before.at_s + before.for_s


def test_one_kind_alone_cannot_nest():
    entries = schedule(3, ("kill",), 60, RandomSchedule(nested=1.0))
    for before, after in itertools.pairwise(entries):
        assert after.at_s > before.at_s + before.for_s


@given(st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_what_does_not_bite_is_tried_again_as_it_was_and_then_otherwise(seed):
    for entry in schedule(seed):
        same, *others = entry.alternatives
        assert same == entry.parameters
        assert entry.parameters not in others
        assert len(others) == min(2, len(FAULTS[entry.fault].options(NODES)) - 1)
        for other in others:
            FAULTS[entry.fault].check(other, NODES)
    assert schedule(seed) == schedule(seed)


SHAPED = RandomSchedule(shaped=1.0)
FIVE = ("n1", "n2", "n3", "n4", "n5")


def shaped(seed, nodes=FIVE, kinds=("kill", "pause", "partition"), duration_s=120):
    return draw(seed, kinds, duration_s, nodes, SHAPED)


def away_s(entries):
    """[(begin, end, targets)] of the parts of fragments, which are tried again as they are."""
    parts = [entry for entry in entries if entry.alternatives == (entry.parameters,) * 4]
    return [(part.at_s, part.at_s + part.for_s, part.parameters["targets"]) for part in parts]


@given(st.integers(0, 2**32), st.sampled_from([("n1", "n2", "n3"), FIVE]))
@settings(max_examples=30, deadline=None)
def test_a_shaped_schedule_has_every_kind_once_within_its_time_and_parts_that_faults_take(
    seed, nodes
):
    entries = shaped(seed, nodes)
    assert {entry.fault for entry in entries} == {"kill", "pause", "partition"}
    for entry in entries:
        FAULTS[entry.fault].check(entry.parameters, nodes)
        assert 0 < entry.at_s <= entry.at_s + entry.for_s <= 120
    assert [entry.at_s for entry in entries] == sorted(entry.at_s for entry in entries)


@given(st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_parts_of_a_fragment_that_name_nodes_leave_a_majority(seed):
    parts = [part for part in away_s(shaped(seed)) if part[2].startswith("node:")]
    for begin_s, _, _ in parts:
        gone = [targets.split(",") for begin, end, targets in parts if begin <= begin_s < end]
        assert len({node for nodes in gone for node in nodes}) <= 2


def test_each_order_of_faults_that_loses_data_comes_soon():
    """A member behind whose leader goes; two behind in turn; one hit again; the last holder."""
    seen = set()
    for seed in range(10):
        for before, after in itertools.pairwise(away_s(shaped(seed))):
            overlap = after[0] < before[1]
            seen.add((before[2] == after[2], after[2] == "leader", overlap))
    assert seen >= {
        (False, True, False),
        (False, False, True),
        (True, False, False),
        (False, True, True),
    }


@given(st.integers(0, 2**32), st.sampled_from([("n1", "n2", "n3"), FIVE]))
@settings(max_examples=30, deadline=None)
def test_a_shaped_schedule_begins_with_those_behind_alone_before_the_others_start(seed, nodes):
    first, gone, crash = away_s(shaped(seed, nodes))[:3]
    targets = "follower" if len(nodes) == 3 else "follower,follower"
    assert (first[2], gone[2], crash[2]) == (targets, "leader", "untouched")
    assert gone[0] < crash[0] < first[1] < crash[1] < gone[1]


@pytest.mark.parametrize(("name", "nodes"), [("quick", NODES), ("standard", FIVE)])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_the_shipped_campaigns_have_time_for_it_and_for_each_kind_at_the_leader(name, nodes, seed):
    given = tomllib.loads((CAMPAIGNS / f"{name}.toml").read_text())
    spans = {key: tuple(value) for key, value in given["schedule"].items() if key != "shaped"}
    options = RandomSchedule(**spans, shaped=given["schedule"]["shaped"])
    entries = draw(seed, given["faults"], given["duration_s"], nodes, options)
    assert away_s(entries)[2][2] == "untouched"
    assert {entry.fault for entry in entries} == set(given["faults"])
    for fault in ("pause", "partition"):
        assert any(e.fault == fault and e.parameters["targets"] == "leader" for e in entries)


def test_a_system_without_leaders_has_no_fragments():
    kinds = ("kill", "pause", "partition")
    assert away_s(draw(1, kinds, 120, FIVE, SHAPED, is_led=False)) == []


def test_two_nodes_and_kinds_that_take_no_node_away_have_no_fragments():
    assert away_s(shaped(1, kinds=("loss", "delay"))) == []
    assert away_s(shaped(1, nodes=("n1", "n2"))) == []
