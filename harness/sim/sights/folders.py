"""Shows what the logs of simulated brokers have on their disks to the invariants of folders.

`FolderWatch(world, watcher)` looks into each log directory that is in use, of brokers that have
opened their logs, every few seconds and as a replica begins to lead or to follow. It looks for
nothing on a disk that has work to do: what a log has queued is there then, unless the disk failed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from checkers.invariants.watcher import Watcher
from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.world import SimNode, SimWorld
from cluster.node.broker.replication.replica_manager import ReplicaManager
from cluster.node.log.batch.records import (
    NO_PRODUCER,
    BatchHeader,
    CorruptBatchError,
    split_batches,
)
from cluster.node.log.data.data_log import DataLog
from cluster.node.log.data.data_recovery import DELETED_SUFFIX
from cluster.node.log.data.data_segment import DataSegment
from cluster.node.log.data.directory_checkpoints import HIGH_WATERMARK_FILE, START_OFFSET_FILE
from cluster.node.log.data.log_directory import LogDirectory
from cluster.node.log.data.partition_folder import PARTITION_METADATA_FILE, parse_folder
from cluster.node.log.data.producer_state import ProducerEntry, decode_snapshot, snapshot_name
from cluster.node.log.metadata.log import Log
from cluster.node.log.storage.checkpoint import (
    RECOVERY_POINT_FILE,
    TopicPartition,
    decode_offsets,
    decode_recovery_point,
)
from cluster.node.log.storage.epoch_cache import EPOCH_FILE, EpochEntry, LeaderEpochCache
from cluster.node.log.storage.recovery import read_if_there
from cluster.node.log.types import METADATA_TOPIC

_LOOK_MS: Final = 3_000.0
_USED: Final = ("replica-leader", "replica-follower")
_CUT: Final = ("replica-truncated", "replica-begun")
_NOTHING: Final = b"0\n0\n"
"""A checkpoint without a partition."""


class FolderWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._world = world
        self._watcher = watcher
        self._passed: set[DataSegment] = set()
        """Those whose indexes were looked at as a whole, or read from files: no more is judged."""
        self._opened: set[tuple[str, int]] = set()
        """Nodes and incarnations that have opened their logs."""
        self._points: dict[DataLog, tuple[int, int, int]] = {}
        """Recovery points, begins of the last segment and of the log, at the last look."""
        self._durable: dict[Log, int] = {}
        """Up to where logs of metadata were durable at the first look."""
        self._snapshots: dict[DataLog, set[int]] = {}
        """Snapshots of producers that were there when a log was opened, or looked at."""
        self._skews_ms: dict[str, float] = {}
        """By how much wall clocks were ahead at most: by them producers are forgotten."""
        world.observe(self._observe, *_USED, *_CUT)
        world.scheduler.call_later(_LOOK_MS, self._look)

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        manager = replicas_of(process)
        if manager is None:
            return
        at = TopicPartition(fields["topic"], fields["partition"])
        is_first = (process.name, process.incarnation) not in self._opened
        self._opened.add((process.name, process.incarnation))
        for directory in manager.logs.online:
            if event in _USED:
                self._look_at_use(process, directory)
            if disk_of(directory).detached:
                continue
            if is_first:
                self._look_at_start(process, directory)
            if at in directory.logs:
                log = directory.logs[at]
                self._points.pop(log, None)
                self._look_at_producers(process, at, log)

    def _look_at_start(self, process: Incarnation, directory: LogDirectory) -> None:
        """Show what a broker that has just opened its logs makes of its checkpoints."""
        starts, marks = (
            decode_offsets(read_if_there(directory.disk, name) or _NOTHING)
            for name in (START_OFFSET_FILE, HIGH_WATERMARK_FILE)
        )
        for at, log in directory._existing():
            self._passed.update(segment for segment in log._segments if segment._loaded_bytes)
            self._snapshots[log] = set(log._snapshots)
            shown = {
                "name": str(at),
                "log": (log.start_offset, log.end_offset),
                "high_watermark": log.high_watermark,
                "saved": (starts.get(at, 0), marks.get(at, 0)),
            }
            self._watcher.take(process.name, "log-opened", shown)

    def _look(self) -> None:
        for host, process, node in self._world.running():
            self._latest_wall_ms(host)
            if host.disk.is_idle and not host.disk.detached and host.disk._error is None:
                self._look_at_metadata(process, host.disk, node.raft._core.log._log)
            manager = node.replicas
            if manager is not None and manager._is_started and not manager._is_stopped:
                for directory in manager.logs.online:
                    self._look_at(process, directory)
        self._world.scheduler.call_later(_LOOK_MS, self._look)

    def _look_at_metadata(self, process: Incarnation, disk: MemoryDisk, log: Log) -> None:
        """Show what the files beside a log say of what is durable, once it has flushed."""
        durable_end = log.durable_end_offset
        if durable_end > max(self._durable.setdefault(log, durable_end), log.start_offset):
            epochs = _epochs(read_if_there(disk, f"{log.directory}/{EPOCH_FILE}"))
            known = [each for each in _pairs(log.epochs.entries) if each[1] < durable_end]
            saved = epochs and [each for each in epochs if each[1] < durable_end]
            shown: dict[str, Any] = {"name": METADATA_TOPIC, "known": known, "saved": saved}
            self._watcher.take(process.name, "epochs-seen", shown)
            file = read_if_there(disk, f"{log.directory}/{RECOVERY_POINT_FILE}")
            least = durable_end, "up to which it is durable"
            shown = {"name": METADATA_TOPIC, "point": decode_recovery_point(file), "least": least}
            self._watcher.take(process.name, "point-moved", shown)

    def _look_at(self, process: Incarnation, directory: LogDirectory) -> None:
        disk = disk_of(directory)
        if not disk.is_idle:
            return
        self._look_at_use(process, directory)
        if disk.detached or disk._error is not None:
            return
        saved = decode_offsets(disk.durable(RECOVERY_POINT_FILE) or _NOTHING)
        for at, log in directory._existing():
            file = read_if_there(disk, f"{log.directory}/{EPOCH_FILE}")
            epochs = {"name": str(at), "known": _pairs(log.epochs.entries), "saved": _epochs(file)}
            self._watcher.take(process.name, "epochs-seen", epochs)
            point = max(saved.get(at, 0), log.recovery_point)
            if point > log.start_offset:
                shown = {"name": str(at), "point": point, "durable_end": _durable_end(disk, log)}
                shown["lost"] = _lost_index(disk, log, point)
                self._watcher.take(process.name, "point-seen", shown)
            if at in directory.logs:  # a future log is cut untold
                self._look_at_point(process, at, log)
                self._look_at_snapshots(process, at, log)
            for segment in log._segments:
                if segment not in self._passed:
                    shown = _indexes(disk, segment) | {"is_rolled": segment is not log._active}
                    self._watcher.take(process.name, "indexes-seen", shown)
            self._passed.update(log._segments[:-1])

    def _look_at_point(self, process: Incarnation, at: TopicPartition, log: DataLog) -> None:
        """Show the recovery point of a log that was not cut, or begun anew, since the last look."""
        now = log.recovery_point, log._active.base_offset, log.start_offset
        before, self._points[log] = self._points.get(log), now
        if before is not None and before[2] <= now[2]:
            least = before[0], "which it had, and has not cut the log"
            if now[1] > before[1]:
                least = max(least, (now[1], "where its last segment was begun"))
            shown = {"name": str(at), "point": now[0], "least": least}
            self._watcher.take(process.name, "point-moved", shown)

    def _look_at_producers(self, process: Incarnation, at: TopicPartition, log: DataLog) -> None:
        """Show what a log remembers of producers, beside what it has of them."""
        if log.written_end_offset >= log.end_offset:
            known = log.producers.producers
            self._show_producers(process, log, f"holds {at} and", known, log.end_offset)

    def _look_at_snapshots(self, process: Incarnation, at: TopicPartition, log: DataLog) -> None:
        """Show what snapshots of producers have that are new."""
        before, self._snapshots[log] = self._snapshots.get(log), set(log._snapshots)
        for offset in () if before is None else self._snapshots[log] - before:
            known: dict[int, ProducerEntry] = {}
            with suppress(ValueError):  # one that cannot be read has nothing
                file = read_if_there(log._disk, f"{log.directory}/{snapshot_name(offset)}")
                known = decode_snapshot(file)
            what = f"has a snapshot of {at} at {offset} that"
            self._show_producers(process, log, what, known, offset)

    def _show_producers(
        self,
        process: Incarnation,
        log: DataLog,
        what: str,
        known: dict[int, ProducerEntry],
        end_offset: int,
    ) -> None:
        last = {
            header.producer_id: header
            for header in _batches(log, end_offset)
            if header.producer_id != NO_PRODUCER and header.last_offset >= log.start_offset
        }
        latest_ms = self._latest_wall_ms(self._world.nodes[process.name])
        old_ms = latest_ms - log.producers.expiration_ms / 2
        if any(header.max_timestamp_ms < old_ms for header in last.values()):
            return  # some may be forgotten
        shown = {
            "what": what,
            "start": log.start_offset,
            "remembered": {
                number: (entry.epoch, entry.last_sequence, entry.batches[-1].last_offset)
                for number, entry in known.items()
                if entry.batches
            },
            "written": {
                number: (header.producer_epoch, header.last_sequence, header.last_offset)
                for number, header in last.items()
            },
        }
        self._watcher.take(process.name, "producers-seen", shown)

    def _latest_wall_ms(self, host: SimNode) -> float:
        """Return what the wall clock of a host would show had no fault set it back."""
        skew_ms = host.clock.skew_ms
        most_ms = self._skews_ms[host.name] = max(skew_ms, self._skews_ms.get(host.name, skew_ms))
        return host.clock.wall_ms() - skew_ms + most_ms

    def _look_at_use(self, process: Incarnation, directory: LogDirectory) -> None:
        disk = disk_of(directory)
        used = {log.directory for log in directory._all()}
        lacks = [folder for folder in _folders(disk) if folder not in used] if disk.is_idle else []
        if disk.is_idle and not disk.detached and disk._error is None:
            lacks += [path for _, log in directory._existing() for path in _strays(disk, log)]
        shown = {"log_dir": directory.path, "is_open": directory.is_open, "lacks": lacks}
        self._watcher.take(process.name, "directory-used", shown)


def replicas_of(process: Incarnation | None) -> ReplicaManager | None:
    """Return what holds a broker's data; None: it does not run, or is none of ours."""
    return None if process is None or process.node is None else process.node.replicas


def disk_of(directory: LogDirectory) -> MemoryDisk:
    """Return the disk of a simulated broker's log directory."""
    assert isinstance(directory.disk, MemoryDisk), "a simulated node's"
    return directory.disk


def _folders(disk: MemoryDisk) -> Iterator[str]:
    """Return the folders of logs of partitions."""
    for name in disk._root.names:
        try:
            at, _ = parse_folder(name)
        except ValueError:
            continue
        if at.topic != METADATA_TOPIC:
            yield name


def _strays(disk: MemoryDisk, log: DataLog) -> list[str]:
    """Return the files in a log's folder that are none of it, nor wait to be removed."""
    names = (EPOCH_FILE, PARTITION_METADATA_FILE, *map(snapshot_name, log._snapshots))
    own = {path for segment in log._segments for path in segment.paths}
    own |= {f"{log.directory}/{name}" for name in names}
    there = (f"{log.directory}/{name}" for name in disk.list_directory(log.directory))
    return [path for path in there if path not in own and not path.endswith(DELETED_SUFFIX)]


def headers(data: bytes) -> Iterator[BatchHeader]:
    """Yield those of the whole batches that a file of a segment begins with."""
    with suppress(CorruptBatchError):
        yield from (header for header, _ in split_batches(data))


def _batches(log: DataLog, end_offset: int) -> Iterator[BatchHeader]:
    """Yield the batches below an offset that a log's files have."""
    for segment in log._segments:
        limit = min(log.end_of(segment), end_offset)
        for header in headers(read_if_there(log._disk, segment.path)):
            if header.next_offset <= limit:
                yield header


def _indexes(disk: MemoryDisk, segment: DataSegment) -> dict[str, Any]:
    position, batches = 0, []
    for header in headers(read_if_there(disk, segment.path)):
        last = header.last_offset - segment.base_offset
        batches.append((position, last, header.max_timestamp_ms))
        position += header.size_bytes
    offsets, times = (
        [*struct.iter_unpack(of, file[: len(file) - len(file) % struct.calcsize(of)])]
        for of, file in (
            (">ii", read_if_there(disk, segment.index_path)),
            (">qi", read_if_there(disk, segment.time_index_path)),
        )
    )
    return {
        "path": segment.path,
        "interval_bytes": segment._config.index_interval_bytes,
        "batches": batches,
        "offsets": offsets,
        "times": times,
    }


def _epochs(file: bytes) -> list[tuple[int, int]] | None:
    """Return what a file of leader epochs has, None where it cannot be read."""
    try:
        return _pairs(LeaderEpochCache.decode(file).entries) if file else []
    except ValueError:
        return None


def _pairs(entries: tuple[EpochEntry, ...]) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in entries]


def _lost_index(disk: MemoryDisk, log: DataLog, point: int) -> str | None:
    """Return an index below a recovery point, of a segment made here, that a power loss changes."""
    for segment in log._segments[:-1]:
        if not segment._loaded_bytes and not segment.is_dirty and log.end_of(segment) <= point:
            for path in segment.paths[1:]:
                if disk.durable(path) != disk.read(path):
                    return path
    return None


def _durable_end(disk: MemoryDisk, log: DataLog) -> int:
    """Return up to where a power loss leaves a log, if it leaves nothing else."""
    end = log.start_offset
    for segment in log._segments:
        left = list(headers(disk.durable(segment.path) or b""))
        end = max(end, segment.base_offset, *(header.next_offset for header in left))
        if sum(header.size_bytes for header in left) < segment.size_bytes:
            break
    return end
