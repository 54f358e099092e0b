"""The real disk: a folder, a lock, and one thread that writes."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from cluster.node.ports import Completion, nothing


class CallThread:
    """Runs calls one after the other. The thread begins with the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, call: Callable[[], None]) -> None:
        """Run a call after those before it. From one thread only; the call raises nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(call)

    def end(self) -> None:
        """Run what is queued, and end. Blocks; nothing may be put any more."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            call()


LOCK_FILE = ".lock"


class DiskLockedError(Exception):
    """Another process, or another disk of this one, uses the folder."""


class FileDisk:
    """`ports.Disk` on a folder, which is made if missing. Raises DiskLockedError, OSError."""

    def __init__(self, folder: Path | str, loop: asyncio.AbstractEventLoop) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self._folder / LOCK_FILE)
        self._loop = loop
        self._writer = _Writer(str(self._folder))
        self._closed = False
        self._abandoned = False
        self._queue = CallThread("disk")
        self._aside = CallThread("disk-aside")

    def append(self, path: str, data: bytes, *, at_once: bool = False) -> None:
        append = self._writer.append_at_once if at_once else self._writer.append
        self._put(partial(append, path, data))

    def write(self, path: str, data: bytes) -> None:
        self._put(partial(self._writer.write, path, data))

    def truncate(self, path: str, size: int) -> None:
        self._put(partial(self._writer.truncate, path, size))

    def rewrite(self, path: str, offset: int) -> None:
        self._put(partial(self._writer.rewrite, path, offset))

    def rename(self, source: str, target: str) -> None:
        self._put(partial(self._writer.rename, source, target))

    def remove(self, path: str) -> None:
        self._put(partial(self._writer.remove, path))

    def make_directory(self, path: str) -> None:
        self._put(partial(self._writer.make_directory, path))

    def remove_directory(self, path: str) -> None:
        self._put(partial(self._writer.remove_directory, path))

    def sync(self, path: str, done: Completion, *, aside: bool = False) -> None:
        if aside:
            self._put_aside(partial(self._writer.open_written, path), os.fdatasync, done)
        else:
            self._put(partial(self._writer.sync, path), done)

    def sync_directory(self, path: str, done: Completion, *, aside: bool = False) -> None:
        if aside:
            self._put_aside(partial(self._writer.open_directory, path), os.fsync, done)
        else:
            self._put(partial(self._writer.sync_directory, path), done)

    def barrier(self, done: Completion) -> None:
        self._put(nothing, done)

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Read what reached the kernel; blocks. Raises FileNotFoundError, OSError."""
        with (self._folder / path).open("rb") as file:
            file.seek(offset)
            return file.read(-1 if size is None else size)

    def size(self, path: str) -> int:
        return (self._folder / path).stat().st_size

    def exists(self, path: str) -> bool:
        return (self._folder / path).exists()

    def list_directory(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(os.listdir(self._folder / path)))  # noqa: PTH208 - names, not paths
        except FileNotFoundError:
            return ()

    def volume_bytes(self) -> tuple[int, int] | None:
        volume = os.statvfs(self._folder)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def drain(self, done: Completion) -> None:
        """Sync every append in queue order, and end the syncs aside, then call `done`."""
        self._put(self._writer.sync_all)
        self._put_aside(self._writer.open_nothing, _nothing_of, done)

    def close(self) -> None:
        """End the threads and free the folder; the queue is dropped, as a kill would drop it.

        Blocks until the system call that is under way comes back, which a stalled disk may never
        let it do: a process that must end leaves this to the kernel. No completion is called.
        """
        if self._closed:
            return
        self._closed = self._abandoned = True
        self._queue.end()
        self._aside.end()
        self._writer.close()
        os.close(self._lock)

    def _put(self, operation: Callable[[], None], done: Completion | None = None) -> None:
        self._put_step(partial(self._apply, operation, done))

    def _put_step(self, step: Callable[[], None]) -> None:
        if self._closed:
            raise RuntimeError(f"the disk of {self._folder} is closed")
        self._queue.put(step)

    def _put_aside(
        self, open_: Callable[[], int | None], sync: Callable[[int], None], done: Completion
    ) -> None:
        """Queue a sync aside of what `open_` opens in queue order."""

        def hand_over() -> None:
            if self._abandoned:
                return
            opened: list[int | None] = []
            self._attempt(lambda: opened.append(open_()))
            self._aside.put(partial(self._sync_aside, opened, sync, done))

        self._put_step(hand_over)

    def _sync_aside(
        self, opened: list[int | None], sync: Callable[[int], None], done: Completion
    ) -> None:
        """Sync what was opened, on the second thread."""
        for descriptor in opened:
            if descriptor is None:
                continue
            if not self._abandoned:
                self._attempt(partial(sync, descriptor))
            os.close(descriptor)
        self._report(done)

    def _apply(self, operation: Callable[[], None], done: Completion | None) -> None:
        """Apply one queued call, on the thread."""
        if self._abandoned:
            return
        self._attempt(operation)
        if done is not None:
            self._report(done)

    def _attempt(self, operation: Callable[[], object]) -> None:
        """Do it unless something failed. The first error is the last thing that happens.

        On either thread: while one fails the other may do what it has begun, but reports the error.
        """
        writer = self._writer
        if writer.error is None:
            try:
                operation()
            except OSError as error:
                writer.error = writer.error or error
            except Exception as error:  # noqa: BLE001 - a dead thread would stall the node silently
                broken = OSError(errno.EIO, f"disk writer broke: {error!r}")
                writer.error = writer.error or broken

    def _report(self, done: Completion) -> None:
        try:
            self._loop.call_soon_threadsafe(self._complete, done, self._writer.error)
        except RuntimeError:
            return  # the loop is closed: nothing is left to be notified

    def _complete(self, done: Completion, error: OSError | None) -> None:
        if not self._abandoned:
            done(error)


class _Writer:
    """The thread's side: applies one call after the other; raises OSError."""

    def __init__(self, folder: str) -> None:
        self.error: OSError | None = None
        self._folder = folder
        self._pending: dict[str, list[bytes]] = {}
        self._descriptors: dict[str, int] = {}
        self._synced: set[str] = set()

    def append(self, path: str, data: bytes) -> None:
        self._pending.setdefault(path, []).append(data)

    def append_at_once(self, path: str, data: bytes) -> None:
        self._pending.setdefault(path, []).append(data)
        self._write_pending(path)

    def write(self, path: str, data: bytes) -> None:
        self._pending.pop(path, None)
        self._synced.discard(path)
        descriptor = self._open(path, os.O_CREAT)
        os.lseek(descriptor, 0, os.SEEK_SET)
        _write_all(descriptor, data)  # in place: content of equal size is never half gone
        if os.fstat(descriptor).st_size > len(data):
            os.ftruncate(descriptor, len(data))

    def truncate(self, path: str, size: int) -> None:
        pending = b"".join(self._pending.pop(path, []))
        descriptor = self._open(path, os.O_CREAT if pending else 0)
        size_now = os.fstat(descriptor).st_size
        if size > size_now + len(pending):
            raise OSError(errno.EINVAL, f"cannot cut {path} to {size} bytes, it is shorter")
        if size > size_now:
            self._pending[path] = [pending[: size - size_now]]
        elif size < size_now:
            self._synced.discard(path)
            os.ftruncate(descriptor, size)

    def rewrite(self, path: str, offset: int) -> None:
        descriptor = self._open(path, 0)
        self._synced.discard(path)
        os.lseek(descriptor, offset, os.SEEK_SET)
        while data := os.pread(descriptor, _REWRITE_BYTES, offset):
            _write_all(descriptor, data)
            offset += len(data)

    def rename(self, source: str, target: str) -> None:
        if Path(self._path(source)).is_dir():
            self._write_within(source)
            os.replace(self._path(source), self._path(target))  # noqa: PTH105 - as below
            return
        pending = self._pending.pop(source, None)
        self._pending.pop(target, None)
        if pending is not None:  # the name moves now, the bytes are still not synced
            self._open(source, os.O_CREAT)
            self._pending[target] = pending
        os.replace(self._path(source), self._path(target))  # noqa: PTH105 - plain strings
        self._close(target)
        if source in self._descriptors:
            self._descriptors[target] = self._descriptors.pop(source)
        self._synced.discard(target)
        if source in self._synced:
            self._synced.remove(source)
            self._synced.add(target)

    def remove(self, path: str) -> None:
        self._pending.pop(path, None)
        self._synced.discard(path)
        self._close(path)
        Path(self._path(path)).unlink(missing_ok=True)

    def remove_directory(self, path: str) -> None:
        for file in [file for file in self._pending if file.startswith(path + "/")]:
            del self._pending[file]
        self._write_within(path)
        if Path(self._path(path)).exists():
            shutil.rmtree(self._path(path))

    def _write_within(self, folder: str) -> None:
        """Write what is pending for files of a folder, and forget these files by their names."""
        for file in [file for file in self._pending if file.startswith(folder + "/")]:
            self._write_pending(file)
        for file in [file for file in self._descriptors if file.startswith(folder + "/")]:
            self._close(file)
        self._synced = {file for file in self._synced if not file.startswith(folder + "/")}

    def make_directory(self, path: str) -> None:
        Path(self._path(path)).mkdir(parents=True, exist_ok=True)

    def sync(self, path: str) -> None:
        descriptor = self._write_pending(path) if path in self._pending else self._open(path, 0)
        if path not in self._synced:
            os.fdatasync(descriptor)
            self._synced.add(path)

    def _write_pending(self, path: str) -> int:
        """Write what was appended and stayed in memory; returns the descriptor."""
        descriptor = self._open(path, os.O_CREAT)
        self._synced.discard(path)
        os.lseek(descriptor, 0, os.SEEK_END)
        _write_all(descriptor, b"".join(self._pending[path]))
        del self._pending[path]
        return descriptor

    def sync_all(self) -> None:
        for path in sorted(self._pending):
            self.sync(path)

    def open_written(self, path: str) -> int:
        """Write what is pending for a file; returns a descriptor of the caller's own."""
        if path in self._pending:
            self._write_pending(path)
        return os.open(self._path(path), os.O_RDWR)

    def open_directory(self, path: str) -> int:
        return os.open(self._path(path), os.O_RDONLY | os.O_DIRECTORY)

    def open_nothing(self) -> None:
        """What a drain syncs aside itself."""

    def sync_directory(self, path: str) -> None:
        descriptor = self.open_directory(path)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        for path in list(self._descriptors):
            self._close(path)

    def _path(self, path: str) -> str:
        return f"{self._folder}/{path}"

    def _open(self, path: str, flags: int) -> int:
        """Return the open descriptor; few files are ever open: the ones that are being written."""
        if path not in self._descriptors:
            if len(self._descriptors) >= _OPEN_FILES_MAX:
                self._close(next(iter(self._descriptors)))
            self._descriptors[path] = os.open(self._path(path), os.O_RDWR | flags, 0o644)
        return self._descriptors[path]

    def _close(self, path: str) -> None:
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)


_OPEN_FILES_MAX = 16
_REWRITE_BYTES = 1 << 20


def _nothing_of(_descriptor: int) -> None:
    """How a drain syncs what it opened: nothing."""


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise DiskLockedError(
            f"folder {path.parent} is in use: another process holds {path}"
        ) from None
    return descriptor
