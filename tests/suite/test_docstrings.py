"""A public method has a docstring, or the one of the method that it implements."""

import ast
from collections.abc import Iterator

from tests.suite.test_names import ROOMS, ROOT

Method = tuple[str, str, bool]
"""Class, name, and whether it has a docstring of its own."""


def methods(source: str) -> Iterator[Method]:
    """Public methods of public classes, and all others that have a docstring.

    A subclass of a library's class, such as `mfusepy.Operations`, has the library's words.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            hidden = node.name.startswith("_") or any(
                isinstance(b, ast.Attribute) for b in node.bases
            )
            for item in node.body:
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                    documented = ast.get_docstring(item) is not None
                    if documented or not (hidden or item.name.startswith("_")):
                        yield node.name, item.name, documented


def undocumented(sources: list[str]) -> set[tuple[str, str]]:
    every = [method for source in sources for method in methods(source)]
    known = {name for _, name, documented in every if documented}
    return {(owner, name) for owner, name, _ in every if name not in known}


def test_every_public_method_is_described_where_it_is_promised():
    paths = (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    found = undocumented([path.read_text(encoding="utf-8") for path in paths])
    assert found - hooks_of_invariants() == set()


def hooks_of_invariants() -> set[tuple[str, str]]:
    """The class of an invariant says what it judges, and `fold.py` what its hooks are."""
    folds = (path.read_text("utf-8") for path in (ROOT / "checkers/invariants").glob("*.py"))
    every = {(owner, name) for source in folds for owner, name, _ in methods(source)}
    return {method for method in every if method[1].startswith("on_")}


def test_a_method_that_no_docstring_is_of_is_found():
    promise = "class Fault:\n    def probe(self):\n        '''Whether it can work.'''\n"
    fault = (
        "class Kill:\n    def probe(self): ...\n    def heal(self): ...\n    def _end(self): ...\n"
    )
    assert undocumented([promise, fault, "class _Own:\n    def run(self): ...\n"]) == {
        ("Kill", "heal")
    }
