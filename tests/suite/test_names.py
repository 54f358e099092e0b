"""Functions are named by nouns and verbs of the field, not by past participles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (
    *("extensions", "cluster", "checkers", "porcupine_py"),
    *("workloads", "nemeses", "results", "harness"),
)
REGULAR = re.compile(r"[a-z]*[^e]ed")
NO_PARTICIPLES = frozenset({"bed", "embed", "red", "shed"})
IRREGULAR = """
    asked become begun blown bought broken brought built burnt caught chosen dealt drawn
    driven felt fled flown forgotten found given gone grown heard held hidden hung kept known laid
    learnt led left lent lost made meant met paid said seen sent shown shrunk slept spelt spent
    spoilt spoken stood stuck sunk swept taken taught thought thrown told torn understood woken won
    worn written
    """


def is_participle(name: str) -> bool:
    word = name.strip("_")
    if word in NO_PARTICIPLES:
        return False
    return word in IRREGULAR.split() or REGULAR.fullmatch(word) is not None


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = (ast.unparse(decorator) for decorator in function.decorator_list)
    return any(text.split(".")[-1] in {"property", "cached_property"} for text in decorators)


def participles(source: str) -> Iterator[str]:
    """Names of functions and methods, properties left out, that are past participles."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if is_participle(node.name) and not is_property(node):
                yield node.name


def test_no_function_is_named_by_a_past_participle():
    found = {
        (str(path.relative_to(ROOT)), name)
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for name in participles(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_other_words_are_no_participles():
    source = "def {}(): ...\n"
    for name in ("shown", "_named", "ended", "held"):
        assert list(participles(source.format(name))) == [name]
    for name in ("need", "seed", "embed", "exceed", "read", "put", "split", "named_by", "check"):
        assert not list(participles(source.format(name)))
    assert not list(participles("class C:\n    @property\n    def closed(self): ...\n"))
