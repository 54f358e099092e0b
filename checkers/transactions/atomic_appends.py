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
  (InitProducerId) is answered once the transaction before is over. Or after the transaction had
  timed out and a broker had refused its producer's batch: the coordinator aborted it then.
- `fatal-refusal`: that batch was refused with INVALID_TXN_STATE, which is fatal to a producer. The
  abort of what times out gives the partition a later epoch, so the batch is refused for its epoch
  (KAFKA-19690), from which a producer recovers.
- `aborted-read` (G1a): a read_committed consumer saw what an aborted transaction appended. No
  EndTxn that commits was ever sent for it, or the first was refused before it decided anything.
  So it is of one that was to abort or to be fenced, though it ended in `info`.
- `circular-reads`: each of some transactions saw what the next one committed, or began when that
  was done, in a circle. Each one's reads are done before its own appends, and these before its own
  commit is sent (`checkers.transactions.circles`). With read_uncommitted: saw what was appended.
- `incompatible-order`: two reads of a partition, of which none begins with the other: as above.
- `append-order`, `duplicate`, `phantom`: appends of one transaction to a partition in another order
  than it made them; twice; by nobody. Sequences of its producer forbid it (KIP-98). Or an append
  stands before one that was made earlier, as it follows from what was read or answered before.
- `skipped`: read_uncommitted shows a record and not what lies before it, or another order than
  read_committed. It shows all below the high watermark.
- `aborted-offset`, `lost-offset`, `phantom-offset`: an offset that was committed in a transaction
  is seen though that aborted, is not there once it committed, or is nobody's
  (`checkers.transactions.committed_offsets`).
- `hanging-transaction`: a transaction stays open. Coordinators abort what exceeds its time-out.

read_uncommitted may show what was aborted. A transaction that ended in `info` may have committed or
not, but whole. `hanging-transaction` needs a last read that was tried for `open_ms` and found the
same record undecided all the time, while every broker answered; that is a time-out of Kafka's and
the pause between two looks for it, and its margin. Below that, and where a partition was not read
whole after the last transaction, the verdict is UNKNOWN.

Cannot see: a transaction that is torn at times and whole in the end. Complexity: that of
`checkers.transactions.list_append`, and the length of all lists that were read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from checkers.history import EventType, HistoryError, Operation
from checkers.run_input import RunInput
from checkers.transactions import list_append
from checkers.transactions.atomic_rules import (
    LATE,
    OUTLIVE,
    READ_ALL,
    REFUSED_LATE,
    ZOMBIE,
    TransactionParts,
    aborted_reads,
    broken_in_the_end,
    fatal_refusals,
    hanging_transactions,
    lost_records,
    parts_of,
    uncommitted_anomalies,
    zombie_commits,
)
from checkers.transactions.circles import circles
from checkers.transactions.committed_offsets import offset_anomalies
from checkers.transactions.list_append import NotUniqueError
from checkers.transactions.operations import ReplyError
from checkers.verdict import Anomaly, CheckResult, Status
from porcupine_py.search.outcome import Cancelled, never

NAME = "atomic-appends"
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


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError for a bound that is none."""
    if options.get("open_ms", 1) is not None and options.get("open_ms", 1) <= 0:
        raise ValueError("open_ms must be above 0")


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Judge the transactions of a run."""
    open_ms = options.get("open_ms") or OPEN_MS
    operations = run.operations
    try:
        parts = parts_of(operations)
        inferred = list_append.infer(parts.transactions)
        offsets = [*offset_anomalies(parts.commits, operations, run.notes)]
    except (HistoryError, NotUniqueError, ReplyError) as error:
        return _unknown(operations, f"nothing can be inferred: {error}")
    if cancelled():
        return _unknown(operations, "cancelled")
    wrong: list[Anomaly] = [
        *broken_in_the_end(parts),
        *lost_records(parts),
        *aborted_reads(parts),
        *zombie_commits(parts),
        *fatal_refusals(parts),
        *(
            {**found, "kind": _KINDS[str(found["kind"])]}
            for found in inferred.anomalies
            if found["kind"] in _KINDS
        ),
        *circles(parts.transactions, parts.dirty),
        *uncommitted_anomalies(parts),
        *hanging_transactions(parts, open_ms),
        *offsets,
    ]
    if cancelled():
        return _unknown(operations, "cancelled")
    return _result(operations, parts, _with_late_ends(wrong, parts))


def _with_late_ends(wrong: Sequence[Anomaly], parts: TransactionParts) -> list[Anomaly]:
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


def _result(
    operations: Sequence[Operation], parts: TransactionParts, wrong: Sequence[Anomaly]
) -> CheckResult:
    counts = Counter(str(found["kind"]) for found in wrong)
    ended = Counter((t.operation.f.removesuffix(LATE), t.type) for t in parts.appends())
    committed = sum(n for (_, kind), n in ended.items() if kind is EventType.OK)
    fenced = ended[ZOMBIE, EventType.FAIL]
    aborted = sum(n for (_, kind), n in ended.items() if kind is EventType.FAIL) - fenced
    outlived = sum(
        t.operation.f == OUTLIVE and t.operation.error in REFUSED_LATE for t in parts.appends()
    )
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
    elif not outlived and any(t.operation.f == OUTLIVE for t in parts.appends()):
        status = Status.UNDER_EXERCISED
        summary = "no transaction of a producer that paused timed out, as some should"
    else:
        status = Status.PASS
        summary = (
            f"{committed} transactions committed, {aborted} aborted or failed, {fenced} fenced, on "
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
            "outlived": outlived,
            "indeterminate": sum(n for (_, k), n in ended.items() if k is EventType.INFO),
            "late_ends": late,
            "reads": reads,
            "uncommitted_reads": len(parts.dirty),
            "not_read_whole": list(parts.unread),
        },
    )


def _unknown(operations: Sequence[Operation], why: str) -> CheckResult:
    return CheckResult(NAME, Status.UNKNOWN, why, operations=len(operations))
