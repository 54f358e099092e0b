"""The files of a log directory: offsets of all its logs, and the mark of a clean shutdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from cluster.node.log.storage.checkpoint import (
    TopicPartition,
    decode_offsets,
    encode_offsets,
    replace_file,
)
from cluster.node.log.storage.recovery import CorruptLogError, read_if_there
from cluster.node.ports import Completion, Disk, nothing

HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
START_OFFSET_FILE: Final = "log-start-offset-checkpoint"


class DirectoryCheckpoints:
    """See the module. `finish` gets an error of the disk, or else calls what is done."""

    def __init__(
        self, disk: Disk, finish: Callable[[Callable[[], None], OSError | None], None]
    ) -> None:
        self._disk = disk
        self._finish = finish
        self._watch: Completion = partial(finish, nothing)
        self._saved: dict[str, bytes] = {}

    def load(self, name: str) -> dict[TopicPartition, int]:
        """Read a checkpoint, empty if there is none. Raises CorruptLogError, OSError."""
        content = read_if_there(self._disk, name)
        if not content:
            return {}
        try:
            return decode_offsets(content)
        except ValueError as error:
            raise CorruptLogError(name, 0, 0, str(error)) from error

    def save(
        self, name: str, offsets: Mapping[TopicPartition, int], done: Callable[[], None]
    ) -> None:
        """Replace a checkpoint; one that would not change is durable or on its way."""
        content = encode_offsets(offsets)
        if content != self._saved.get(name):
            self._saved[name] = content
            replace_file(self._disk, name, content, self._watch, partial(self._finish, done))
        elif done is not nothing:
            self._disk.barrier(partial(self._finish, done))


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
    disk.remove(CLEAN_SHUTDOWN_FILE)
    disk.sync_directory("", done)


def _nothing(_: OSError | None) -> None:
    """The next completion reports the same error."""
