"""A folder of logs of data: opened and closed as a whole, and offline as a whole (KIP-112).

Files beside the folders `<topic>-<partition>`, all in Kafka's formats:

- `recovery-point-offset-checkpoint`: saved whenever a flush has completed, and before a truncation;
- `replication-offset-checkpoint`: the high watermarks, every 5 s;
- `log-start-offset-checkpoint`: every minute, and before segments are deleted. Kafka leaves out
  logs that begin with their first segment; ours are all in it, so that a lost segment is seen;
- `.kafka_cleanshutdown`: see `clean_shutdown`.

A log that has never held a record has no files and is in no checkpoint; other than Kafka's, its
folder is made with its first record.

Each is written beside, synced and renamed. One that cannot be read is damage.

The log of a partition that is deleted is renamed at once, to `<topic>-<partition>.<id>-delete`, and
removed `file.delete.delay.ms` later, or when the folder is opened next.

The first error of the disk, and the first record that is found damaged, take all logs of the folder
offline: `on_offline` is called once, every call of a log raises StorageError, nothing is written
any more. The node goes on.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from cluster.node.log.checkpoint import (
    RECOVERY_POINT_FILE,
    TopicPartition,
    decode_offsets,
    encode_offsets,
    partition_of,
)
from cluster.node.log.clean_shutdown import (
    read_clean_shutdown,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from cluster.node.log.data_config import DataLogConfig, StorageError
from cluster.node.log.data_log import DataLog
from cluster.node.log.data_recovery import empty_data, recover_data
from cluster.node.log.recovery import CorruptLogError, read_if_there
from cluster.node.ports import Clock, Completion, Disk, Random, Timer
from cluster.node.wire.uuid_text import uuid_from_text, uuid_to_text

HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
START_OFFSET_FILE = "log-start-offset-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
_DELETE_SUFFIX = "-delete"
_METADATA_TOPIC = "__cluster_metadata"
_HIGH_WATERMARKS_MS = 5_000
_OFFSETS_MS = 60_000
_EXPIRATION_MS = 600_000

Damage = OSError | CorruptLogError


class LogDirectory:
    """All logs of one folder of a disk. Call `read_mark`, `remove_mark` and `open` first."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        random: Random,
        config_of: Callable[[str], DataLogConfig],
        on_offline: Callable[[Damage], None],
        folder: str = "",
        retention_check_interval_ms: float = 300_000.0,
    ) -> None:
        """Prepare. `config_of` gives the settings of a topic by its name."""
        self.disk = disk
        self.clock = clock
        self.random = random
        self.folder = folder
        self.logs: dict[TopicPartition, DataLog] = {}
        """To be read; `create` and `delete` change it."""
        self.topic_ids: dict[TopicPartition, uuid.UUID] = {}
        self.previous_broker_epoch: int | None = None
        """What a clean shutdown left: the broker's epoch then, -1 unknown; None: it was none."""
        self.is_open = False
        self.is_offline = False
        self.on_start_moved: Callable[[TopicPartition], None] = _ignore
        """Called when a log begins later than before."""
        self._config_of = config_of
        self._on_offline = on_offline
        self._retention_check_interval_ms = retention_check_interval_ms
        self._saved: dict[str, bytes] = {}
        self._timers: dict[Callable[[], None], Timer] = {}

    def read_mark(self) -> None:
        """See whether the folder was closed in order. Raises OSError."""
        self.previous_broker_epoch = read_clean_shutdown(self.disk, self.folder)

    def remove_mark(self, done: Completion) -> None:
        """Remove the mark of that; `done` when it is durably gone.

        From then on no crash can pass for the stop that went before.
        """
        remove_clean_shutdown(self.disk, self.folder, done)

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

    def create(self, partition: TopicPartition, topic_id: uuid.UUID) -> DataLog:
        """Begin an empty log, its topic id durable before its first record. Raises StorageError."""
        self._check_online()
        assert partition not in self.logs, f"{partition} exists"
        directory = self._path(str(partition))

        def establish() -> None:
            self.disk.make_directory(directory)
            self.disk.sync_directory(self.folder, self._watch)
            self.assign_topic_id(partition, topic_id)

        config = self._config_of(partition.topic)
        log = DataLog(self, directory, config, empty_data(config), establish)
        self.logs[partition] = log
        self.topic_ids[partition] = topic_id
        return log

    def assign_topic_id(self, partition: TopicPartition, topic_id: uuid.UUID) -> None:
        """Write the topic id of a log, as a power loss while it was created may have taken it."""
        self._check_online()
        directory = self._path(str(partition))
        path = f"{directory}/{PARTITION_METADATA_FILE}"
        content = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}"
        self.disk.write(path + ".tmp", content.encode())
        self.disk.sync(path + ".tmp", self._watch)
        self.disk.rename(path + ".tmp", path)
        self.disk.sync_directory(directory, self._watch)
        self.topic_ids[partition] = topic_id

    def delete(self, partition: TopicPartition) -> None:
        """Delete a log: out of use at once, out of sight at once, removed later."""
        self._check_online()
        log = self.logs.pop(partition)
        self.topic_ids.pop(partition, None)
        log.go_offline()
        if not log.exists:
            return
        self._save_high_watermarks()  # before the folder is gone, which would look like a loss
        self._save_offsets()
        unique = f"{self.random.getrandbits(128):032x}"
        target = self._path(f"{partition}.{unique}{_DELETE_SUFFIX}")
        self.disk.rename(log.directory, target)
        self.disk.sync_directory(self.folder, self._watch)

        def remove() -> None:
            if not self.is_offline:
                self.disk.remove_directory(target)

        self.clock.call_later(log.config.file_delete_delay_ms, remove)

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

        def closed() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                self._leave_mark(broker_epoch, done)

        for log in existing:
            log.close(closed)
        if not existing:
            self._leave_mark(broker_epoch, done)

    # What logs need (`LogFolder`).

    def save_recovery_points(self, done: Callable[[], None]) -> None:
        """Queue the recovery points of all logs, as they are now; `done` when they are durable."""
        offsets = {at: log.recovery_point for at, log in self._existing()}
        self._save(RECOVERY_POINT_FILE, offsets, done)

    def save_start_offsets(self) -> None:
        """Queue the log starts of all logs, as they are now."""
        offsets = {
            at: log.saved_start_offset
            for at, log in self._existing()
            if log.saved_start_offset is not None
        }
        self._save(START_OFFSET_FILE, offsets, _nothing)

    def start_moved(self, partition: TopicPartition) -> None:
        """Report that a log begins later than before."""
        self.on_start_moved(partition)

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
        for log in self.logs.values():
            log.go_offline()
        self._on_offline(error)

    # Private.

    def _leave_mark(self, broker_epoch: int, done: Callable[[], None]) -> None:
        """Leave the mark of a clean shutdown behind the checkpoints, then call `done`."""
        if self.is_open:  # else the checkpoints are what they were
            self._save_high_watermarks()
            self._save_offsets()
        for log in self.logs.values():
            log.go_offline()
        write_clean_shutdown(self.disk, self.folder, broker_epoch, partial(self._finish, done))

    def _existing(self) -> Iterator[tuple[TopicPartition, DataLog]]:
        """Return the logs that are on disk."""
        return ((at, log) for at, log in self.logs.items() if log.exists)

    def _open(self) -> None:
        recovery_points = self._load(RECOVERY_POINT_FILE)
        start_offsets = self._load(START_OFFSET_FILE)
        high_watermarks = self._load(HIGH_WATERMARK_FILE)
        for name in self.disk.list_directory(self.folder):
            if name.endswith(_DELETE_SUFFIX):
                self.disk.remove_directory(self._path(name))
                continue
            try:
                at = partition_of(name)
            except ValueError:
                continue
            if at.topic == _METADATA_TOPIC:
                continue
            config = self._config_of(at.topic)
            directory = self._path(name)
            self._load_topic_id(at, directory)
            recovered = recover_data(
                self.disk,
                directory,
                config,
                recovery_point=recovery_points.get(at, 0),
                start_offset=start_offsets.get(at),
                is_clean=self.previous_broker_epoch is not None,
                now_ms=self.clock.wall_ms(),
                watch=self._watch,
            )
            log = self.logs[at] = DataLog(self, directory, config, recovered)
            log.high_watermark = high_watermarks.get(at, 0)
        missing = [at for at, offset in recovery_points.items() if offset and at not in self.logs]
        if missing:
            path = self._path(str(missing[0]))
            reason = f"the log is missing, but was durable below {recovery_points[missing[0]]}"
            raise CorruptLogError(path, 0, 0, reason)

    def _load_topic_id(self, at: TopicPartition, directory: str) -> None:
        path = f"{directory}/{PARTITION_METADATA_FILE}"
        content = read_if_there(self.disk, path).decode("utf-8", "replace").split("\n")
        if content == [""]:
            return  # the power failed before the first record
        if content[0] != "version: 0":
            raise CorruptLogError(path, 0, 0, f"begins with {content[0]!r}, not 'version: 0'")
        try:
            self.topic_ids[at] = uuid_from_text("".join(content[1:2]).removeprefix("topic_id: "))
        except ValueError as error:
            raise CorruptLogError(path, 0, 0, str(error)) from error

    def _load(self, name: str) -> dict[TopicPartition, int]:
        content = read_if_there(self.disk, self._path(name))
        if not content:
            return {}
        try:
            return decode_offsets(content)
        except ValueError as error:
            raise CorruptLogError(self._path(name), 0, 0, str(error)) from error

    def _save(
        self, name: str, offsets: Mapping[TopicPartition, int], done: Callable[[], None]
    ) -> None:
        """Replace a checkpoint atomically; one that would not change is durable or on its way."""
        content = encode_offsets(offsets)
        path = self._path(name)
        if content != self._saved.get(name):
            self._saved[name] = content
            self.disk.write(path + ".tmp", content)
            self.disk.sync(path + ".tmp", self._watch)
            self.disk.rename(path + ".tmp", path)
            self.disk.sync_directory(self.folder, partial(self._finish, done))
        elif done is not _nothing:
            self.disk.barrier(partial(self._finish, done))

    def _finish(self, done: Callable[[], None], error: OSError | None) -> None:
        self._watch(error)
        if error is None and not self.is_offline:
            done()

    def _save_high_watermarks(self) -> None:
        offsets = {at: log.high_watermark for at, log in self._existing()}
        self._save(HIGH_WATERMARK_FILE, offsets, _nothing)

    def _save_offsets(self) -> None:
        self.save_recovery_points(_nothing)
        self.save_start_offsets()

    def _delete_old_segments(self) -> None:
        for log in list(self.logs.values()):
            log.delete_old_segments()

    def _expire_producers(self) -> None:
        for log in self.logs.values():
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
            raise StorageError(f"The folder {self.folder or '.'} is offline")

    def _watch(self, error: OSError | None) -> None:
        if error is not None:
            self.on_failure(error)

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name


def _nothing() -> None:
    """For a checkpoint that nobody waits for."""


def _ignore(_: TopicPartition) -> None:
    """For a folder whose owner need not know."""
