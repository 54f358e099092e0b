"""What the replicas of partitions hold on their disks, against each other and against the history.

docs/checkers.md#replica-logs has the kinds, assumptions and blind spots. Why they hold:

- A leader appends each offset once in its epoch, and a follower cuts its log back to where it
  agrees with its leader before it takes anything. So `log-mismatch` holds at any time, of
  uncommitted records and of replicas that lag as well.
- A replica saves what was committed when it learned of it (`committed-differs`), but one that lags
  may hold other records *above* its own high watermark.

*In sync* are the members of ISR and ELR at the end (`nodes.in_sync`), and replicas at the end that
answered a `poll-all` after the heal, for what was done before that was invoked: it showed the log
whole, and nothing may be lost any more. With acks=1 an acknowledged record that nobody read is owed
by nobody.

A topic that was deleted and made anew is left out: logs and traces do not say which one it was. Of
one for which the history sets `unclean.leader.election.enable`, anything may be lost that was
committed, with a leader that lacks it; what is left agrees: `offset-gap`, `epoch-decrease`,
`log-mismatch`, `two-leaders` and `epoch-back` judge it still. What retention deletes is below where
a log begins, and not compared.

Never may more replicas of a partition lose what they had not synced than min.insync.replicas allows
(power loss: less than that many between two times at which the ISR was whole), nor any where all
ended uncleanly at one time, as the last leader leads then with what it has left (KIP-966).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

from checkers.evidence import TEXT_MAX, DataBatch, Evidence, PartitionLog
from checkers.evidence.evidence_result import evidence_result
from checkers.evidence.trace_fields import well_formed
from checkers.history import INFINITY_NS, EventType, Operation, seconds
from checkers.nodes.in_sync import Members, members_at_end
from checkers.nodes.replica_traces import trace_anomalies
from checkers.partition_logs.columns import CONFIGURE, POLL, POLL_ALL, RENEW, SEND, UNCLEAN
from checkers.run_input import RunInput
from checkers.runs.faults import active_between, fault_spans, named_faults, phases
from checkers.transactions.atomic_rules import LATE, READ, READ_ALL, READ_UNCOMMITTED, TXN
from checkers.transactions.list_append import WRITER
from checkers.verdict import Anomaly, CheckResult, anomaly
from porcupine_py.search.outcome import Cancelled, never

NAME = "replica-logs"
_FAULTS_MAX = 4
_TRANSACTIONS = frozenset({TXN, TXN + LATE, READ, READ_ALL, READ_UNCOMMITTED})
"""Operations that are steps of `checkers.transactions`, and keep what they show when ok."""
_MISSING_MAX = 5
"""Records that one replica lacks which are explained; all are counted."""


@dataclass(frozen=True)
class _Replica:
    """One log, and how it is looked into."""

    log: PartitionLog

    @cached_property
    def by_offset(self) -> Mapping[int, DataBatch]:
        return {batch.base_offset: batch for batch in self.log.batches}

    @cached_property
    def values(self) -> Mapping[int, str | None]:
        return {
            batch.base_offset + number: value
            for batch in self.log.batches
            for number, value in enumerate(batch.values)
        }

    @cached_property
    def texts(self) -> frozenset[str | None]:
        return frozenset(self.values.values())

    @property
    def begin(self) -> int:
        return self.log.batches[0].base_offset if self.log.batches else self.log.end_offset


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Judge all replicas of all partitions."""
    del cancelled  # one pass
    evidence, malformed = well_formed(run.required_evidence)
    replicas: dict[str, list[_Replica]] = defaultdict(list)
    missing = [f"{node} (logs)" for node in evidence.nodes if node not in evidence.partition_logs]
    renewed, lossy = _topics(run, _renews), _topics(run, _lets_lose)
    logs = (log for many in evidence.partition_logs.values() for log in many)
    for log in (log for log in logs if _topic(log.partition) not in renewed):
        if log.damage is None:
            replicas[log.partition].append(_Replica(log))
        else:
            missing.append(f"{log.node} ({log.partition} is damaged: {log.damage})")
    anomalies: list[Anomaly] = list(trace_anomalies(evidence, renewed, lossy))
    missing += malformed
    for partition in sorted(replicas):
        for replica in replicas[partition]:
            anomalies += _form_anomalies(replica.log)
        for one, other in combinations(replicas[partition], 2):
            anomalies += _compare(partition, one, other, may_lose=_topic(partition) in lossy)
    members = members_at_end(evidence)
    if members is None:
        missing.append("the metadata log's beginning")
    for partition, of_partition in sorted((members or {}).items()):
        anomalies += _unwritten(partition, replicas.get(partition, []), of_partition)
    owed = _Owed(run, str(options.get("acks") or "all"))
    unknown = sorted(owed.records.keys() - (owed.records if members is None else members).keys())
    missing += [f"the metadata of {partition}" for partition in unknown]
    lacking = 0
    for partition in sorted({*replicas, *owed.records}):
        if _topic(partition) in lossy:
            continue
        of_partition = (members or {}).get(partition, Members())
        found, count = _lacking(run, evidence, partition, replicas[partition], of_partition, owed)
        anomalies += found
        lacking += count
    batches = sum(len(each.log.batches) for many in replicas.values() for each in many)
    logs_seen = sum(map(len, replicas.values()))
    return evidence_result(
        NAME,
        anomalies,
        missing=missing,
        cancelled=False,
        exercised=batches > 0,
        good=f"{logs_seen} logs of {len(replicas)} partitions agree in {batches} batches, and "
        f"replicas in sync hold {owed.count} records that were acknowledged or read",
        looked_at=batches,
        statistics={
            "logs": logs_seen,
            "batches": batches,
            "records_owed": owed.count,
            "records_missing": lacking,
        },
    )


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]


def _topics(run: RunInput, does: Callable[[Operation], bool]) -> set[str]:
    """Return the topics of operations that do something."""
    return {_topic(str(operation.key)) for operation in run.operations if does(operation)}


def _renews(operation: Operation) -> bool:
    return operation.f == RENEW


def _lets_lose(operation: Operation) -> bool:
    """Whether this may have let a topic's leaders be elected uncleanly."""
    if operation.f != CONFIGURE or operation.type is EventType.FAIL:
        return False
    return bool(operation.input == {"name": UNCLEAN, "value": "true"})


def _form_anomalies(log: PartitionLog) -> Iterator[Anomaly]:
    for before, after in pairwise(log.batches):
        where = f"the log of {log.partition} on {log.node}"
        if after.base_offset != before.last_offset + 1:
            text = f"{where} goes from offset {before.last_offset} to {after.base_offset}"
            yield _anomaly("offset-gap", text, log, after.base_offset, after.epoch)
            return
        if after.epoch < before.epoch:
            at = f"at offset {after.base_offset}"
            text = f"{where} goes back from epoch {before.epoch} to {after.epoch} {at}"
            yield _anomaly("epoch-decrease", text, log, after.base_offset, after.epoch)
            return


def _compare(
    partition: str, one: _Replica, other: _Replica, *, may_lose: bool
) -> Iterator[Anomaly]:
    """Find the first batch in which two replicas must not differ and do.

    `may_lose`: what was committed may be lost.
    """
    floor = max(one.begin, other.begin)
    agreed = next(
        (
            batch.base_offset
            for batch in reversed(one.log.batches)
            if (same := other.by_offset.get(batch.base_offset)) is not None
            and same.epoch == batch.epoch
        ),
        -1,
    )
    marks = [log.high_watermark for log in (one.log, other.log)]
    committed = min(
        (min(mark or 0, r.log.end_offset) for mark, r in zip(marks, (one, other), strict=True))
    )
    for batch in one.log.batches:
        offset = batch.base_offset
        same = other.by_offset.get(offset)
        if offset < floor or (same is not None and _equal(batch, same)):
            continue
        if offset <= agreed:
            kind, why = (
                "log-mismatch",
                f"though both have epoch {one.by_offset[agreed].epoch} at {agreed}",
            )
        elif batch.last_offset < committed and not may_lose:
            kind, why = "committed-differs", f"below both high watermarks, {committed} or more"
        else:
            continue
        holds = "nothing that begins there" if same is None else _describe(same)
        text = (
            f"{partition}: at offset {offset} {one.log.node} holds {_describe(batch)} and "
            f"{other.log.node} {holds}, {why}"
        )
        yield _anomaly(kind, text, one.log, offset, batch.epoch)
        return


def _equal(one: DataBatch, other: DataBatch) -> bool:
    mine, its = (one.last_offset, one.epoch, one.crc), (other.last_offset, other.epoch, other.crc)
    return mine == its


def _describe(batch: DataBatch) -> str:
    records = batch.last_offset - batch.base_offset + 1
    first = f", first {batch.values[0]!r}" if batch.values else ""
    return f"a batch of {records} of epoch {batch.epoch} (CRC {batch.crc:#010x}{first})"


def _unwritten(partition: str, replicas: Sequence[_Replica], members: Members) -> Iterator[Anomaly]:
    """Find batches of epochs that no leader had, or of the last one that its leader lacks."""
    ends = {replica.log.node: replica.log.end_offset for replica in replicas}
    leads = ends.get(members.leader)
    for replica in (replica for replica in replicas if replica.log.batches):
        last, log = replica.log.batches[-1], replica.log
        own = f"{partition}: the log of {log.node} ends at {log.end_offset} in epoch {last.epoch}"
        if last.epoch > members.epoch:
            text = f"{own}, though no leader was of a later epoch than {members.epoch}"
        elif leads is not None and last.epoch == members.epoch and log.end_offset > leads:
            text = f"{own}, and that of {members.leader}, which leads in it, at {leads}"
        else:
            continue
        yield _anomaly("unwritten", text, log, last.base_offset, last.epoch)


class _Owed:
    """What the history says that replicas in sync must hold."""

    def __init__(self, run: RunInput, acks: str) -> None:
        self.records: dict[str, dict[int | str, tuple[str, int, Operation]]] = defaultdict(dict)
        """Partition -> offset -> value, since when that is certain, the operation that says so.

        A transaction's steps name no offset: then the value, wherever it is."""
        self.polled: dict[tuple[str, str], int] = {}
        """(partition, node) -> when its last `poll-all` after the heal was invoked."""
        final_ns = dict(phases(run.notes)).get("final-reads", INFINITY_NS)
        for operation in run.operations:
            if operation.type is not EventType.OK:
                continue
            if operation.f in _TRANSACTIONS:
                self._add_steps(operation)
            elif operation.key is None:
                continue
            elif operation.f == SEND and acks == "all" and operation.offset is not None:
                sent = operation.input if isinstance(operation.input, list) else [operation.input]
                for number, value in enumerate(sent):
                    self._add(operation, operation.key, operation.offset + number, value)
            elif operation.f in (POLL, POLL_ALL) and isinstance(operation.output, dict):
                for offset, value in operation.output.get("records") or ():
                    self._add(operation, operation.key, offset, value)
                if operation.f == POLL_ALL and operation.invoke_ns >= final_ns and operation.node:
                    self.polled[operation.key, operation.node] = operation.invoke_ns

    def _add_steps(self, operation: Operation) -> None:
        for f, key, value in operation.output:
            values = {"r": value, WRITER: [value]}.get(f) or ()
            for each in values:
                self._add(operation, str(key), str(each), each)

    def _add(self, operation: Operation, key: str, place: int | str, value: object) -> None:
        known = self.records[key]
        if place not in known and value is not None:  # which nobody sends: check `log`
            known[place] = (str(value), operation.complete_ns, operation)

    @property
    def count(self) -> int:
        return sum(map(len, self.records.values()))


def _lacking(
    run: RunInput,
    evidence: Evidence,
    partition: str,
    replicas: Sequence[_Replica],
    members: Members,
    owed: _Owed,
) -> tuple[list[Anomaly], int]:
    """Find what replicas in sync lack: the anomalies that are explained, and the count of all."""
    logs = {replica.log.node: replica for replica in replicas}
    damaged = {
        log.node
        for many in evidence.partition_logs.values()
        for log in many
        if log.partition == partition and log.damage is not None
    }
    highest = max((r.log.high_watermark or 0 for r in replicas), default=0)
    until = {
        node: ns
        for (key, node), ns in owed.polled.items()
        if key == partition and node in members.replicas
    }
    until |= dict.fromkeys(members.in_sync, INFINITY_NS)
    anomalies: list[Anomaly] = []
    count = 0
    for node in sorted(until):
        if node not in evidence.partition_logs or node in damaged:
            continue  # reported as missing
        replica = logs.get(node) or _Replica(PartitionLog(node, partition, 0, 0, None, ()))
        end = replica.log.end_offset
        if node in members.in_sync and end < highest:
            text = (
                f"{partition}: the log of {node}, which is in the ISR, ends at offset {end}, below "
                f"the high watermark {highest} that a replica saved"
            )
            anomalies.append(_anomaly("committed-missing", text, replica.log, end, None))
        lacks = [
            (place, value, operation)
            for place, (value, since_ns, operation) in sorted(owed.records[partition].items())
            if since_ns < until[node] and not _holds(replica, place, value)
        ]
        count += len(lacks)
        for place, value, operation in lacks[:_MISSING_MAX]:
            anomalies.append(_unheld(run, replica, place, value, operation, len(lacks)))
    return anomalies, count


def _holds(replica: _Replica, place: int | str, value: str) -> bool:
    """Whether a record is there, or below where the log begins."""
    kept, start = value if len(value) <= TEXT_MAX else None, replica.log.start_offset
    if isinstance(place, str):
        return start > 0 or kept in replica.texts
    return place < start or (place in replica.values and replica.values[place] == kept)


def _unheld(
    run: RunInput, replica: _Replica, place: int | str, value: str, operation: Operation, count: int
) -> Anomaly:
    log, at = replica.log, ""
    if isinstance(place, int):
        held = replica.values.get(place)
        at = f" at offset {place}" + ("" if held is None else f", where it holds {held!r}")
    did = "acknowledged to producer" if operation.f == SEND else "read by consumer"
    did = "committed or read by client" if operation.f in (TXN, TXN + LATE) else did
    reign = "" if operation.epoch is None else f", epoch {operation.epoch}"
    text = (
        f"{log.partition}: the log of {log.node}, which is in sync, lacks {value!r}{at}; it was "
        f"{did} {operation.process!r} (operation {operation.index}{reign}, "
        f"by {operation.node} at {seconds(operation.complete_ns, 3)}), one of {count} such records"
    )
    active = active_between(fault_spans(run.notes), operation.invoke_ns, INFINITY_NS)
    if active:
        text += f"; faults since: {named_faults(active, _FAULTS_MAX)}"
    offset = place if isinstance(place, int) else log.end_offset
    found = _anomaly("acknowledged-missing", text, log, offset, operation.epoch)
    return {**found, "key": log.partition, "operations": [operation.index]}


def _anomaly(
    kind: str, explanation: str, log: PartitionLog, offset: int, epoch: int | None
) -> Anomaly:
    more = {} if epoch is None else {"epoch": epoch}
    return anomaly(kind, explanation, partition=log.partition, node=log.node, offset=offset, **more)
