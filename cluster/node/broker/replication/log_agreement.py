"""How a log is made to agree with the log that it copies: its leader's, or one on this broker.

A log that has the same epoch at the same offset as another is equal to it below (KIP-101): so two
logs are compared by the epoch of the last record of the one that copies, and by where that epoch
ends in the other.
"""

from __future__ import annotations

from cluster.node.log.data.data_config import UnexpectedAppendOffsetError
from cluster.node.log.data.data_log import DataLog
from cluster.node.log.types import OffsetAndEpoch


def agreed_end(log: DataLog, source_end: OffsetAndEpoch) -> int:
    """Return where a log may still agree with one whose epoch ends at `source_end`.

    When it lacks that epoch, the epoch before it is compared next: the log is cut at its end, and
    the next comparison names it (KIP-279).
    """
    own_end = log.end_offset_for_epoch(source_end.epoch)
    if own_end is None or own_end.epoch == source_end.epoch:
        own = log.end_offset if own_end is None else own_end.offset
        return min(own, source_end.offset)
    return min(own_end.offset, log.end_offset)


def append_copied(log: DataLog, records: bytes, leader_epoch: int) -> None:
    """Append batches of the log that is copied, none of a later epoch than `leader_epoch`.

    Raises AppendError, UnexpectedAppendOffsetError, StorageError.
    """
    try:
        log.append_as_follower(records, leader_epoch)
    except UnexpectedAppendOffsetError as error:
        is_empty = log.start_offset == log.end_offset
        if not is_empty or not error.first_offset < log.end_offset <= error.last_offset:
            raise
        # The other log begins within its first batch (DeleteRecords).
        log.truncate_fully_and_start_at(error.first_offset)
        log.append_as_follower(records, leader_epoch)
