"""docs/architecture.md follows a write, a record, an operation and a fault through what is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
WAYS = ("A write", "A record", "An operation", "A fault")
STEP = re.compile(r"^\| (\d+) \| `([^`]+)` \| `([^`]+)` \| ", re.MULTILINE)


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


@pytest.mark.parametrize("way", WAYS)
def test_each_step_is_a_function_of_the_file_that_it_names(way):
    text = PAGE.partition(f"\n## {way}\n")[2].partition("\n## ")[0]
    steps = STEP.findall(text)
    assert [int(number) for number, _, _ in steps] == list(range(1, len(steps) + 1))
    assert len(steps) >= 15
    assert len(re.findall(r"^\| \d+ \|", text, re.MULTILINE)) == len(steps)
    missing = [(path, name) for _, path, name in steps if name not in functions(ROOT / path)]
    assert missing == []
