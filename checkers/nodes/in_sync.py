"""Which replicas a partition certainly had, and had in sync, when a run was over.

The metadata log holds each partition's ISR. How far it was committed is not known exactly: a
node announces less than there is, and a record at the end may never have been committed. So a
replica counts that is in the ISR of the highest state announced as committed, and of every later
one up to the end of the newest log.

A member of the ELR counts like one of the ISR if its broker served clients after the heal
(LeaderCandidateCompleteness of KIP-966's specification): what was committed cannot grow while the
ISR is below min.insync.replicas, and a broker that may have lost something leaves the ELR
as it registers, before it serves.

A reassignment that ends after the last fault takes replicas away that were in sync before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from checkers.evidence import Evidence, LogRecord
from checkers.nodes.snapshots import Image, beginning, image_of

_CHANGES = ("PartitionRecord", "PartitionChangeRecord")


def newest_log(evidence: Evidence) -> str | None:
    """Name the node with the log that an election would prefer; of such that which begins earliest.

    The longest log may be that of a leader that was cut off and wrote what was never committed. One
    that ends in the last epoch has what was committed before it (Raft 5.4.1).
    """
    logs = {node: log for node, log in sorted(evidence.logs.items()) if log}
    order = {node: (-log[-1].epoch, -log[-1].offset, log[0].offset) for node, log in logs.items()}
    return min(order, key=lambda node: order[node], default=None)


def newest_records(evidence: Evidence) -> Sequence[LogRecord]:
    """Return the newest log, with what another one holds of before its begin.

    A node that was given a snapshot has no more. By Log Matching (Raft 5.3) all below is the same
    where the first record is.
    """
    node = newest_log(evidence)
    if node is None:
        return ()
    log, logs = evidence.logs[node], filter(None, evidence.logs.values())
    for other in sorted(logs, key=lambda one: one[0].offset):
        below = bisect_left(other, log[0].offset, key=lambda record: record.offset)
        same = other[below : below + 1]
        if below and any((r.epoch, r.batch_crc) == (log[0].epoch, log[0].batch_crc) for r in same):
            return [*other[:below], *log]
    return log


@dataclass(frozen=True)
class Members:
    """The nodes of a partition's replicas, and those of them that are in sync."""

    replicas: frozenset[str] = frozenset()
    in_sync: frozenset[str] = frozenset()
    leader: str = ""
    """By the newest state, committed or not; of `epoch`."""
    epoch: int = -1


def members_at_end(evidence: Evidence) -> Mapping[str, Members] | None:
    """Return them by partition (`d0-3`); None where the metadata log does not show it."""
    node = newest_log(evidence)
    if node is None:
        return None
    known = beginning(evidence, evidence.logs[node])
    if known is None:
        return None
    oldest, log = known
    image = image_of(oldest.records)
    committed = evidence.announced_end()
    for record in log:
        if record.offset < committed:
            image.add(record.kind, record.value)
    serving = frozenset(evidence.final_reads)
    members = dict(_members(image, serving))
    for record in (r for r in log if r.offset >= committed):
        image.add(record.kind, record.value)
        if record.kind in _CHANGES:
            for partition, later in _members(image, serving):
                former = members.get(partition, later)
                members[partition] = Members(
                    former.replicas & later.replicas,
                    former.in_sync & later.in_sync,
                    later.leader,
                    later.epoch,
                )
    return members


def _members(image: Image, serving: frozenset[str]) -> Iterator[tuple[str, Members]]:
    for key, value in image.keys.items():
        if key[0] == "partition":
            topic = image.keys.get(("topic", key[1]), {}).get("name")
            isr, elr = value.get("isr"), value.get("eligibleLeaderReplicas") or ()
            if isinstance(topic, str) and isinstance(isr, list):
                in_sync = _names(isr) | _names(elr) & serving
                replicas, leader = _names(value.get("replicas") or ()), f"n{value.get('leader')}"
                members = Members(replicas, in_sync, leader, int(value.get("leaderEpoch", 0)))
                yield f"{topic}-{key[2]}", members


def _names(brokers: Iterable[object]) -> frozenset[str]:
    return frozenset(f"n{broker}" for broker in brokers)
