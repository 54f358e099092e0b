"""Each mutant of the catalogue replaces what the node uses: else it would be the true node."""

import ast
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import cluster.node
from cluster.mutants import MUTANTS

TEXTS = [path.read_text() for path in Path(cluster.node.__file__).parent.rglob("*.py")]


def is_used(owner, name):
    """Whether a module looks its own name up, or another does so by the module's."""
    names = [n for n in ast.walk(ast.parse(inspect.getsource(owner))) if isinstance(n, ast.Name)]
    loaded = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    call = f" {owner.__name__.rpartition('.')[2]}.{name}("
    return name in loaded or any(call in text for text in TEXTS)


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant.id)
def test_what_a_mutant_replaces_is_there_and_used(mutant):
    for patch in mutant.patches:
        assert patch.before() is not patch.value
        if isinstance(patch.owner, ModuleType):
            assert is_used(patch.owner, patch.name)
