"""What Kafka promises of transactions: that they are atomic, and not that they are isolated.

The history is workload `transactions`': list-appends of `checkers.transactions`, a key for each
partition, a list for what a consumer of the whole partition sees in the order of offsets.

**Promised** (KIP-98, KIP-890). Of a transaction that committed read_committed consumers see every
append in the end; of one that aborted, that was fenced or that never ended, none, at any time. A
partition is one log: all consumers see one order, nothing twice, nothing that nobody sent, and what
was seen stays. Who took over a transactional id has fenced the one before.

**Not promised.** Each partition has its own commit marker, so a consumer may see one half of a
transaction before the other: reads across partitions are no snapshots, and a commit that was just
acknowledged may not be seen yet. Nobody orders transactions that append to the same partitions:
two may stand in one order here and in the other there. A read ends at the last stable offset,
before the first record of any open transaction, and that may lie between two records of one that
committed: so within one partition, too, half of it may be seen first. To Adya those are G0, a G1c
of appends and reads, G-single, G1b, stale reads and lost updates, and all of them are allowed: no
level of Elle's is kept, not even read-uncommitted. So some anomalies of `checkers.transactions`
count and others do not, and what they do not say stands beside them.

Kinds of anomalies, and why a correct Kafka never shows them:

- `torn-transaction`: in the end some of its appends are there and others are not. The coordinator
  logs one decision and writes it to every partition of the transaction, and the last reads wait
  until nothing in their partition is undecided.
- `lost-transaction`: it was acknowledged as committed, and none of it is there. EndTxn is answered
  once the decision is durable.
- `lost-record`: a read_committed consumer saw a record, and it is not there in the end. What lies
  below the last stable offset, or below the high watermark, is there for good (KIP-101, KIP-966).
- `zombie-commit`: a commit was acknowledged after another producer had taken over. The takeover
  (InitProducerId) is answered once the transaction before is over.
- `aborted-read` (G1a): a read_committed consumer saw what an aborted transaction appended. No
  EndTxn that commits was ever sent for it, or the first was refused before it decided anything.
- `circular-reads`: each of some transactions saw what the next one committed, or began when that
  was done, in a circle. Each one's reads are done before its own commit is sent.
- `incompatible-order`: two reads of a partition, of which none begins with the other: as above.
- `append-order`, `duplicate`, `phantom`: appends of one transaction to a partition in another order
  than it made them; twice; by nobody. Sequences of its producer forbid it (KIP-98).
- `skipped`: read_uncommitted shows a record and not what lies before it, or another order than
  read_committed. It shows all below the high watermark.
- `hanging-transaction`: a transaction stays open. Coordinators abort what exceeds its time-out.

read_uncommitted may show what was aborted. A transaction that ended in `info` may have committed or
not, but whole. `hanging-transaction` needs a last read that was tried for `open_ms` and found the
same record undecided all the time, while every broker answered; that is a time-out of Kafka's and
the pause between two looks for it, and its margin. Below that, and where a partition was not read
whole after the last transaction, the verdict is UNKNOWN.

Cannot see: a transaction that is torn at times and whole in the end; offsets of groups that are
committed in a transaction. Complexity: that of `checkers.transactions.list_append`, and the length
of all lists that were read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.history import INFINITY_NS, EventType, HistoryError, Operation, seconds
from checkers.run_input import RunInput
from checkers.transactions import list_append
from checkers.transactions.list_append import NotUniqueError
from checkers.transactions.operations import (
    Anomaly,
    ReplyError,
    Transaction,
    anomaly,
    name,
    transactions,
)
from checkers.transactions.search import cycle_anomaly, in_components, realtime_edges
from checkers.verdict import CheckResult, Status
from porcupine_py.search.outcome import Cancelled, never
from porcupine_py.values import show

NAME = "atomic-appends"
TXN, ABORT, ZOMBIE, LATE = "txn", "abort", "zombie", "-late"
READ, READ_ALL, READ_UNCOMMITTED = "read", "read-all", "read-uncommitted"
"""Functions of operations; LATE is a suffix of the first two."""
OPEN = "open-transaction"
"""Error of a READ_ALL that found a transaction open, at its completion's offset."""
ANOMALIES_MAX = 50
OPEN_MS = 30_000
_KINDS = {
    "incompatible-order": "incompatible-order",
    "cyclic-versions": "incompatible-order",
    "append-order": "append-order",
    "duplicate": "duplicate",
    "garbage": "phantom",
    "future-read": "circular-reads",
}
"""What counts of the anomalies of lists -> its name here."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """A history by what its operations are."""

    transactions: Sequence[Transaction]
    """Read_committed ones, the last reads among them."""
    dirty: Sequence[Transaction]
    """Reads with read_uncommitted that were answered."""
    last: Mapping[str, Transaction]
    """Partition -> its last READ_ALL that was answered after all transactions had ended."""
    refused: Mapping[str, Sequence[Operation]]
    """Partition without such a read -> its READ_ALLs that found a transaction open."""
    unread: Sequence[str]
    """Partitions of either kind that were appended to, without such a read."""

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


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError for a bound that is none."""
    if options.get("open_ms", 1) is not None and options.get("open_ms", 1) <= 0:
        raise ValueError("open_ms must be above 0")


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Judge the transactions of a run."""
    open_ms = options.get("open_ms") or OPEN_MS
    operations = run.operations
    try:
        parts = _parts(operations)
        inferred = list_append.infer(parts.transactions)
    except (HistoryError, NotUniqueError, ReplyError) as error:
        return _unknown(operations, f"nothing can be inferred: {error}")
    if cancelled():
        return _unknown(operations, "cancelled")
    wr = [edge for edge in inferred.edges if edge.kind == "wr"]
    order = [*wr, *realtime_edges(inferred.transactions)]
    wrong: list[Anomaly] = [
        *_in_the_end(parts),
        *_lost_records(parts),
        *_aborted_reads(parts),
        *_zombies(parts),
        *(
            {**found, "kind": _KINDS[str(found["kind"])]}
            for found in inferred.anomalies
            if found["kind"] in _KINDS
        ),
        *(
            cycle_anomaly("circular-reads", cycle, inferred.transactions)
            for cycle in in_components(order, ("wr",))
        ),
        *_dirty_anomalies(parts),
        *_hanging(parts, open_ms),
    ]
    if cancelled():
        return _unknown(operations, "cancelled")
    return _result(operations, parts, _with_late_ends(wrong, parts))


def _parts(operations: Sequence[Operation]) -> _Parts:
    """Read a history. Raises HistoryError and ReplyError."""
    dirty, others, ends = [], [], []
    for operation in operations:
        if operation.f == READ_UNCOMMITTED:
            dirty.append(operation)
            continue
        others.append(operation)
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
        if operation.f != READ_ALL or operation.invoke_ns < end_ns:
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
    return _Parts(
        read,
        [t for t in transactions(dirty, list_append.WRITER) if t.type is EventType.OK],
        last,
        {key: found for key, found in refused.items() if key not in last},
        sorted(written.difference(last)),
    )


def _with_late_ends(wrong: Sequence[Anomaly], parts: _Parts) -> list[Anomaly]:
    """Say of a broken transaction whether a request of its client's last one comes late."""
    late = parts.late_ends()
    found = []
    for each in wrong:
        other = late.get(each.get("transaction", -1))
        if other is None:
            found.append(each)
            continue
        how = "commit" if other.type is EventType.OK else "abort"
        why = (
            f"{each['explanation']}; the {how} of this client's transaction before (operation "
            f"{other.index}) arrives once more, late"
        )
        operations = sorted({other.index, *each["operations"]})
        found.append({**each, "explanation": why, "operations": operations})
    return found


# -- what is there in the end ----------------------------------------------------------------------


def _in_the_end(parts: _Parts) -> Iterator[Anomaly]:
    """Compare each transaction with the last reads of its partitions."""
    there = {key: frozenset(_list(t, key)) for key, t in parts.last.items()}
    for transaction in parts.appends():
        if transaction.type is EventType.FAIL:
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
                ", ".join(f"{show(s.value)} of {s.key}" for s in each) for each in (here, gone)
            )
            ended = "committed" if transaction.type is EventType.OK else "ended without an answer"
            what = (
                f"{name(transaction)} {ended}; in the end consumers with read_committed "
                f"see {some}, but not {others}"
            )
            found = anomaly("torn-transaction", what, transaction, *readers)
            yield {**found, "transaction": transaction.index}
        elif transaction.type is EventType.OK and transaction.operation.f != ZOMBIE:
            lost = ", ".join(f"{show(s.value)} to {s.key}" for s in gone)
            what = (
                f"{name(transaction)} appended {lost} and was acknowledged as committed; in the "
                "end nothing of it is there"
            )
            found = anomaly("lost-transaction", what, transaction, *readers)
            yield {**found, "transaction": transaction.index}


def _lost_records(parts: _Parts) -> Iterator[Anomaly]:
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


def _aborted_reads(parts: _Parts) -> Iterator[Anomaly]:
    """Find what read_committed consumers saw of aborted transactions: once for each of these."""
    writers = {
        (str(step.key), step.value): t
        for t in parts.appends()
        if t.type is EventType.FAIL
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
                error = writer.operation.error
                why = "" if error in (None, "aborted") else f" ({error})"
                what = (
                    f"{name(writer)} appended {show(value)} to {step.key} and aborted{why}; "
                    f"{_consumer(reader)} read it"
                )
                found = anomaly("aborted-read", what, writer, reader)
                yield {**found, "transaction": writer.index}


def _zombies(parts: _Parts) -> Iterator[Anomaly]:
    for transaction in parts.appends():
        if transaction.operation.f == ZOMBIE and transaction.type is EventType.OK:
            what = (
                f"{name(transaction)} was acknowledged as committed, after another producer had "
                "taken over its transactional id"
            )
            yield anomaly("zombie-commit", what, transaction)


def _list(transaction: Transaction, key: str) -> tuple[Any, ...]:
    """Return what a transaction read of a key."""
    return next(s.value for s in transaction.steps if s.f == "r" and str(s.key) == key)


# -- read_uncommitted ------------------------------------------------------------------------------


def _dirty_anomalies(parts: _Parts) -> Iterator[Anomaly]:
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


def _hanging(parts: _Parts, open_ms: float) -> Iterator[Anomaly]:
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
        yield {
            "kind": "hanging-transaction",
            "explanation": what,
            "operations": [same[0].index, same[-1].index],
        }


# -- the verdict -----------------------------------------------------------------------------------


def _result(
    operations: Sequence[Operation], parts: _Parts, wrong: Sequence[Anomaly]
) -> CheckResult:
    counts = Counter(str(found["kind"]) for found in wrong)
    ended = Counter((t.operation.f.removesuffix(LATE), t.type) for t in parts.appends())
    committed = sum(n for (_, kind), n in ended.items() if kind is EventType.OK)
    fenced = ended[ZOMBIE, EventType.FAIL]
    aborted = sum(n for (_, kind), n in ended.items() if kind is EventType.FAIL) - fenced
    late = sum(t.operation.f.endswith(LATE) for t in parts.appends())
    reads = sum(
        t.type is EventType.OK and any(s.f == "r" for s in t.steps) for t in parts.transactions
    )
    if wrong:
        counted = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        status, summary = Status.FAIL, f"{counted}; first: {wrong[0]['explanation']}"
    elif parts.unread:
        more = f" and {len(parts.unread) - 3} more" if len(parts.unread) > 3 else ""
        status = Status.UNKNOWN
        summary = (
            f"partition {', '.join(parts.unread[:3])}{more} was not read whole ({READ_ALL}) after "
            "the last transaction, so whether one is torn or lost is not known"
        )
    elif not committed:
        status, summary = Status.UNDER_EXERCISED, "no transaction committed"
    else:
        status = Status.PASS
        summary = (
            f"{committed} transactions committed, {aborted} aborted, {fenced} fenced, on "
            f"{len(parts.last)} partitions: each is there whole or not at all, in one order "
            "(not isolated: read_committed)"
        )
    return CheckResult(
        NAME,
        status,
        summary,
        algorithm="list-append",
        operations=len(operations),
        anomalies=tuple(wrong[:ANOMALIES_MAX]),
        statistics={
            "anomalies_by_kind": dict(counts),
            "committed": committed,
            "aborted": aborted,
            "fenced": fenced,
            "indeterminate": sum(n for (_, k), n in ended.items() if k is EventType.INFO),
            "late_ends": late,
            "reads": reads,
            "uncommitted_reads": len(parts.dirty),
            "not_read_whole": list(parts.unread),
        },
    )


def _unknown(operations: Sequence[Operation], why: str) -> CheckResult:
    return CheckResult(NAME, Status.UNKNOWN, why, operations=len(operations))
