"""Key-value with append, and a growing set."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from checkers.history import EventType, HistoryError, Operation
from checkers.history.values import freeze
from checkers.models.base import Model, State
from checkers.models.registers import unknown_function


class KeyValue(Model):
    """One string for each key: `get`, `put`, and `append` at its end."""

    name = "kv"

    def __init__(self, initial: Any = "") -> None:
        if not isinstance(initial, str):
            raise HistoryError(f"the model 'kv' starts with a string, not {initial!r}")
        self.initial = initial

    def init(self) -> State:
        """Return the initial string."""
        return self.initial

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Get what is there, put, or append."""
        if operation.f == "get":
            return state == freeze(operation.output), state
        if operation.f == "put":
            return True, _text(operation)
        if operation.f == "append":
            assert isinstance(state, str)
            return True, state + _text(operation)
        raise unknown_function(self, operation)

    def has_effect(self, operation: Operation) -> bool:
        """Everything but a get."""
        return operation.f != "get"

    def states_at(self, operations: Sequence[Operation], from_ns: int) -> list[State]:
        """List what later gets show to have been there, and one string that they do not extend.

        A string that no get of the window extends is like any other such: nothing that is got
        distinguishes them. One that some get extends ends where some text ends, or is the initial.
        """
        got = {
            o.output
            for o in operations
            if o.f == "get" and o.invoke_ns >= from_ns and isinstance(o.output, str)
        }
        texts = {_text(o) for o in operations if self.has_effect(o)} | {self.initial}
        lengths = sorted({len(text) for text in texts})
        states = {self.initial}
        for output in sorted(got):
            ends = range(len(output) + 1)
            states |= {
                output[:end]
                for end in ends
                for length in lengths
                if length <= end and output[end - length : end] in texts
            }
        return [*sorted(states), _unseen(got)]

    def always_legal(self, operation: Operation) -> bool:
        """Everything but a get."""
        return operation.f != "get"

    def forgets(self, operation: Operation) -> bool:
        """A put."""
        return operation.f == "put"

    def indistinct(self, operations: Sequence[Operation]) -> Callable[[State], State]:
        """Give one name to all strings that no get extends.

        No get can be placed in them, nor after what is appended to them, until the next put.
        """
        got = sorted({o.output for o in operations if o.f == "get" and isinstance(o.output, str)})
        unseen = _unseen(got)

        def name(state: State) -> State:
            assert isinstance(state, str)
            at = bisect_left(got, state)
            return state if at < len(got) and got[at].startswith(state) else unseen

        return name


class GrowingSet(Model):
    """A set to which elements are added (`add`) and which is read as a whole (`read`)."""

    name = "set"

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

    def has_effect(self, operation: Operation) -> bool:
        """Everything but a read."""
        return operation.f != "read"

    def same_effect(self, operation: Operation) -> Hashable:
        """Name the element."""
        return freeze(operation.input)

    def group(self, operation: Operation) -> Hashable | None:
        """Name the element: a set without one of its elements is a right set of the others."""
        return ("element", freeze(operation.input)) if operation.f == "add" else None

    def project(self, operation: Operation, left_out: Container[Hashable]) -> Operation:
        """Take the elements that are left out from a read."""
        return without_elements(operation, left_out) if operation.f == "read" else operation

    def describe_state(self, state: State) -> str:
        """List the elements."""
        assert isinstance(state, frozenset)
        return "{" + ", ".join(sorted(map(repr, state))) + "}"


def _unseen(got: Collection[str]) -> str:
    """Return a string that none of these extends."""
    unseen = "\0"
    while any(output.startswith(unseen) for output in got):
        unseen += "\0"
    return unseen


def _text(operation: Operation) -> str:
    if not isinstance(operation.input, str):
        kind = EventType.INVOKE.value
        raise HistoryError(
            f"operation {operation.index}: {kind} value {operation.input!r} is no text"
        )
    return operation.input


def read_list(operation: Operation) -> list[Any]:
    """Return what a read of a collection returned. Raises HistoryError when it is no list."""
    if not isinstance(operation.output, list | tuple):
        raise HistoryError(f"operation {operation.index}: a collection is read as a list")
    return list(operation.output)


def without_elements(operation: Operation, left_out: Container[Hashable]) -> Operation:
    """Return a read without the elements of groups `("element", value)` that are left out."""
    kept = [e for e in read_list(operation) if ("element", freeze(e)) not in left_out]
    return replace(operation, output=kept)
