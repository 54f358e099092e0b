"""The log directories of a broker, and which of them holds what (LogManager.scala, KIP-112, 113).

A partition has one log, and at most one future log in another directory, which copies it in order
to replace it. A new log is put into the directory that the metadata assign (KIP-858), else where
an administrator wanted it, else into the one with the fewest logs, of several the first.

As long as a directory is offline, a partition that the metadata assign to a directory which is not
online gets no log anywhere else, and an old log of it elsewhere is not used: the records are in the
directory that is out of reach, and a replica without them would come back as if it had them.

A crash between the new name of a future log and the removal of the log that it copied leaves two
logs of one name. The longer one has all that was acknowledged: until the future log takes over it
is a prefix of the other, and afterwards nothing is appended to that. Where they are equal the
metadata say which; Kafka leaves the choice to the operator, and does not start.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

from cluster.node.log.data.data_config import DataLogConfig, StorageError
from cluster.node.log.data.log_directory import Damage, LogDirectory
from cluster.node.log.storage.checkpoint import TopicPartition
from cluster.node.ports import Clock, Disk, Random
from cluster.node.wire.uuid_text import is_reserved
from cluster.values import valueclass


@valueclass
class LogDir:
    """One directory of `log.dirs`, as the process found it."""

    path: str
    """Absolute."""
    directory_id: uuid.UUID
    disk: Disk


@valueclass
class LogDirs:
    """All of `log.dirs`, in their order."""

    online: tuple[LogDir, ...]
    offline: tuple[str, ...] = ()
    """Paths of those that could not be used when the process started."""


class LogManager:
    """See the module. Call `read_marks`, `remove_marks` and `open` first."""

    def __init__(
        self,
        log_dirs: LogDirs,
        clock: Clock,
        random: Random,
        config_of: Callable[[str], DataLogConfig],
        on_offline: Callable[[LogDirectory, Damage], None],
        on_start_moved: Callable[[TopicPartition], None],
        retention_check_interval_ms: float = 300_000.0,
    ) -> None:
        """`on_offline`: called once a lost directory; `on_start_moved`: when a log begins later."""
        self._clock = clock
        self._on_offline = on_offline
        self.offline_paths = log_dirs.offline
        """Of directories of which nothing is known but that they are there."""

        def directory_of(found: LogDir) -> LogDirectory:
            directory = LogDirectory(
                found.disk,
                clock,
                random,
                config_of,
                lambda damage: self._went_offline(directory, damage),
                on_start_moved,
                retention_check_interval_ms,
                found.path,
                found.directory_id,
            )
            return directory

        self.directories = tuple(map(directory_of, log_dirs.online))
        self._preferred: dict[TopicPartition, str] = {}
        self._waiting: list[_Barrier] = []

    # --- directories ---

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that can be used."""
        return [directory for directory in self.directories if not directory.is_offline]

    @property
    def has_offline(self) -> bool:
        """Whether any directory of the configuration is out of use."""
        return bool(self.offline_paths) or len(self.online) < len(self.directories)

    def at_path(self, path: str) -> LogDirectory | None:
        """Find the directory of a path; None also for one that was offline from the start."""
        return next((found for found in self.directories if found.path == path), None)

    def holder(self, partition: TopicPartition) -> LogDirectory | None:
        """Find the directory that is online and has a partition's log."""
        return next((found for found in self.online if partition in found.logs), None)

    def future_holder(self, partition: TopicPartition) -> LogDirectory | None:
        """Find the directory that is online and has a partition's future log."""
        return next((found for found in self.online if partition in found.future_logs), None)

    def next_directory(self) -> LogDirectory:
        """Choose where the next log goes (nextLogDirs). Raises StorageError."""
        if not self.online:
            raise StorageError("No log directory is online")
        return min(self.online, key=lambda found: len(found.logs) + len(found.future_logs))

    def prefer(self, partition: TopicPartition, path: str) -> None:
        """Put the log of a partition there when it is made (maybeUpdatePreferredLogDir)."""
        if self.holder(partition) is None:
            self._preferred[partition] = path

    def directory_for(self, partition: TopicPartition, assigned: uuid.UUID) -> LogDirectory:
        """Find the directory with a partition's log, or choose one for it; see the module.

        `assigned`: as the metadata say. Raises StorageError.
        """
        named = next((found for found in self.online if found.directory_id == assigned), None)
        if named is None and not is_reserved(assigned) and self.has_offline:
            raise StorageError(f"{partition} may be in a log directory that is offline")
        holder = self.holder(partition)
        if holder is not None:
            return holder
        chosen = self.at_path(self._preferred.pop(partition, ""))
        if chosen is None or chosen.is_offline:
            chosen = self.next_directory() if named is None else named
        if partition in chosen.future_logs:
            # A crash left it alone: what it copied never held a record, and so had no folder.
            chosen.take_over(partition)
        return chosen

    # --- start and end ---

    def read_marks(self) -> None:
        """See of each directory whether it was closed in order."""
        for directory in self.online:
            try:
                directory.read_mark()
            except OSError as error:
                directory.on_failure(error)

    @property
    def previous_broker_epoch(self) -> int | None:
        """The epoch of the last stop in order; None unless every directory knows of it."""
        epochs = {directory.previous_broker_epoch for directory in self.online}
        return epochs.pop() if len(epochs) == 1 and not self.has_offline else None

    def remove_marks(self, done: Callable[[], None]) -> None:
        """Remove the marks; `done` once they are durably gone from all that are online."""
        self._in_each(
            lambda found, then: found.remove_mark(partial(_on_removal, found, then)), done
        )

    def open(self, assigned: Callable[[TopicPartition], uuid.UUID | None]) -> None:
        """Open every log where it is `assigned`, at once; damage takes its directory offline."""
        for directory in self.online:
            directory.open()
        for directory in self.online:
            for partition in list(directory.logs):
                if directory.is_offline or partition not in directory.logs:
                    continue
                others = [found for found in self.online if partition in found.logs]
                if len(others) > 1:
                    self._settle(partition, others, assigned(partition))
            for partition in list(directory.future_logs):
                self._settle_future(partition, assigned(partition))
            for partition in list(directory.future_logs):
                # Its source is gone, and the controller knows that it had caught up
                # (recoverAbandonedFutureLogs). The folder keeps its name, which means nothing.
                if self.holder(partition) is None and (
                    assigned(partition) == directory.directory_id
                ):
                    directory.take_over(partition)

    def _settle(
        self, partition: TopicPartition, holders: list[LogDirectory], assigned: uuid.UUID | None
    ) -> None:
        """Leave one log of a partition of which a crash left two, and go on with its move."""

        def rank(directory: LogDirectory) -> tuple[int, int, bool]:
            log = directory.logs[partition]
            latest = log.epochs.latest_epoch
            is_assigned = directory.directory_id == assigned
            return -1 if latest is None else latest, log.end_offset, is_assigned

        holders.sort(key=rank)
        for directory in holders[:-1]:
            if directory.directory_id == assigned and self.future_holder(partition) is None:
                directory.hand_back(partition)
            else:
                self._in(directory, partial(directory.delete, partition))

    def _settle_future(self, partition: TopicPartition, assigned: uuid.UUID | None) -> None:
        """Leave one future log: a power loss may bring back that of a move that was cancelled."""
        holders = [found for found in self.online if partition in found.future_logs]
        holders.sort(key=lambda found: found.directory_id == assigned)
        for directory in holders[:-1]:
            self._in(directory, partial(directory.delete, partition))

    def close(self, broker_epoch: int, done: Callable[[], None]) -> None:
        """Make everything durable and leave the marks of a clean shutdown, then call `done`.

        `done` is called whatever goes offline meanwhile. See `LogDirectory.close`.
        """
        self._in_each(lambda found, then: found.close(broker_epoch, then), done)

    def when_written(self, done: Callable[[], None]) -> None:
        """Call `done` once a kill can no longer lose what is in any of the logs now.

        What goes offline meanwhile is not waited for: nothing of it is acknowledged any more.
        """
        self._in_each(lambda found, then: found.when_written(then), done)

    # --- logs ---

    def topic_id(self, partition: TopicPartition) -> uuid.UUID | None:
        """Return the topic id of a partition's log, None if there is none or it has none."""
        holder = self.holder(partition)
        return None if holder is None else holder.topic_ids.get(partition)

    # Private.

    def _went_offline(self, directory: LogDirectory, damage: Damage) -> None:
        self._on_offline(directory, damage)
        for barrier in list(self._waiting):
            # Not within whatever call met the damage.
            self._clock.call_later(0, partial(barrier.on_pass, directory))

    def _in_each(
        self, act: Callable[[LogDirectory, Callable[[], None]], None], done: Callable[[], None]
    ) -> None:
        """Act in each directory that is online; `done` once all have, or went offline."""
        directories = self.online

        def finish() -> None:
            self._waiting.remove(barrier)
            done()

        barrier = _Barrier(directories, finish)
        self._waiting.append(barrier)
        for directory in directories:
            if not directory.is_offline:
                act(directory, partial(barrier.on_pass, directory))
        if not directories:
            finish()

    def _in(self, directory: LogDirectory, act: Callable[[], None]) -> None:
        try:
            act()
        except StorageError:
            assert directory.is_offline, "a log reports what it raises"


class _Barrier:
    """What waits for several directories."""

    def __init__(self, directories: list[LogDirectory], done: Callable[[], None]) -> None:
        self._left = list(directories)
        self._done = done

    def on_pass(self, directory: LogDirectory) -> None:
        """Wait for one directory less."""
        if directory in self._left:
            self._left.remove(directory)
            if not self._left:
                self._done()


def _on_removal(directory: LogDirectory, then: Callable[[], None], error: OSError | None) -> None:
    if error is None:
        then()
    else:
        directory.on_failure(error)
