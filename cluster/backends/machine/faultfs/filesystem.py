"""The FUSE side: every call goes through the gate, is booked, and passed on.

Reads are never held: a node with a stalled disk must go on answering. Nor are changes of names,
which would hold the kernel's lock of the folder. Kernel caches of attributes and names are off and
reads are direct, since a power loss changes files behind the kernel's back.

What is read directly cannot be mapped into memory for writing, so files that a node maps are named
by their suffixes and go through the kernel's pages. The kernel writes these when it likes, at the
latest when the process that mapped them ends: the gate lets them pass, since nobody would learn
of an error, and a dying process could not be let go. They are lost like others by a power loss, and
read anew at the next open.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import mfusepy

from cluster.backends.machine.faultfs.faults import Call, Faults
from cluster.backends.machine.faultfs.volatile import OWN_PREFIX, Volatile

_STAT = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_ino", "st_blocks")
_TIMES = ("atime", "mtime", "ctime")


class FaultFilesystem(mfusepy.Operations):  # type: ignore[misc]  # the package has no types
    """Passes on to the folder `root`; see the module."""

    use_ns = True

    def __init__(
        self, root: str, volatile: Volatile, faults: Faults, mapped: tuple[str, ...] = ()
    ) -> None:
        """`mapped`: suffixes of the files that are mapped into memory."""
        self._root = root
        self._volatile = volatile
        self._faults = faults
        self._mapped = mapped
        self.guard = threading.RLock()
        """Held around a change and its bookkeeping, and around a power loss."""

    def getattr(self, path: str, fi: Any = None) -> dict[str, Any]:
        stat = os.lstat(self._below(path)) if fi is None else os.fstat(fi.fh)
        stats = {name: getattr(stat, name) for name in _STAT}
        return stats | {f"st_{name}": getattr(stat, f"st_{name}_ns") for name in _TIMES}

    def readdir(self, path: str, fh: int) -> list[str]:  # noqa: ARG002
        names = sorted(os.listdir(self._below(path)))  # noqa: PTH208  (names)
        # What the toolkit measures with is not the node's to see.
        return [".", "..", *(name for name in names if not name.startswith(OWN_PREFIX))]

    def open(self, path: str, fi: Any) -> int:
        fi.fh = self._descriptor(path, fi.flags)
        if fi.flags & os.O_TRUNC:
            try:
                self.truncate(path, 0, fi)
            except OSError:
                os.close(fi.fh)
                raise
        return self._opens(path, fi)

    def _opens(self, path: str, fi: Any) -> int:
        fi.direct_io = not path.endswith(self._mapped)
        return 0

    def _descriptor(self, path: str, flags: int) -> int:
        # To remember what a write replaces it must be read; positions come from the kernel.
        kept = flags & ~(os.O_APPEND | os.O_TRUNC | os.O_CREAT | os.O_EXCL | os.O_DIRECT)
        if flags & os.O_ACCMODE == os.O_WRONLY:
            kept = kept & ~os.O_ACCMODE | os.O_RDWR
        return os.open(self._below(path), kept)

    def create(self, path: str, mode: int, fi: Any) -> int:
        with self._change("create", path, path):
            fi.fh = os.open(self._below(path), os.O_RDWR | os.O_CREAT, mode)
        return self._opens(path, fi)

    def read(self, path: str, size: int, offset: int, fi: Any) -> bytes:  # noqa: ARG002
        return os.pread(fi.fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fi: Any) -> int:
        grows = offset + len(data) > os.fstat(fi.fh).st_size
        with self._change("grow" if grows else "write", path):
            self._volatile.will_write(fi.fh, offset, len(data))
            written = os.pwrite(fi.fh, data, offset)
        if fi.flags & os.O_DSYNC:  # part of O_SYNC: each write is an fsync as well
            self.fsync(path, 1, fi)
        return written

    def truncate(self, path: str, length: int, fi: Any = None) -> int:
        with self._change("write", path), self._open_file(path, fi) as descriptor:
            self._volatile.will_truncate(descriptor, length)
            os.ftruncate(descriptor, length)
        return 0

    def fsync(self, path: str, datasync: int, fi: Any) -> int:
        try:
            with self._change("fsync", path):
                (os.fdatasync if datasync else os.fsync)(fi.fh)
                self._volatile.note_sync(fi.fh, own=_is_own(path))
        except OSError as error:
            if error.errno == mfusepy.errno.EIO:
                with self.guard:
                    self._volatile.lose(fi.fh)
            raise
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:  # noqa: ARG002
        with self._change("fsync", path):
            descriptor = os.open(self._below(path), os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._volatile.synced_folder(path.strip("/"))
        return 0

    def rename(self, old: str, new: str) -> int:
        is_folder = os.path.isdir(self._below(old))  # noqa: PTH112  (plain strings)
        # A full disk has room for another name.
        with self._change("removal", old, *(() if is_folder else (old, new))):
            os.replace(self._below(old), self._below(new))  # noqa: PTH105  (plain strings)
            if is_folder:
                self._volatile.note_rename(old.strip("/"), new.strip("/"))
        return 0

    def unlink(self, path: str) -> int:
        with self._change("removal", path, path):
            os.unlink(self._below(path))  # noqa: PTH108  (plain strings)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        with self._change("create", path):
            os.mkdir(self._below(path), mode)  # noqa: PTH102  (plain strings)
        return 0

    def rmdir(self, path: str) -> int:
        with self._change("removal", path):
            os.rmdir(self._below(path))  # noqa: PTH106  (plain strings)
            self._volatile.note_removal(path.strip("/"))
        return 0

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._below(path), mode)  # noqa: PTH101  (plain strings)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        os.chown(self._below(path), uid, gid)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        if times is None:
            os.utime(self._below(path))
        else:
            os.utime(self._below(path), ns=times)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        stat = os.statvfs(self._below(path))
        names = ("bavail", "bfree", "blocks", "bsize", "favail", "ffree", "files", "frsize")
        return {f"f_{name}": getattr(stat, f"f_{name}") for name in (*names, "namemax")}

    def flush(self, path: str, fi: Any) -> int:  # noqa: ARG002
        return 0

    def release(self, path: str, fi: Any) -> int:  # noqa: ARG002
        os.close(fi.fh)
        return 0

    @contextlib.contextmanager
    def _change(self, call: Call, path: str, *names: str) -> Iterator[None]:
        """Pass the gate, then hold the lock; `names` are those that will be given or taken."""
        own = _is_own(path)
        if not path.endswith(self._mapped):
            self._faults.pass_gate(call, mfusepy.fuse_get_context()[2], own=own)
        with self.guard:
            if names:
                self._volatile.will_change_names(*(name.strip("/") for name in names))
            yield

    @contextlib.contextmanager
    def _open_file(self, path: str, fi: Any) -> Iterator[int]:
        descriptor = os.open(self._below(path), os.O_RDWR) if fi is None else fi.fh
        try:
            yield descriptor
        finally:
            if fi is None:
                os.close(descriptor)

    def _below(self, path: str) -> str:
        return self._root + path


def _is_own(path: str) -> bool:
    """Whether a file is the toolkit's."""
    return path.startswith(f"/{OWN_PREFIX}")
