"""Which replicas were certainly in sync when a run was over.

The metadata log says who is in a partition's ISR. How far it was committed is not known exactly: a
node announces less than there is, and a record at the end may never have been committed. So a
replica counts that is in the ISR of the highest state announced as committed, and of every later
one up to the end of the longest log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from checkers.evidence import Evidence, LogRecord
from checkers.snapshots import Image

_CHANGES = ("PartitionRecord", "PartitionChangeRecord")


def longest_log(evidence: Evidence) -> str | None:
    """Name the node with the longest log of metadata."""
    ends = {node: log[-1].offset for node, log in evidence.logs.items() if log}
    return max(sorted(ends), key=lambda node: ends[node], default=None)


def begun(image: Image, evidence: Evidence, node: str, offset: int) -> bool:
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
    if not begun(image, evidence, node, log[0].offset):
        return None
    committed = _announced(evidence)
    for record in log:
        if record.offset < committed:
            image.add(record.kind, record.value)
    members = dict(_members(image))
    for record in _behind(log, committed):
        image.add(record.kind, record.value)
        if record.kind in _CHANGES:
            for partition, isr in _members(image):
                members[partition] = members.get(partition, isr) & isr
    return members


def _announced(evidence: Evidence) -> int:
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


def _members(image: Image) -> Iterator[tuple[str, frozenset[str]]]:
    for key, value in image.keys.items():
        if key[0] == "partition":
            topic = image.keys.get(("topic", key[1]), {}).get("name")
            isr = value.get("isr")
            if isinstance(topic, str) and isinstance(isr, list):
                yield f"{topic}-{key[2]}", frozenset(f"n{broker}" for broker in isr)
