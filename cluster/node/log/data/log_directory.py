"""A folder of logs of data: opened and closed as a whole, and offline as a whole (KIP-112).

A broker has one or several (`log_manager`), each on a disk of its own. Files beside the folders of
the logs (`partition_folder`), all in Kafka's formats: the checkpoints (`directory_checkpoints`) and
the mark of a clean shutdown (`clean_shutdown`).

A log that has never held a record has no files and is in no checkpoint; other than Kafka's, its
folder is made with its first record.

The log of a partition that is deleted is renamed at once, and removed `file.delete.delay.ms` later,
or when the folder is opened next. A future log is one that is to replace the partition's log in
another directory (KIP-113): it is renamed when it does.

The first error of the disk, and the first record that is found damaged, take all logs of the folder
offline: `on_offline` is called once, every call of a log raises StorageError, nothing is written
any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial

from cluster.node.log.data.data_config import DataLogConfig, StorageError
from cluster.node.log.data.data_log import DataLog
from cluster.node.log.data.data_recovery import empty_data, recover_data
from cluster.node.log.data.directory_checkpoints import (
    HIGH_WATERMARK_FILE,
    START_OFFSET_FILE,
    DirectoryCheckpoints,
    read_clean_shutdown,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from cluster.node.log.data.partition_folder import (
    DELETE_SUFFIX,
    delete_name,
    future_name,
    parse_folder,
    read_topic_id,
    write_topic_id,
)
from cluster.node.log.storage.checkpoint import RECOVERY_POINT_FILE, TopicPartition
from cluster.node.log.storage.recovery import CorruptLogError
from cluster.node.log.types import METADATA_TOPIC
from cluster.node.ports import Clock, Completion, Disk, Random, Timer, nothing

_HIGH_WATERMARKS_MS = 5_000
_OFFSETS_MS = 60_000
_EXPIRATION_MS = 600_000

_NO_ID = uuid.UUID(int=0)

Damage = OSError | CorruptLogError


def _ignore(_: TopicPartition) -> None:
    """For a folder whose owner need not know."""


class LogDirectory:
    """All logs of one folder of a disk. Call `read_mark`, `remove_mark` and `open` first."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        random: Random,
        config_of: Callable[[str], DataLogConfig],
        on_offline: Callable[[Damage], None],
        on_start_moved: Callable[[TopicPartition], None] = _ignore,
        retention_check_interval_ms: float = 300_000.0,
        path: str = "",
        directory_id: uuid.UUID = _NO_ID,
    ) -> None:
        """Prepare. `config_of` gives the settings of a topic by its name.

        `path` is how the node's configuration names the directory, `directory_id` its identity.
        """
        self.path = path
        self.directory_id = directory_id
        self.disk = disk
        self.clock = clock
        self.random = random
        self.logs: dict[TopicPartition, DataLog] = {}
        """To be read; `create`, `delete` and `take_over` change it."""
        self.future_logs: dict[TopicPartition, DataLog] = {}
        """Of partitions whose log is in another directory; to be read as well."""
        self.topic_ids: dict[TopicPartition, uuid.UUID] = {}
        """Of either."""
        self.previous_broker_epoch: int | None = None
        """What a clean shutdown left: the broker's epoch then, -1 unknown; None: it was none."""
        self.is_open = False
        self.is_offline = False
        self.on_start_moved = on_start_moved
        """Called when a log begins later than before."""
        self._config_of = config_of
        self._on_offline = on_offline
        self._retention_check_interval_ms = retention_check_interval_ms
        self._checkpoints = DirectoryCheckpoints(disk, self._finish)
        self._timers: dict[Callable[[], None], Timer] = {}

    def read_mark(self) -> None:
        """See whether the folder was closed in order. Raises OSError."""
        self.previous_broker_epoch = read_clean_shutdown(self.disk)

    def remove_mark(self, done: Completion) -> None:
        """Remove the mark, durably, then call `done`: no crash can pass for that stop any more."""
        remove_clean_shutdown(self.disk, done)

    def open(self) -> None:
        """Open every log, synchronously; damage takes the folder offline."""
        try:
            self._open()
        except (CorruptLogError, OSError) as error:
            self.on_failure(error)
            return
        self.is_open = True
        self._every(_HIGH_WATERMARKS_MS, self._save_high_watermarks)
        self._every(_OFFSETS_MS, self._save_offsets)
        self._every(self._retention_check_interval_ms, self._delete_old_segments)
        self._every(_EXPIRATION_MS, self._expire_producers)

    def create(
        self, partition: TopicPartition, topic_id: uuid.UUID, *, is_future: bool = False
    ) -> DataLog:
        """Begin an empty log, its topic id durable before its first record. Raises StorageError."""
        self._check_online()
        assert partition not in self.logs, f"{partition} exists"
        assert partition not in self.future_logs, f"{partition} exists"
        directory = future_name(partition, self.random) if is_future else str(partition)

        def establish() -> None:
            self.disk.make_directory(directory)
            self.disk.sync_directory("", self._watch)
            write_topic_id(self.disk, directory, topic_id, self._watch)

        config = self._config_of(partition.topic)
        log = DataLog(self, directory, config, empty_data(config), establish)
        (self.future_logs if is_future else self.logs)[partition] = log
        self.topic_ids[partition] = topic_id
        return log

    def assign_topic_id(self, partition: TopicPartition, topic_id: uuid.UUID) -> None:
        """Write the topic id of a log, as a power loss while it was created may have taken it."""
        self._check_online()
        log = self.logs.get(partition) or self.future_logs[partition]
        write_topic_id(self.disk, log.directory, topic_id, self._watch)
        self.topic_ids[partition] = topic_id

    def delete(self, partition: TopicPartition) -> None:
        """Delete a log, future or not: out of use and out of sight at once, removed later."""
        self._check_online()
        log = self.logs.pop(partition, None) or self.future_logs.pop(partition)
        self.topic_ids.pop(partition, None)
        log.go_offline()
        if not log.exists:
            return
        self._save_high_watermarks()  # before the folder is gone, which would look like a loss
        self._save_offsets()
        target = delete_name(partition, self.random)
        self.disk.rename(log.directory, target)
        self.disk.sync_directory("", self._watch)

        def remove() -> None:
            if not self.is_offline:
                self.disk.remove_directory(target)

        self.clock.call_later(log.config.file_delete_delay_ms, remove)

    def rename_future(self, partition: TopicPartition, done: Callable[[], None]) -> None:
        """Give the folder of a future log the name of a log in use; `done` once that is durable.

        Until then nothing may be read from it or appended to it, as its files are still found by
        their old names. The flush is over before the new name is queued, also what of it goes on
        aside: wherever a crash falls, a folder that bears the name has all that the log has now.
        Never called when the folder goes offline or the log is deleted before. Raises StorageError.
        """
        log = self.future_logs[partition]

        def rename() -> None:
            if self.future_logs.get(partition) is not log:  # deleted while it was flushed
                return
            target = str(partition)
            self.disk.rename(log.directory, target)
            log.moved_to(target)
            self.disk.sync_directory("", partial(self._finish, done))

        log.flush(rename)

    def take_over(self, partition: TopicPartition) -> None:
        """Let a future log be the partition's."""
        self.logs[partition] = self.future_logs.pop(partition)

    def hand_back(self, partition: TopicPartition) -> None:
        """Let a log be the future one, as a crash came before it could take over."""
        self.future_logs[partition] = self.logs.pop(partition)

    def close(self, broker_epoch: int, done: Callable[[], None]) -> None:
        """Make everything durable and leave the mark of a clean shutdown, then call `done`.

        `done` is not called when the folder is or goes offline. Nothing may be appended any more.
        A folder that was never opened, and was not left in order before, gets no mark: its logs
        still have to be recovered.
        """
        if self.is_offline:
            return
        if not self.is_open and self.previous_broker_epoch is None:
            self.disk.barrier(partial(self._finish, done))
            return
        self._cancel_timers()
        existing = [log for _, log in self._existing()]
        left = len(existing)

        def on_close() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                self._leave_mark(broker_epoch, done)

        for log in existing:
            log.close(on_close)
        if not existing:
            self._leave_mark(broker_epoch, done)

    # What logs need (`LogFolder`).

    def save_recovery_points(self, done: Callable[[], None]) -> None:
        offsets = {at: log.recovery_point for at, log in self._existing()}
        self._checkpoints.save(RECOVERY_POINT_FILE, offsets, done)

    def save_start_offsets(self) -> None:
        offsets = {
            at: log.saved_start_offset
            for at, log in self._existing()
            if log.saved_start_offset is not None
        }
        self._checkpoints.save(START_OFFSET_FILE, offsets, nothing)

    def when_written(self, done: Callable[[], None]) -> None:
        """Call `done` once a kill can no longer lose what is in any of the logs now.

        Never called when the folder goes offline before.
        """
        self._check_online()
        self.disk.barrier(partial(self._finish, done))

    def on_failure(self, error: Damage) -> None:
        """Take all logs offline, once."""
        if self.is_offline:
            return
        self.is_offline = True
        self._cancel_timers()
        for log in self._all():
            log.go_offline()
        self._on_offline(error)

    # Private.

    def _leave_mark(self, broker_epoch: int, done: Callable[[], None]) -> None:
        """Leave the mark of a clean shutdown behind the checkpoints, then call `done`."""
        if self.is_open:  # else the checkpoints are what they were
            self._save_high_watermarks()
            self._save_offsets()
        for log in self._all():
            log.go_offline()
        write_clean_shutdown(self.disk, broker_epoch, partial(self._finish, done))

    def _existing(self) -> Iterator[tuple[TopicPartition, DataLog]]:
        """Return the logs that are on disk."""
        for logs in (self.logs, self.future_logs):
            yield from ((at, log) for at, log in logs.items() if log.exists)

    def _all(self) -> list[DataLog]:
        return [*self.logs.values(), *self.future_logs.values()]

    def _open(self) -> None:
        recovery_points = self._checkpoints.load(RECOVERY_POINT_FILE)
        start_offsets = self._checkpoints.load(START_OFFSET_FILE)
        high_watermarks = self._checkpoints.load(HIGH_WATERMARK_FILE)
        for name in self.disk.list_directory(""):
            if name.endswith(DELETE_SUFFIX):
                self.disk.remove_directory(name)
                continue
            try:
                at, is_future = parse_folder(name)
            except ValueError:
                continue
            if at.topic == METADATA_TOPIC:
                continue
            if at in self.topic_ids:
                raise CorruptLogError(name, 0, 0, f"there is another log of {at}")
            config = self._config_of(at.topic)
            topic_id = read_topic_id(self.disk, name)
            if topic_id is not None:
                self.topic_ids[at] = topic_id
            recovered = recover_data(
                self.disk,
                name,
                config,
                recovery_point=recovery_points.get(at, 0),
                start_offset=start_offsets.get(at),
                is_clean=self.previous_broker_epoch is not None,
                now_ms=self.clock.wall_ms(),
                watch=self._watch,
            )
            log = DataLog(self, name, config, recovered)
            (self.future_logs if is_future else self.logs)[at] = log
            log.high_watermark = high_watermarks.get(at, 0)
        found = self.logs.keys() | self.future_logs.keys()
        missing = [at for at, offset in recovery_points.items() if offset and at not in found]
        if missing:
            reason = f"the log is missing, but was durable below {recovery_points[missing[0]]}"
            raise CorruptLogError(str(missing[0]), 0, 0, reason)

    def _finish(self, done: Callable[[], None], error: OSError | None) -> None:
        self._watch(error)
        if error is None and not self.is_offline:
            done()

    def _save_high_watermarks(self) -> None:
        offsets = {at: log.high_watermark for at, log in self._existing()}
        self._checkpoints.save(HIGH_WATERMARK_FILE, offsets, nothing)

    def _save_offsets(self) -> None:
        self.save_recovery_points(nothing)
        self.save_start_offsets()

    def _delete_old_segments(self) -> None:
        for log in list(self.logs.values()):  # a future log follows the one that it copies
            log.delete_old_segments()

    def _expire_producers(self) -> None:
        for log in self._all():
            log.expire_producers()

    def _every(self, period_ms: float, action: Callable[[], None]) -> None:
        def run() -> None:
            self._timers[action] = self.clock.call_later(period_ms, run)
            try:
                action()
            except StorageError:
                assert self.is_offline, "a log reports what it raises"

        self._timers[action] = self.clock.call_later(period_ms, run)

    def _cancel_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _check_online(self) -> None:
        if self.is_offline:
            raise StorageError(f"The log directory {self.path} is offline")

    def _watch(self, error: OSError | None) -> None:
        if error is not None:
            self.on_failure(error)
