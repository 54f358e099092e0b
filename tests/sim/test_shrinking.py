"""Shrinking keeps the property and leaves what matters; the story tells it."""

import json
import time

from harness.sim.parse import from_document
from harness.sim.rewrites import halves
from harness.sim.runner import run_scenario
from harness.sim.scenario import Load, Scenario, Step, Strand
from harness.sim.shrink import Shrinker
from harness.sim.story import tell


def shrunk(scenario, wanted, limit_s=20.0):
    shrinker = Shrinker(wanted, time.monotonic() + limit_s)
    return shrinker.shrink(scenario), shrinker


def noisy():
    """The one fault that matters for M15, among others."""
    noise = [Strand(500.0 * k, (Step("clock_jump", targets="random"),)) for k in range(1, 8)]
    cut = Strand(2_000.0, (Step("partition", targets="leader", for_ms=900.0),))
    return Scenario(
        seed=3, nodes=3, duration_ms=5_000.0, mutant="M15", strands=(*noise, cut),
        workload=Load(rate_per_s=20.0),
    )  # fmt: skip


def test_only_what_matters_is_left():
    scenario = noisy()
    wanted = run_scenario(scenario).property
    assert wanted == "majority-durable"

    small, shrinker = shrunk(scenario, wanted)

    assert run_scenario(small).property == wanted
    assert small.events <= 3
    assert small.workload.rate_per_s == 0
    assert from_document(json.loads(json.dumps(small.to_json()))).to_json() == small.to_json()
    story = tell(*shrinker.story)
    assert "nodes of the mutant M15" in story[0]
    assert story[-1].startswith("VIOLATED majority-durable")


def test_time_is_a_bound():
    scenario = noisy()

    small, shrinker = shrunk(scenario, "majority-durable", limit_s=0.3)

    assert shrinker.progress.tried < 60
    assert run_scenario(small).property == "majority-durable"


def crowd():
    """A kill among fifteen things that do not matter, and a dense stream."""
    noise = [Strand(1_000.0 * k, (Step("clock_jump", targets="random"),)) for k in range(1, 16)]
    kill = Strand(2_000.0, (Step("kill", targets="leader"),))
    return Scenario(
        seed=1, duration_ms=16_000.0, strands=(*noise, kill),
        workload=Load(concurrency=8, rate_per_s=64.0),
    )  # fmt: skip


class OneInFive(Shrinker):
    """Any scenario with the kill fails, in one of five worlds."""

    def fails(self, scenario):
        self.progress.tried += 1
        return "kill" in repr(scenario.strands) and scenario.seed % 5 == 1

    def _run(self, scenario):
        raise AssertionError("nothing has to be run")

    def _end_early(self, scenario):
        return scenario

    def _materialise(self, scenario):
        return scenario


def test_what_few_worlds_show_is_cut_down_in_other_worlds():
    shrinker = OneInFive("any", time.monotonic() + 20.0)
    small = shrinker._other_seeds(crowd())
    assert [step.kind for strand in small.strands for step in strand.steps] == ["kill"]
    assert small.workload.rate_per_s <= 2
    assert small.workload.concurrency == 1
    assert small.duration_ms <= 4_000.0
    assert small.seed % 5 == 1


def test_what_no_world_shows_stays_as_it_is():
    class Never(OneInFive):
        def fails(self, scenario):
            super().fails(scenario)
            return False

    shrinker = Never("any", time.monotonic() + 1.0)
    assert shrinker._other_seeds(crowd()) == crowd()
    assert shrinker.progress.tried > 100  # as many worlds as there is time for


def test_each_half_has_less_of_something():
    whole = crowd()
    found = list(halves(whole))
    assert len(found) > 30
    for one in found:
        assert one.events < whole.events or one.workload.concurrency < whole.workload.concurrency
    small = Scenario(seed=1, duration_ms=1_000.0, workload=Load(concurrency=1, rate_per_s=1.0))
    assert list(halves(small)) == []
