"""`.kafka_cleanshutdown`: the mark of a folder of logs that nobody has written since it was closed.

It holds the epoch that the broker had, as JSON, for the next registration (KIP-966). It is written
last, and removed durably before the first change: whoever finds it may trust all recovery points.
Source: `CleanShutdownFileHandler.java`.
"""

from __future__ import annotations

import json

from cluster.node.ports import Completion, Disk

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
UNKNOWN_EPOCH = -1
_VERSION = 0


def read_clean_shutdown(disk: Disk, folder: str) -> int | None:
    """Return the broker's epoch, -1 if it cannot be read; None when there is no mark."""
    path = _path(folder)
    if not disk.exists(path):
        return None
    try:
        epoch = json.loads(disk.read(path))["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_EPOCH
    return epoch if type(epoch) is int else UNKNOWN_EPOCH


def write_clean_shutdown(disk: Disk, folder: str, broker_epoch: int, done: Completion) -> None:
    """Leave the mark; `done` when it is durable."""
    content = {"version": _VERSION, "brokerEpoch": broker_epoch}
    disk.write(_path(folder), json.dumps(content, separators=(",", ":")).encode())
    disk.sync(_path(folder), _nothing)
    disk.sync_directory(folder, done)


def remove_clean_shutdown(disk: Disk, folder: str, done: Completion) -> None:
    """Remove the mark durably, before anything that is queued from now on."""
    disk.remove(_path(folder))
    disk.sync_directory(folder, done)


def _path(folder: str) -> str:
    return f"{folder}/{CLEAN_SHUTDOWN_FILE}" if folder else CLEAN_SHUTDOWN_FILE


def _nothing(_: OSError | None) -> None:
    """The next completion reports the same error."""
