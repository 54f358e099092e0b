"""Shrunk failures: those of a mutant are found again, those of the true node never."""

import re
from dataclasses import replace

import pytest

from harness.plan.document import from_document
from harness.sim.runner import run_plan
from tests.harness.sim.plans import REGRESSIONS, completed

_CODE = re.compile(r"\w\(\w+=|UUID\(|\(-?\d+, -?\d+|[( ]-1\b")
"""What a repr, or a sentinel of the code, looks like."""
REGRESSION = pytest.mark.parametrize("path", REGRESSIONS.values(), ids=REGRESSIONS)


@pytest.mark.slow
@REGRESSION
def test_the_true_node_comes_through(path):
    plan = replace(from_document(completed(path)), mutant=None)

    assert run_plan(plan).violations == ()


@REGRESSION
def test_the_mutant_still_fails_in_the_same_way(path):
    document = completed(path)
    if document.get("mutant") is None:
        assert "found" not in document, "a failure of the true node must be repaired"
        return
    plan = from_document(document)

    assert plan.events <= 12
    result = run_plan(plan)
    assert result.property == document["found"]["property"]
    for violation in result.violations:
        assert _CODE.search(violation.explanation) is None, violation.explanation
