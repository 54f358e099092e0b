"""The mutants of durability on one node: acknowledging too early, recovering too much."""

from __future__ import annotations

from dataclasses import replace

from cluster.mutants.mutations import Mutant, Patch, always
from cluster.node.kraft.core import RaftCore
from cluster.node.log.batch.records import BatchHeader, CorruptBatchError, parse_header
from cluster.node.log.metadata import log as log_module
from cluster.node.log.storage import reader, recovery
from cluster.node.log.storage.recovery import Recovered
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


ALL = (
    Mutant(
        "M14",
        "a single voter acknowledges before its fsync (Kafka's trunk moves the high watermark so)",
        "durability: an acknowledged write is lost with the power",
        (Patch(RaftCore, "flush_log", _m14_alone_is_enough),),
    ),
    Mutant(
        "M40",
        "recovers its log without checking it: no CRC, no recovery point, a torn tail is kept",
        "durability: damaged and lost records are taken for the log, and it votes with them",
        (
            Patch(recovery, "check_batch", _m40_by_length),
            Patch(reader, "check_batch", _m40_by_length),
            Patch(recovery, "_check_torn", always(None)),
            Patch(recovery, "decode_recovery_point", always(0)),
            Patch(log_module, "recover", _m40_keep_tail),
        ),
    ),
)
