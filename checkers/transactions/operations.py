"""Transactions of several operations on several keys, in Jepsen's form.

An operation with f `txn` (or any other name) has a list of micro-operations as its value:
`["r", key, null]`, `["append", key, element]` or `["w", key, value]`. The completion repeats them
with what the reads returned. `ok`: committed. `fail`: aborted. `info`: committed or not; it counts
as committed as soon as another read what it wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from checkers.history import EventType, HistoryError, Operation, seconds
from checkers.verdict import Anomaly, anomaly
from porcupine_py.values import freeze, is_list, show

Key = Hashable


@dataclass(frozen=True, slots=True)
class Step:
    """One micro-operation."""

    f: str
    """`r`, `append` or `w`."""
    key: Key
    value: Any
    """Frozen; of a read what it returned (a tuple for a list), None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction."""

    operation: Operation
    steps: tuple[Step, ...]

    @property
    def index(self) -> int:
        """Index of its invocation."""
        return self.operation.index

    @property
    def type(self) -> EventType:
        """Whether it committed."""
        return self.operation.type

    def writes(self, f: str) -> Iterator[Step]:
        """Its micro-operations `f`, in order."""
        return (step for step in self.steps if step.f == f)

    def external_reads(self) -> Iterator[Step]:
        """Reads of keys that it had not written itself; they show what others wrote."""
        written: set[Key] = set()
        for step in self.steps:
            if step.f != "r":
                written.add(step.key)
            elif step.key not in written:
                yield step


@dataclass(frozen=True, slots=True)
class Edge:
    """`source` must come before `target`."""

    source: int
    target: int
    kind: str
    """ww, wr, rw, process or realtime."""
    why: str
    """In English, of the two transactions."""
    key: Key = None
    """Of a dependency: of which key."""


def edge_between(
    source: Transaction, target: Transaction, kind: str, why: str, key: Key
) -> Iterator[Edge]:
    """Yield the edge from one transaction to another; none from one to itself."""
    if source is not target:
        yield Edge(source.index, target.index, kind, why, key)


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What reads and writes show of the order of transactions."""

    edges: Sequence[Edge]
    anomalies: Sequence[Anomaly]
    """What is wrong without any cycle."""
    transactions: Mapping[int, Transaction]
    """By index; the committed ones."""
    unclear: int = 0
    """How many values were written more than once to a key, so that reads do not say whose."""
    atomic: Sequence[Edge] = ()
    """What holds beside the edges where no read may see a transaction in part."""
    is_total: bool = True
    """Whether the edges order all versions of each key, up to what no order of theirs changes."""
    partly_read: Callable[[], str | None] = lambda: None
    """Returns reads of a transaction in part that not every theory forbids; None: there is none."""


class ReplyError(ValueError):
    """A completion is not of its transaction; the message names the place."""

    def __init__(self, operation: Operation, what: str) -> None:
        super().__init__(f"{title(operation)}: {what}")
        self.operation = operation


def transactions(operations: Sequence[Operation], writer: str) -> list[Transaction]:
    """Read the transactions of a history. Raises HistoryError and ReplyError with one line."""
    if len({operation.key for operation in operations}) > 1:
        raise HistoryError("independent keys have histories of their own: give that of one key")
    return [_transaction(operation, writer) for operation in operations]


def _transaction(operation: Operation, writer: str) -> Transaction:
    """Read a transaction; a completion that has a value has that of its transaction.

    It repeats every micro-operation in order, and only reads may fill in a value. One that differs
    says nothing of what the transaction did, so nothing can be concluded from it; of `info` and
    `fail` as well, which no right client completes with another transaction.
    """
    is_committed = operation.type is EventType.OK
    asked = tuple(_steps(operation, operation.input, writer, reads=False))
    if operation.output is None and not is_committed:
        return Transaction(operation, asked)
    if operation.output is not None and not is_list(operation.output):
        raise ReplyError(
            operation, f"its reply is no transaction: {show(freeze(operation.output))}"
        )
    answered = tuple(_steps(operation, operation.output, writer, reads=is_committed))
    for place, (step, reply) in enumerate(zip_longest(asked, answered)):
        if step is None or reply is None:
            more, what = (reply, "adds") if step is None else (step, "leaves out")
            raise ReplyError(operation, f"its reply {what} {_render_step(more)}")
        is_same = (step.f, step.key) == (reply.f, reply.key)
        if not is_same or (step.f == writer and step.value != reply.value):
            what = f"its reply has {_render_step(reply)} for {_render_step(step)}"
            raise ReplyError(operation, f"{what}, micro-operation {place}")
    return Transaction(operation, answered)


def _render_step(step: Step) -> str:
    value = "" if step.f == "r" else f" {show(step.value)}"
    return f"[{step.f} {show(step.key)}{value}]"


def _steps(operation: Operation, steps: Any, writer: str, *, reads: bool) -> Iterator[Step]:
    if not is_list(steps):
        shown = "nil" if steps is None else show(freeze(steps))
        raise HistoryError(f"{title(operation)}: a transaction is a list, not {shown}")
    for step in steps:
        if not reads and is_list(step) and len(step) == 2 and step[0] == "r":
            yield Step("r", freeze(step[1]), None)
            continue
        if not is_list(step) or len(step) != 3 or step[0] not in ("r", writer):
            raise HistoryError(
                f'{title(operation)}: {step!r} is neither ["r", key, value] nor '
                f'["{writer}", key, value]'
            )
        f, key, value = step
        if f == "r" and not reads:
            yield Step(f, freeze(key), None)
        elif f == "r" and writer == "append":
            if not (value is None or is_list(value)):
                raise HistoryError(f"{title(operation)}: a list is read as a list")
            yield Step(f, freeze(key), tuple(map(freeze, value or ())))
        else:
            yield Step(f, freeze(key), freeze(value))


def future_reads(
    transaction: Transaction,
    writer: str,
    *,
    repeated: Container[tuple[Key, Hashable]] = frozenset(),
) -> Iterator[Anomaly]:
    """Return reads of what the transaction itself writes only later.

    It sees its own future: a cycle of itself alone, which no order of transactions explains.
    `repeated`: keys with values that others wrote as well, whose reads therefore show nothing.
    """
    seen: set[tuple[Key, Hashable]] = set()
    for step in transaction.steps:
        if step.f == writer:
            if (step.key, step.value) in seen and (step.key, step.value) not in repeated:
                what = f"read {show(step.value)} of {show(step.key)}, which it wrote only later"
                yield anomaly("future-read", f"{name(transaction)} {what}", transaction)
        elif writer == "append":
            seen.update((step.key, element) for element in step.value or ())
        else:
            seen.add((step.key, step.value))


def lost_updates(
    reads: Iterable[tuple[Transaction, Key, Hashable]], writer: str
) -> Iterator[Anomaly]:
    """Return pairs of transactions that read one version of a key and both replaced it.

    `reads`: transaction, key and version that it found there, of committed ones.
    """
    first: dict[tuple[Key, Hashable], Transaction] = {}
    for transaction, key, version in reads:
        if all(step.key != key for step in transaction.writes(writer)):
            continue
        other = first.setdefault((key, version), transaction)
        if other is not transaction:
            what = f"{name(other)} and {name(transaction)} both read {show(version)} of {show(key)}"
            explanation = f"{what}, and each replaced it without the other's write"
            yield anomaly("lost-update", explanation, other, transaction)


def write_skews(
    edges: Iterable[Edge], transactions: Mapping[int, Transaction]
) -> Iterator[Anomaly]:
    """Return pairs of transactions that each read what the other replaced, of different keys."""
    replaced: dict[tuple[int, int], set[Key]] = {}
    for edge in edges:
        if edge.kind == "rw":
            replaced.setdefault((edge.source, edge.target), set()).add(edge.key)
    for (first, second), keys in replaced.items():
        back = replaced.get((second, first), set())
        if first < second and back and len(keys | back) > 1:
            one, other = transactions[first], transactions[second]
            shown = ", ".join(sorted(map(show, keys))), ", ".join(sorted(map(show, back)))
            what = (
                f"{name(one)} read {shown[0]}, which {name(other)} replaced, and "
                f"{name(other)} read {shown[1]}, which {name(one)} replaced"
            )
            yield anomaly("write-skew", what, one, other)


def name(transaction: Transaction) -> str:
    """Name a transaction for a person."""
    return f"the {title(transaction.operation)}"


def title(operation: Operation) -> str:
    """Name the transaction of an operation by process, time and place in the history."""
    began = seconds(operation.invoke_ns)
    return f"transaction of process {operation.process} at {began} (operation {operation.index})"
