"""Shrunk failures: those of a mutant are found again, those of the true node never."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.sim.runner import run_plan
from tests.harness.sim.plans import read_plan

_CODE = re.compile(r"\w\(\w+=|UUID\(|\(-?\d+, -?\d+|[( ]-1\b")
"""What a repr, or a sentinel of the code, looks like."""
FILES = sorted((Path(__file__).parent / "regressions").glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_the_true_node_comes_through(path):
    plan = replace(read_plan(path), mutant=None)

    assert run_plan(plan).violations == ()


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_the_mutant_still_fails_in_the_same_way(path):
    document = json.loads(path.read_text())
    if document.get("mutant") is None:
        assert "found" not in document, "a failure of the true node must be repaired"
        return
    plan = read_plan(path)

    assert plan.events <= 12
    result = run_plan(plan)
    assert result.property == document["found"]["property"]
    for violation in result.violations:
        assert _CODE.search(violation.explanation) is None, violation.explanation
