"""Invariants of what a node does in its own time, and nobody waits for.

They read events that no node traces (`harness/sim/upkeep_sight.py`): `checkpoint-seen`, a high
watermark that has stood for so long and what the checkpoint on the disk has; `cleaning-seen`, for
how long log and snapshots have been larger than is kept; `file-left`, a file of a snapshot that is
neither being written nor waits to be removed; `move-seen`, a replica begins its way to another log
directory, and whether it has a folder there.
"""

from __future__ import annotations

from typing import Final

from checkers.invariants.fold import Broken, Invariant, Order
from checkers.invariants.sight import Fields

CHECKPOINT_MS: Final = 5_000.0
"""replica.high.watermark.checkpoint.interval.ms"""
SLACK_MS: Final = 1_000.0
"""What is due may wait for so long: for a node that was stopped, or for its disk."""


class _OfUpkeep(Invariant):
    unstored = "no trace holds what a node keeps on its disk"
    order = Order.NONE


class MarkCheckpointed(_OfUpkeep):
    """A high watermark is in its checkpoint two of the intervals later at the most.

    A broker that starts takes what is there for committed, and tells consumers no more.
    """

    name = "mark-checkpointed"
    source = "ReplicaManager, startHighWatermarkCheckPointThread"

    def on_checkpoint_seen(self, node: str, fields: Fields) -> Broken | None:
        """Judge what a disk has."""
        mark, saved, for_ms = fields["mark"], fields["saved"], fields["for_ms"]
        if saved >= mark or for_ms <= 2 * CHECKPOINT_MS + SLACK_MS:
            return None
        return Broken(
            f"{node} called all of {fields['name']} below {mark} committed {for_ms:.0f} ms ago, "
            f"and its checkpoint has {saved} still"
        )


class SnapshotsCleaned(_OfUpkeep):
    """An old snapshot goes, and the log below the next one, when both are larger than is kept.

    So do the files of snapshots that were not finished, at the next start, and deleted ones.
    """

    name = "snapshots-cleaned"
    source = "KIP-630, metadata.max.retention.bytes; KafkaMetadataLog, recoverSnapshots"

    def on_cleaning_seen(self, node: str, fields: Fields) -> Broken | None:
        """Judge for how long a log has been too large."""
        for_ms, interval_ms = fields["for_ms"], fields["interval_ms"]
        if for_ms <= interval_ms + SLACK_MS:
            return None
        return Broken(
            f"{node} keeps {fields['size_bytes']} bytes of log and snapshots, where "
            f"metadata.max.retention.bytes is {fields['kept_bytes']}, for {for_ms:.0f} ms, and "
            f"cleans every {interval_ms:g} ms"
        )

    def on_file_left(self, node: str, fields: Fields) -> Broken | None:
        """Judge a file that nobody uses."""
        return Broken(f"{node} keeps {fields['path']}, which it neither writes nor will remove")


class MoveKept(_OfUpkeep):
    """A replica that begins to move to another log directory has a folder there.

    By that folder a broker that starts finds the move again.
    """

    name = "move-kept"
    source = "KIP-113, LogManager.getOrCreateLog"

    def on_move_seen(self, node: str, fields: Fields) -> Broken | None:
        """Judge the begin of a move."""
        if fields["is_there"]:
            return None
        return Broken(f"{node} moves {fields['name']} to {fields['to_dir']} and makes no folder")


UPKEEP: tuple[type[Invariant], ...] = (MarkCheckpointed, SnapshotsCleaned, MoveKept)
