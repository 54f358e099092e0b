"""tests/conformance/rows.md names tests that exist, and a reason wherever something is missing."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "tests/conformance/rows.md").read_text()
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in TABLE.splitlines()
    if line.startswith("| ") and not line.startswith("| row ")
]
TEST_ID = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


def test_the_table_has_its_rows():
    assert len(ROWS) > 60
    assert all(len(row) == 3 for row in ROWS)
    names = [row[0] for row in ROWS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("name", "state", "proof"), ROWS, ids=lambda cell: cell[:40])
def test_a_row_is_proved_by_tests_that_exist_or_says_why_not(name, state, proof):
    assert state in {"implemented", "partly", "not"}
    named = TEST_ID.findall(proof)
    assert proof.count("::") == len(named), "every test is named as file::function"
    for path, function in named:
        assert function in functions(path), f"{name}: {path} has no {function}"
    reason = TEST_ID.sub("", proof).replace("<br>", "").strip()
    if state != "not":
        assert named, f"{name} has no test"
    if state != "implemented":
        assert len(reason) > 20, f"{name}: why?"
