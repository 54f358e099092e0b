"""`.kafka_cleanshutdown`: which broker was stopped in order (CleanShutdownFileHandler, KIP-966).

Written as the last thing of a controlled stop, when all that the broker has is durable; read by the
next start and removed before the broker does anything. So it is there only if nothing can have been
lost in between, and its epoch says to the controller which registration that holds for (KIP-966):
any other is an unclean shutdown, which takes the broker out of every ELR. A kill leaves no file; a
file that a power loss brings back names an epoch that is over.
"""

from __future__ import annotations

import json
from typing import Final

from cluster.node.ports import Completion, Disk

FILE_NAME: Final = ".kafka_cleanshutdown"
NO_EPOCH: Final = -1
"""The broker's shutdown was unclean, or it was never registered."""
_VERSION: Final = 0
_EPOCH_MAX: Final = 2**63 - 1


def read_broker_epoch(disk: Disk) -> int:
    """Return the epoch of the broker that was stopped in order, NO_EPOCH if none was.

    A file that cannot be understood is none, as in Kafka. Raises OSError.
    """
    if not disk.exists(FILE_NAME):
        return NO_EPOCH
    try:
        epoch = json.loads(disk.read(FILE_NAME))["brokerEpoch"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return NO_EPOCH
    return epoch if type(epoch) is int and 0 <= epoch <= _EPOCH_MAX else NO_EPOCH


def forget(disk: Disk, done: Completion) -> None:
    """Remove the file; `done` is called at once if there is none, else when it is durably gone."""
    if not disk.exists(FILE_NAME):
        done(None)
        return
    disk.remove(FILE_NAME)
    disk.sync_directory("", done)


def write(disk: Disk, broker_epoch: int, done: Completion) -> None:
    """Write the file and call `done` once it is durable.

    Whatever the broker has must be durable before: a disk is free to keep this file and lose an
    append that was queued earlier and not synced.
    """
    content = json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))

    def synced(error: OSError | None) -> None:
        if error is not None:
            done(error)
        else:
            disk.sync_directory("", done)

    disk.write(FILE_NAME, content.encode())
    disk.sync(FILE_NAME, synced)
