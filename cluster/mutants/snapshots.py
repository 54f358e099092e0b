"""The mutants of snapshots: what they do wrong, in code (see `cluster.mutants`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from cluster.mutants.mutations import Mutant, Patch
from cluster.node.controller.metadata import snapshot_generator
from cluster.node.controller.metadata.image_writer import image_records
from cluster.node.controller.metadata.state import MetadataState
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.system import ProducerIdsRecord
from cluster.node.kraft.replicated_log import ReplicatedLog
from cluster.node.kraft.snapshot_store import SnapshotFile
from cluster.node.log.types import OffsetAndEpoch


def _m26_inclusive_id(self: ReplicatedLog, snapshot_id: OffsetAndEpoch) -> SnapshotFile | None:
    # The id says where the log goes on; here it is the last offset that the snapshot contains,
    # which is also within a batch unless that has one record.
    inclusive = replace(snapshot_id, offset=snapshot_id.offset - 1)
    if inclusive.offset <= self.start_offset or inclusive in self.snapshots:
        return None
    return self.snapshots.begin(inclusive)


def _m27_rename_first(self: SnapshotFile, done: Callable[[], None]) -> None:
    self.frozen = True
    self.publish(done)


def _m26i_without_ids(state: MetadataState) -> Iterator[MetadataRecord]:
    for record in _IMAGE_RECORDS(state):
        if not isinstance(record, ProducerIdsRecord):
            yield record


_IMAGE_RECORDS = image_records


ALL = (
    Mutant(
        "M26",
        "names a snapshot by the last offset that it contains (KAFKA-14618, KAFKA-14619)",
        "state machine safety: a replica that loads it replays a record twice, or can never go on",
        (Patch(ReplicatedLog, "create_new_snapshot", _m26_inclusive_id),),
    ),
    Mutant(
        "M26I",
        "leaves the next producer id out of its snapshots",
        "idempotence: who begins from one gives the same ids again",
        (Patch(snapshot_generator, "image_records", _m26i_without_ids),),
    ),
    Mutant(
        "M27",
        "renames a snapshot before its content is fsynced (KAFKA-15312)",
        "durability: the power leaves a torn checkpoint, and the node cannot start",
        (Patch(SnapshotFile, "freeze", _m27_rename_first),),
    ),
)
