"""A history of partitions' logs in columns: sends, the records that they hold, reads.

One pass over the operations that only gathers; whatever is judged is judged on arrays. A place in a
log is one integer, `partition << OFFSET_BITS | offset`, so that one sort serves all partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from checkers.history import EventType, HistoryError, Operation, Value
from porcupine_py.columns import Bools, Int64s

SEND, POLL, POLL_ALL = "send", "poll", "poll-all"
CONSUME = "consume"
"""Polls as a member of a group, or joins it: it shows records of several partitions, or of none."""
RENEW = "renew-topic"
"""Deletes a topic and makes it anew."""
CONFIGURE = "configure-topic"
"""Sets one configuration of a partition's topic, whose `name` and `value` are given."""
UNCLEAN = "unclean.leader.election.enable"
"""A topic's configuration: whether records may be lost with a leader."""
OUT_OF_RANGE = "offset_out_of_range"
"""Error of a poll from an offset that the node's log does not reach."""
OFFSET_BITS = 40
OFFSET_MAX = 2**OFFSET_BITS - 2
PARTITIONS_MAX = 2**22
NONE = -1
"""An offset, epoch or row that is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class Sends:
    """One row for each `send`."""

    first: Int64s
    """Send s holds the records first[s] <= r < first[s + 1]; one more than sends."""
    row: Int64s
    """Its place in the list of operations."""
    partition: Int64s
    producer: Int64s
    """A code of its process."""
    invoke_ns: Int64s
    ok: Bools
    failed: Bools
    complete_ns: Int64s
    """`INFINITY_NS` where nothing answered."""
    offset: Int64s
    """Of its first record, as acknowledged."""
    epoch: Int64s
    node: Int64s
    """A code of the node that answered last."""


@dataclass(frozen=True, slots=True, eq=False)
class Reads:
    """One row for each `poll` or `poll-all` that was answered, in order of invocation.

    And one for each partition of which a `consume` shows records.
    """

    first: Int64s
    """Read r shows the rows first[r] <= i < first[r + 1] of `Log.shown_*`."""
    row: Int64s
    partition: Int64s
    consumer: Int64s
    """A code of its process; NONE: a member of a group, which does not say where it stood."""
    invoke_ns: Int64s
    whole: Bools
    """Whether it is a `poll-all`."""
    complete_ns: Int64s
    epoch: Int64s
    position: Int64s
    """The offset asked for."""
    high_watermark: Int64s
    log_start: Int64s
    node: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """One row for each poll that was refused as out of range, by a leader with a known epoch."""

    row: Int64s
    partition: Int64s
    consumer: Int64s
    invoke_ns: Int64s
    epoch: Int64s
    position: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """The logs of all partitions as clients saw them."""

    sends: Sends
    reads: Reads
    refused: Refused
    values: Sequence[Value]
    """Of each record sent; behind them those that were read where nobody had sent them."""
    shown_offset: Int64s
    shown_value: Int64s
    """A number of `values`."""
    partitions: Sequence[str]

    @property
    def records(self) -> int:
        """How many records were sent."""
        return int(self.sends.first[-1])


class RepeatedError(Exception):
    """A value was sent twice, so that what was read does not say which record it is."""


def log_of(operations: Sequence[Operation]) -> Log:
    """Gather sends and reads. Raises HistoryError for values of wrong types, and RepeatedError."""
    codes = _Codes()
    # Flat lists of numbers: a tuple for each row would keep the garbage collector busy.
    sends: list[int] = []
    reads: list[int] = []
    refused: list[int] = []
    sent: list[Sequence[Value]] = []
    shown: list[Sequence[Any]] = []
    for row, o in enumerate(operations):
        if o.f == SEND:
            values = _sent_values(o)
            begin = codes.begin(o, row)
            kind = (o.type is EventType.OK, o.type is EventType.FAIL)
            acknowledged = o.type is EventType.OK
            offset = _number(o, "offset", o.offset) if acknowledged else NONE
            epoch = _number(o, "epoch", o.epoch) if acknowledged else NONE
            sends += (*begin, *kind, o.complete_ns, offset, epoch, codes.node(o))
            sent.append(values)
        elif o.f in (POLL, POLL_ALL):
            position = _number(o, "position", o.input)
            if o.type is EventType.OK:
                answer = _answer(o)
                reads += codes.begin(o, row)
                reads += _poll_fields(o, answer, position, codes.node(o))
                shown.append(answer["records"])
            elif o.type is EventType.FAIL and o.error == OUT_OF_RANGE and position != NONE:
                epoch = _number(o, "epoch", o.epoch)
                if epoch != NONE:
                    refused += (*codes.begin(o, row), epoch, position)
        elif o.f == CONSUME and o.type is EventType.OK:
            for partition, records in _member_records(o):
                reads += (row, codes.partition(partition), NONE, o.invoke_ns)
                reads += (False, o.complete_ns, NONE, NONE, NONE, NONE, NONE)
                shown.append(records)
    if len(codes.partitions) > PARTITIONS_MAX:
        raise HistoryError(f"more than {PARTITIONS_MAX} partitions")
    s, r, f = (_table(rows, width) for rows, width in ((sends, 10), (reads, 11), (refused, 6)))
    first_sent, first_shown = _bounds(sent), _bounds(shown)
    numbers, values = _number_values(s[:, 1], sent)
    offsets, read = _read_values(operations, r[:, 0], shown)
    where = np.repeat(r[:, 1], np.diff(first_shown))
    return Log(
        sends=Sends(first_sent, *s[:, :4].T, *s[:, 4:6].astype(np.bool_).T, *s[:, 6:].T),
        reads=Reads(first_shown, *r[:, :4].T, *r[:, 4:5].astype(np.bool_).T, *r[:, 5:].T),
        refused=Refused(*f.T),
        values=values,
        shown_offset=offsets,
        shown_value=_look_up(numbers, values, where, read),
        partitions=list(codes.partitions),
    )


class _Codes:
    """Numbers of partitions and of processes."""

    def __init__(self) -> None:
        self.partitions: dict[str, int] = {}
        self._processes: dict[int | str, int] = {}
        self._nodes: dict[str, int] = {}

    def begin(self, operation: Operation, row: int) -> tuple[int, int, int, int]:
        key = operation.key
        if key is None:
            raise HistoryError(f"operation {operation.index}: {operation.f} names no partition")
        return (
            row,
            self.partition(key),
            self._processes.setdefault(operation.process, len(self._processes)),
            operation.invoke_ns,
        )

    def partition(self, key: str) -> int:
        return self.partitions.setdefault(key, len(self.partitions))

    def node(self, operation: Operation) -> int:
        node = operation.node
        return NONE if node is None else self._nodes.setdefault(node, len(self._nodes))


def _number(operation: Operation, name: str, number: object) -> int:
    """Return an offset or an epoch; NONE where there is none."""
    if number is None:
        return NONE
    if type(number) is not int or number > OFFSET_MAX:
        raise _wrong(operation, f"{name} {number!r} is no number from 0 to 2^{OFFSET_BITS} - 2")
    return max(number, NONE)


def _sent_values(operation: Operation) -> Sequence[Value]:
    values = operation.input
    values = values if isinstance(values, list | tuple) else (values,)
    if not values or any(type(value) not in (str, int) for value in values):
        raise _wrong(operation, f"{operation.input!r} is no text, number or list of such to send")
    return values


def _answer(operation: Operation) -> dict[str, Any]:
    answer = operation.output
    if not isinstance(answer, dict) or not isinstance(answer.get("records"), list | tuple):
        raise _wrong(operation, "its answer is no object with a list of records")
    return answer


def _poll_fields(o: Operation, answer: dict[str, Any], position: int, node: int) -> tuple[int, ...]:
    epoch = _number(o, "epoch", o.epoch)
    high_watermark = _number(o, "high_watermark", answer.get("high_watermark"))
    log_start = _number(o, "log_start", answer.get("log_start"))
    return (o.f == POLL_ALL, o.complete_ns, epoch, position, high_watermark, log_start, node)


def _member_records(operation: Operation) -> Iterable[tuple[str, Sequence[Any]]]:
    """Return what a member of a group was shown, by partition."""
    answer = operation.output
    shown = answer.get("records", {}) if isinstance(answer, dict) else None
    if not isinstance(shown, dict) or not _only(map(type, shown.values()), (list, tuple)):
        raise _wrong(operation, "its answer is no object with records by partition")
    return shown.items()


def _wrong(operation: Operation, what: str) -> HistoryError:
    return HistoryError(f"operation {operation.index}: {operation.f}: {what}")


def _table(numbers: Sequence[int], width: int) -> Int64s:
    return np.array(numbers, np.int64).reshape(len(numbers) // width, width)


def _bounds(groups: Sequence[Sequence[Any]]) -> Int64s:
    sizes = np.fromiter(map(len, groups), np.int64, len(groups))
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


_Numbers = dict[int, dict[Hashable, int]]
"""Partition -> value -> its number."""


def _number_values(
    partition: Int64s, sent: Sequence[Sequence[Value]]
) -> tuple[_Numbers, list[Value]]:
    """Number the values that were sent, in order."""
    numbers: _Numbers = {}
    values = list(chain.from_iterable(sent))
    number = 0
    for where, group in zip(partition.tolist(), sent, strict=True):
        known = numbers.setdefault(where, {})
        for value in group:
            if known.setdefault(value, number) != number:
                raise RepeatedError(value)
            number += 1
    return numbers, values


def _read_values(
    operations: Sequence[Operation], rows: Int64s, shown: Sequence[Sequence[Any]]
) -> tuple[Int64s, Sequence[Value]]:
    """Return offsets and values of all records read."""
    flat = list(chain.from_iterable(shown))
    if not flat:
        return np.empty(0, np.int64), ()
    whole = _only(map(type, flat), (list, tuple)) and _only(map(len, flat), (2,))
    both = list(chain.from_iterable(flat)) if whole else []
    offsets, values = both[::2], both[1::2]
    whole = whole and _only(map(type, offsets), (int,))
    whole = whole and _only(map(type, values), (str, int, type(None)))
    if not whole or min(offsets) < 0 or max(offsets) > OFFSET_MAX:
        for row, records in zip(rows.tolist(), shown, strict=True):
            for record in records:
                if not _is_record(record):
                    raise _wrong(operations[row], f"{record!r} is no offset and value")
    return np.array(offsets, np.int64), values


def _only(seen: Iterable[object], allowed: Sequence[object]) -> bool:
    return set(seen) <= set(allowed)


def _is_record(record: object) -> bool:
    if not isinstance(record, list | tuple) or len(record) != 2:
        return False
    offset, value = record
    fits = type(offset) is int and 0 <= offset <= OFFSET_MAX
    return fits and type(value) in (str, int, type(None))


def _look_up(
    numbers: _Numbers, values: list[Value], where: Int64s, read: Sequence[Value]
) -> Int64s:
    """Return the number of each value read; one that nobody sent there gets the next number."""
    if len(numbers) == 1 and not np.any(where[1:] != where[:-1]):
        get: Callable[[Value], int | None] = numbers.get(int(where[0]) if len(where) else 0, {}).get
        found = [get(value, NONE) for value in read]  # type: ignore[call-arg]
    else:
        none: dict[Hashable, int] = {}
        each = zip(where.tolist(), read, strict=True)
        found = [numbers.get(key, none).get(value, NONE) for key, value in each]
    codes = np.array(found, np.int64)
    for place in np.flatnonzero(codes == NONE).tolist():
        known = numbers.setdefault(int(where[place]), {})
        codes[place] = known.setdefault(read[place], len(values))
        if codes[place] == len(values):
            values.append(read[place])
    return codes
