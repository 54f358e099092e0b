"""The snapshots of one metadata log on its disk: written beside, synced, renamed, deleted late.

A snapshot is listed here only once a power loss cannot take it: content synced, renamed, folder
synced (KAFKA-15312: a rename before the sync leaves an empty checkpoint). What is not listed does
not exist for others: no log is shortened for it, no replica is offered it.

A deletion renames to `.checkpoint.deleted` and removes the file later, as Kafka does. At the start
everything that is not a whole checkpoint is removed.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from functools import partial

from cluster.node.log.batch.control import ControlMessage
from cluster.node.log.metadata.snapshot import (
    DELETED_SUFFIX,
    PART_SUFFIX,
    SUFFIX,
    Snapshot,
    SnapshotEncoder,
    parse_snapshot,
    parse_snapshot_name,
    snapshot_name,
)
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Disk


class SnapshotStore:
    """Knows the durable snapshots, oldest first. Owned by one task."""

    def __init__(self, disk: Disk, directory: str, on_failure: Callable[[OSError], None]) -> None:
        """List what is on the disk and queue the removal of unfinished and deleted files."""
        self._disk = disk
        self._directory = directory
        self._on_failure = on_failure
        self._ids: list[OffsetAndEpoch] = []
        self._writing: dict[OffsetAndEpoch, SnapshotFile] = {}
        self._timestamps_ms: dict[OffsetAndEpoch, int] = {}
        self._deleted: list[tuple[float, str]] = []
        for name in disk.list_directory(directory):
            parsed = parse_snapshot_name(name)
            if parsed is not None and parsed[1] == SUFFIX:
                self._ids.append(parsed[0])
            elif parsed is not None:
                disk.remove(f"{directory}/{name}")
        self._ids.sort()

    @property
    def ids(self) -> tuple[OffsetAndEpoch, ...]:
        """All of them, oldest first."""
        return tuple(self._ids)

    @property
    def latest(self) -> OffsetAndEpoch | None:
        """The newest."""
        return self._ids[-1] if self._ids else None

    @property
    def earliest(self) -> OffsetAndEpoch | None:
        """The oldest."""
        return self._ids[0] if self._ids else None

    def __contains__(self, snapshot_id: OffsetAndEpoch) -> bool:
        index = bisect_right(self._ids, snapshot_id)
        return index > 0 and self._ids[index - 1] == snapshot_id

    def size_bytes(self, snapshot_id: OffsetAndEpoch) -> int:
        """Size of the file. Raises OSError."""
        return self._disk.size(self._path(snapshot_id, SUFFIX))

    def read_slice(self, snapshot_id: OffsetAndEpoch, position: int, size_bytes: int) -> bytes:
        """Return a part of the file, as FetchSnapshot sends it. Raises OSError."""
        assert snapshot_id in self
        return self._disk.read(self._path(snapshot_id, SUFFIX), position, size_bytes)

    def read(self, snapshot_id: OffsetAndEpoch) -> Snapshot:
        """Return the whole of it. Raises CorruptSnapshotError, OSError."""
        path = self._path(snapshot_id, SUFFIX)
        return parse_snapshot(path, snapshot_id, self._disk.read(path))

    def timestamp_ms(self, snapshot_id: OffsetAndEpoch) -> int:
        """Wall time of the last record that it contains. Raises CorruptSnapshotError, OSError."""
        if snapshot_id not in self._timestamps_ms:
            snapshot = self.read(snapshot_id)
            self._timestamps_ms[snapshot_id] = snapshot.last_contained_log_timestamp_ms
        return self._timestamps_ms[snapshot_id]

    def begin(self, snapshot_id: OffsetAndEpoch) -> SnapshotFile | None:
        """Begin to write one; None when it exists already or is being written."""
        if snapshot_id in self or snapshot_id in self._writing:
            return None
        part = self._path(snapshot_id, PART_SUFFIX)
        file = SnapshotFile(self, self._disk, snapshot_id, part)
        self._writing[snapshot_id] = file
        return file

    def delete(self, snapshot_id: OffsetAndEpoch, until_ms: float) -> None:
        """Forget one, and remove its file at that time or later."""
        self._ids.remove(snapshot_id)
        self._timestamps_ms.pop(snapshot_id, None)
        deleted = self._path(snapshot_id, DELETED_SUFFIX)
        self._disk.rename(self._path(snapshot_id, SUFFIX), deleted)
        self._deleted.append((until_ms, deleted))

    def remove(self, snapshot_id: OffsetAndEpoch) -> None:
        """Forget one and remove its file now: at the start nobody can be reading it."""
        self._ids.remove(snapshot_id)
        self._disk.remove(self._path(snapshot_id, SUFFIX))

    def remove_deleted(self, now_ms: float) -> None:
        """Remove the files past their delay."""
        while self._deleted and self._deleted[0][0] <= now_ms:
            self._disk.remove(self._deleted.pop(0)[1])

    # What a file that is being written asks for.

    def publish(self, file: SnapshotFile, done: Callable[[], None]) -> None:
        """Give a synced file its name, durably; then list it and call `done`."""
        if self._writing.get(file.id) is not file:
            return  # it was given up meanwhile
        self._disk.rename(file.path, self._path(file.id, SUFFIX))

        def durable() -> None:
            del self._writing[file.id]
            insort(self._ids, file.id)
            done()

        self._disk.sync_directory(self._directory, partial(self.on_sync, durable))

    def discard(self, file: SnapshotFile) -> None:
        """Remove a file that will not become a snapshot."""
        if self._writing.get(file.id) is file:
            del self._writing[file.id]
            self._disk.remove(file.path)

    def on_sync(self, done: Callable[[], None], error: OSError | None) -> None:
        """Go on after a sync, or report that it failed."""
        if error is None:
            done()
        else:
            self._on_failure(error)

    def _path(self, snapshot_id: OffsetAndEpoch, suffix: str) -> str:
        return f"{self._directory}/{snapshot_name(snapshot_id, suffix)}"


class SnapshotFile:
    """A snapshot that is being written: `append`..., then `freeze`; or `discard`."""

    def __init__(
        self, store: SnapshotStore, disk: Disk, snapshot_id: OffsetAndEpoch, path: str
    ) -> None:
        self._store = store
        self._disk = disk
        self.id = snapshot_id
        self.path = path
        self.size_bytes = 0
        self.frozen = False
        """Nothing can be appended any more."""
        disk.append(path, b"")

    def append(self, data: bytes) -> None:
        """Add bytes to the end."""
        assert not self.frozen, "a frozen snapshot is never changed"
        self._disk.append(self.path, data)
        self.size_bytes += len(data)

    def freeze(self, done: Callable[[], None]) -> None:
        """Sync the content, then give the file its name, durably; then call `done`."""
        self.sync(lambda: self._store.publish(self, done))

    def sync(self, done: Callable[[], None]) -> None:
        """Make the content durable, under the name of an unfinished file."""
        self.frozen = True
        self._disk.sync(self.path, partial(self._store.on_sync, done))

    def publish(self, done: Callable[[], None]) -> None:
        """Give the synced file its name, durably; then call `done`."""
        self._store.publish(self, done)

    def parse(self) -> Snapshot:
        """Verify what was synced. Raises CorruptSnapshotError, OSError."""
        return parse_snapshot(self.path, self.id, self._disk.read(self.path))

    def discard(self) -> None:
        """Give up: remove the file."""
        self.frozen = True
        self._store.discard(self)


class SnapshotWriter:
    """How a state machine writes a snapshot of itself: `append`..., then `freeze`.

    Nobody sees the snapshot before it is durable (RecordsSnapshotWriter).
    """

    def __init__(
        self,
        file: SnapshotFile,
        last_contained_log_timestamp_ms: int,
        control: Sequence[ControlMessage],
        on_durable: Callable[[SnapshotFile], None],
    ) -> None:
        """`control` is what follows the SnapshotHeader, `on_durable` is called at the end."""
        self._file = file
        self._on_durable = on_durable
        self._encoder = SnapshotEncoder(file.id, last_contained_log_timestamp_ms)
        file.append(self._encoder.header(control))

    def append(self, values: Sequence[bytes]) -> None:
        """Add one batch of metadata records."""
        self._file.append(self._encoder.records(values))

    def freeze(self) -> None:
        """Finish it."""
        self._file.append(self._encoder.footer())
        self._file.freeze(lambda: self._on_durable(self._file))
