"""Starts copies of what simulated nodes have on their disks, and shows what they find.

`StartWatch(world, watcher)` looks at a node every 250 ms, one after the other, and at disks with no
work to do: what a node that is killed leaves is all that it has then, and of its metadata log, once
that is durable, so is what a power loss leaves. The copies are opened as a node opens its disks;
logs of data are closed again, and opened by what that left, and asked what their batches decide.
Nothing of a world changes: it is the same whether it is looked at or not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NoReturn

from checkers.invariants.watcher import Watcher
from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.medium import File, Folder
from cluster.backends.sim.world import SimNode, SimWorld
from cluster.node.broker.replication.replica_manager import ReplicaManager
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.messages import MAX_OFFSET
from cluster.node.kraft.quorum.control_state import ControlState
from cluster.node.kraft.replicated_log import ReplicatedLog
from cluster.node.kraft.snapshot_store import SnapshotStore
from cluster.node.log.batch.records import BatchHeader, decode_batch, inflate_batch, split_batches
from cluster.node.log.data.data_log import DataLog
from cluster.node.log.data.data_times import TimestampAndOffset
from cluster.node.log.data.log_manager import LogDir, LogDirs, LogManager
from cluster.node.log.metadata.log import Log
from cluster.node.log.storage.checkpoint import TopicPartition
from cluster.node.log.storage.epoch_cache import LeaderEpochCache
from cluster.node.log.types import METADATA_TOPIC
from cluster.node.ports import nothing
from harness.sim.sights.folders import disk_of, replicas_of

_EVERY_MS: Final = 250.0
_LATE_MS: Final = 30 * 24 * 3600 * 1000
"""Any producer has expired by then."""
_EPOCH: Final = 7
"""The broker's epoch that a stop in order leaves."""
_INFLATED_MAX_BYTES: Final = 1 << 24
_TIMES: Final = 3
"""How many batches of a log are asked for."""

State = dict[str, str]
"""What a log has, or a start finds of it, in words."""


class StartWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._world = world
        self._take = watcher.take
        self._looks = 0
        self._random = Random(0)
        self._seen: dict[tuple[object, ...], object] = {}
        """What was looked at -> what there was, the last time."""
        self._batches: dict[tuple[str, ...], dict[str, _File]] = {}
        """By log and what came before its start: the files that it had when it was asked last."""
        world.observe(self._look_at_move, "replica-moved")
        world.scheduler.call_later(_EVERY_MS, self._look)

    def _look(self) -> None:
        running = list(self._world.running())
        if running:
            self._looks += 1
            host, process, node = running[self._looks % len(running)]
            self._world.scheduler.running = process
            if all(_is_still(disk) for disk in host.disks.values()):
                self._look_at_metadata(host, node.raft._core)
                manager = node.replicas
                if manager is not None and manager._is_started and not manager._is_stopped:
                    self._look_at_data(host, manager)
        self._world.scheduler.call_later(_EVERY_MS, self._look)

    def _show(self, name: str, what: str, has: State, finds: State | str, after: str) -> None:
        shown = {"name": what, "has": has, "finds": finds, "after": after}
        self._take(name, "start-seen", shown)

    def _is_new(self, what: tuple[object, ...], there: object) -> bool:
        """Whether there is something else than at the last look, which found it right."""
        known, self._seen[what] = self._seen.get(what), there
        return known != there

    # -- the metadata log ------------------------------------------------------------------------

    def _look_at_metadata(self, host: SimNode, core: RaftCore) -> None:
        if not core.log.is_durable or core.is_installing_snapshot or _is_cut_to_start(core.log):
            return
        opened: tuple[Any, ReplicatedLog] | None = None
        for is_loss, after in ((False, "a kill"), (True, "a power loss")):
            # What was cut off since the last sync may come back, and is cut off again.
            until = core.log.end_offset if is_loss else MAX_OFFSET
            has: State = {}
            finds: State | str
            try:
                has = _of_metadata(core.log, until)
                disk = _Copy(host.disk, is_loss=is_loss)
                left = disk.files(), [*disk._folders]
                if not self._is_new((host.name, after), (core, has, left)):
                    continue
                if opened is None or opened[0] != left:  # most often both leave the same
                    opened = left, _open_metadata(disk, core)
                finds = _of_metadata(opened[1], until)
            except Exception as error:  # noqa: BLE001  (whatever it is, a start would raise it)
                finds = f"{type(error).__name__}: {error}"
            self._show(host.name, METADATA_TOPIC, has, finds, after)

    # -- logs of data ----------------------------------------------------------------------------

    def _look_at_data(self, host: SimNode, manager: ReplicaManager) -> None:
        """Show what a start finds, and the one after that, which follows a stop in order."""
        logs = manager.logs
        found = [each for each in logs.online if each.is_open and _is_still(disk_of(each))]
        if logs.has_offline or len(found) < len(logs.directories):
            return
        disks, wall_ms = [_Copy(disk_of(each)) for each in found], host.clock.wall_ms()
        has = dict(_of_data(found, wall_ms))
        left = [(each.files(), [*each._folders]) for each in disks]
        if not self._is_new((host.name, self._looks % 2), (manager, has, left)):
            return
        ways = ("a kill", "a stop in order", "a stop in order, and without some indexes")
        for after in ways[: 3 - self._looks % 2]:
            if after == ways[-1]:
                self._lose_indexes(disks)
            elif after != "a kill" and self._looks % 2:
                wall_ms += _LATE_MS
                has = {what: {**state, "producers": ""} for what, state in has.items()}
            finds: dict[str, State] = {}
            try:
                again = self._start(manager, disks, wall_ms, is_clean=after != "a kill")
                finds = dict(_of_data(again.directories, host.clock.wall_ms()))
                for directory, disk in zip(again.directories, disks, strict=True):
                    self._ask((host.name, after), directory, disk.files(), finds)
                again.close(_EPOCH, nothing)
                for disk in disks:
                    disk.run()
            except Exception as error:  # noqa: BLE001  (whatever it is, a start would raise it)
                reason = f"{type(error).__name__}: {error}"
                self._show(host.name, "its log directories", {}, reason, after)
                return
            for what, state in has.items():
                self._show(host.name, what, state, finds.get(what, "no log"), after)

    def _look_at_move(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        """Show which log a start finds of a replica that has two, as its move has just ended.

        Where a log ends is compared on disks with no work to do: a truncation may be under way.
        """
        del event
        manager, at = replicas_of(process), TopicPartition(fields["topic"], fields["partition"])
        assert manager is not None, "it has replicas"
        logs, host = manager.logs, self._world.nodes[process.name]
        disks = [disk_of(each) for each in logs.online if each.is_open]
        is_whole = not logs.has_offline and len(disks) == len(logs.directories)
        if not is_whole or any(map(_is_lost, disks)):
            return
        is_still = all(map(_is_still, disks))
        has = {"logs": "one" + f" up to {fields['end_offset']}" * is_still}
        finds: State | str
        try:
            copies = [_Copy(each) for each in disks]
            again = self._start(manager, copies, host.clock.wall_ms(), is_clean=False)
            found = (each.logs[at] for each in again.directories if at in each.logs)
            ends = ("one" + f" up to {log.end_offset}" * is_still for log in found)
            finds = {"logs": " and ".join(ends)}
        except Exception as error:  # noqa: BLE001  (whatever it is, a start would raise it)
            finds = f"{type(error).__name__}: {error}"
        self._show(host.name, str(at), has, finds, "a kill that ends its move")

    def _lose_indexes(self, disks: Iterable[_Copy]) -> None:
        """Remove an index, and tear another: a start makes them anew."""
        for disk in disks:
            paths = [path for path in disk.files() if path.endswith("index")]
            for path in self._random.sample(paths, min(2, len(paths))):
                size_bytes = disk.size(path)
                if size_bytes and self._random.random() < 0.5:
                    disk.truncate(path, size_bytes - 1)
                else:
                    disk.remove(path)
            disk.run()

    def _start(
        self, manager: ReplicaManager, disks: list[_Copy], wall_ms: int, *, is_clean: bool
    ) -> LogManager:
        """Open copies of log directories, as a broker does."""
        clock: Any = SimpleNamespace(
            call_later=lambda *_: SimpleNamespace(cancel=nothing), wall_ms=lambda: wall_ms
        )
        dirs = LogDirs(
            tuple(
                LogDir(each.path, each.directory_id, disk)
                for each, disk in zip(manager.logs.directories, disks, strict=True)
            )
        )
        again = LogManager(dirs, clock, Random(0), manager.settings.of_log, _raise, lambda _: None)
        again.read_marks()
        assert (again.previous_broker_epoch == _EPOCH) == is_clean, "the mark of a stop in order"
        again.open(manager._assigned_directory)
        return again

    def _ask(
        self, at: tuple[str, str], directory: Any, files: dict[str, bytes], finds: dict[str, State]
    ) -> None:
        """Ask the logs that have other files than when they were asked last."""
        for partition, log in directory._existing():
            own = {path: files[path] for path in files if path.startswith(f"{log.directory}/")}
            here = *at, directory.path, log.directory
            if self._is_new(here, own):
                state = finds.get(f"{partition} in {directory.path}", {})
                state["answers"] = next(self._wrong_answers(log, here), "")

    def _wrong_answers(self, log: DataLog, at: tuple[str, ...]) -> Iterator[str]:
        """Ask a log for some of its batches, by offset and by time."""
        start, known = log.start_offset, self._batches.get(at, {})
        files = {each.path: log._disk.read(each.path) for each in log._segments}
        now = {path: _File.of(data, known.get(path)) for path, data in files.items()}
        self._batches[at] = now
        every = (found for file in now.values() for found in file.batches)
        batches = [found for found in every if found.header.last_offset >= start]
        for found in self._random.sample(batches, min(_TIMES, len(batches))):
            header = found.header
            offset = max(start, self._random.randint(header.base_offset, header.last_offset))
            if log.read(offset, 1) != found.batch:
                yield f"another batch for offset {offset}"
            time_ms = header.max_timestamp_ms
            answer, right = log.offset_for_timestamp(time_ms), _find_time(batches, time_ms, start)
            if answer != right:
                yield f"{_of_time(answer)} for time {time_ms}, and not {_of_time(right)}"


@dataclass(slots=True)
class _Batch:
    """A batch of a file, and the latest time of its records, once they were decoded."""

    header: BatchHeader
    batch: bytes
    latest_ms: float = math.inf

    def records(self) -> list[Any]:
        """Decode what it holds."""
        records = decode_batch(inflate_batch(self.batch, _INFLATED_MAX_BYTES))
        self.latest_ms = max((record.timestamp for record in records), default=-math.inf)
        return records


@dataclass(slots=True)
class _File:
    """What a file of a segment has."""

    data: bytes
    batches: list[_Batch]

    @classmethod
    def of(cls, data: bytes, known: _File | None) -> _File:
        """Split a file, of which what begins as a known one need not be split again."""
        known = known if known is not None and data.startswith(known.data) else _File(b"", [])
        rest = (_Batch(*found) for found in split_batches(data[len(known.data) :]))
        return cls(data, [*known.batches, *rest])


class _Copy(MemoryDisk):
    """What a node that ends now leaves on a disk, without what others have there."""

    def __init__(self, disk: MemoryDisk, *, is_loss: bool = False) -> None:
        self._later: list[Callable[[], None]] = []
        super().__init__(lambda _, callback: self._later.append(callback))
        self._root = _copy(disk._root, is_loss=is_loss)
        self._index()

    def run(self) -> None:
        """Complete all that was asked for."""
        while self._later:
            self._later.pop(0)()


def _copy(folder: Folder, *, is_loss: bool) -> Folder:
    made = Folder()
    for name, entry in (folder.synced if is_loss else folder.names).items():
        if isinstance(entry, Folder):
            made.names[name] = _copy(entry, is_loss=is_loss)
        else:
            content = entry.synced if is_loss else entry.content[: entry.kernel_bytes]
            made.names[name] = File(content=bytearray(content))
    return made


def _is_still(disk: MemoryDisk) -> bool:
    """Whether it has all that it was asked to keep, and nobody damaged it."""
    return disk.is_idle and not _is_lost(disk)


def _is_lost(disk: MemoryDisk) -> bool:
    return disk.detached or disk.is_damaged or disk._error is not None


def _raise(*given: Any) -> NoReturn:
    """Take the error that comes last for one of the start."""
    raise given[-1]


def _open_metadata(disk: MemoryDisk, core: RaftCore) -> ReplicatedLog:
    log, config = core.log._log, core.config
    again = ReplicatedLog(
        Log.open(disk, log.directory, log._config, _raise),
        SnapshotStore(disk, log.directory, _raise),
        ControlState(config.voters, config.listener_name),
    )
    for snapshot_id in again.snapshots.ids:
        again.snapshots.read(snapshot_id)
    return again


def _of_metadata(log: ReplicatedLog, until: int) -> State:
    """Return what a log has below an offset."""
    segments, end_offset = log._log._segments, min(log.end_offset, until)
    voters = log.control.voters_at(end_offset - 1)
    latest = log.snapshots.latest
    return {
        "segments": _segments(segments[:-1]),
        "last segment": str(segments[-1].base_offset),
        "end": str(end_offset),
        "epochs": _epochs(log._log.epochs, end_offset),
        "last snapshot": "" if latest is None else f"at {latest.offset} of epoch {latest.epoch}",
        "voters": ", ".join(f"{each.key.id} of {each.key.directory_id}" for each in voters),
        "kraft.version": str(log.control.kraft_version_at(end_offset - 1)),
    }


def _is_cut_to_start(log: ReplicatedLog) -> bool:
    """Whether the first segment lies below the log start: a truncation or a snapshot ended there.

    The next cleaning, or start, deletes it.
    """
    begin, end, *_ = [*(each.base_offset for each in log._log._segments), log.end_offset]
    return bool(begin < end <= log.start_offset)


def _segments(segments: Iterable[Any]) -> str:
    return ", ".join(f"{each.base_offset} of {each.size_bytes} bytes" for each in segments)


def _epochs(epochs: LeaderEpochCache, end_offset: int) -> str:
    """Name those that have a record: a start needs no others."""
    known = (each for each in epochs.entries if each.start_offset < end_offset)
    return ", ".join(f"{each.epoch} from {each.start_offset} on" for each in known)


def _of_data(directories: Any, wall_ms: int) -> Iterator[tuple[str, State]]:
    """Describe logs, but for those of partitions that move: a start ends that, or begins anew."""
    every = [(directory, *found) for directory in directories for found in directory._existing()]
    moving = Counter(at for _, at, _ in every)
    for directory, at, log in every:
        if log.saved_start_offset is not None and moving[at] == 1:
            state = {
                "topic": str(directory.topic_ids.get(at)),
                "segments": _segments(log._segments),
                "offsets": f"from {log.start_offset} to {log.end_offset}",
                "epochs": _epochs(log.epochs, log.end_offset),
                "producers": ", ".join(_producers(log, wall_ms)),
                "answers": "",
            }
            yield f"{at} in {directory.path}", state


def _producers(log: DataLog, wall_ms: int) -> Iterator[str]:
    """Name those that cannot expire soon, with their last batches."""
    for number, entry in sorted(log.producers.producers.items()):
        old_ms = wall_ms - log.producers.expiration_ms // 2
        if entry.batches and entry.last_timestamp_ms > old_ms:
            last = entry.batches[-1]
            yield (
                f"{number} with sequence {last.last_sequence} of epoch {entry.epoch} at "
                f"{last.last_offset}"
            )


def _find_time(
    batches: list[_Batch], timestamp_ms: int, start_offset: int
) -> TimestampAndOffset | None:
    """Return the first record that is not earlier, looking at each of those that may be."""
    for found in batches:
        for record in found.records() if found.latest_ms >= timestamp_ms else ():
            if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                epoch = found.header.partition_leader_epoch
                return TimestampAndOffset(record.timestamp, record.offset, epoch)
    return None


def _of_time(found: TimestampAndOffset | None) -> str:
    if found is None:
        return "none"
    return f"offset {found.offset} of epoch {found.epoch} at time {found.timestamp_ms}"
