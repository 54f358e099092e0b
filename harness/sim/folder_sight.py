"""Shows what the logs of simulated brokers have on their disks to the invariants of folders.

`FolderWatch(world, watcher)` looks into each log directory that is in use, of brokers that have
opened their logs, every few seconds and as a replica begins to lead or to follow. It looks for
nothing on a disk that has work to do: what a log has queued is there then, unless the disk failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from checkers.invariants.watcher import Watcher
from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.world import SimWorld
from cluster.node.log.batch.records import (
    NO_TIMESTAMP,
    CorruptBatchError,
    parse_header,
    split_batches,
)
from cluster.node.log.data.data_log import DataLog
from cluster.node.log.data.data_segment import DataSegment
from cluster.node.log.data.log_directory import LogDirectory
from cluster.node.log.data.partition_folder import parse_folder
from cluster.node.log.storage.checkpoint import RECOVERY_POINT_FILE, decode_offsets
from cluster.node.log.storage.epoch_cache import EPOCH_FILE, EpochEntry, LeaderEpochCache
from cluster.node.log.storage.index import TimeIndex
from cluster.node.log.storage.recovery import read_if_there
from cluster.node.log.types import METADATA_TOPIC

_LOOK_MS: Final = 3_000.0
_USED: Final = ("replica-leader", "replica-follower")


class FolderWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._world = world
        self._watcher = watcher
        self._rolled: set[DataSegment] = set()
        """Those whose time index was looked at."""
        world.observers.append(self._observe)
        world.scheduler.call_later(_LOOK_MS, self._look)

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        del fields
        if event in _USED and process.node is not None and process.node.replicas is not None:
            for directory in process.node.replicas.logs.online:
                self._look_at_use(process, directory)

    def _look(self) -> None:
        for _, process, node in self._world.running():
            manager = node.replicas
            if manager is not None and manager._is_started and not manager._is_stopped:
                for directory in manager.logs.online:
                    self._look_at(process, directory)
        self._world.scheduler.call_later(_LOOK_MS, self._look)

    def _look_at(self, process: Incarnation, directory: LogDirectory) -> None:
        disk = directory.disk
        assert isinstance(disk, MemoryDisk), "a simulated node's"
        if not disk.is_idle:
            return
        self._look_at_use(process, directory)
        if disk.detached or disk._error is not None:
            return
        saved = decode_offsets(disk.durable(RECOVERY_POINT_FILE) or b"0\n0\n")
        for at, log in directory._existing():
            file = read_if_there(disk, f"{log.directory}/{EPOCH_FILE}")
            epochs = {"name": str(at), "known": _pairs(log.epochs.entries), "saved": _epochs(file)}
            self._watcher.take(process.name, "epochs-seen", epochs)
            point = max(saved.get(at, 0), log.recovery_point)
            if point > log.start_offset:
                shown = {"name": str(at), "point": point, "durable_end": _durable_end(disk, log)}
                self._watcher.take(process.name, "point-seen", shown)
            for segment in log._segments[:-1]:
                if not segment._loaded_bytes and segment not in self._rolled:
                    self._rolled.add(segment)
                    self._watcher.take(process.name, "times-seen", _times(disk, segment))

    def _look_at_use(self, process: Incarnation, directory: LogDirectory) -> None:
        disk = directory.disk
        assert isinstance(disk, MemoryDisk), "a simulated node's"
        used = {log.directory for log in directory._all()}
        lacks = [folder for folder in _folders(disk) if folder not in used] if disk.is_idle else []
        shown = {"log_dir": directory.path, "is_open": directory.is_open, "lacks": lacks}
        self._watcher.take(process.name, "directory-used", shown)


def _folders(disk: MemoryDisk) -> Iterator[str]:
    """Return the folders of logs of partitions."""
    for name in disk._root.names:
        try:
            at, _ = parse_folder(name)
        except ValueError:
            continue
        if at.topic != METADATA_TOPIC:
            yield name


def _times(disk: MemoryDisk, segment: DataSegment) -> dict[str, Any]:
    headers = (header for header, _ in split_batches(disk.read(segment.path)))
    times = [NO_TIMESTAMP, *(header.max_timestamp_ms for header in headers)]
    indexed = [NO_TIMESTAMP, *TimeIndex.decode(disk.read(segment.time_index_path)).timestamps]
    return {"path": segment.path, "latest_ms": max(times), "indexed_ms": indexed[-1]}


def _epochs(file: bytes) -> list[tuple[int, int]] | None:
    """Return what a file of leader epochs has, None where it cannot be read."""
    try:
        return _pairs(LeaderEpochCache.decode(file).entries) if file else []
    except ValueError:
        return None


def _pairs(entries: tuple[EpochEntry, ...]) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in entries]


def _durable_end(disk: MemoryDisk, log: DataLog) -> int:
    """Return up to where a power loss leaves a log, if it leaves nothing else."""
    end = log.start_offset
    for segment in log._segments:
        data = disk.durable(segment.path) or b""
        end, position = max(end, segment.base_offset), 0
        while position < len(data):
            try:
                header = parse_header(data, position)
            except CorruptBatchError:
                return end
            position += header.size_bytes
            if position > len(data):
                return end
            end = max(end, header.next_offset)
        if position < segment.size_bytes:
            return end
    return end
