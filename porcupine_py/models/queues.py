"""A FIFO queue, a queue without order, and a mutex.

- `queue`: `enqueue v`, and `dequeue`, which returns the oldest value, or None when it is empty.
- `unordered-queue`: the same, but `dequeue` returns any value that is in it.
- `mutex`: `acquire` and `release`, by any process (as in Knossos; a holder that ended in
  `info` could not be followed otherwise).

A `dequeue` that failed with `empty` or `exhausted` saw an empty one. An indeterminate one
took nothing, or whatever was the oldest when it took effect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from porcupine_py.models.base import Model, NondeterministicModel, State
from porcupine_py.models.registers import unknown_function
from porcupine_py.operations import EventType, Operation
from porcupine_py.values import freeze, show

EMPTY_ERRORS = frozenset({"empty", "exhausted"})


class Queue(Model):
    """First in, first out."""

    name = "queue"
    into: ClassVar[str] = "enqueue"
    out_of: ClassVar[str] = "dequeue"

    def init(self) -> State:
        return ()

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Put a value in, or take out the value in turn."""
        assert isinstance(state, tuple)
        if operation.f == self.into:
            return True, (*state, freeze(operation.input))
        if operation.f != self.out_of:
            raise unknown_function(self, operation)
        unknown = operation.type is EventType.INFO and operation.output is None
        if not state or (operation.output is None and not unknown):
            return not state and operation.output is None, state
        return unknown or state[0] == freeze(operation.output), state[1:]

    def replay(self, operations: Iterable[Operation]) -> Operation | None:
        """Say what `step` says, with one deque: only the oldest value matters."""
        values: deque[Hashable] = deque()
        for operation in operations:
            if operation.f == self.into:
                values.append(freeze(operation.input))
                continue
            oldest = (values[0],) if values else ()
            legal, rest = self.step(oldest, operation)
            if not legal:
                return operation
            if oldest and rest == ():
                values.popleft()
        return None

    def observation(self, operation: Operation) -> Operation | None:
        """Return a removal that was refused because there was nothing."""
        if operation.f != self.out_of or operation.error not in EMPTY_ERRORS:
            return None
        return replace(operation, type=EventType.OK, output=None)

    def has_effect(self, operation: Operation) -> bool:
        """Everything but a removal that found nothing."""
        if operation.f == self.into:
            return True
        return operation.type is EventType.INFO or operation.output is not None

    def same_effect(self, operation: Operation) -> Hashable:
        """Name the value that goes in, or that came out where it is known."""
        value = operation.input if operation.f == self.into else operation.output
        return (operation.f, freeze(value))

    def group(self, operation: Operation) -> Hashable | None:
        """Name the value: without everything that was done with it the others keep their order.

        A removal of nobody knows which value belongs to every group and is never left out.
        """
        value = operation.input if operation.f == self.into else operation.output
        return None if value is None else ("value", freeze(value))

    def useful(self, operations: Sequence[Operation]) -> list[Operation]:
        """Leave out indeterminate insertions of values that nobody took out.

        They help nobody: an indeterminate removal need not have taken place either.
        """
        out = {freeze(o.output) for o in operations if o.f == self.out_of}
        return [
            o
            for o in operations
            if o.type is not EventType.INFO or o.f == self.out_of or freeze(o.input) in out
        ]


class UnorderedQueue(NondeterministicModel, Queue):
    """A queue of which any value may come out: a multiset.

    An indeterminate `dequeue` took any value, or nothing; states are therefore sets of multisets.
    """

    name = "unordered-queue"

    def init_states(self) -> Iterable[State]:
        return [frozenset()]

    def steps(self, state: State, operation: Operation) -> Iterable[State]:
        """Put a value in, or take one out: a multiset is a set of (value, how many)."""
        assert isinstance(state, frozenset)
        held: dict[Hashable, int] = dict(state)
        if operation.f == self.into:
            return [_with(held, freeze(operation.input), 1)]
        if operation.f != self.out_of:
            raise unknown_function(self, operation)
        if operation.output is not None:
            value = freeze(operation.output)
            return [_with(held, value, -1)] if value in held else []
        if operation.type is EventType.INFO:
            return [_with(held, value, -1) for value in held]
        return [] if held else [state]

    def replay(self, operations: Iterable[Operation]) -> Operation | None:
        return Model.replay(self, operations)

    def describe_state(self, state: State) -> str:
        """List what may be in it."""
        assert isinstance(state, frozenset)
        possible = (sorted(show(v) for v, count in held for _ in range(count)) for held in state)
        return " or ".join(sorted("{" + ", ".join(values) + "}" for values in possible))

    def always_legal(self, operation: Operation) -> bool:
        return operation.f == self.into


def _with(held: dict[Hashable, int], value: Hashable, more: int) -> State:
    changed = {**held, value: held.get(value, 0) + more}
    return frozenset((value, count) for value, count in changed.items() if count)


class Mutex(Model):
    """A lock: held or not."""

    name = "mutex"

    def init(self) -> State:
        return False

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Take it when it is free, give it back when it is held."""
        if operation.f not in ("acquire", "release"):
            raise unknown_function(self, operation)
        return state is (operation.f == "release"), operation.f == "acquire"

    def same_effect(self, operation: Operation) -> Hashable:
        """Name the function; what its argument is does not matter."""
        return operation.f

    def reachable(self, operations: Sequence[Operation]) -> list[State]:
        """List both states."""
        del operations
        return [False, True]

    def describe_state(self, state: State) -> str:
        return "the lock held" if state else "the lock free"
