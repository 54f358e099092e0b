"""`.kafka_cleanshutdown`: the mark of a folder that nobody has written since it was closed.

It is written as the last thing of a controlled stop, when all that the broker has is durable, and
removed durably by the next start before anything else: whoever finds it may trust all recovery
points. It holds the epoch that the broker had, as JSON. The next registration names it (KIP-966):
any other epoch than the controller's is an unclean shutdown, which takes the broker out of every
ELR. A kill leaves no mark; one that a power loss brings back names an epoch that is over.
Source: `CleanShutdownFileHandler.java`.
"""

from __future__ import annotations

import json
from typing import Final

from cluster.node.ports import Completion, Disk

CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
NO_EPOCH: Final = -1
"""The broker's shutdown was unclean, or it was never registered."""
_VERSION: Final = 0
_EPOCH_MAX: Final = 2**63 - 1


def read_clean_shutdown(disk: Disk) -> int | None:
    """Return the broker's epoch, NO_EPOCH if unreadable, None without a mark. Raises OSError."""
    if not disk.exists(CLEAN_SHUTDOWN_FILE):
        return None
    try:
        epoch = json.loads(disk.read(CLEAN_SHUTDOWN_FILE))["brokerEpoch"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return NO_EPOCH
    return epoch if type(epoch) is int and 0 <= epoch <= _EPOCH_MAX else NO_EPOCH


def write_clean_shutdown(disk: Disk, broker_epoch: int, done: Completion) -> None:
    """Leave the mark; `done` when it is durable.

    Whatever the broker has must be durable before: a disk is free to keep this file and lose an
    append that was queued earlier and not synced.
    """
    content = {"version": _VERSION, "brokerEpoch": broker_epoch}
    disk.write(CLEAN_SHUTDOWN_FILE, json.dumps(content, separators=(",", ":")).encode())
    disk.sync(CLEAN_SHUTDOWN_FILE, _nothing)
    disk.sync_directory("", done)


def remove_clean_shutdown(disk: Disk, done: Completion) -> None:
    """Remove the mark durably, before anything that is queued from now on.

    Where there is none, a start that was killed may have removed it: until the folder is synced, a
    power loss brings it back.
    """
    if disk.exists(CLEAN_SHUTDOWN_FILE):
        disk.remove(CLEAN_SHUTDOWN_FILE)
    disk.sync_directory("", done)


def _nothing(_: OSError | None) -> None:
    """The next completion reports the same error."""
