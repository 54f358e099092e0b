"""`bootstrap.checkpoint`: the metadata that a folder was formatted with (BootstrapDirectory).

It is a snapshot of metadata records beside the log. The first active controller of a cluster puts
its own folder's into the log; without the file a cluster begins as Kafka 4.3 would begin it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cluster.node.controller.records import (
    MetadataRecord,
    MetadataRecordError,
    decode_record,
    encode_record,
)
from cluster.node.log.metadata.snapshot import (
    BOOTSTRAP_ID,
    CorruptSnapshotError,
    SnapshotEncoder,
    parse_snapshot,
)
from cluster.node.ports import Disk

FILE_NAME: Final = "bootstrap.checkpoint"


def bootstrap_content(records: Sequence[MetadataRecord], timestamp_ms: int) -> bytes:
    """Return what the file holds."""
    encoder = SnapshotEncoder(BOOTSTRAP_ID, timestamp_ms)
    values = [encode_record(record) for record in records]
    return encoder.header() + encoder.records(values) + encoder.footer()


def read_bootstrap(disk: Disk) -> tuple[MetadataRecord, ...]:
    """Return the records in a node's folder; none when it has no such file.

    Raises OSError, CorruptSnapshotError.
    """
    if not disk.exists(FILE_NAME):
        return ()
    snapshot = parse_snapshot(FILE_NAME, BOOTSTRAP_ID, disk.read(FILE_NAME))
    try:
        return tuple(decode_record(value)[0] for value in snapshot.values())
    except MetadataRecordError as error:
        raise CorruptSnapshotError(FILE_NAME, 0, 0, str(error)) from error
