"""Invariants of what a node does in its own time, and nobody waits for.

They read events that no node traces (`harness/sim/upkeep_sight.py`): `checkpoint-seen`, a high
watermark that has stood for so long and what the checkpoint on the disk has; `cleaning-seen`, for
how long log and snapshots have been larger than is kept; `file-left`, a file of a snapshot that is
neither being written nor waits to be removed; `move-seen`, a replica begins its way to another log
directory, and whether it has a folder there; `logs-seen`, the log directories in which a broker has
a log of a partition, or a future log; `request-late`, a request that a broker took so long
ago and has not answered, and for how long it was to wait; `entry-seen`, an entry of the offset
index of a segment, and the last offset of the batch to which it points; `watch-left`, how many
Fetch sessions or requests a broker watches partitions for that are over.
"""

from __future__ import annotations

from typing import Final

from checkers.invariants.fold import Broken, Invariant
from checkers.invariants.sight import Fields

CHECKPOINT_MS: Final = 5_000.0
"""replica.high.watermark.checkpoint.interval.ms"""
SLACK_MS: Final = 1_000.0
"""What is due may wait for so long: for a node that was stopped, or for its disk."""


class MarkCheckpointed(Invariant):
    """A high watermark is in its checkpoint two of the intervals later at the most.

    A broker that starts takes what is there for committed, and tells consumers no more.
    """

    name = "mark-checkpointed"
    source = "ReplicaManager, startHighWatermarkCheckPointThread"

    def on_checkpoint_seen(self, node: str, fields: Fields) -> Broken | None:
        mark, saved, for_ms = fields["mark"], fields["saved"], fields["for_ms"]
        if saved >= mark or for_ms <= 2 * CHECKPOINT_MS + SLACK_MS:
            return None
        return Broken(
            f"{node} called all of {fields['name']} below {mark} committed {for_ms:.0f} ms ago, "
            f"and its checkpoint has {saved} still"
        )


class SnapshotsCleaned(Invariant):
    """An old snapshot goes, and the log below the next one, when both are larger than is kept.

    So do the files of snapshots that were not finished, at the next start, those of downloads that
    were given up, at once, and deleted ones.
    """

    name = "snapshots-cleaned"
    source = "KIP-630, metadata.max.retention.bytes; KafkaMetadataLog, recoverSnapshots"

    def on_cleaning_seen(self, node: str, fields: Fields) -> Broken | None:
        for_ms, interval_ms = fields["for_ms"], fields["interval_ms"]
        if for_ms <= interval_ms + SLACK_MS:
            return None
        return Broken(
            f"{node} keeps {fields['size_bytes']} bytes of log and snapshots, where "
            f"metadata.max.retention.bytes is {fields['kept_bytes']}, for {for_ms:.0f} ms, and "
            f"cleans every {interval_ms:g} ms"
        )

    def on_file_left(self, node: str, fields: Fields) -> Broken | None:
        return Broken(f"{node} keeps {fields['path']}, which it neither writes nor will remove")


class MoveKept(Invariant):
    """A replica that begins to move to another log directory has a folder there.

    By that folder a broker that starts finds the move again. One that a crash left with two logs of
    a partition, or two future ones, leaves one of them: whichever it finds first would be read.
    """

    name = "move-kept"
    source = "KIP-113, LogManager.getOrCreateLog, loadLogs"

    def on_move_seen(self, node: str, fields: Fields) -> Broken | None:
        if fields["is_there"]:
            return None
        return Broken(f"{node} moves {fields['name']} to {fields['to_dir']} and makes no folder")

    def on_logs_seen(self, node: str, fields: Fields) -> Broken | None:
        directories = fields["directories"]
        if len(directories) < 2:
            return None
        return Broken(
            f"{node} has a {fields['log']} of {fields['name']} in {' and '.join(directories)}"
        )


class AnsweredInTime(Invariant):
    """A request that says for how long it may wait is answered by then, with what there is.

    Fetch, Produce and DeleteRecords wait for other brokers, and for nothing else: whatever becomes
    of those, or of a disk, their time ends.
    """

    name = "answered-in-time"
    source = "DelayedOperation.java; fetch.max.wait.ms, timeout.ms"

    def on_request_late(self, node: str, fields: Fields) -> Broken | None:
        for_ms, waits_ms = fields["for_ms"], fields["waits_ms"]
        if for_ms <= waits_ms + SLACK_MS:
            return None
        return Broken(
            f"{node} took a {fields['request']} {for_ms:.0f} ms ago that was to wait "
            f"{waits_ms:g} ms at the most, and has not answered it"
        )


class WatchesEnd(Invariant):
    """What a broker watches for a Fetch session, or a request that waits, ends with that.

    Both are bounded, and what is left of each would grow for as long as the broker runs.
    """

    name = "watches-end"
    source = "KIP-227, max.incremental.fetch.session.cache.slots; DelayedOperationPurgatory.java"

    def on_watch_left(self, node: str, fields: Fields) -> Broken | None:
        count, what = fields["count"], fields["what"]
        return Broken(f"{node} watches partitions for {count} x {what} that it has no more")


class BatchesIndexed(Invariant):
    """An entry that a broker adds to an offset index points at the batch whose end it names.

    By one that does not a read begins elsewhere. A file of an index is a hint, which a crash or
    damage may leave wrong: what a broker has read from it is not judged.
    """

    name = "batches-indexed"
    source = "OffsetIndex.java; DumpLogSegments, index mismatches"

    def on_entry_seen(self, node: str, fields: Fields) -> Broken | None:
        if fields["found"] == fields["offset"]:
            return None
        return Broken(
            f"{node} has an entry in the index of {fields['path']} by which the batch that ends "
            f"at offset {fields['offset']} begins at byte {fields['position']}, where "
            + ("no batch begins" if fields["found"] is None else f"one ends at {fields['found']}")
        )


UPKEEP: tuple[type[Invariant], ...] = (
    MarkCheckpointed,
    SnapshotsCleaned,
    MoveKept,
    AnsweredInTime,
    WatchesEnd,
    BatchesIndexed,
)
