"""The checkpoints of a log directory: offsets of all its logs, each file replaced atomically.

- `recovery-point-offset-checkpoint`: saved when `flush` completes, every minute and before a cut;
- `replication-offset-checkpoint`: the high watermarks, every 5 s;
- `log-start-offset-checkpoint`: every minute, and before segments are deleted. Kafka leaves out
  logs that begin with their first segment; ours are all in it, so that a lost segment is seen.

Each is written beside, synced and renamed. One that cannot be read is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from cluster.node.log.storage.checkpoint import TopicPartition, decode_offsets, encode_offsets
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
            self._disk.write(name + ".tmp", content)
            self._disk.sync(name + ".tmp", self._watch)
            self._disk.rename(name + ".tmp", name)
            self._disk.sync_directory("", partial(self._finish, done))
        elif done is not nothing:
            self._disk.barrier(partial(self._finish, done))
