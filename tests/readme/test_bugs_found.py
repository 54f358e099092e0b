"""docs/bugs-found.md names for each defect a test that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "docs/bugs-found.md").read_text()
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (`.+`) \|$", TABLE, re.MULTILINE)


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def test_the_rows_are_numbered():
    assert [int(number) for number, _, _ in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) > 100
    assert len(re.findall(r"^\| \d", TABLE, re.MULTILINE)) == len(ROWS)


@pytest.mark.parametrize(("number", "_defect", "tests"), ROWS, ids=lambda cell: cell[:20])
def test_each_defect_has_a_test_that_exists(number, _defect, tests):
    for name in re.findall(r"`([^`]+)`", tests):
        path, _, function = name.partition("::")
        assert (ROOT / path).is_file(), f"{number}: {path}"
        assert not function or function in functions(ROOT / path), f"{number}: {name}"
