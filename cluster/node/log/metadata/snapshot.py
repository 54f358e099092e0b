"""Snapshot files (KIP-630): names, how their batches are made, how they are read back.

A snapshot stands for all records below its id's offset; the epoch is that of the last of them. Its
file `%020d-%010d.checkpoint` holds version 2 batches with offsets of their own, from 0 on:

1. a control batch that begins with a SnapshotHeader (and may hold KRaftVersion and Voters),
2. batches of metadata records,
3. a control batch that ends with a SnapshotFooter, and nothing after it.

All batches carry the snapshot's epoch and the time of the last record that it contains, no clock:
so replicas that snapshot equal state at one offset write equal bytes, and can be compared.

`.checkpoint.part` is a file that is being written, `.checkpoint.deleted` one about to be removed.
The snapshot 0-0 is a bootstrap checkpoint: it stands for no record and is never replicated.
Sources: Snapshots.java, RecordsSnapshotWriter.java, RecordsSnapshotReader.java.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cluster.node.log.batch.control import (
    ControlMessage,
    SnapshotFooter,
    SnapshotHeader,
    decode_control,
    encode_control,
)
from cluster.node.log.batch.records import (
    BatchHeader,
    CorruptBatchError,
    Record,
    decode_records,
    encode_batch,
    iter_batches,
)
from cluster.node.log.storage.recovery import CorruptLogError
from cluster.node.log.types import OffsetAndEpoch
from cluster.values import valueclass

BOOTSTRAP_ID = OffsetAndEpoch(0, 0)
SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"
DELETED_SUFFIX = ".checkpoint.deleted"
_NAME = re.compile(r"(\d{20})-(\d{10})(\.checkpoint(?:\.part|\.deleted)?)")


class CorruptSnapshotError(CorruptLogError):
    """A snapshot that was durable is damaged or missing: the node must not start or go on."""


def snapshot_name(snapshot_id: OffsetAndEpoch, suffix: str = SUFFIX) -> str:
    """File name of a snapshot."""
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{suffix}"


def parse_snapshot_name(name: str) -> tuple[OffsetAndEpoch, str] | None:
    """Read id and suffix from a file name; None when it does not name a snapshot."""
    match = _NAME.fullmatch(name)
    return None if match is None else (OffsetAndEpoch(int(match[1]), int(match[2])), match[3])


class SnapshotEncoder:
    """Makes the batches of one snapshot, in order: `header`, `records`..., `footer`."""

    def __init__(self, snapshot_id: OffsetAndEpoch, last_contained_log_timestamp_ms: int) -> None:
        self._epoch = snapshot_id.epoch
        self._timestamp_ms = last_contained_log_timestamp_ms
        self._next_offset = 0

    def header(self, control: Sequence[ControlMessage] = ()) -> bytes:
        """Return the first batch; `control` follows the SnapshotHeader in it."""
        assert self._next_offset == 0, "the header comes first"
        return self._control(SnapshotHeader(self._timestamp_ms), *control)

    def records(self, values: Sequence[bytes]) -> bytes:
        """Return one batch of metadata records; raises ValueError for none."""
        assert self._next_offset > 0, "the header comes first"
        return self._batch([Record(value) for value in values], control=False)

    def footer(self) -> bytes:
        """Return the last batch."""
        return self._control(SnapshotFooter())

    def _control(self, *messages: ControlMessage) -> bytes:
        return self._batch([encode_control(message) for message in messages], control=True)

    def _batch(self, records: list[Record], *, control: bool) -> bytes:
        base_offset = self._next_offset
        self._next_offset += len(records)
        return encode_batch(base_offset, self._epoch, records, self._timestamp_ms, control=control)


@valueclass
class Snapshot:
    """A whole snapshot, verified."""

    id: OffsetAndEpoch
    last_contained_log_timestamp_ms: int
    control: tuple[ControlMessage, ...]
    """What stands in the first batch behind the header."""
    data: bytes
    """The file's content."""

    def values(self) -> Iterator[bytes]:
        """Yield the values of the metadata records, in order."""
        for header, batch in iter_batches(self.data):
            if not header.is_control:
                for record in decode_records(batch):
                    assert record.value is not None, "a metadata record without a value"
                    yield record.value


def parse_snapshot(path: str, snapshot_id: OffsetAndEpoch, data: bytes) -> Snapshot:
    """Verify a snapshot's content; `path` is for errors. Raises CorruptSnapshotError."""
    position, next_offset = 0, 0
    messages: list[ControlMessage | None] = []
    try:
        for header, batch in iter_batches(data):
            _check_place(header, snapshot_id, next_offset, messages)
            messages += _check_records(header, batch)
            position += header.size_bytes
            next_offset = header.next_offset
    except CorruptBatchError as error:
        reason = str(error).partition(": ")[2] or str(error)
        raise CorruptSnapshotError(path, position, next_offset, reason) from error
    first = messages[0] if messages else None
    if not isinstance(first, SnapshotHeader):
        raise CorruptSnapshotError(path, 0, 0, "it does not begin with a header")
    if not isinstance(messages[-1], SnapshotFooter):
        raise CorruptSnapshotError(path, position, next_offset, "it ends without a footer")
    others = [m for m in messages[1:] if m is not None and not isinstance(m, SnapshotFooter)]
    timestamp_ms = first.last_contained_log_timestamp_ms
    return Snapshot(snapshot_id, timestamp_ms, tuple(others), data)


def _check_place(
    header: BatchHeader,
    snapshot_id: OffsetAndEpoch,
    next_offset: int,
    before: Sequence[ControlMessage | None],
) -> None:
    if header.base_offset != next_offset:
        raise CorruptBatchError(f"offset {header.base_offset}, not {next_offset}")
    if header.partition_leader_epoch != snapshot_id.epoch:
        raise CorruptBatchError(f"epoch {header.partition_leader_epoch}")
    if next_offset == 0 and not header.is_control:
        raise CorruptBatchError("it does not begin with a header")
    if before and isinstance(before[-1], SnapshotFooter):
        raise CorruptBatchError("a batch after the footer")


def _check_records(header: BatchHeader, batch: bytes) -> list[ControlMessage | None]:
    """Return the control messages of a batch, None for those that we do not know."""
    if header.is_control:
        return [decode_control(record) for record in decode_records(batch)]
    return []  # the CRC is right: what the records mean is found out when they are replayed
