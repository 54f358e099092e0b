"""What a model is: the sequential behaviour against which a history is judged.

The shape is Porcupine's: `init`, `step`, `equal`, `partition`, and descriptions for people. Three
hooks say what a checker may do with an operation before it searches:

- `observation`: how a `fail` is read. It had no effect, but it may have shown something: a refused
  compare-and-set saw another value. By default it showed nothing and is dropped.
- `has_effect`: whether the operation can change the state. An operation without effect may be
  left out of a history, and what then fails, fails with it as well; an indeterminate one
  constrains nothing.
- `group`: operations that may be left out together with all others of the same group without
  turning a right history into a wrong one. None (the default) when there is no such rule. Where
  other operations show several groups at once (a read of a set shows every element), `project`
  takes the groups that are left out from what they show.

Indeterminate operations (`info`) reach `step` without an output: what the completion of one says
(its argument again, as Jepsen's clients do; a guess) is no observation. Only in a window cut out of
a history they have the output with which they completed `ok` later. `step` describes the case in
which they took effect; that they never do is the checker's business, so a step that would change
nothing may be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import replace

from porcupine_py.operations import EventType, Operation
from porcupine_py.values import freeze, show

State = Hashable
"""States are immutable and hashable; `equal` decides which are the same."""


class Model:
    """A deterministic sequential specification of one key."""

    name = "model"
    reads: str | None = None
    """The function that never changes the state, where there is one."""

    def init(self) -> State:
        """Return the state before any operation."""
        raise NotImplementedError

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Apply one operation: (whether it is legal in `state`, the state after it)."""
        raise NotImplementedError

    def replay(self, operations: Iterable[Operation]) -> Operation | None:
        """Return the first operation that is illegal when done one after another; None: all legal.

        Says what `step` says. Models of growing states override it with one state that changes,
        since copying a long list for each element would be quadratic.
        """
        state = self.init()
        for operation in operations:
            legal, state = self.step(state, operation)
            if not legal:
                return operation
        return None

    def equal(self, left: State, right: State) -> bool:
        """Return whether two states are the same one; an override must be an equivalence."""
        return left == right

    def partition(self, operations: Sequence[Operation]) -> list[list[Operation]]:
        """Split into parts that may be judged one by one (P-compositionality): by key."""
        parts: dict[str | None, list[Operation]] = {}
        for operation in operations:
            parts.setdefault(operation.key, []).append(operation)
        return list(parts.values())

    def prepare(self, operations: Sequence[Operation]) -> Model:
        """Return a model that knows the whole of one history; by default itself."""
        del operations
        return self

    def observation(self, operation: Operation) -> Operation | None:
        """Return what a `fail` shows about the state, as an operation; None when nothing."""
        del operation
        return None

    def has_effect(self, operation: Operation) -> bool:
        """Return whether the operation, if it happened, may change the state."""
        return operation.f != self.reads

    def group(self, operation: Operation) -> Hashable | None:
        """Name the group of operations that may only be left out together."""
        del operation
        return None

    def same_effect(self, operation: Operation) -> Hashable:
        """Name what an indeterminate operation would do: equal names, equal steps."""
        return (operation.f, freeze(operation.input), freeze(operation.output))

    def always_legal(self, operation: Operation) -> bool:
        """Return whether the operation is legal in every state."""
        del operation
        return False

    def forgets(self, operation: Operation) -> bool:
        """Return whether it is always legal, and leads from every state to the same one."""
        del operation
        return False

    def indistinct(self, operations: Sequence[Operation]) -> Callable[[State], State]:
        """Return a function that gives one name to states that no sequence of these distinguishes.

        The name is a state itself: what is legal in it, and the name of what comes after it, is as
        in every state of that name. By default each state has its own.
        """
        del operations
        return lambda state: state

    def reachable(self, operations: Sequence[Operation]) -> list[State] | None:
        """List every state that any subset of `operations` in any order can lead to, or more.

        None when there is no short list; a window then starts at the beginning.
        """
        del operations
        return None

    def states_at(self, operations: Sequence[Operation], from_ns: int) -> list[State] | None:
        """List every state possible at `from_ns`, or more; None when that is no short list.

        What is open then stays in the window, so its effect need not be in these states.
        """
        return self.reachable([o for o in operations if o.invoke_ns < from_ns])

    def project(self, operation: Operation, left_out: Container[Hashable]) -> Operation:
        """Return the operation as it looks when the groups in `left_out` had never been."""
        del left_out
        return operation

    def useful(self, operations: Sequence[Operation]) -> list[Operation]:
        """Leave out indeterminate operations that can explain nothing in this history."""
        return list(operations)

    def describe_operation(self, operation: Operation) -> str:
        """Describe for a person: `write(3)`, `read() -> 3`."""
        given = None if operation.input is None else freeze(operation.input)
        what = f"{operation.f}({'' if given is None else show(given)})"
        if operation.type is EventType.INFO:
            return f"{what}, of unknown outcome,"
        if operation.type is EventType.FAIL:
            return f"{what}, refused ({operation.error or 'without a reason'}),"
        if operation.output is None:
            return what if self.has_effect(operation) else f"{what} -> nothing"
        result = freeze(operation.output)
        return what if result == given else f"{what} -> {show(result)}"

    def describe_state(self, state: State) -> str:
        """Describe for a person: a list or set of values, or one."""
        if isinstance(state, frozenset):
            return "{" + ", ".join(sorted(map(show, state))) + "}"
        if isinstance(state, tuple):
            return "[" + ", ".join(map(show, state)) + "]"
        return show(state)


class NondeterministicModel(Model):
    """A specification in which an operation may lead to several states.

    Implement `init_states` and `steps`; `init` and `step` are the power set construction: the
    state of the search is the set of all states that the system may be in.
    """

    def init_states(self) -> Iterable[State]:
        """List the states before any operation."""
        raise NotImplementedError

    def steps(self, state: State, operation: Operation) -> Iterable[State]:
        """List the states after the operation; none when it is illegal in `state`."""
        raise NotImplementedError

    def init(self) -> State:
        """Return the set of initial states."""
        return frozenset(self.init_states())

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Apply the operation to every state of the set."""
        assert isinstance(state, frozenset)
        after = frozenset(new for old in state for new in self.steps(old, operation))
        return bool(after), after


def relevant(operations: Sequence[Operation], model: Model) -> list[Operation]:
    """Return what a checker has to place: `ok` operations, observations, and `info` with effect.

    Sorted by invocation (ties by index). Whatever an `info` says of a result is taken from it.
    """
    kept: list[Operation] = []
    for operation in operations:
        if operation.type is EventType.OK:
            kept.append(operation)
        elif operation.type is EventType.FAIL:
            seen = model.observation(operation)
            if seen is not None:
                kept.append(seen)
        else:
            unknown = operation if operation.output is None else replace(operation, output=None)
            if model.has_effect(unknown):
                kept.append(unknown)
    kept.sort(key=lambda operation: (operation.invoke_ns, operation.index))
    return kept
