"""The pages that follow a write, a record, an operation and a fault name what is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("a-write.md", "broker.md", "an-operation.md", "a-fault.md")
STEP = re.compile(r"^\| (\d+) \| `([^`]+)` \| `([^`]+)` \| ", re.MULTILINE)


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


@pytest.mark.parametrize("page", PAGES)
def test_each_step_is_a_function_of_the_file_that_it_names(page):
    text = (ROOT / "docs" / page).read_text()
    steps = STEP.findall(text)
    assert [int(number) for number, _, _ in steps] == list(range(1, len(steps) + 1))
    assert len(steps) >= 15
    assert len(re.findall(r"^\| \d+ \|", text, re.MULTILINE)) == len(steps)
    missing = [(path, name) for _, path, name in steps if name not in functions(ROOT / path)]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_the_architecture_leads_to_it(page):
    assert f"({page})" in (ROOT / "docs" / "architecture.md").read_text()
