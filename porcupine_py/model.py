"""What a system should do: models as a few functions, as in Porcupine.

A model is a sequential specification: where it begins, and what each operation answers and leaves
behind when operations are done one after another. Its functions are pure: they never change the
state, input or output that they are given. A step that changes its state in place is found and
refused (`ModelError`). States of classes need an `==`: where it is Python's own, each state differs
from all others, and the search never meets one again.

Only `init` and `step` are needed. `partition` makes most difference where a history has keys that
have nothing to do with each other (Horn and Kroening 2015, P-compositionality).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from porcupine_py.history import Event, EventKind, InputT, Operation, OutputT, answer_of
from porcupine_py.operations import HistoryError
from porcupine_py.states import ModelError, Rules, distinct

StateT = TypeVar("StateT")
History = Sequence[Operation[InputT, OutputT]]
Partitions = Sequence[Sequence[Operation[InputT, OutputT]]]


def describe_anything(value: Any) -> str:
    """Describe a state or metadata where the model says nothing; nothing at all as nothing."""
    return "" if value is None else str(value)


@dataclass(frozen=True, kw_only=True)
class Model(Generic[StateT, InputT, OutputT]):
    """A deterministic sequential specification."""

    init: Callable[[], StateT]
    """Return the state before any operation."""
    step: Callable[[StateT, InputT, OutputT], tuple[bool, StateT]]
    """Return whether an operation of this input may answer with this output in this state, and the
    state after it. The output of a pending operation is `PENDING`, which stands for any: a step
    that refuses it says that the operation did not happen."""
    equal: Callable[[StateT, StateT], bool] | None = None
    """Whether two states are the same; an equivalence. By default `==`."""
    hash: Callable[[StateT], int] | None = None
    """A hash for which equal states have equal ones. By default Python's, and for lists, deques,
    dicts, sets and dataclasses one of their contents. With `equal` and without `hash`, every new
    state is compared with all others."""
    partition: Callable[[History[InputT, OutputT]], Partitions[InputT, OutputT]] | None = None
    """Split operations into parts, of which each is linearizable if and only if the whole is. Each
    operation is in one part. See `partition_by`."""
    partition_event: Callable[[Sequence[Event]], Sequence[Sequence[Event]]] | None = None
    """The same for events. See `partition_event_by`."""
    read_only: Callable[[InputT], bool] | None = None
    """Whether an operation of this input never changes the state, whatever it answers. Not in
    Porcupine. Reads that the model names are placed without trying anything else, which spares
    most of the search in histories with many reads; a step that contradicts is a ModelError."""
    describe_operation: Callable[[InputT, OutputT], str] | None = None
    """Describe for a person: `get('x') -> 'y'`. By default `input -> output`."""
    describe_state: Callable[[StateT], str] | None = None
    """Describe for a person. By default `str`."""
    describe_operation_metadata: Callable[[Any], str] | None = None
    """Describe for a person. By default `str`, and nothing for None."""

    def operation_text(self, operation: Operation[InputT, OutputT]) -> str:
        """Describe an operation for a person, as `describe_operation` or the default does."""
        if self.describe_operation is not None:
            return str(self.describe_operation(operation.input, answer_of(operation)))
        return f"{operation.input} -> {answer_of(operation)}"

    def state_text(self, state: StateT) -> str:
        """Describe a state for a person, as `describe_state` or the default does."""
        return str(state if self.describe_state is None else self.describe_state(state))

    def metadata_text(self, metadata: Any) -> str:
        """Describe metadata for a person."""
        describe = self.describe_operation_metadata or describe_anything
        return str(describe(metadata))


@dataclass(frozen=True, kw_only=True)
class NondeterministicModel(Generic[StateT, InputT, OutputT]):
    """A specification in which an operation may lead to several states, or begin in several.

    The fields are those of `Model`, except that `init` and `step` list states. `to_model` makes a
    `Model` of it, with which histories are judged. There is no `read_only`: what a read answers
    shows which of several states were there, so it may change what is known of them.
    """

    init: Callable[[], Sequence[StateT]]
    """List the states before any operation; at least one."""
    step: Callable[[StateT, InputT, OutputT], Sequence[StateT]]
    """List the states that may follow; none when the operation cannot answer so in this state."""
    equal: Callable[[StateT, StateT], bool] | None = None
    hash: Callable[[StateT], int] | None = None
    partition: Callable[[History[InputT, OutputT]], Partitions[InputT, OutputT]] | None = None
    partition_event: Callable[[Sequence[Event]], Sequence[Sequence[Event]]] | None = None
    describe_operation: Callable[[InputT, OutputT], str] | None = None
    describe_state: Callable[[StateT], str] | None = None
    describe_operation_metadata: Callable[[Any], str] | None = None

    def to_model(self) -> Model[tuple[StateT, ...], InputT, OutputT]:
        """Return the power set construction: its state is the set of all states that may be.

        States are merged by `equal` and `hash`.
        """
        rules = Rules(self.equal, self.hash)
        describe = self.describe_state or str

        def step(
            states: tuple[StateT, ...], given: InputT, output: OutputT
        ) -> tuple[bool, tuple[StateT, ...]]:
            after = distinct((new for old in states for new in every(old, given, output)), rules)
            return bool(after), after

        def every(old: StateT, given: InputT, output: OutputT) -> Iterable[StateT]:
            found = self.step(old, given, output)
            if not isinstance(found, Iterable):
                raise ModelError(f"step returned {found!r:.100}, no list of states")
            return found

        def first() -> tuple[StateT, ...]:
            states = distinct(self.init(), rules)
            if not states:
                raise ModelError("init lists no state: a model begins in at least one")
            return states

        def equal(left: tuple[StateT, ...], right: tuple[StateT, ...]) -> bool:
            # Both are free of repetitions, so one inclusion is enough.
            known = {rules.key(state) for state in left}
            return len(left) == len(right) and all(rules.key(state) in known for state in right)

        return Model(
            init=first,
            step=step,
            equal=equal,
            hash=lambda states: hash(frozenset(rules.hash_of(state) for state in states)),
            partition=self.partition,
            partition_event=self.partition_event,
            describe_operation=self.describe_operation,
            describe_state=lambda states: "{" + ", ".join(map(describe, states)) + "}",
            describe_operation_metadata=self.describe_operation_metadata,
        )


def partition_by(
    key: Callable[[InputT], Hashable],
) -> Callable[[History[InputT, OutputT]], list[list[Operation[InputT, OutputT]]]]:
    """Return a `Model.partition` that puts operations of one key together.

    `key` takes an operation's input. Parts come in the order in which their keys appear.
    """

    def partition(history: History[InputT, OutputT]) -> list[list[Operation[InputT, OutputT]]]:
        parts: dict[Hashable, list[Operation[InputT, OutputT]]] = {}
        for operation in history:
            parts.setdefault(key(operation.input), []).append(operation)
        return list(parts.values())

    return partition


def partition_event_by(
    key: Callable[[Any], Hashable],
) -> Callable[[Sequence[Event]], list[list[Event]]]:
    """Return a `Model.partition_event` that puts calls of one key and their returns together.

    `key` takes the value of a call; a return has no key of its own and follows its call.
    """

    def partition(history: Sequence[Event]) -> list[list[Event]]:
        parts: dict[Hashable, list[Event]] = {}
        keys: dict[int, Hashable] = {}
        for position, event in enumerate(history):
            if event.kind is EventKind.CALL:
                keys[event.id] = key(event.value)
            elif event.id not in keys:
                raise HistoryError(f"event {position}: id {event.id!r} returns without a call")
            parts.setdefault(keys[event.id], []).append(event)
        return list(parts.values())

    return partition
