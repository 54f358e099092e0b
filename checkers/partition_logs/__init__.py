"""Logs with offsets: what producers sent to partitions and what consumers read there.

`key` names a partition (`t0-3`), a process is a producer or a consumer of its own.

- `send`: of a text or whole number, unique in its partition, or of a list of such: one record
  batch. ok has `offset`, that of its first record, and `epoch`, in which the client believed the
  leader to lead (the true one is not lower).
- `poll`: from an offset, or from where this process's last poll of the partition ended (null). ok
  has an answer, and `epoch`, that of the leader that gave it; absent where a follower did.
- `poll-all`: from an offset, or from the log's start (null). ok as of `poll`, with the whole log.
- `consume`: of a member of a group, from where it stands, which is not looked at. ok shows
  `{"records": {partition: [[offset, value], ...]}}`, if any.

An answer is `{"records": [[offset, value], ...], "high_watermark": n, "log_start": n}`; all but
`records` may be absent or null. Other functions are not looked at. `fail` of a send: it was
certainly not appended; `info`: it may be. A poll that is answered `offset_out_of_range` fails with
that error. A `poll-all` promises to read until its position is the end of the node's log and
nothing above the high watermark is left, so that it shows whatever was committed before it was
invoked; the final operations of a run are `poll-all`, at the leader or at each replica.

What is known. A record that a consumer read was below the high watermark, so it is *committed*: it
stays at its offset for ever (KIP-101, KIP-966: leaders are elected from the ISR and ELR, which hold
all below the high watermark). So is one acknowledged with acks=all, and one with an acknowledged
offset below a high watermark that the leader of that very epoch announced. A batch is appended
whole or not at all, so one record of it places all. Committed prefixes never change, therefore a
read that shows an offset has seen all committed records below it, *whenever* it ran; a read may be
stale (the high watermark lags), but it cannot have holes. Only known records count: control batches
and failed sends leave holes that nobody can see.

Kinds of anomalies:

- `lost-write`: acknowledged with acks=all and not in a later read of the whole log; with acks=1,
  where no later epoch can have truncated it.
- `lost-committed`: read, or below the high watermark, and not in a read of the whole log.
- `duplicate`: one value at two offsets. `inconsistent-offsets`: two values at one offset.
- `moved`: read at another offset than acknowledged. `torn-batch`: records of one batch do not
  stand one behind the other.
- `phantom`: read, and never sent there. `aborted-read`: its send certainly failed.
- `read-before-send`: a read that shows it ended before it was sent.
- `nonmonotonic-send`: behind a record that the same producer sent after this one was done.
  `real-time`: the same of two producers; or below a high watermark given before it was sent.
- `poll-skip`: a poll shows a record and not a committed one between its position and that.
  `int-poll-skip`: nor one between two that it shows.
- `nonmonotonic-poll`: a poll shows offsets below its position, which only a seek may lower.
  `int-nonmonotonic-poll`: offsets do not grow within a poll.
- `truncated`: a poll is refused as out of range by a leader of an epoch in which, or before which,
  a record there or behind had been read.
- `dirty-read`: read, or below the high watermark of a leader, and afterwards the leader of the same
  epoch has no higher high watermark.
  `dirty-ack`: acknowledged with acks=all, and so afterwards at the node that answered.
- `log-start-moved`: the log does not begin at 0 though nothing deletes records.

Names are those of Jepsen's `jepsen.tests.kafka` where it has one. The order of effect: if a is done
before b is sent, b is not in the log when a is, so a's offset is lower; with acks=1 as well, if
both are committed (the log that a was appended to and the final one agree up to a: log matching).
A lost record is reported as that, not again by the reads that pass over it or by what took its
place. Allowed, counted as notes: with acks=1 an acknowledged record that nobody read and a later
epoch truncated (`allowed-loss`; also where epochs are not known); a `duplicate` and a
`moved` (the other copy was read) of clients that retry without idempotence.

Options: `acks` ("0", "1", "all"); `idempotence`; `retries`: whether a client may itself send a
record again, which ours never does. Cannot see: whether a record that was acknowledged with acks=1
had been replicated, if no read and no high watermark shows it; truncations of what nobody read or
had acknowledged.

UNKNOWN: a value was sent twice; a partition has no `poll-all` invoked after its last
acknowledgement, so that losses are not decided. Complexity: O(n log n) for n operations and
records, and for each `poll-all` the records of its partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from checkers.history import HistoryError
from checkers.partition_logs.columns import Log, RepeatedError, log_of
from checkers.partition_logs.explain import explain
from checkers.partition_logs.facts import Facts, Promise
from checkers.partition_logs.rules import anomalies, unread
from checkers.run_input import RunInput
from checkers.runs.faults import fault_spans
from checkers.verdict import ALLOWED, PROMISE, Anomaly, CheckResult, Status
from porcupine_py.search.outcome import Cancelled, never

NAME = "log"
ACKS = ("0", "1", "all")
EXPLAINED_MAX = 5
"""How many anomalies of each kind are explained; `statistics` counts all."""


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError for acks that there are none of."""
    if options.get("acks", "all") not in (*ACKS, None):
        raise ValueError(f"acks cannot be {options['acks']!r}; known: {', '.join(ACKS)}")


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Judge the logs of all partitions of a run."""
    promise = Promise(
        acks=options.get("acks") or "all",
        idempotence=bool(options.get("idempotence")),
        retries=bool(options.get("retries")),
    )
    try:
        log = log_of(run.operations)
    except RepeatedError as repeated:
        return _unknown(run, f"the value {repeated.args[0]!r} was sent twice to one partition")
    except HistoryError as error:
        return _unknown(run, str(error))
    if cancelled():
        return _unknown(run, "cancelled")
    facts = Facts(log, promise)
    faults = fault_spans(run.notes)
    wrong: list[Anomaly] = []
    notes: list[Anomaly] = []
    counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for found, allowed in anomalies(facts):
        counts[allowed][found.kind] += len(found)
        for row in range(min(len(found), EXPLAINED_MAX)):
            shown = explain(found, row, facts, run.operations, faults)
            (notes if allowed else wrong).append(shown)
        if cancelled():
            return _unknown(run, "cancelled")
    return _result(log, promise, (wrong, +counts[False]), (notes, +counts[True]), unread(facts))


def _unknown(run: RunInput, why: str) -> CheckResult:
    return CheckResult(NAME, Status.UNKNOWN, why, operations=len(run.operations))


_Counted = tuple[list[Anomaly], Counter[str]]


def _result(
    log: Log, promise: Promise, wrong: _Counted, notes: _Counted, missing: list[str]
) -> CheckResult:
    anomalies, kinds = wrong
    shown, allowed = notes
    acknowledged = int(log.sends.ok.sum())
    promised = _describe_promise(promise)
    if anomalies:
        counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        status, summary = Status.FAIL, f"{counted}; first: {anomalies[0]['explanation']}"
    elif missing:
        status = Status.UNKNOWN
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        summary = (
            f"partition {', '.join(missing[:3])}{more} was not read whole (poll-all) after its "
            "last acknowledgement, so whether records were lost is not known"
        )
    elif not acknowledged:
        status, summary = Status.UNDER_EXERCISED, "no send was acknowledged"
    elif not len(log.shown_offset):
        status, summary = Status.UNDER_EXERCISED, "no record was read"
    else:
        status = Status.PASS
        summary = (
            f"{log.records} records sent to {len(log.partitions)} partitions, {acknowledged} sends "
            f"acknowledged, {len(log.shown_offset)} records read: {promised}"
        )
    if allowed:
        summary += f"; allowed here: {', '.join(f'{n} {kind}' for kind, n in allowed.items())}"
    reads = len(set(log.reads.row.tolist()))
    return CheckResult(
        NAME,
        status,
        summary,
        algorithm="offsets",
        operations=len(log.sends.row) + reads,
        anomalies=tuple(anomalies),
        statistics={
            PROMISE: promised,
            "anomalies_by_kind": dict(kinds),
            "allowed_by_kind": dict(allowed),
            ALLOWED: shown,
            "records": log.records,
            "acknowledged": acknowledged,
            "records_read": len(log.shown_offset),
            "not_read_whole": missing,
        },
    )


def _describe_promise(promise: Promise) -> str:
    kept = {
        "all": "nothing acknowledged or read is lost",
        "1": "nothing read is lost, and what was acknowledged only to a truncation",
        "0": "nothing read is lost",
    }[promise.acks]
    copies = "" if promise.may_repeat else ", nothing doubled"
    return f"{kept}{copies}, reordered or skipped (acks={promise.acks})"
