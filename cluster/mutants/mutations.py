"""What a seeded bug is: see `cluster.mutants`."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from cluster.values import valueclass


@valueclass
class Patch:
    """One attribute of a class or module, or a function's code, and its faulty variant."""

    owner: type | ModuleType | FunctionType
    name: str
    value: Any

    def before(self) -> Any:
        """What stands there now, as it stands in its class: a static method is not unwrapped."""
        if isinstance(self.owner, FunctionType):
            return getattr(self.owner, self.name)
        return vars(self.owner)[self.name]


@valueclass
class Mutant:
    """A faulty variant of the node."""

    id: str
    title: str
    """What it does wrong, in one line."""
    breaks: str
    """The property that it violates."""
    patches: tuple[Patch, ...]


Replacement = tuple[type | ModuleType | FunctionType, str, Any]
"""Owner, name and faulty variant of a patch."""


def mutant(id_: str, title: str, breaks: str, *replaced: Replacement) -> Mutant:
    """Make a mutant of what it replaces."""
    return Mutant(id_, title, breaks, tuple(Patch(*each) for each in replaced))


def always(value: object) -> Callable[..., Any]:
    """Make a function, or method, that returns this whatever it is given."""
    return lambda *_, **__: value
