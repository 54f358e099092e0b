"""Shrinking keeps the violated property and the events that it needs; the story shows them."""

import itertools
import json
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness.plan.document import from_document
from harness.plan.strands import Step, Strand
from harness.sim.findings import Violation
from harness.sim.runner import run_plan
from harness.sim.shrink import shrinker as shrinker_module
from harness.sim.shrink.rewrites import halves
from harness.sim.shrink.shrinker import Shrinker
from harness.sim.story import story_of
from tests.harness.sim.plans import sim_plan


def shrunk(plan, wanted, limit_s=600.0):
    shrinker = Shrinker(wanted, time.monotonic() + limit_s)
    return shrinker.shrink(plan), shrinker


def noisy():
    """The one fault that matters for M15, among others."""
    noise = [Strand(500.0 * k, (Step("clock-jump", targets="random"),)) for k in range(1, 8)]
    cut = Strand(2_000.0, (Step("partition", targets="leader", for_ms=900.0),))
    return sim_plan(
        seed=3, nodes=3, duration_s=5.0, mutant="M15", strands=(*noise, cut),
        rate_per_s=20.0,
    )  # fmt: skip


@pytest.mark.slow
def test_only_what_matters_is_left():
    plan = noisy()
    wanted = run_plan(plan).property
    assert wanted == "majority-durable"

    small, shrinker = shrunk(plan, wanted)

    assert run_plan(small).property == wanted
    assert small.events <= 3
    assert small.rate_per_s == 0
    assert from_document(json.loads(json.dumps(small.to_json()))).to_json() == small.to_json()
    story = story_of(*shrinker.story)
    assert "the mutant M15" in story[0]
    assert story[-1].startswith("VIOLATED majority-durable")


@pytest.mark.parametrize(
    ("wanted", "first", "other", "is_kept"),
    [
        ("node-died", ("node-died", "fatal: #"), ("node-died", "error: #"), False),
        ("progress", ("busy loop",), ("too many events",), False),
        ("log", ("log", "lost", "reordered"), ("log", "duplicate"), False),
        ("log", ("log", "lost", "reordered"), ("log", "lost"), True),
    ],
)
def test_another_violation_of_the_property_is_not_kept(monkeypatch, wanted, first, other, is_kept):
    def violated(_, plan):
        return None, Violation(wanted, "", first if plan.strands else other)

    monkeypatch.setattr(Shrinker, "_run", violated)
    shrinker, plan = Shrinker(wanted, time.monotonic() + 600.0), noisy()
    assert shrinker.fails(plan)
    assert shrinker.fails(replace(plan, strands=())) is is_kept


def test_time_is_a_bound():
    plan = noisy()

    small, shrinker = shrunk(plan, "majority-durable", limit_s=0.3)

    assert shrinker.progress.tried < 60
    assert run_plan(small).property == "majority-durable"


def crowd():
    """A kill among fifteen things that do not matter, and a dense stream."""
    noise = [Strand(1_000.0 * k, (Step("clock-jump", targets="random"),)) for k in range(1, 16)]
    kill = Strand(2_000.0, (Step("kill", targets="leader"),))
    return sim_plan(
        seed=1, duration_s=16.0, strands=(*noise, kill),
        concurrency=8, rate_per_s=64.0,
    )  # fmt: skip


class OneInFive(Shrinker):
    """Any plan with the kill fails, in one of five worlds."""

    def fails(self, plan):
        self.progress.tried += 1
        return "kill" in repr(plan.strands) and plan.seed % 5 == 1

    def _run(self, plan):
        raise AssertionError("nothing has to be run")

    def _end_early(self, plan):
        return plan

    def _materialise(self, plan):
        return plan


@pytest.fixture
def _ticks(monkeypatch):
    """A clock that moves on when it is read: what is tried does not depend on how fast that is."""
    clock = SimpleNamespace(monotonic=map((0.01).__mul__, itertools.count()).__next__)
    monkeypatch.setattr(shrinker_module, "time", clock)


@pytest.mark.usefixtures("_ticks")
def test_what_few_worlds_show_is_cut_down_in_other_worlds():
    shrinker = OneInFive("any", 1_000.0)
    small = shrinker._other_seeds(crowd())
    assert [step.kind for strand in small.strands for step in strand.steps] == ["kill"]
    assert small.rate_per_s <= 2
    assert small.concurrency == 1
    assert small.duration_ms <= 4_000.0
    assert small.seed % 5 == 1


@pytest.mark.usefixtures("_ticks")
def test_what_no_world_shows_stays_as_it_is():
    class Never(OneInFive):
        def fails(self, plan):
            super().fails(plan)
            return False

    shrinker = Never("any", 10.0)
    assert shrinker._other_seeds(crowd()) == crowd()
    assert shrinker.progress.tried > 100  # as many worlds as there is time for


def test_each_half_has_less_of_something():
    whole = crowd()
    found = list(halves(whole))
    assert len(found) > 30
    for one in found:
        assert one.events < whole.events or one.concurrency < whole.concurrency
    small = sim_plan(seed=1, duration_s=1.0, concurrency=1, rate_per_s=1.0)
    assert list(halves(small)) == []


def test_a_plan_without_time_to_shrink_it_keeps_its_violation_and_story():
    small, shrinker = shrunk(noisy(), "majority-durable", limit_s=0.0)

    assert shrinker.progress.tried == 1
    assert run_plan(small).property == "majority-durable"
    assert story_of(*shrinker.story)[-1].startswith("VIOLATED majority-durable")


def test_a_candidate_that_could_not_be_replayed_is_none():
    never = Step("expect", options={"that": {"state": "Resigned"}}, within_ms=100.0)
    plan = sim_plan(seed=1, nodes=1, duration_s=2.0, rate_per_s=0.0)
    cast = Step("cast", options={"names": {"A": "leader"}})
    pause = Step("pause", targets="@A")
    steps = (cast, pause, never)
    whole, without_cast = (replace(plan, strands=(Strand(0.0, of),)) for of in (steps, steps[1:]))
    shrinker = Shrinker("expectation", float("inf"))

    assert run_plan(without_cast).property == "expectation"
    assert (shrinker.fails(whole), shrinker.fails(without_cast)) == (True, False)
