"""What a seeded bug is: see `cluster.mutants`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from cluster.values import valueclass


@valueclass
class Patch:
    """One attribute of a class or module, and what stands there in the faulty variant."""

    owner: type | ModuleType
    name: str
    value: Any


@valueclass
class Mutant:
    """A faulty variant of the node."""

    id: str
    title: str
    """What it does wrong, in one line."""
    breaks: str
    """The property that it violates."""
    patches: tuple[Patch, ...]
