"""One string for each key: `get`, `put`, and `append` at its end."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

from porcupine_py.models.base import Model, State
from porcupine_py.models.parts import Parts, parts_of
from porcupine_py.models.registers import unknown_function
from porcupine_py.operations import EventType, HistoryError, Operation
from porcupine_py.values import freeze


class KeyValue(Model):
    """A string that is put, appended to, and got."""

    name = "kv"
    reads = "get"
    parts: Parts | None = None
    """What the strings that were got are made of; None before `prepare`, and where that is open."""

    def __init__(self, initial: Any = "") -> None:
        if type(initial) is not str:
            raise HistoryError(f"the model 'kv' starts with a string, not {initial!r}")
        self.initial = initial

    def init(self) -> State:
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

    def prepare(self, operations: Sequence[Operation]) -> KeyValue:
        """Learn what the strings that were got are made of."""
        prepared = KeyValue(self.initial)
        happened = [o for o in operations if o.type is not EventType.FAIL]
        got = [
            o.output
            for o in happened
            if o.f == "get" and o.type is EventType.OK and type(o.output) is str
        ]
        prepared.parts = parts_of(
            got,
            [self.initial, *(_text(o) for o in happened if o.f == "put")],
            [_text(o) for o in happened if o.f == "append"],
        )
        return prepared

    def group(self, operation: Operation) -> Hashable | None:
        """Name the put from which a string was made, where all can be taken apart in one way.

        What is appended to it and shown by some get, and the gets, then stand directly behind that
        put, nothing between them; without all of them every other get still shows what was made
        after its own put. An append that no get shows stands between such groups, or behind them.
        """
        if self.parts is None:
            return None
        text = operation.output if operation.f == "get" else operation.input
        origin = self.parts.origin(operation.f, text)
        return ("unseen", operation.f, freeze(text)) if origin is None else ("put", origin)

    def states_at(self, operations: Sequence[Operation], from_ns: int) -> list[State]:
        """List what later gets show to have been there, and one string that they do not extend.

        A string that no get of the window extends is like any other such: nothing that is got
        distinguishes them. One that some get extends ends where some text ends, or is the initial.
        """
        got = {
            o.output
            for o in operations
            if o.f == "get" and o.invoke_ns >= from_ns and type(o.output) is str
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
        return operation.f != "get"

    def forgets(self, operation: Operation) -> bool:
        return operation.f == "put"

    def indistinct(self, operations: Sequence[Operation]) -> Callable[[State], State]:
        """Give one name to all strings that no get extends.

        No get can be placed in them, nor after what is appended to them, until the next put.
        """
        got = sorted({o.output for o in operations if o.f == "get" and type(o.output) is str})
        unseen = _unseen(got)

        def name(state: State) -> State:
            assert isinstance(state, str)
            at = bisect_left(got, state)
            return state if at < len(got) and got[at].startswith(state) else unseen

        return name


def _unseen(got: Collection[str]) -> str:
    """Return a string that none of these extends."""
    unseen = "\0"
    while any(output.startswith(unseen) for output in got):
        unseen += "\0"
    return unseen


def _text(operation: Operation) -> str:
    if type(operation.input) is not str:  # as a keyword of EDN is
        kind = EventType.INVOKE.value
        raise HistoryError(
            f"operation {operation.index}: {kind} value {operation.input!r} is no text"
        )
    return operation.input
