"""A list that is appended to and read as a whole, and a log with offsets.

- `list-append`: `append v`, and `read`, which returns the whole list.
- `log`: `append v` returns the offset of the record; `read from` returns records
  `[[offset, value], ...]` from the offset `from` on (None: from the beginning), as many as it likes
  but none left out between them; `read-all from` returns all up to the end. Offsets grow and may
  have gaps (control records take offsets).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from checkers.history import EventType, HistoryError, Operation
from checkers.history.values import freeze
from checkers.models.base import Model, State
from checkers.models.collections import read_list, without_elements
from checkers.models.registers import unknown_function


class ListAppend(Model):
    """A list."""

    name = "list-append"

    def init(self) -> State:
        """Return the empty list."""
        return ()

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Append an element, or read all of them."""
        assert isinstance(state, tuple)
        if operation.f == "append":
            return True, (*state, freeze(operation.input))
        if operation.f == "read":
            return state == tuple(freeze(e) for e in read_list(operation)), state
        raise unknown_function(self, operation)

    def replay(self, operations: Iterable[Operation]) -> Operation | None:
        """Say what `step` says, with one list."""
        elements: list[Hashable] = []
        for operation in operations:
            if operation.f == "append":
                elements.append(freeze(operation.input))
            elif operation.f != "read":
                raise unknown_function(self, operation)
            elif elements != [freeze(e) for e in read_list(operation)]:
                return operation
        return None

    def has_effect(self, operation: Operation) -> bool:
        """Everything but a read."""
        return operation.f != "read"

    def group(self, operation: Operation) -> Hashable | None:
        """Name the element: a list without all of one value is a right list of the others."""
        return ("element", freeze(operation.input)) if operation.f == "append" else None

    def project(self, operation: Operation, left_out: Container[Hashable]) -> Operation:
        """Take the elements that are left out from a read."""
        return without_elements(operation, left_out) if operation.f == "read" else operation


class Log(Model):
    """An append-only log; `prepare` learns from reads where indeterminate records are."""

    name = "log"

    def __init__(self, seen: Mapping[Hashable, int] | None = None) -> None:
        self._seen = seen or {}
        """Value -> offset at which the first read showed it."""

    def prepare(self, operations: Sequence[Operation]) -> Log:
        """Learn the offsets that reads showed; the first one of a value counts."""
        seen: dict[Hashable, int] = {}
        for operation in operations:
            if operation.f in ("read", "read-all") and operation.type is EventType.OK:
                for offset, value in records(operation):
                    seen.setdefault(value, offset)
        return Log(seen)

    def init(self) -> State:
        """Return the empty log."""
        return ()

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Append above the last offset, or read what is there."""
        assert isinstance(state, tuple)
        if operation.f == "append":
            offset = self.offset(operation)
            assert offset is not None, "an append of nobody knows where is not placed"
            return not state or offset > state[-1][0], (*state, (offset, freeze(operation.input)))
        if operation.f not in ("read", "read-all"):
            raise unknown_function(self, operation)
        shown = tuple(records(operation))
        begin = start(operation)
        last = shown[-1][0] if shown else begin - 1
        if operation.f == "read-all" and state:
            last = max(last, state[-1][0])
        return shown == tuple(r for r in state if begin <= r[0] <= last), state

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
            above = below + len(read_list(operation)) + 1
            # One record more than was read shows whether a read to the end stopped too early.
            if not self.step(tuple(log[below:above]), operation)[0]:
                return operation
        return None

    def offset(self, operation: Operation) -> int | None:
        """Return where an append put its record, as it returned or as a read showed."""
        offset = operation.output if operation.type is not EventType.FAIL else None
        if offset is None or operation.offset is not None:
            offset = operation.offset
        if offset is None:
            return self._seen.get(freeze(operation.input))
        if type(offset) is not int or offset < 0:
            raise HistoryError(f"operation {operation.index}: {offset!r} is no offset")
        return offset

    def has_effect(self, operation: Operation) -> bool:
        """Return whether it is an append of known offset; of the others nothing can be seen."""
        return operation.f == "append" and self.offset(operation) is not None

    def same_effect(self, operation: Operation) -> Hashable:
        """Name record and offset."""
        return (freeze(operation.input), self.offset(operation))

    def group(self, operation: Operation) -> Hashable | None:
        """Name the value: a log without one record is a right log with a gap."""
        return ("element", freeze(operation.input)) if operation.f == "append" else None

    def project(self, operation: Operation, left_out: Container[Hashable]) -> Operation:
        """Take the records that are left out from a read, and its end where that was one."""
        if operation.f == "append":
            return operation
        kept = [[o, v] for o, v in records(operation) if ("element", v) not in left_out]
        return replace(operation, output=kept)


def records(operation: Operation) -> list[tuple[int, Hashable]]:
    """Return the records that a read of a log returned. Raises HistoryError for anything else."""
    shown = []
    for record in read_list(operation):
        if not isinstance(record, list | tuple) or len(record) != 2 or type(record[0]) is not int:
            raise HistoryError(
                f"operation {operation.index}: a record is [offset, value], not {record!r}"
            )
        shown.append((record[0], freeze(record[1])))
    return shown


def start(operation: Operation) -> int:
    """Return the offset from which a log was read. Raises HistoryError when it is none."""
    begin = 0 if operation.input is None else operation.input
    if type(begin) is not int or begin < 0:
        raise HistoryError(f"operation {operation.index}: {begin!r} is no offset to read from")
    return begin
