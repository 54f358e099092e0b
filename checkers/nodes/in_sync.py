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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from checkers.evidence import Evidence
from checkers.nodes.snapshots import Image

_CHANGES = ("PartitionRecord", "PartitionChangeRecord")


def newest_log(evidence: Evidence) -> str | None:
    """Name the node with the log that an election would prefer; of such that which begins earliest.

    The longest log may be that of a leader that was cut off and wrote what was never committed. One
    that ends in the last epoch has what was committed before it (Raft 5.4.1).
    """
    logs = {node: log for node, log in sorted(evidence.logs.items()) if log}
    order = {node: (-log[-1].epoch, -log[-1].offset, log[0].offset) for node, log in logs.items()}
    return min(order, key=lambda node: order[node], default=None)


def replay_beginning(image: Image, evidence: Evidence, node: str, offset: int) -> bool:
    """Add up what a log's beginning holds in place of records; False where it is not there."""
    for snapshot in evidence.snapshots.get(node, ()):
        if snapshot.offset == offset:
            for kind, value in snapshot.records:
                image.add(kind, value)
            return True
    return offset == 0


@dataclass(frozen=True)
class Members:
    """The nodes of a partition's replicas, and those of them that are in sync."""

    replicas: frozenset[str] = frozenset()
    in_sync: frozenset[str] = frozenset()


def members_at_end(evidence: Evidence) -> Mapping[str, Members] | None:
    """Return them by partition (`d0-3`); None where the metadata log does not show it."""
    node = newest_log(evidence)
    if node is None:
        return None
    log = evidence.logs[node]
    image = Image()
    if not replay_beginning(image, evidence, node, log[0].offset):
        return None
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
                    former.replicas & later.replicas, former.in_sync & later.in_sync
                )
    return members


def _members(image: Image, serving: frozenset[str]) -> Iterator[tuple[str, Members]]:
    for key, value in image.keys.items():
        if key[0] == "partition":
            topic = image.keys.get(("topic", key[1]), {}).get("name")
            isr, elr = value.get("isr"), value.get("eligibleLeaderReplicas") or ()
            if isinstance(topic, str) and isinstance(isr, list):
                in_sync = _names(isr) | _names(elr) & serving
                yield f"{topic}-{key[2]}", Members(_names(value.get("replicas") or ()), in_sync)


def _names(brokers: Iterable[object]) -> frozenset[str]:
    return frozenset(f"n{broker}" for broker in brokers)
