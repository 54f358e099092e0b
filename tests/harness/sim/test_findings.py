"""Generalised messages of failures, so that equal failures are one finding."""

import pytest

from harness.plan.plan import Bounds
from harness.plan.strands import Step, Strand
from harness.sim.findings import generalise
from harness.sim.runner import run_plan
from tests.harness.sim.plans import sim_plan


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("n2 follows n1 in epoch 14", "_ follows _ in epoch #"),
        ("w3.17 wrote x1f0a to k07", "_ wrote _ to _"),
        ("replica (6, CDryTsZYRpqh0W7titjmCw) died", "replica (#, _) died"),
        ("the batch of epoch 4 (crc 61e06e3e) was", "the batch of epoch # (crc _) was"),
        (
            "IllegalStateException of ConcurrentModification",
            "IllegalStateException of ConcurrentModification",
        ),
        ("we need a seed and a tea", "we need a seed and a tea"),
    ],
)
def test_a_message_is_generalised_and_stays_readable(text, wanted):
    assert generalise(text) == wanted


def test_a_quorum_that_did_not_come_back_is_grouped_by_what_was_not_done():
    strand = Strand(1_000.0, (Step("pause", targets="majority"),))
    plan = sim_plan(
        seed=1, duration_s=4.0, rate_per_s=5.0, strands=(strand,), bounds=Bounds(liveness_ms=10.0)
    )
    causes = run_plan(plan).violations[0].causes
    assert causes[0] == "liveness"
    assert causes[1].startswith(("no leader was", "the last operations", "not all nodes"))
    assert causes[2].startswith("the nodes were ")
    assert len(causes) == 3
