"""What a history says of a group: joins, polls and commits, by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from checkers.history import INFINITY_NS, EventType, HistoryError, Operation
from checkers.partition_logs.columns import CONSUME, POLL_ALL, SEND

COMMIT, ZOMBIE_COMMIT = "commit", "zombie-commit"
LEAVE, ABANDON, JOIN_ALL = "leave", "abandon", "join-all"
"""Functions of operations, beside those of check `log`."""
COMMITS = frozenset({COMMIT, ZOMBIE_COMMIT})


@dataclass(frozen=True, slots=True)
class Member:
    """Who acted: a member of one generation."""

    member_id: str
    instance_id: str | None
    """Of a static member (KIP-345)."""
    generation: int

    def is_same(self, other: Member) -> bool:
        """Whether both are one consumer to the group: one member, or one static instance."""
        if self.member_id == other.member_id:
            return True
        return self.instance_id is not None and self.instance_id == other.instance_id


@dataclass(frozen=True, slots=True)
class Join:
    """A member was given partitions."""

    operation: Operation
    member: Member
    partitions: tuple[str, ...]
    committed: Mapping[str, int]
    """Partition -> offset as its coordinator showed it, or -1; empty where it is not certain that
    this was the latest."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A member committed offsets: for certain, or perhaps."""

    operation: Operation
    member: Member
    offsets: Mapping[str, int]

    @property
    def is_ok(self) -> bool:
        """Whether it was acknowledged."""
        return self.operation.type is EventType.OK


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A history by what its operations are; each list in order of invocation."""

    joins: Sequence[Join]
    commits: Sequence[Commit]
    """Those that were not refused."""
    refused: Sequence[Operation]
    """Commits that a coordinator refused."""
    unseen: Sequence[Operation]
    """Commits of which not even the offsets are known: their clients were ended amid them."""
    sent: Mapping[str, Sequence[tuple[int, Any, Operation]]]
    """Partition -> offset and value of each record, and its send, by offset.

    Of those that were not acknowledged, and are there in the end, the read that shows it.
    """
    processed_ns: Mapping[tuple[str, Any], int]
    """(partition, value) -> when the first poll that showed it had ended."""
    end_ns: int
    """When the last commit that was answered had ended, and the last other one had begun."""

    @property
    def last(self) -> Join | None:
        """The last join after every commit that shows all that was committed; None: none does."""
        committed = {partition for commit in self.commits for partition in commit.offsets}
        whole = [j for j in self.joins if j.operation.f == JOIN_ALL]
        if not whole or whole[-1].operation.invoke_ns <= self.end_ns:
            return None
        return whole[-1] if committed <= whole[-1].committed.keys() else None

    def until(self, end_ns: int) -> GroupFacts:
        """Return what was done and shown before a time; commits that go on have no answer yet."""
        joins = [join for join in self.joins if join.operation.complete_ns < end_ns]
        commits = []
        for each in self.commits:
            operation = each.operation
            if operation.complete_ns >= end_ns:
                operation = replace(operation, type=EventType.INFO, complete_ns=INFINITY_NS)
            if operation.invoke_ns < end_ns:
                commits.append(replace(each, operation=operation))
        return replace(self, joins=joins, commits=commits)


class _Reader:
    """Sorts operations by what they are."""

    def __init__(self) -> None:
        self.joins: list[Join] = []
        self.commits: list[Commit] = []
        self.refused: list[Operation] = []
        self.unseen: list[Operation] = []
        self.sent: dict[str, dict[tuple[int, Any], Operation]] = {}
        self.processed_ns: dict[tuple[str, Any], int] = {}
        self.end_ns = -1

    def take(self, operation: Operation) -> None:
        """Take any operation; raises what reading something else raises."""
        is_ok = operation.type is EventType.OK
        if operation.f in COMMITS:
            self.commit(operation)
        elif operation.f == SEND and is_ok:
            self.send(operation)
        elif operation.f == POLL_ALL and is_ok:
            self.read(operation)
        elif operation.f in (CONSUME, JOIN_ALL) and is_ok:
            self.consume(operation)

    def send(self, operation: Operation) -> None:
        """Take an acknowledged send."""
        if operation.offset is None:
            raise HistoryError(f"operation {operation.index}, an acknowledged send, has no offset")
        values = operation.input if isinstance(operation.input, list) else [operation.input]
        records = self.sent.setdefault(str(operation.key), {})
        records |= {(operation.offset + n, each): operation for n, each in enumerate(values)}

    def read(self, operation: Operation) -> None:
        """Take a read of a whole partition: what it shows was sent, whatever the answer was."""
        for offset, each in operation.output["records"]:
            self.sent.setdefault(str(operation.key), {}).setdefault((offset, each), operation)

    def commit(self, operation: Operation) -> None:
        """Take a commit, however it ended."""
        if operation.type is EventType.FAIL:
            self.refused += [operation] if operation.output is not None else []
            return
        is_ok = operation.type is EventType.OK
        self.end_ns = max(self.end_ns, operation.complete_ns if is_ok else operation.invoke_ns)
        if operation.output is None:
            self.unseen.append(operation)
            return
        offsets = _offsets(operation, "offsets")
        self.commits.append(Commit(operation, _member(operation), offsets))

    def consume(self, operation: Operation) -> None:
        """Take a join or a poll that was answered."""
        value = operation.output
        if "partitions" in value:
            committed = _offsets(operation, "committed")
            given = tuple(map(str, value["partitions"]))
            self.joins.append(Join(operation, _member(operation), given, committed))
        for partition, shown in value.get("records", {}).items():
            for _, each in shown:
                at_ns = self.processed_ns.get((partition, each), operation.complete_ns)
                self.processed_ns[partition, each] = min(at_ns, operation.complete_ns)


def facts_of(operations: Sequence[Operation]) -> GroupFacts:
    """Read a history. Raises HistoryError where a completion is not what the workload writes."""
    reader = _Reader()
    for operation in operations:
        try:
            reader.take(operation)
        except (AttributeError, KeyError, TypeError) as error:
            raise HistoryError(
                f"operation {operation.index} is no {operation.f} as the workload writes it"
            ) from error
    sent = {
        partition: sorted(
            ((offset, value, operation) for (offset, value), operation in records.items()),
            key=lambda record: record[0],
        )
        for partition, records in reader.sent.items()
    }
    return GroupFacts(
        reader.joins,
        reader.commits,
        reader.refused,
        reader.unseen,
        sent,
        reader.processed_ns,
        reader.end_ns,
    )


def _member(operation: Operation) -> Member:
    value = operation.output
    try:
        return Member(str(value["member"]), value.get("instance"), int(value["generation"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise HistoryError(f"operation {operation.index} does not say whose it is") from error


def _offsets(operation: Operation, field: str) -> Mapping[str, int]:
    found = operation.output.get(field)
    if not isinstance(found, dict) or not all(type(each) is int for each in found.values()):
        raise HistoryError(f"operation {operation.index} has no {field}, a map of offsets")
    return found
