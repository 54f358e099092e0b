"""Registers: read and write, and compare-and-set."""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from porcupine_py.models.base import Model, State
from porcupine_py.operations import EventType, HistoryError, Operation
from porcupine_py.values import freeze, is_list, show

CAS_REFUSED = frozenset({"cas_mismatch", "cas-mismatch", "precondition-failed"})
"""Errors by which a server says that the value was another one. So does no error at all."""

_NO_VALUE = ("no value", CAS_REFUSED)
"""Differs from every JSON value."""


class Register(Model):
    """One value: `write` sets it, `read` returns it."""

    name = "register"
    reads = "read"

    def __init__(self, initial: Any = None) -> None:
        self.initial = freeze(initial)

    def init(self) -> State:
        return self.initial

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Write anything; read what is there."""
        if operation.f == "write":
            return True, freeze(operation.input)
        if operation.f == "read":
            return state == freeze(operation.output), state
        raise unknown_function(self, operation)

    def always_legal(self, operation: Operation) -> bool:
        return operation.f == "write"

    def forgets(self, operation: Operation) -> bool:
        return operation.f == "write"

    def group(self, operation: Operation) -> Hashable | None:
        """Name the value: without every write and read of one value a register stays right.

        In a linearization each read follows the last write before it, of its own value; no write
        of another value that is taken out was that one.
        """
        value = operation.output if operation.f == "read" else operation.input
        return ("value", freeze(value))

    def describe_state(self, state: State) -> str:
        return show(state)

    def reachable(self, operations: Sequence[Operation]) -> list[State]:
        """List the initial value and everything written."""
        written = (freeze(o.input) for o in operations if self.has_effect(o))
        return list(dict.fromkeys([self.initial, *written]))

    def useful(self, operations: Sequence[Operation]) -> list[Operation]:
        """Leave out indeterminate writes of values that nobody read."""
        seen = {freeze(o.output) for o in operations if o.f == "read"}
        return [o for o in operations if o.type is not EventType.INFO or freeze(o.input) in seen]


class CasRegister(Register):
    """A register with `cas [from, to]`, which sets `to` where the value is `from`.

    A `cas` that failed because of the value is an observation: at some moment within it the value
    was not `from`. A failed cas that names any other error shows nothing.
    """

    name = "cas-register"
    _tied: dict[Hashable, Hashable] | None = None
    """Value -> the one that stands for all that are tied to it; None before `prepare`."""

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Compare and set, or do what a register does."""
        if operation.f != "cas":
            return super().step(state, operation)
        expected, new = cas_pair(operation)
        if operation.type is EventType.FAIL:
            return state != expected, state
        return state == expected, new

    def observation(self, operation: Operation) -> Operation | None:
        """Return a cas that was refused for the value it met."""
        refused = operation.error is None or operation.error in CAS_REFUSED
        return operation if operation.f == "cas" and refused else None

    def has_effect(self, operation: Operation) -> bool:
        """Return whether it is a write or compare-and-set that was not refused."""
        return operation.f != "read" and operation.type is not EventType.FAIL

    def prepare(self, operations: Sequence[Operation]) -> CasRegister:
        """Learn which values compare-and-sets tie together."""
        parent: dict[Hashable, Hashable] = {}

        def root(value: Hashable) -> Hashable:
            while parent.setdefault(value, value) != value:
                parent[value] = value = parent[parent[value]]
            return value

        for o in operations:
            if o.f == "cas" and self.has_effect(o):
                expected, new = cas_pair(o)
                parent[root(expected)] = root(new)
        prepared = copy(self)  # a frozen initial value is not to be frozen again
        prepared._tied = {value: root(value) for value in parent}
        return prepared

    def group(self, operation: Operation) -> Hashable | None:
        """Name the values that compare-and-sets tie to the operation's.

        Of a register without every operation of such values each read and each compare-and-set
        still follows the last one before it that makes its value: that is of its own group. Only
        a refused one might have seen a value that is left out (`project`).
        """
        if self._tied is None or operation.type is EventType.FAIL:
            return None
        if operation.f == "cas":
            value = cas_pair(operation)[1]
        else:
            value = freeze(operation.output if operation.f == "read" else operation.input)
        return ("values", self._tied.get(value, value))

    def project(self, operation: Operation, left_out: Container[Hashable]) -> Operation:
        """Let a refused compare-and-set have seen what is left out: then it shows nothing."""
        if operation.type is EventType.FAIL and left_out:
            return replace(operation, input=[_NO_VALUE, _NO_VALUE])
        return operation

    def reachable(self, operations: Sequence[Operation]) -> list[State]:
        """List the initial value and everything written or set."""
        new = (
            cas_pair(o)[1] if o.f == "cas" else freeze(o.input)
            for o in operations
            if self.has_effect(o)
        )
        return list(dict.fromkeys([self.initial, *new]))

    def useful(self, operations: Sequence[Operation]) -> list[Operation]:
        """Leave out nothing: a failed cas can see a value that nobody read."""
        return list(operations)


def cas_pair(operation: Operation) -> tuple[Hashable, Hashable]:
    """Return (from, to) of a cas. Raises HistoryError when its argument is not a pair."""
    pair = operation.input
    if not is_list(pair) or len(pair) != 2:
        raise HistoryError(f"operation {operation.index}: a cas needs [from, to], not {pair!r}")
    return freeze(pair[0]), freeze(pair[1])


def unknown_function(model: Model, operation: Operation) -> HistoryError:
    """Return the error for an operation that the model does not know."""
    return HistoryError(
        f"operation {operation.index}: the model {model.name!r} has no function {operation.f!r}"
    )
