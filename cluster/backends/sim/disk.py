"""A disk in memory that can be slow, stall, fail and lose power. Deterministic.

It keeps the contract of `cluster.node.ports.Disk`, and promises nothing beyond it:

- The queue is FIFO. A sync takes time, and what is queued behind it is not applied before it has
  completed; without a sync ahead a change is applied at once and visible to reads.
- A sync aside begins when the queue comes to it and lets the queue go on. When it completes, the
  changes that had been applied when it began are durable; later ones are not. Such syncs take their
  time one after the other, and fail and stall as others do.
- A power loss keeps, of each file independently, what was synced and any prefix of the changes
  that were applied since, the last one torn: an append or a write in its first bytes only, with
  zeros behind them or nothing.
- The same holds for each folder's names, also those of folders. A file or a folder whose name was
  not synced may vanish with all its synced content; a rename or a removal may be undone.
- What a failed sync should have kept is still read, and no later sync makes it durable (`medium`).
  A folder's failed sync ends the file system: the next process finds what a power loss leaves.
- Reads see what reached the kernel: not the appends that wait for a sync.
- What was queued and not applied is gone, and so are the completions on their way.
- A kill (`Keep` "written") keeps what reached the kernel: everything that was applied but the
  appends that waited for a sync. Of the queue it keeps a prefix, in order. With "everything" it
  keeps those appends and nothing of the queue. What it keeps the next power loss may still take.
- After the first error nothing more is applied, and every completion reports it.
- Without power (`power_off`, until `power_on`) the changes that a dead process still asks for are
  ignored.

The cost of a sync is that of the changes since the sync before, not that of the file's size.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from cluster.backends.sim.medium import Change, File, Folder, Keep, Land, nothing_lands
from cluster.node.ports import Completion, Random, nothing


@dataclass(slots=True, eq=False)
class _Queued:
    """A call that waits for its turn, and what it completes."""

    apply: Callable[[], None]
    done: Completion | None
    lose: Callable[[], None] | None
    """Of a sync: fail."""


@dataclass(slots=True, eq=False)
class _Aside:
    """A sync aside, from its turn in the queue on."""

    mark: Callable[[], Land]
    done: Completion
    land: Land

    def __call__(self) -> None:
        self.land = self.mark()


class MemoryDisk:
    """A simulated `Disk`. `call_later(delay_ms, callback)` is a clock's; it delivers completions.

    `sync_ms` is how long a sync takes, and may be changed at any time. The object outlives the
    node: `crash` is a power loss, after which the next incarnation uses it.
    """

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], object],
        sync_ms: float = 0.0,
        draw_sync_ms: Callable[[], float] | None = None,
    ) -> None:
        self.sync_ms = sync_ms
        """Added to what `draw_sync_ms` draws for each sync."""
        self.full = False
        """Whether an append or a write that makes a file longer fails with ENOSPC."""
        self.detached = False
        """Whether every call fails, in this process and in others, as of a disk unplugged."""
        self.is_damaged = False
        """Whether a fault has changed what files have."""
        self.faults: dict[str, int] = {}
        """Faults that an ability put in force (`DiskFault`) -> how many calls each has hit."""
        self.torn_path = ""
        """After a torn power loss: a file whose last write survived by half."""
        self.on_operation: Callable[[], None] | None = None
        """Called at each change, after it was queued or applied; may `crash` the disk."""
        self._draw_sync_ms = draw_sync_ms
        self._powered = True
        self.syncs = 0
        self._call_later = call_later
        self._root = Folder()
        self._folders: dict[str, Folder] = {"": self._root}
        self._queue: deque[_Queued] = deque()
        self._syncing = False
        self._asides: deque[_Aside] = deque()
        self._landing = False
        self._stalled = False
        self._error: OSError | None = None
        self._next_error: OSError | None = None
        self._incarnation = 0

    # What a test or a nemesis does to the disk.

    def crash(self, random: Random, keep: Keep = "any") -> None:
        """Lose power: forget the queue and, as `keep` says, what was not synced."""
        if keep == "written" and self._queue:
            for _ in range(random.randrange(0, len(self._queue) + 1)):
                self._attempt(self._queue.popleft().apply)
        self._incarnation += 1
        self._queue.clear()
        self._asides.clear()
        self._syncing = self._landing = False
        self._error = self._next_error = None
        if any(folder.failed for folder in self._folders.values()):
            keep = "nothing"
        if keep in {"written", "everything"}:
            for _, file in self._named_files():
                if keep == "written":
                    file.lose_process()
                else:
                    file.keep_all()
            return
        self.torn_path = next((path for path, file in self._named_files() if file.changes), "")
        self._lose_power(random, keep)

    def _lose_power(self, random: Random, keep: Keep) -> None:
        """Go through all that has a name, or gets it back."""
        lost: list[File | Folder] = [self._root]
        for entry in lost:  # grows
            if isinstance(entry, Folder):
                before = list(entry.names.values())
                entry.lose_power(random, keep)
                for named in (*before, *entry.names.values()):
                    if named not in lost:
                        lost.append(named)
        for entry in lost:
            if isinstance(entry, File):
                entry.lose_power(random, keep)
        self._index()

    def power_off(self, random: Random, keep: Keep = "any") -> None:
        """As `crash`, and ignore every change until `power_on`."""
        self.crash(random, keep)
        self._powered = False
        self.on_operation = None

    def power_on(self) -> None:
        """Take changes again, for the next process."""
        self._powered = True

    def wipe(self) -> None:
        """Remove everything, as a new disk is empty; only between `power_off` and `power_on`."""
        assert not self._powered, "a disk is replaced while its node is off"
        self._clear()

    def _clear(self) -> None:
        self._root = Folder()
        self._index()

    def _index(self) -> None:
        """Find the folders by their paths."""
        self._folders = {"": self._root}
        paths = [""]
        for path in paths:  # grows
            for name, entry in self._folders[path].names.items():
                if isinstance(entry, Folder):
                    paths.append(f"{path}/{name}" if path else name)
                    self._folders[paths[-1]] = entry

    def stall(self) -> None:
        """Let no sync complete until `resume`."""
        self._stalled = True

    def resume(self) -> None:
        """End a stall."""
        self._stalled = False
        self._next()
        self._start_aside()

    @property
    def stalled(self) -> bool:
        """Whether no sync completes."""
        return self._stalled

    def fail(self, error: OSError | None) -> None:
        """Let the next sync or barrier fail with `error`, and then the disk; None withdraws it."""
        self._next_error = error

    def count_unsynced(self) -> dict[str, int]:
        """Count the bytes and files that a power loss may lose now."""
        files = [file for _, file in self._named_files() if file.changes]
        size = sum(len(change.data) for file in files for change in file.changes)
        return {"bytes": size, "files": len(files)}

    def replace(
        self, files: Mapping[str, bytes], written: Mapping[str, Sequence[bytes]] | None = None
    ) -> None:
        """Replace everything by these files, synced, as if edited while the node is off.

        `written`: what the kernel has of them behind that, and has not synced.
        """
        self._clear()
        for path, content in files.items():
            self._make_directory(_split(path)[0])
            file = self._file(path, create=True)
            file.synced, file.content = bytearray(content), bytearray(content)
        for path, changes in (written or {}).items():
            file = self._file(path)
            for data in changes:
                file.change(Change(len(file.content), data))
        for folder in self._folders.values():
            folder.sync()

    def _named_files(self) -> list[tuple[str, File]]:
        return [
            (f"{folder}/{name}" if folder else name, file)
            for folder, names in self._folders.items()
            for name, file in names.names.items()
            if isinstance(file, File)
        ]

    def corrupt(self, path: str, position: int, mask: int) -> None:
        """Flip the bits of `mask` in one byte of the medium, without any error or event."""
        file = self._file(path)
        assert not file.changes, "only what is synced lies on the medium"
        file.content[position] ^= mask
        file.synced[position] ^= mask

    def cut(self, path: str, size: int) -> None:
        """Cut a file at once and for good, whatever is queued: no power loss brings it back."""
        if self._powered:
            self._file(path).cut(size)

    # Reading the state.

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued, and no sync under way."""
        return not (self._queue or self._asides)

    def files(self) -> dict[str, bytes]:
        """Content by path as the operating system shows it, synced or not."""
        return {path: bytes(file.content) for path, file in self._named_files()}

    def durable(self, path: str) -> bytes | None:
        """Content of a file that a power loss would leave if it kept nothing else."""
        entry: File | Folder | None = self._root
        for name in path.split("/"):
            entry = entry.synced.get(name) if isinstance(entry, Folder) else None
        return bytes(entry.synced) if isinstance(entry, File) else None

    # The Disk contract.

    def append(self, path: str, data: bytes, *, at_once: bool = False) -> None:
        """Add bytes to the end of a file; with `at_once` a kill keeps them."""
        self._enqueue(partial(self._append, path, data, at_once))

    def _append(self, path: str, data: bytes, at_once: bool) -> None:  # noqa: FBT001 - for partial
        if self.full:
            self._refuse_growth(len(data))
        file = self._file(path, create=True)
        file.change(Change(len(file.content), data, not at_once))

    def write(self, path: str, data: bytes) -> None:
        self._enqueue(partial(self._write, path, data))

    def _write(self, path: str, data: bytes) -> None:
        if self.full:
            self._refuse_growth(len(data) - (self.size(path) if self.exists(path) else 0))
        self._file(path, create=True).change(Change(0, data))

    def _refuse_growth(self, size: int) -> None:
        if size > 0:
            self._count("full")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _count(self, fault: str) -> None:
        if fault in self.faults:
            self.faults[fault] += 1

    def truncate(self, path: str, size: int) -> None:
        self._enqueue(lambda: self._file(path).change(Change(size, b"")))

    def rename(self, source: str, target: str) -> None:

        def apply() -> None:
            entry = self._folders.get(source) or self._file(source)
            (old_folder, old_name), (new_folder, new_name) = _split(source), _split(target)
            del self._folders[old_folder].names[old_name]
            self._folder(new_folder).names[new_name] = entry
            self._folders[old_folder].note_change()
            if new_folder != old_folder:
                self._folders[new_folder].note_change()
            if isinstance(entry, Folder):
                self._index()

        self._enqueue(apply)

    def remove(self, path: str) -> None:
        self._enqueue(partial(self._remove, path))

    def _remove(self, path: str) -> None:
        folder, name = _split(path)
        if name in self._folders.get(folder, Folder()).names:
            del self._folders[folder].names[name]
            self._folders[folder].note_change()

    def make_directory(self, path: str) -> None:
        self._enqueue(partial(self._make_directory, path))

    def _make_directory(self, path: str) -> None:
        if path not in self._folders:
            parent, name = _split(path)
            self._make_directory(parent)
            self._folders[path] = self._folders[parent].names[name] = Folder()
            self._folders[parent].note_change()

    def remove_directory(self, path: str) -> None:
        self._enqueue(partial(self._remove_directory, path))

    def _remove_directory(self, path: str) -> None:
        if path in self._folders:
            self._remove(path)
            self._index()

    def rewrite(self, path: str, offset: int) -> None:
        self._enqueue(lambda: self._file(path).rewrite(offset))

    def sync(self, path: str, done: Completion, *, aside: bool = False) -> None:
        """Fsync a file in queue order, then call `done`; see the module for `aside`."""
        if aside:
            self._enqueue(_Aside(lambda: self._file(path).mark(), done, nothing_lands))
        else:
            self._enqueue_sync(lambda *, failed: self._file(path).sync(failed=failed), done)

    def sync_directory(self, path: str, done: Completion, *, aside: bool = False) -> None:
        """Fsync a folder in queue order, then call `done`; see the module for `aside`."""
        if aside:
            self._enqueue(_Aside(lambda: self._folder(path).mark(), done, nothing_lands))
        else:
            self._enqueue_sync(lambda *, failed: self._folder(path).sync(failed=failed), done)

    def _enqueue_sync(self, land: Land, done: Completion) -> None:
        self._enqueue(partial(land, failed=False), done, partial(land, failed=True))

    def barrier(self, done: Completion) -> None:
        self._enqueue(nothing, done)

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Read what reached the kernel. Raises FileNotFoundError."""
        self._check_attached()
        file = self._file(path)
        end = file.kernel_bytes
        return bytes(file.content[offset : end if size is None else min(end, offset + size)])

    def size(self, path: str) -> int:
        """Size of what reached the kernel. Raises FileNotFoundError."""
        self._check_attached()
        return self._file(path).kernel_bytes

    def exists(self, path: str) -> bool:
        folder, name = _split(path)
        return not path or name in self._folders.get(folder, Folder()).names

    def list_directory(self, path: str) -> tuple[str, ...]:
        self._check_attached()
        return tuple(sorted(self._folders.get(path, Folder()).names))

    def volume_bytes(self) -> None:
        """Nothing: a simulated volume has room for everything, or errors on order."""

    # The queue.

    def _enqueue(
        self,
        apply: Callable[[], None],
        done: Completion | None = None,
        lose: Callable[[], None] | None = None,
    ) -> None:
        if not self._powered:
            return
        if done is None and not self._queue:
            self._attempt(apply)
        else:
            self._queue.append(_Queued(apply, done, lose))
            if not self._syncing:
                self._next()
        if self.on_operation is not None:
            self.on_operation()

    def _next(self) -> None:
        """Apply the queued changes up to the first sync, and start that."""
        while self._queue and not self._syncing:
            queued = self._queue[0]
            if queued.done is None:
                self._queue.popleft()
                self._attempt(queued.apply)
            elif queued.lose is None:
                self._syncing = True
                self._call_later(0, partial(self._complete, self._incarnation))
            elif self._stalled:
                self._count("stall")
                return
            else:
                self._syncing = True
                self._call_later(self._takes_ms(), partial(self._complete, self._incarnation))

    def _complete(self, incarnation: int) -> None:
        if incarnation != self._incarnation:
            return  # of a process that lost its power
        self._syncing = False
        if self._stalled and self._queue[0].lose is not None:
            return  # the sync stays the first in the queue, and `resume` starts it again
        queued = self._queue.popleft()
        assert queued.done is not None
        self._meet_error(queued.lose or nothing)
        self._attempt(queued.apply)
        self.syncs += queued.lose is not None
        self._next()
        queued.done(self._error)

    def _takes_ms(self) -> float:
        """Return how long a sync takes that begins now."""
        return self.sync_ms + (0.0 if self._draw_sync_ms is None else self._draw_sync_ms())

    def _meet_error(self, lose: Callable[[], None]) -> None:
        if self._error is None and self._next_error is not None:
            self._attempt(lose)
            self._error, self._next_error = self._next_error, None
            self._count("fsync-error")
            self._count("write-error")

    def _attempt(self, apply: Callable[[], None]) -> None:
        if self._error is None:
            try:
                self._check_attached()
                apply()
            except OSError as error:
                self._error = error
        if isinstance(apply, _Aside):
            self._asides.append(apply)
            self._start_aside()

    def _start_aside(self) -> None:
        if self._landing or not self._asides:
            return
        if self._stalled:
            self._count("stall")
            return
        self._landing = True
        self._call_later(self._takes_ms(), partial(self._land, self._incarnation))

    def _land(self, incarnation: int) -> None:
        if incarnation != self._incarnation:
            return  # of a process that lost its power
        self._landing = False
        if self._stalled:
            return  # `resume` starts it again
        aside = self._asides.popleft()
        self._meet_error(partial(aside.land, failed=True))
        if self._error is None:
            aside.land(failed=False)
        self.syncs += 1
        self._start_aside()
        aside.done(self._error)

    def _check_attached(self) -> None:
        if self.detached:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    def _folder(self, path: str) -> Folder:
        folder = self._folders.get(path)
        if folder is None:
            raise FileNotFoundError(2, "no such folder", path)
        return folder

    def _file(self, path: str, *, create: bool = False) -> File:
        folder_path, name = _split(path)
        folder = self._folder(folder_path)
        file = folder.names.get(name)
        if isinstance(file, File):
            return file
        if not create:
            raise FileNotFoundError(2, "no such file", path)
        assert file is None, f"{path} is a folder"
        file = folder.names[name] = File()
        folder.note_change()
        return file


@lru_cache(maxsize=1024)
def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name
