"""Each mutant of the catalogue replaces what the node uses: else it would be the true node."""

import ast
import inspect
from types import ModuleType

import pytest

from cluster.mutants import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant.id)
def test_what_a_mutant_replaces_is_there_and_used(mutant):
    for patch in mutant.patches:
        assert patch.before() is not patch.value
        if isinstance(patch.owner, ModuleType):
            nodes = list(ast.walk(ast.parse(inspect.getsource(patch.owner))))
            names = {node.id for node in nodes if isinstance(node, ast.Name)}
            functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
            assert patch.name in names | functions
