"""A counter, unique identifiers, and producer id blocks.

- `counter`: `add n` and `increment n` add any whole number n, `decrement n` takes it away (of no
  amount, an increment and a decrement are of 1), and `read`.
- `unique-ids`: `generate` returns an identifier that no other `generate` returns.
- `producer-ids`: `allocate` returns a block `[first id, length]` above all blocks before it, as
  Kafka's ProducerIdControlManager does (KIP-730). Gaps are allowed: a block may have been allocated
  to a broker that never heard of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from porcupine_py.models.base import Model, State
from porcupine_py.models.registers import unknown_function
from porcupine_py.operations import EventType, HistoryError, Operation
from porcupine_py.values import freeze, is_list

ADDING = ("add", "increment", "decrement")


class Counter(Model):
    """A number to which numbers are added."""

    name = "counter"

    def init(self) -> State:
        return 0

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Add, or read the sum."""
        assert isinstance(state, int)
        if operation.f == "read":
            return freeze(operation.output) == state, state
        return True, state + self.amount(operation)

    def amount(self, operation: Operation) -> int:
        """Return what an addition adds. Raises HistoryError when that is no whole number."""
        if operation.f not in ADDING:
            raise unknown_function(self, operation)
        amount = operation.input
        if amount is None and operation.f != "add":
            amount = 1
        if type(amount) is not int:
            problem = f"a counter counts whole numbers, and cannot {operation.f} {amount!r}"
            raise HistoryError(f"operation {operation.index}: {problem}")
        return -amount if operation.f == "decrement" else amount

    def has_effect(self, operation: Operation) -> bool:
        """Everything but a read, and an addition of nothing."""
        return operation.f != "read" and self.amount(operation) != 0

    def same_effect(self, operation: Operation) -> Hashable:
        """Name the amount."""
        return "read" if operation.f == "read" else self.amount(operation)

    def reachable(self, operations: Sequence[Operation]) -> list[State] | None:
        """Return no list: the sums of all subsets are too many."""
        return None if operations else [0]

    def states_at(self, operations: Sequence[Operation], from_ns: int) -> list[State]:
        """Return the sum of what had completed; open additions commute and are still to come."""
        done = [o for o in operations if o.complete_ns < from_ns and self.has_effect(o)]
        return [sum(self.amount(o) for o in done)]


class UniqueIds(Model):
    """A source of identifiers that never repeats one."""

    name = "unique-ids"

    def init(self) -> State:
        return frozenset()

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Give out an identifier that was not given out before."""
        assert isinstance(state, frozenset)
        if operation.f != "generate":
            raise unknown_function(self, operation)
        given = freeze(operation.output)
        return given not in state, state | {given}

    def replay(self, operations: Iterable[Operation]) -> Operation | None:
        """Say what `step` says, with one set."""
        given: set[Hashable] = set()
        for operation in operations:
            if operation.f != "generate":
                raise unknown_function(self, operation)
            if freeze(operation.output) in given:
                return operation
            given.add(freeze(operation.output))
        return None

    def has_effect(self, operation: Operation) -> bool:
        """Return whether it returned an identifier; else it may have any."""
        return operation.output is not None

    def group(self, operation: Operation) -> Hashable | None:
        """Leave out any: fewer identifiers repeat less."""
        return ("operation", operation.index)

    def useful(self, operations: Sequence[Operation]) -> list[Operation]:
        """Leave out the indeterminate ones."""
        return [o for o in operations if o.type is not EventType.INFO]


class ProducerIds(Model):
    """Blocks of producer ids, each above the ones before."""

    name = "producer-ids"

    def init(self) -> State:
        return 0

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Allocate a block that begins at or above the first free id."""
        assert isinstance(state, int)
        if operation.f != "allocate":
            raise unknown_function(self, operation)
        if operation.type is EventType.INFO and operation.output is None:
            return True, state
        first, length = self.block(operation)
        return first >= state, first + length

    def block(self, operation: Operation) -> tuple[int, int]:
        """Return (first id, length). Raises HistoryError when the completion lacks them."""
        block = operation.output
        if isinstance(block, dict):
            block = [block.get("first"), block.get("length")]
        if (
            not is_list(block)
            or len(block) != 2
            or not all(type(n) is int for n in block)
            or block[0] < 0
            or block[1] < 1
        ):
            raise HistoryError(
                f"operation {operation.index}: a block is [first id, length], not {block!r}"
            )
        return block[0], block[1]

    def has_effect(self, operation: Operation) -> bool:
        """Return whether it returned a block; gaps are allowed, so the others constrain nothing."""
        return operation.output is not None

    def same_effect(self, operation: Operation) -> Hashable:
        """Name the block."""
        return freeze(operation.output)

    def group(self, operation: Operation) -> Hashable | None:
        """Leave out any: gaps are allowed."""
        return ("operation", operation.index)
