"""A growing set, a list that is appended to and read as a whole, and a log with offsets.

- `set`: `add v`, and `read`, which returns all elements in any order, each once.
- `list-append`: `append v`, and `read`, which returns the whole list.
- `log`: `append v` returns the offset of the record (an acknowledged one; an indeterminate one has
  an offset only in the field of that name); `read from` returns records
  `[[offset, value], ...]` from the offset `from` on (None: from the beginning), as many as it likes
  but none left out between them; `read-all from` returns all up to the end. Offsets grow and may
  have gaps (control records take offsets).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeGuard

from porcupine_py.models.base import Model, NondeterministicModel, State, relevant
from porcupine_py.models.registers import unknown_function
from porcupine_py.operations import INFINITY_NS, EventType, HistoryError, Operation
from porcupine_py.values import freeze, is_list, show


class _Collection(Model):
    """What is read as a whole, and of which elements may be left out."""

    reads = "read"
    into: ClassVar[str]

    def group(self, operation: Operation) -> Hashable | None:
        """Name the element: a collection without all of one value is a right one of the others."""
        return ("element", freeze(operation.input)) if operation.f == self.into else None

    def project(self, operation: Operation, left_out: Container[Hashable]) -> Operation:
        """Take the elements that are left out from a read."""
        if operation.f != "read":
            return operation
        kept = [e for e in read_list(operation) if ("element", freeze(e)) not in left_out]
        return replace(operation, output=kept)


class GrowingSet(_Collection):
    """A set."""

    name = "set"
    into = "add"

    def init(self) -> State:
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


class ListAppend(_Collection):
    """A list."""

    name = "list-append"
    into = "append"

    def init(self) -> State:
        return ()

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Append an element, or read all of them."""
        assert isinstance(state, tuple)
        if operation.f == "append":
            return True, (*state, freeze(operation.input))
        if operation.f == "read":
            return state == tuple(freeze(e) for e in read_in_order(operation)), state
        raise unknown_function(self, operation)

    def replay(self, operations: Iterable[Operation]) -> Operation | None:
        """Say what `step` says, with one list."""
        elements: list[Hashable] = []
        for operation in operations:
            if operation.f == "append":
                elements.append(freeze(operation.input))
            elif operation.f != "read":
                raise unknown_function(self, operation)
            elif elements != [freeze(e) for e in read_in_order(operation)]:
                return operation
        return None


class Log(Model):
    """An append-only log; `prepare` learns from reads where records are that no append placed.

    An append that named no offset took one of those at which reads show its value and that no
    append returned (`free`), or one at which no read shows anything. Where it stands in an order
    says which:

    - It takes the smallest free one above the end. Were that passed over, nothing could take it
      any more, since offsets grow, and the read that shows it would have no place.
    - An `ok` one whose value nobody read takes the offset directly above the end. What is known of
      it are upper bounds only: reads that do not show it began above it or end below it, and what
      is appended later is above it.
    - An indeterminate one that nobody read need not have been.
    """

    name = "log"

    def __init__(self, free: Mapping[Hashable, Sequence[int]] | None = None) -> None:
        self._free = free or {}
        """Value -> offsets at which reads show it and that no append returned, ascending."""

    def prepare(self, operations: Sequence[Operation]) -> Log:
        """Learn the offsets that reads showed."""
        free: dict[Hashable, set[int]] = {}
        for operation in operations:
            if operation.f in ("read", "read-all") and operation.type is EventType.OK:
                for offset, value in records(operation):
                    free.setdefault(value, set()).add(offset)
        # An indeterminate append counts as well where reads show its value: it may be the one that
        # they show, and an acknowledged one of that value another that nobody saw.
        shown = Log(dict.fromkeys(free, ()))
        appends = [o for o in relevant(operations, shown) if o.f == "append"]
        for append in appends:
            returned = self.offset(append)
            if returned is not None:
                free.get(freeze(append.input), set()).discard(returned)
        left = {value: sorted(offsets) for value, offsets in free.items() if offsets}
        count = Counter(freeze(o.input) for o in appends)
        for o in appends:
            value = freeze(o.input)
            unsure = o.type is EventType.OK and self.offset(o) is None
            if unsure and value in left and count[value] > 1:
                return AmbiguousLog(left)
        return Log(left)

    def init(self) -> State:
        return ()

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Append above the last offset, or read what is there."""
        assert isinstance(state, tuple)
        if operation.f == "append":
            offsets = self.places(state, operation)
            assert len(offsets) <= 1, "only an ambiguous log leaves a choice"
            if not offsets:
                return False, state
            return True, (*state, (offsets[0], freeze(operation.input)))
        if operation.f not in ("read", "read-all"):
            raise unknown_function(self, operation)
        shown = tuple(records(operation))
        begin = start(operation)
        last = shown[-1][0] if shown else begin - 1
        if operation.f == "read-all" and state:
            last = max(last, state[-1][0])
        return shown == tuple(r for r in state if begin <= r[0] <= last), state

    def places(self, state: State, operation: Operation) -> list[int]:
        """Return the offsets that an append may take in a state; see the class."""
        assert isinstance(state, tuple)
        end = state[-1][0] if state else -1
        returned = self.offset(operation)
        if returned is not None:
            return [returned] if returned > end else []
        free = self._free.get(freeze(operation.input), ())
        at = bisect_right(free, end)
        found = list(free[at : at + 1])
        if operation.type is EventType.OK and (not free or self._may_be_unseen):
            found.append(end + 1)
        return found

    _may_be_unseen = False
    """Whether an `ok` append may be another one than the reads of its value show."""

    def replay(self, operations: Iterable[Operation]) -> Operation | None:
        """Say what `step` says, with one list of records in order of offset."""
        log: list[tuple[int, Hashable]] = []
        offsets: list[int] = []
        for operation in operations:
            if operation.f == "append":
                legal, after = self.step(tuple(log[-1:]), operation)
                if not legal:
                    return operation
                assert isinstance(after, tuple)
                log.append(after[-1])
                offsets.append(after[-1][0])
                continue
            below = bisect_left(offsets, start(operation))
            above = below + len(read_in_order(operation)) + 1
            # One record more than was read shows whether a read to the end stopped too early.
            if not self.step(tuple(log[below:above]), operation)[0]:
                return operation
        return None

    def describe_state(self, state: State) -> str:
        """List the records with their offsets."""
        if isinstance(state, frozenset):  # of a log that may be one of several
            return " or ".join(sorted(map(self.describe_state, state)))
        assert isinstance(state, tuple)
        return "[" + ", ".join(f"{offset}: {show(value)}" for offset, value in state) + "]"

    def offset(self, operation: Operation) -> int | None:
        """Return the offset that an append returned, None: none."""
        offset = operation.output if operation.type is not EventType.FAIL else None
        if offset is None or operation.offset is not None:
            offset = operation.offset
        if offset is not None and not _is_offset(offset):
            raise HistoryError(f"operation {operation.index}: {offset!r} is no offset")
        return offset

    def free(self, value: Hashable) -> Sequence[int]:
        """Return the offsets at which reads show a value and that no append returned."""
        return self._free.get(value, ())

    def has_effect(self, operation: Operation) -> bool:
        """Return whether it is an append, unless it is indeterminate and nobody saw it."""
        if operation.f != "append":
            return False
        certain = operation.type is EventType.OK or self.offset(operation) is not None
        return certain or freeze(operation.input) in self._free

    def same_effect(self, operation: Operation) -> Hashable:
        """Name record and offset."""
        return (freeze(operation.input), self.offset(operation))

    def group(self, operation: Operation) -> Hashable | None:
        """Name the value: a log without its records is a right log with gaps."""
        return ("element", freeze(operation.input)) if operation.f == "append" else None

    def project(self, operation: Operation, left_out: Container[Hashable]) -> Operation:
        """Take the records that are left out from a read, and its end where that was one."""
        if operation.f == "append":
            return operation
        kept = [r for r in read_in_order(operation) if ("element", freeze(r[1])) not in left_out]
        return replace(operation, output=kept)


class AmbiguousLog(NondeterministicModel, Log):
    """A log in which an acknowledged append is one of several of its value that reads may show."""

    _may_be_unseen = True

    def init_states(self) -> Iterable[State]:
        return [()]

    def steps(self, state: State, operation: Operation) -> Iterable[State]:
        """Return the log with the record at each offset that it may have."""
        if operation.f != "append":
            legal, after = Log.step(self, state, operation)
            return [after] if legal else []
        assert isinstance(state, tuple)
        record = freeze(operation.input)
        return [(*state, (offset, record)) for offset in self.places(state, operation)]

    def replay(self, operations: Iterable[Operation]) -> Operation | None:
        return Model.replay(self, operations)


def records(operation: Operation) -> list[tuple[int, Hashable]]:
    """Return the records that a read of a log returned. Raises HistoryError for anything else."""
    shown = []
    for record in read_in_order(operation):
        if not is_list(record) or len(record) != 2 or not _is_offset(record[0]):
            raise HistoryError(
                f"operation {operation.index}: a record is [offset, value], not {record!r}"
            )
        shown.append((record[0], freeze(record[1])))
    return shown


def start(operation: Operation) -> int:
    """Return the offset from which a log was read. Raises HistoryError when it is none."""
    begin = 0 if operation.input is None else operation.input
    if not _is_offset(begin):
        raise HistoryError(f"operation {operation.index}: {begin!r} is no offset to read from")
    return begin


def _is_offset(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < INFINITY_NS  # as many bits as Kafka's have
