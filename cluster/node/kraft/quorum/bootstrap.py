"""The bootstrap checkpoint 0-0: the first voters of a quorum with voters in the log (KIP-853).

Written when a folder is formatted, never replicated: the first leader copies what it says into the
log. Source: Formatter.writeDynamicQuorumSnapshot.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.node.kraft.quorum.voters import VoterSet
from cluster.node.log.batch.control import KRaftVersion
from cluster.node.log.metadata.snapshot import (
    BOOTSTRAP_ID,
    PART_SUFFIX,
    SnapshotEncoder,
    snapshot_name,
)
from cluster.node.ports import Disk

KRAFT_VERSION = 1


def write_bootstrap(
    disk: Disk,
    directory: str,
    voters: VoterSet,
    timestamp_ms: int,
    done: Callable[[OSError | None], None],
) -> None:
    """Write the checkpoint durably into the metadata partition's folder, then call `done`.

    The folder is made for it, durably too, and a checkpoint that is there already replaced.
    """
    encoder = SnapshotEncoder(BOOTSTRAP_ID, timestamp_ms)
    content = encoder.header((KRaftVersion(KRAFT_VERSION), voters.to_record())) + encoder.footer()
    part = f"{directory}/{snapshot_name(BOOTSTRAP_ID, PART_SUFFIX)}"
    disk.make_directory(directory)
    disk.write(part, content)

    def on_sync(error: OSError | None) -> None:
        if error is not None:
            done(error)
            return
        disk.rename(part, f"{directory}/{snapshot_name(BOOTSTRAP_ID)}")
        disk.sync_directory(directory, on_rename)

    def on_rename(error: OSError | None) -> None:
        if error is not None:
            done(error)
        else:
            disk.sync_directory("", done)  # the folder's own name

    disk.sync(part, on_sync)


def is_leftover(disk: Disk, directory: str) -> bool:
    """Return whether a folder holds nothing but what a cut-off `write_bootstrap` left."""
    ours = {snapshot_name(BOOTSTRAP_ID), snapshot_name(BOOTSTRAP_ID, PART_SUFFIX)}
    return ours.issuperset(disk.list_directory(directory))
