"""Shrunk failures: those of a mutant are found again, those of the true node never.

Mutants that a script exposes by the same property are in test_scripts.py alone.
"""

from dataclasses import replace

import pytest

from harness.plan.document import from_document
from harness.sim.runner import run
from tests.harness.sim.plans import REGRESSIONS, completed, found

REGRESSION = pytest.mark.parametrize("path", REGRESSIONS.values(), ids=REGRESSIONS)


@pytest.mark.slow
@REGRESSION
def test_the_true_node_comes_through(path):
    plan = replace(from_document(completed(path)), mutant=None)

    played, result = run(plan)
    assert result.violations == ()
    assert not any("violations" in str(event.value) for event in played.events)


@REGRESSION
def test_the_mutant_still_fails_in_the_same_way(path):
    document = completed(path)
    if document.get("mutant") is None:
        assert "found" not in document, "a failure of the true node must be repaired"
        return
    plan = from_document(document)

    assert plan.events <= 12
    assert found(plan, document["found"]["property"]) == document["found"]["property"]
