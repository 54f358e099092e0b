"""The test suite itself: every test can fail, and what was not tried is reported."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import FIRST, pytest_collection_modifyitems

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
ASSERTING = frozenset({"raises", "warns", "fail"})
"""Names of pytest's own functions that end a test which finds no such thing."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_in(tree: ast.AST) -> Iterator[tuple[str, set[str], bool]]:
    """Yield each function: its name, the names of what it calls or hands on, whether it asserts."""
    for function in ast.walk(tree):
        if isinstance(function, Function):
            names, has_assert = set(), False
            for node in ast.walk(function):
                if isinstance(node, ast.Name):
                    names.add(node.id)
                elif isinstance(node, ast.Attribute):
                    names.add(node.attr)
                elif isinstance(node, ast.Assert):
                    has_assert = True
            yield function.name, names, has_assert or not ASSERTING.isdisjoint(names)


def without_assertion(trees: dict[str, ast.Module]) -> list[str]:
    """Tests that hold no assertion, nor call (through others) a function of `trees` that does.

    Functions are matched by name alone, so one that asserts may excuse another of its name.
    """
    found = [(path, *function) for path, tree in trees.items() for function in functions_in(tree)]
    callers: dict[str, set[str]] = defaultdict(set)
    for _, function, calls, _ in found:
        for name in calls:
            callers[name].add(function)
    good = {function for _, function, _, asserts in found if asserts}
    helpers = [name for name in good if not name.startswith("test_")]
    reached = set(helpers)
    while helpers:
        for caller in callers[helpers.pop()] - reached:
            reached.add(caller)
            helpers.append(caller)
    return [
        f"{path}::{function}"
        for path, function, calls, asserts in found
        if function.startswith("test_") and not asserts and reached.isdisjoint(calls)
    ]


@pytest.mark.slow
def test_every_test_has_an_assertion():
    paths = sorted(TESTS.rglob("*.py"))
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}
    assert without_assertion(trees) == []


def test_a_test_without_assertion_is_found():
    source = """
def passes(value): assert value
def through(value): passes(value)
def idle(value): print(value)
def test_plain(): assert 1
def test_raising():
    with pytest.raises(ValueError): idle(1)
def test_by_helper(): through(1)
def test_vacuous(): idle(1)
"""
    assert without_assertion({"test_x.py": ast.parse(source)}) == ["test_x.py::test_vacuous"]


def test_long_files_are_begun_first_and_those_that_wait_are_spread_among_the_others():
    class Item:
        def __init__(self, path, mark=None):
            self.path, self.nodeid, self.mark = path, f"{path}::test_it", mark

        def get_closest_marker(self, name):
            return self.mark == name

    marks = {**dict.fromkeys("abc"), "s": "slow", "w0": "cluster", "w1": "spark"}
    marks |= dict.fromkeys(reversed(FIRST), "cluster")
    items = [Item(path, mark) for path, mark in marks.items() for _ in range(2)]
    pytest_collection_modifyitems(items)
    assert [item.path for item in items[::2]] == [*FIRST, "s", "w0", "a", "w1", "b", "c"]
    assert all((ROOT / name).exists() for name in FIRST)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("import pytest\ndef test_it(): pytest.skip('no such tool')", "no such tool"),
        (
            "import pytest\n@pytest.mark.skipif(True, reason='no such library')\ndef test_it(): ...",
            "no such library",
        ),
        ("import pytest\npytest.skip('no such system', allow_module_level=True)", "no such system"),
    ],
)
def test_a_skipped_test_is_listed_with_its_reason_and_fails_in_ci(tmp_path, body, reason):
    (tmp_path / "test_it.py").write_text(body)
    (tmp_path / "conftest.py").write_text("from tests.conftest import *")
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    for ci in ("", "true"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:xdist", "."],
            cwd=tmp_path,
            env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert f": {reason}\n" in done.stdout, done.stdout
        assert "1 skipped" in done.stdout or ci, done.stdout
        assert (done.returncode in {1, 2}) is bool(ci), done.stdout
