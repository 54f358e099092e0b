"""The rules of `atomic-appends`, which says what is promised, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.history import INFINITY_NS, EventType, Operation, seconds
from checkers.transactions import list_append
from checkers.transactions.committed_offsets import (
    OFFSETS,
    Commit,
    Commits,
    commits_of,
    lookups_of,
    without_commits,
)
from checkers.transactions.operations import Transaction, name, transactions
from checkers.verdict import Anomaly, anomaly
from porcupine_py.values import show

TXN, ABORT, ZOMBIE, OUTLIVE, LATE = "txn", "abort", "zombie", "outlive", "-late"
READ, READ_ALL, READ_UNCOMMITTED = "read", "read-all", "read-uncommitted"
"""Functions of operations; LATE is a suffix of the first two."""
FENCED = {
    ZOMBIE: "another producer had taken over its transactional id",
    OUTLIVE: "it had timed out, and its producer's batch was refused for that",
}
"""Function of those that must not commit -> why not."""
_NEVER_COMMIT = frozenset({ABORT, ABORT + LATE, *FENCED})
"""No commit of these was sent before another producer or the coordinator had ended them."""
FATAL = "invalid_txn_state"
REFUSED_LATE = frozenset({"invalid_producer_epoch", "producer_fenced", FATAL})
"""Errors of an OUTLIVE whose batch was refused since its transaction was over."""
OPEN = "open-transaction"
"""Error of a READ_ALL that found a transaction open, at its completion's offset."""


@dataclass(frozen=True, slots=True)
class TransactionParts:
    """A history by what its operations are."""

    transactions: Sequence[Transaction]
    """Read_committed ones, the last reads among them."""
    dirty: Sequence[Transaction]
    """Reads with read_uncommitted that were answered."""
    last: Mapping[str, Transaction]
    """Partition -> its last READ_ALL that was answered, and began after all transactions."""
    refused: Mapping[str, Sequence[Operation]]
    """Partition without such a read -> its READ_ALLs that found a transaction open."""
    unread: Sequence[str]
    """Partitions of either kind that were appended to, without such a read, and those with a group
    whose offset was committed, and not looked up."""
    commits: Commits
    """Partition -> what was committed of the group for it."""

    def appends(self) -> Iterator[Transaction]:
        """Return the transactions that append."""
        return (t for t in self.transactions if any(t.writes(list_append.WRITER)))

    def late_ends(self) -> Mapping[int, Transaction]:
        """Index of a transaction -> its client's last one, if the end of that comes late."""
        before: dict[int | str, Transaction] = {}
        found: dict[int, Transaction] = {}
        for transaction in self.appends():
            process = transaction.operation.process
            other = before.get(process)
            if other is not None and other.operation.f.endswith(LATE):
                found[transaction.index] = other
            before[process] = transaction
        return found


def parts_of(operations: Sequence[Operation]) -> TransactionParts:
    """Read a history. Raises HistoryError and ReplyError."""
    dirty, others, ends = [], [], []
    commits = _commits(operations)
    for operation in (operation for operation in operations if operation.f != OFFSETS):
        if operation.f == READ_UNCOMMITTED:
            dirty.append(operation)
            continue
        others.append(without_commits(operation))
        if operation.f == READ_ALL:
            continue
        is_done = operation.type is not EventType.INFO and operation.complete_ns < INFINITY_NS
        ends.append(operation.complete_ns if is_done else operation.invoke_ns)
    end_ns = max(ends, default=-1)
    read = transactions(others, list_append.WRITER)
    last: dict[str, Transaction] = {}
    refused: dict[str, list[Operation]] = {}
    for transaction in read:
        operation = transaction.operation
        if operation.f != READ_ALL or operation.invoke_ns <= end_ns:
            continue
        for step in transaction.steps:
            if transaction.type is EventType.OK:
                last[str(step.key)] = transaction
            elif operation.error == OPEN:
                refused.setdefault(str(step.key), []).append(operation)
    written = {
        str(step.key)
        for t in read
        if t.type is not EventType.FAIL
        for step in t.writes(list_append.WRITER)
    }
    looked_up = {key for key, _, lookup in lookups_of(operations) if lookup.invoke_ns > end_ns}
    return TransactionParts(
        read,
        [t for t in transactions(dirty, list_append.WRITER) if t.type is EventType.OK],
        last,
        {key: found for key, found in refused.items() if key not in last},
        [
            *sorted(written.difference(last)),
            *(f"{key} (offset)" for key in sorted(commits.keys() - looked_up)),
        ],
        commits,
    )


def _commits(operations: Sequence[Operation]) -> Commits:
    found: dict[str, list[Commit]] = {}
    for operation in operations:
        holds = operation.type is EventType.OK and operation.f not in FENCED
        for key, offset in commits_of(operation):
            commit = Commit(offset, operation, may_commit(operation), holds)
            found.setdefault(key, []).append(commit)
    return found


# -- what is there in the end ----------------------------------------------------------------------


def broken_in_the_end(parts: TransactionParts) -> Iterator[Anomaly]:
    """Compare each transaction with the last reads of its partitions."""
    there = {key: frozenset(_list(t, key)) for key, t in parts.last.items()}
    for transaction in parts.appends():
        if not may_commit(transaction.operation):
            continue  # whatever is seen of it, at any time, is `aborted-read`
        steps = [s for s in transaction.writes(list_append.WRITER) if str(s.key) in there]
        here = [s for s in steps if s.value in there[str(s.key)]]
        gone = [s for s in steps if s.value not in there[str(s.key)]]
        if not gone:
            continue
        readers = [parts.last[str(step.key)] for step in gone]
        if here:
            readers += [parts.last[str(step.key)] for step in here]
            some, others = (
                ", ".join(f"{show(s.value)} in {s.key}" for s in each) for each in (here, gone)
            )
            ended = "committed" if transaction.type is EventType.OK else "ended without an answer"
            what = (
                f"{name(transaction)} {ended}; in the end consumers with read_committed "
                f"see {some}, but not {others}"
            )
            yield anomaly(
                "torn-transaction", what, transaction, *readers, transaction=transaction.index
            )
        elif transaction.type is EventType.OK and transaction.operation.f not in FENCED:
            lost = ", ".join(f"{show(s.value)} to {s.key}" for s in gone)
            what = (
                f"{name(transaction)} appended {lost} and was acknowledged as committed; in the "
                "end nothing of it is there"
            )
            yield anomaly(
                "lost-transaction", what, transaction, *readers, transaction=transaction.index
            )


def lost_records(parts: TransactionParts) -> Iterator[Anomaly]:
    """Compare what consumers saw on the way with the last reads: one for each partition."""
    there = {key: frozenset(_list(t, key)) for key, t in parts.last.items()}
    found: set[str] = set()
    for transaction in parts.transactions if there else ():
        for step in transaction.steps if transaction.type is EventType.OK else ():
            key = str(step.key)
            if step.f != "r" or key in found or there.get(key, frozenset()).issuperset(step.value):
                continue
            found.add(key)
            if key in there:
                gone = next(value for value in step.value if value not in there[key])
                what = (
                    f"{_consumer(transaction)} read {show(gone)} of {key}, and in the end it is "
                    "not there"
                )
                yield anomaly("lost-record", what, transaction, parts.last[key])


def aborted_reads(parts: TransactionParts) -> Iterator[Anomaly]:
    """Find what read_committed consumers saw of aborted transactions: once for each of these."""
    writers = {
        (str(step.key), step.value): t
        for t in parts.appends()
        if not may_commit(t.operation)
        for step in t.writes(list_append.WRITER)
    }
    seen: set[int] = set()
    for reader in parts.transactions if writers else ():
        for step in reader.steps if reader.type is EventType.OK else ():
            for value in step.value if step.f == "r" else ():
                writer = writers.get((str(step.key), value))
                if writer is None or writer.index in seen:
                    continue
                seen.add(writer.index)
                what = (
                    f"{name(writer)} appended {show(value)} to {step.key} and {_end(writer)}; "
                    f"{_consumer(reader)} read it"
                )
                yield anomaly("aborted-read", what, writer, reader, transaction=writer.index)


def may_commit(operation: Operation) -> bool:
    """Whether what a transaction did may be seen: it committed, or ended amid a commit."""
    if operation.type is EventType.INFO or operation.f.removesuffix(LATE) == ABORT:
        return operation.f not in _NEVER_COMMIT
    return operation.type is EventType.OK


def _end(transaction: Transaction) -> str:
    """Say why a transaction did not commit."""
    if transaction.type is EventType.INFO:
        return "ended without an answer, where nothing could commit it"
    error = transaction.operation.error
    return "aborted" if error in (None, "aborted") else f"aborted ({error})"


def zombie_commits(parts: TransactionParts) -> Iterator[Anomaly]:
    """Find commits of producers that had been fenced."""
    for transaction in parts.appends():
        why = FENCED.get(transaction.operation.f)
        if why is not None and transaction.type is EventType.OK:
            what = f"{name(transaction)} was acknowledged as committed, after {why}"
            yield anomaly("zombie-commit", what, transaction)


def fatal_refusals(parts: TransactionParts) -> Iterator[Anomaly]:
    """Find producers that outlived their transaction and were ended for it."""
    for transaction in parts.appends():
        if transaction.operation.f == OUTLIVE and transaction.operation.error == FATAL:
            what = (
                f"{name(transaction)} timed out, and the batch that its producer sent afterwards "
                f"was refused with {FATAL.upper()}, which ends a producer; its epoch is out of "
                "date, and INVALID_PRODUCER_EPOCH would let it abort and go on"
            )
            yield anomaly("fatal-refusal", what, transaction)


def _list(transaction: Transaction, key: str) -> tuple[Any, ...]:
    """Return what a transaction read of a key."""
    return next(s.value for s in transaction.steps if s.f == "r" and str(s.key) == key)


# -- read_uncommitted ------------------------------------------------------------------------------


def uncommitted_anomalies(parts: TransactionParts) -> Iterator[Anomaly]:
    """Compare reads with read_uncommitted: with each other, what was sent, and the last reads."""
    sent: dict[str, set[Any]] = {}
    for transaction in parts.appends():
        for step in transaction.writes(list_append.WRITER):
            sent.setdefault(str(step.key), set()).add(step.value)
    shown: dict[str, list[tuple[tuple[Any, ...], Transaction]]] = {}
    for transaction in parts.dirty:
        for step in transaction.steps:
            shown.setdefault(str(step.key), []).append((step.value, transaction))
    for key, reads in shown.items():
        reads.sort(key=lambda read: len(read[0]))
        longest, reader = reads[-1]
        yield from _compare(key, reads)
        for value in longest:
            if value not in sent.get(key, ()):
                what = f"{_consumer(reader)} read {show(value)} of {key}, which nobody appended"
                yield anomaly("phantom", what, reader)
        twice = [value for value, count in Counter(longest).items() if count > 1]
        if twice:
            what = f"{_consumer(reader)} read {show(twice[0])} of {key} twice"
            yield anomaly("duplicate", what, reader)
        if key in parts.last:
            yield from _gaps(key, longest, reader, parts.last[key])


def _compare(key: str, reads: Sequence[tuple[tuple[Any, ...], Transaction]]) -> Iterator[Anomaly]:
    longest, reader = reads[-1]
    for values, other in reads:
        if longest[: len(values)] != values:
            place = next(i for i, (a, b) in enumerate(zip(values, longest, strict=False)) if a != b)
            what = (
                f"{_consumer(other)} read {show(values[place])} as record {place} of {key}, where "
                f"{_consumer(reader)} read {show(longest[place])}"
            )
            yield anomaly("incompatible-order", what, other, reader)
            return


def _gaps(
    key: str, longest: tuple[Any, ...], reader: Transaction, last: Transaction
) -> Iterator[Anomaly]:
    """What read_uncommitted shows of what is there in the end is a beginning of that."""
    final = _list(last, key)
    kept = set(final)
    both = [value for value in longest if value in kept]
    for expected, value in zip(final, both, strict=False):
        if expected != value:
            what = (
                f"{_consumer(reader)} read {show(value)} of {key} without {show(expected)}, which "
                f"stands before it in what {_consumer(last)} read"
            )
            yield anomaly("skipped", what, reader, last)
            return


def _consumer(reader: Transaction) -> str:
    operation = reader.operation
    level = READ_UNCOMMITTED if operation.f == READ_UNCOMMITTED else "read-committed"
    began = seconds(operation.invoke_ns)
    return (
        f"a {level.replace('-', '_')} consumer of process {operation.process} at {began} "
        f"(operation {operation.index})"
    )


# -- what never ends -------------------------------------------------------------------------------


def hanging_transactions(parts: TransactionParts, open_ms: float) -> Iterator[Anomaly]:
    """Find partitions in which one transaction was open for `open_ms` of the last reads."""
    for key, tries in parts.refused.items():
        same = [o for o in tries if o.offset == tries[-1].offset and o.offset is not None]
        if not same:
            continue
        tried_ns = same[-1].complete_ns - same[0].invoke_ns
        if tried_ns < open_ms * 1_000_000:
            continue
        what = (
            f"a transaction is open at offset {same[-1].offset} of {key} for {seconds(tried_ns)}, "
            "though nobody has one and every broker answers: consumers with read_committed see "
            "nothing behind it"
        )
        yield anomaly("hanging-transaction", what, same[0], same[-1])
