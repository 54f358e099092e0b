"""What a log of data needs of the folder of logs that it lies in; `LogDirectory` is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cluster.node.log.storage.checkpoint import TopicPartition
from cluster.node.log.storage.recovery import CorruptLogError
from cluster.node.ports import Clock, Disk, Random


class LogFolder(Protocol):
    """What a log needs of the folder of logs that it lies in."""

    disk: Disk
    clock: Clock
    random: Random

    def save_recovery_points(self, done: Callable[[], None]) -> None:
        """Queue the recovery points of all logs, as they are now; `done` when they are durable."""

    def save_start_offsets(self) -> None:
        """Queue the log starts of all logs, as they are now."""

    def start_moved(self, partition: TopicPartition) -> None:
        """Learn that a log begins later than before."""

    def on_failure(self, error: OSError | CorruptLogError) -> None:
        """Take the folder offline."""
