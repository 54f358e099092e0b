"""A growing set, and what collections have in common."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable
from dataclasses import replace
from typing import Any

from porcupine_py.models.base import Model, State
from porcupine_py.models.registers import unknown_function
from porcupine_py.operations import HistoryError, Operation
from porcupine_py.values import freeze, is_list, show


class GrowingSet(Model):
    """A set to which elements are added (`add`) and which is read as a whole (`read`)."""

    name = "set"
    reads = "read"

    def init(self) -> State:
        """Return the empty set."""
        return frozenset()

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Add an element, or read all of them in any order, each once."""
        assert isinstance(state, frozenset)
        if operation.f == "add":
            return True, state | {freeze(operation.input)}
        if operation.f == "read":
            elements = [freeze(element) for element in read_list(operation)]
            legal = len(elements) == len(set(elements)) and state == frozenset(elements)
            return legal, state
        raise unknown_function(self, operation)

    def replay(self, operations: Iterable[Operation]) -> Operation | None:
        """Say what `step` says, with one set."""
        elements: set[Hashable] = set()
        for operation in operations:
            if operation.f == "add":
                elements.add(freeze(operation.input))
            elif not self.step(frozenset(elements), operation)[0]:
                return operation
        return None

    def group(self, operation: Operation) -> Hashable | None:
        """Name the element: a set without one of its elements is a right set of the others."""
        return ("element", freeze(operation.input)) if operation.f == "add" else None

    def project(self, operation: Operation, left_out: Container[Hashable]) -> Operation:
        """Take the elements that are left out from a read."""
        return without_elements(operation, left_out) if operation.f == "read" else operation


def read_list(operation: Operation) -> list[Any]:
    """Return what a read of a collection returned. Raises HistoryError when it is no list."""
    if not isinstance(operation.output, list | tuple):
        raise HistoryError(f"operation {operation.index}: a collection is read as a list")
    return list(operation.output)


def read_in_order(operation: Operation) -> list[Any]:
    """Return what a read of a list returned. Raises HistoryError when it has no order."""
    if not is_list(operation.output):
        what = show(freeze(operation.output))
        raise HistoryError(f"operation {operation.index}: a list is read as a list, not as {what}")
    return list(operation.output)


def without_elements(operation: Operation, left_out: Container[Hashable]) -> Operation:
    """Return a read without the elements of groups `("element", value)` that are left out."""
    kept = [e for e in read_list(operation) if ("element", freeze(e)) not in left_out]
    return replace(operation, output=kept)
