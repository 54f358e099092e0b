"""Logs with offsets: what producers sent to partitions and what consumers read there.

docs/checkers.md#log has operations, kinds of anomalies, options and blind spots. A process is a
producer or a consumer of its own; other functions are not looked at. A `poll-all` promises to read
until its position is the end of the node's log and nothing above the high watermark is left, so
that it shows whatever was committed before it was invoked.

What is known. A record that a consumer read was below the high watermark, so it is *committed*: it
stays at its offset for ever (KIP-101, KIP-966: leaders are elected from the ISR and ELR, which hold
all below the high watermark). So is one acknowledged with acks=all, and one with an acknowledged
offset below a high watermark that the leader of that very epoch announced. A batch is appended
whole or not at all, so one record of it places all. Committed prefixes never change, therefore a
read that shows an offset has seen all committed records below it, *whenever* it ran; a read may be
stale (the high watermark lags), but it cannot have holes. Only known records count: control batches
and failed sends leave holes that nobody can see.

The order of effect: if a is done before b is sent, b is not in the log when a is, so a's offset is
lower; with acks=1 as well, if both are committed (the log that a was appended to and the final one
agree up to a: log matching). A lost record is reported as that, not again by the reads that pass
over it or by what took its place. Names of kinds are those of Jepsen's `jepsen.tests.kafka` where
it has one.
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
