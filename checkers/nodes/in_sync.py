"""Which replicas were certainly in sync when a run was over.

The metadata log holds each partition's ISR. How far it was committed is not known exactly: a
node announces less than there is, and a record at the end may never have been committed. So a
replica counts that is in the ISR of the highest state announced as committed, and of every later
one up to the end of the longest log.

A member of the ELR counts like one of the ISR if its broker served clients after the heal
(LeaderCandidateCompleteness of KIP-966's specification): what was committed cannot grow while the
ISR is below min.insync.replicas, and a broker that may have lost something leaves the ELR
as it registers, before it serves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from checkers.evidence import Evidence, LogRecord
from checkers.nodes.snapshots import Image

_CHANGES = ("PartitionRecord", "PartitionChangeRecord")


def longest_log(evidence: Evidence) -> str | None:
    """Name the node with the longest log of metadata."""
    ends = {node: log[-1].offset for node, log in evidence.logs.items() if log}
    return max(sorted(ends), key=lambda node: ends[node], default=None)


def replay_beginning(image: Image, evidence: Evidence, node: str, offset: int) -> bool:
    """Add up what a log's beginning holds in place of records; False where it is not there."""
    for snapshot in evidence.snapshots.get(node, ()):
        if snapshot.offset == offset:
            for kind, value in snapshot.records:
                image.add(kind, value)
            return True
    return offset == 0


def in_sync_at_end(evidence: Evidence) -> Mapping[str, frozenset[str]] | None:
    """Return the nodes by partition (`d0-3`); None where the metadata log does not show it."""
    node = longest_log(evidence)
    if node is None:
        return None
    log = evidence.logs[node]
    image = Image()
    if not replay_beginning(image, evidence, node, log[0].offset):
        return None
    committed = announced_end(evidence)
    for record in log:
        if record.offset < committed:
            image.add(record.kind, record.value)
    serving = frozenset(evidence.final_reads)
    members = dict(_members(image, serving))
    for record in _behind(log, committed):
        image.add(record.kind, record.value)
        if record.kind in _CHANGES:
            for partition, isr in _members(image, serving):
                members[partition] = members.get(partition, isr) & isr
    return members


def announced_end(evidence: Evidence) -> int:
    """Return the highest high watermark of the metadata that any node traced."""
    return max(
        (
            offset
            for trace in evidence.traces.values()
            for event in trace
            if event.event == "hw" and type(offset := event.fields.get("offset")) is int
        ),
        default=0,
    )


def _behind(log: Sequence[LogRecord], committed: int) -> Iterator[LogRecord]:
    return (record for record in log if record.offset >= committed)


def _members(image: Image, serving: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for key, value in image.keys.items():
        if key[0] == "partition":
            topic = image.keys.get(("topic", key[1]), {}).get("name")
            isr, elr = value.get("isr"), value.get("eligibleLeaderReplicas") or ()
            if isinstance(topic, str) and isinstance(isr, list):
                eligible = frozenset(f"n{broker}" for broker in elr) & serving
                yield f"{topic}-{key[2]}", frozenset(f"n{broker}" for broker in isr) | eligible
