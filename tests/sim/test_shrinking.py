"""Shrinking keeps the property and leaves what matters; the story tells it."""

import json
import time

from harness.sim.parse import from_document
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
