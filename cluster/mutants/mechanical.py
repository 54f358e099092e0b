"""Mechanical mutants: one small change of one expression or statement of the node's own code.

After mutation analysis (DeMillo, Lipton, Sayward: Hints on Test Data Selection, 1978) with the
operators that Offutt and others found sufficient (TOSEM 5(2), 1996): relations, connectors,
conditions, constants, and left-out statements. A mutant's id names its place by the code's own
names, so that it stays the same while other functions change:

    X:controller.brokers.broker_lifecycle:Heartbeats.touch:relation:2

is the third relation of that method, changed. A change is compiled into the code of its function
while a mutant is applied; the files are only read. The changed place calls `mark_reached`, which
tells a mutant that no world reached from one whose effect no rule noticed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from types import CodeType, FunctionType, ModuleType

import cluster.node
from cluster.mutants.mutations import Mutant, Patch
from cluster.values import valueclass

PREFIX = "X:"
LAYERS = {"consensus": "kraft", "log": "log", "controller": "controller", "broker": "broker"}
"""Layer of the node -> its package below `cluster.node`."""

OPERATORS = {
    "relation": "the relation next to the right one",
    "connector": "`and` for `or`, or the reverse",
    "negation": "a `not` left out",
    "sum": "+ for -, or the reverse",
    "truth": "True for False, or the reverse",
    "number": "a number that is one too large",
    "always": "a condition that always holds",
    "never": "a condition that never holds",
    "left-out": "a statement left out",
    "extreme": "min for max, or the reverse",
}
"""Operators, and what each leaves in the code."""

_RELATIONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_REACHED = "__import__('sys').modules['cluster.mutants.mechanical'].mark_reached()"
_NODE = Path(cluster.node.__file__).parent

_marks = [0]


def mark_reached() -> bool:
    """Count that changed code is about to run; False, which leaves the original code out."""
    _marks[0] += 1
    return False


def mark_count() -> int:
    """How often changed code ran in this process, ever."""
    return _marks[0]


def layer_of(module: str) -> str:
    """The layer of a module of the node; `other` for the rest."""
    package = module.removeprefix(f"{cluster.node.__name__}.").split(".")[0]
    return next((layer for layer, found in LAYERS.items() if found == package), "other")


@valueclass
class Site:
    """A place where one operator applies."""

    module: str
    """Below `cluster.node`, such as `kraft.core`."""
    function: str
    """Qualified name of a function or method of the module."""
    operator: str
    number: int
    """Which of the places of this operator in the function, in the order of the text."""
    line: int

    @property
    def id(self) -> str:
        """The mutant's id."""
        return f"{PREFIX}{self.module}:{self.function}:{self.operator}:{self.number}"

    @property
    def layer(self) -> str:
        """The layer of the node that it lies in."""
        return layer_of(f"{cluster.node.__name__}.{self.module}")


def sites() -> list[Site]:
    """All places of all layers, in the order of modules and text."""
    paths = (path for each in LAYERS.values() for path in sorted((_NODE / each).rglob("*.py")))
    return [site for path in paths for site in _sites_of(_module_of(path))]


def sample(count: int, seed: int) -> list[Site]:
    """Draw as many places of each layer, evenly from its functions, so that no long one decides."""
    random = Random(f"mechanical/{seed}")
    drawn: list[Site] = []
    for layer in LAYERS:
        by_function: dict[tuple[str, str], list[Site]] = {}
        for site in sites():
            if site.layer == layer:
                by_function.setdefault((site.module, site.function), []).append(site)
        functions = random.sample(sorted(by_function), min(count, len(by_function)))
        drawn += [random.choice(by_function[function]) for function in functions]
    return drawn


def mechanical_mutant(mutant_id: str) -> Mutant | None:
    """The mutant of an id of this form; None where the node has no such place."""
    parts = mutant_id.removeprefix(PREFIX).split(":")
    for site in _sites_of(parts[0]) if _is_module(parts[0]) else ():
        if site.id == mutant_id:
            function = _function(site.module, site.function)
            assert function is not None, "sites are of functions that were found"
            code, title = _mutation(site, function)
            return Mutant(mutant_id, title, "found by trial", (Patch(function, "__code__", code),))
    return None


# -- places ---------------------------------------------------------------------------------------


def _module_of(path: Path) -> str:
    parts = path.relative_to(_NODE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _path_of(module: str) -> Path:
    path = _NODE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _is_module(module: str) -> bool:
    first, *rest = module.split(".")
    is_module = first in LAYERS.values() and all(p.isidentifier() for p in rest)
    return is_module and _path_of(module).is_file()


@cache
def _sites_of(module: str) -> tuple[Site, ...]:
    tree = ast.parse(_path_of(module).read_text(encoding="utf-8"))
    found: list[Site] = []
    for name, function in _functions(tree):
        if _function(module, name) is None:
            continue
        numbers: Counter[str] = Counter()
        for node in _in_text_order(function):
            for operator in _operators(node):
                found.append(Site(module, name, operator, numbers[operator], node.lineno))
                numbers[operator] += 1
    return tuple(found)


_Changeable = ast.expr | ast.stmt
_Definition = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(tree: ast.Module) -> Iterator[tuple[str, _Definition]]:
    """Functions and methods of a module, without those inside of others.

    A name that is defined twice (a property and its setter) is left out: its code is ambiguous.
    """
    every = list(_definitions(tree, ""))
    counts = Counter(name for name, _ in every)
    yield from (each for each in every if counts[each[0]] == 1)


def _definitions(
    parent: ast.Module | ast.ClassDef, prefix: str
) -> Iterator[tuple[str, _Definition]]:
    for node in parent.body:
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node, f"{prefix}{node.name}.")
        elif isinstance(node, _Definition):
            yield f"{prefix}{node.name}", node


def _in_text_order(function: _Definition) -> list[_Changeable]:
    """Expressions and statements of a body, but for decorators, annotations and asserts."""
    found: list[_Changeable] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Assert | ast.arguments) or _is_docstring(node):
            return
        if isinstance(node, _Changeable):
            found.append(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    visit(child)

    for statement in function.body:
        visit(statement)
    return found


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _operators(node: _Changeable) -> list[str]:
    """Operators that apply to a node."""
    return _of_statement(node) if isinstance(node, ast.stmt) else _of_expression(node)


def _of_statement(node: ast.stmt) -> list[str]:
    match node:
        case ast.If():
            return ["always", "never"]
        case ast.While():
            return ["never"]
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            return ["left-out"]
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return ["left-out"]
    return []


def _of_expression(node: ast.expr) -> list[str]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _RELATIONS:
            return ["relation"]
        case ast.BinOp(op=ast.Add() | ast.Sub()) if not _is_text(node):
            return ["sum"]
        case ast.Constant(value=bool()):
            return ["truth"]
        case ast.Constant(value=int()):
            return ["number"]
        case ast.IfExp():
            return ["always", "never"]
        case ast.Call(func=ast.Name(id="min" | "max")):
            return ["extreme"]
        case ast.UnaryOp(op=ast.Not()):
            return ["negation"]
    return ["connector"] if isinstance(node, ast.BoolOp) else []


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(
        isinstance(side, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in sides
    )


# -- changes --------------------------------------------------------------------------------------


def _mutation(site: Site, function: FunctionType) -> tuple[CodeType, str]:
    """The code of a function with the change of a place, and the change in words."""
    path = _path_of(site.module)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    definition = dict(_functions(tree))[site.function]
    nodes = _in_text_order(definition)
    place = [n for n in nodes if site.operator in _operators(n)][site.number]
    statements = [n for n in nodes[: nodes.index(place) + 1] if isinstance(n, ast.stmt)]
    texts = [ast.unparse(n).splitlines()[0][:80] for n in dict.fromkeys((place, statements[-1]))]
    _Change(place, site.operator).generic_visit(tree)
    ast.fix_missing_locations(tree)
    code = _code_of(compile(tree, str(path), "exec", dont_inherit=True), function.__code__)
    where = f"{site.module}, line {site.line}"
    return code, f"{OPERATORS[site.operator]} ({where}): {' in '.join(texts)}"


class _Change(ast.NodeTransformer):
    """Replaces one node.

    The original stays in a branch that is never taken, so that the function keeps its local names
    and the variables of its closure.
    """

    def __init__(self, place: _Changeable, operator: str) -> None:
        self._place = place
        self._operator = operator

    def visit(self, node: ast.AST) -> ast.AST:
        if node is not self._place:
            return self.generic_visit(node)
        mark = ast.parse(_REACHED, mode="eval").body
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            node.test = ast.IfExp(mark, node.test, ast.Constant(self._operator == "always"))
            return node
        if isinstance(node, ast.stmt):
            return ast.If(mark, [node], [])
        assert isinstance(node, ast.expr), "places are expressions or statements"
        return ast.IfExp(mark, node, _change_of(node))


def _change_of(node: ast.expr) -> ast.expr:
    """An expression with its operator applied, of which each kind has one (`_of_expression`)."""
    match node:
        case ast.Compare(left, [operator], comparators):
            return ast.Compare(left, [_RELATIONS[type(operator)]()], comparators)
        case ast.BoolOp(operator, values):
            return ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.UnaryOp(operand=operand):
            return operand
        case ast.BinOp(left, operator, right):
            other = ast.Sub() if isinstance(operator, ast.Add) else ast.Add()
            return ast.BinOp(left, other, right)
        case ast.Constant(bool() as value):
            return ast.Constant(not value)
        case ast.Constant(int() as value):
            return ast.Constant(value + 1)
        case ast.Call(ast.Name(name), arguments, keywords):
            other_name = "max" if name == "min" else "min"
            return ast.Call(ast.Name(other_name, ast.Load()), arguments, keywords)
    raise AssertionError("see _of_expression")


# -- functions and their code ---------------------------------------------------------------------


def _function(module: str, name: str) -> FunctionType | None:
    """The function of a name whose code is that of the text; None if a decorator replaced it."""
    found: object = importlib.import_module(f"{cluster.node.__name__}.{module}")
    for part in name.split("."):
        if not isinstance(found, type | ModuleType):
            return None
        found = vars(found).get(part)
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    elif isinstance(found, property):
        found = found.fget
    found = inspect.unwrap(found) if callable(found) else found
    if not isinstance(found, FunctionType) or found.__code__.co_qualname != name:
        return None
    return found


def _code_of(compiled: CodeType, original: CodeType) -> CodeType:
    """The code of the same function in a compiled module."""
    for constant in compiled.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == original.co_qualname:
                return constant
            if original.co_qualname.startswith(f"{constant.co_qualname}."):
                return _code_of(constant, original)
    raise AssertionError(f"{original.co_qualname} is in its module")
