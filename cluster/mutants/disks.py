"""The mutants of durability on one node: early acknowledgement, careless recovery, snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from cluster.mutants.mutations import always, mutant
from cluster.node.controller.metadata import snapshot_generator
from cluster.node.controller.metadata.image_writer import image_records
from cluster.node.controller.metadata.state import MetadataState
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.kinds import ProducerIdsRecord
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.replicated_log import ReplicatedLog
from cluster.node.kraft.snapshot_store import SnapshotFile
from cluster.node.log.batch.records import BatchHeader, CorruptBatchError, parse_header
from cluster.node.log.metadata import log as log_module
from cluster.node.log.storage import recovery
from cluster.node.log.storage.recovery import Recovered
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Disk

_FLUSH_LOG = RaftCore.flush_log
_RECOVER = recovery.recover


def _m14_alone_is_enough(self: RaftCore) -> None:
    leader = self.leader
    alone = leader is not None and self.quorum.is_only_voter
    if alone and leader is not None and leader.update_local(self.log.end_offset):
        self.leader_high_watermark_moved(leader)
    _FLUSH_LOG(self)


def _m40_by_length(
    data: bytes | memoryview, position: int = 0, *, gaps: bool = False
) -> BatchHeader:
    del gaps
    header = parse_header(data, position)
    if position + header.size_bytes > len(data):
        raise CorruptBatchError(f"batch at byte {position}: cut off")
    return header


def _m40_keep_tail(disk: Disk, directory: str) -> Recovered:
    return replace(_RECOVER(disk, directory), truncated_bytes=0)


# -- snapshots -------------------------------------------------------------------------------------


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
    mutant(
        "M26",
        "names a snapshot by the last offset that it contains (KAFKA-14618, KAFKA-14619)",
        "state machine safety: a replica that loads it replays a record twice, or can never go on",
        (ReplicatedLog, "create_new_snapshot", _m26_inclusive_id),
    ),
    mutant(
        "M26I",
        "leaves the next producer id out of its snapshots",
        "idempotence: who begins from one gives the same ids again",
        (snapshot_generator, "image_records", _m26i_without_ids),
    ),
    mutant(
        "M27",
        "renames a snapshot before its content is fsynced (KAFKA-15312)",
        "durability: the power leaves a torn checkpoint, and the node cannot start",
        (SnapshotFile, "freeze", _m27_rename_first),
    ),
    mutant(
        "M14",
        "a single voter acknowledges before its fsync (Kafka's trunk moves the high watermark so)",
        "durability: an acknowledged write is lost with the power",
        (RaftCore, "flush_log", _m14_alone_is_enough),
    ),
    mutant(
        "M40",
        "recovers its log without checking it: no CRC, no recovery point, a torn tail is kept",
        "durability: damaged and lost records are taken for the log, and it votes with them",
        (recovery, "check_batch", _m40_by_length),
        (recovery, "_check_torn", always(None)),
        (recovery, "decode_recovery_point", always(0)),
        (log_module, "recover", _m40_keep_tail),
    ),
)
