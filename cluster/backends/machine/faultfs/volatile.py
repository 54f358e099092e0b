"""What of a folder's files is not yet durable, and how to lose it.

Changes go to the backing files at once; what they replaced is remembered until the fsync that
makes them durable. A power loss puts everything back:

- a file's bytes and length, to what they were at its last fsync;
- names of files, by the model (`cluster.systems.base.Names`):
  - `posix`: to what they were at their folder's last fsync. A file that was created since vanishes
    with all its synced content, a rename or a removal is undone. These are the terms of
    `cluster.node.ports.Disk` and of the simulated disk: POSIX promises no more;
  - `with-file`: to what they were at the last fsync of any file or folder, as ext4 and xfs have it,
    whose one journal holds all changes of names in order: a name is durable with its file's own
    fsync, and no later change of a name outlives an earlier one;
- a torn write, the newest un-fsynced one that can be torn, survives by half, with what was written
  to its file before it. By the model `posix` it may end at any byte. By `with-file` it ends between
  sectors of 512 bytes of its file, as a disk writes each whole or not at all, and what lies within
  one cannot be torn. Systems rely on that: etcd's `isTornEntry` takes a record for torn, and not
  damaged, where all that it has in some sector is zeros;
- nothing else. What was not fsynced is lost however old it is, and a file whose name is durable may
  be empty: ext4 writes back after some seconds, and at some renames, which is promised nowhere.

Folders themselves, made, renamed or removed, count as durable at once. A removed file that a power
loss may bring back is kept by a link in a folder beside, the graveyard, on the same device. Inodes
are named by number: the link keeps a number from being used again while it is remembered here.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from cluster.values import valueclass

OWN_PREFIX = ".kraftprobe-"
"""Files of the toolkit's own in the root: for measuring."""
_SECTOR_BYTES = 512


@dataclass(slots=True)
class _Undo:
    """One write or truncation: from `offset` on the bytes were `old`, the file `size` long."""

    offset: int
    old: bytes
    size: int
    new_bytes: int
    order: int


@valueclass
class Lost:
    """What a power loss took."""

    bytes: int
    """Written and not fsynced."""
    files: int
    """With changed content, or that vanished or came back."""
    torn_path: str = ""
    """File with a write that survived by half."""


class Volatile:
    """Bookkeeping over the folder `root` (any path or a name relative to the working folder).

    Not thread-safe: the caller holds a lock around each call together with the change it announces.
    """

    def __init__(self, root: str, graveyard: str, *, in_order: bool = False) -> None:
        """`in_order`: the model is `with-file`."""
        self._root = root
        self._in_order = in_order
        self._graveyard = graveyard
        self._files: dict[int, list[_Undo]] = {}
        self._folders: dict[str, dict[str, int]] = {}
        """Each that changed since its last fsync -> its durable names -> the inodes of these."""
        self._buried: set[int] = set()
        self._order = 0

    @property
    def dirty_bytes(self) -> int:
        """Bytes that were written and not fsynced."""
        return sum(undo.new_bytes for undos in self._files.values() for undo in undos)

    # -- called before a change ------------------------------------------------------------------

    def will_write(self, descriptor: int, offset: int, size: int) -> None:
        """A write of so many bytes comes."""
        stat = os.fstat(descriptor)
        old = os.pread(descriptor, size, offset) if offset < stat.st_size else b""
        self._remember(stat.st_ino, _Undo(offset, old, stat.st_size, size, 0))

    def will_truncate(self, descriptor: int, size: int) -> None:
        """The file will have another length."""
        stat = os.fstat(descriptor)
        old = os.pread(descriptor, max(0, stat.st_size - size), size)
        self._remember(stat.st_ino, _Undo(size, old, stat.st_size, 0, 0))

    def will_change_names(self, *paths: str) -> None:
        """Names of files below root will be made, removed or given to other files."""
        for path in paths:
            folder = path.rpartition("/")[0]
            if folder not in self._folders:
                self._folders[folder] = self._names_now(folder)
            with contextlib.suppress(FileNotFoundError):
                self._bury(self._below(path))

    # -- called after an fsync -------------------------------------------------------------------

    def note_sync(self, descriptor: int, *, own: bool = False) -> None:
        """A file's content is durable. `own`: the toolkit's file, which must help no other."""
        self._files.pop(os.fstat(descriptor).st_ino, None)
        if self._in_order and not own:
            self._folders.clear()
            self._unbury()

    def synced_folder(self, folder: str) -> None:
        """A folder's names are durable."""
        if self._in_order:
            self._folders.clear()
        self._folders.pop(folder, None)
        self._unbury()

    # -- called after a change of a folder -------------------------------------------------------

    def note_removal(self, folder: str) -> None:
        """An empty folder was removed; what it held before cannot come back."""
        self._folders.pop(folder, None)
        self._unbury()

    def note_rename(self, old: str, new: str) -> None:
        """A folder has another name now, perhaps that of an empty one."""
        self.note_removal(new)
        for folder in list(self._folders):
            if folder == old or folder.startswith(f"{old}/"):
                self._folders[new + folder.removeprefix(old)] = self._folders.pop(folder)

    # -- losses ----------------------------------------------------------------------------------

    def lose(self, descriptor: int) -> int:
        """Put one file back to its last fsync, as where an fsync failed; returns bytes lost."""
        undos = self._files.pop(os.fstat(descriptor).st_ino, [])
        _roll_back(descriptor, undos)
        return sum(undo.new_bytes for undo in undos)

    def power_loss(self, *, torn: bool = False) -> Lost:
        """Put everything back; with `torn` a write survives by half, if one can."""
        lost_bytes, changed = self.dirty_bytes, set(self._files)
        changed |= self._restore_names()
        last, torn_path = self._last_tearable() if torn else 0, ""
        for path in self._all_files():
            inode = os.stat(self._below(path)).st_ino  # noqa: PTH116  (plain strings)
            undos = self._files.pop(inode, None)
            if undos is None:
                continue
            with _open_file(self._below(path)) as descriptor:
                before = [undo for undo in undos if undo.order < last]
                if len(before) < len(undos) and undos[len(before)].order == last:
                    torn_path = path
                    kept = self._kept_bytes(undos[len(before)])
                    lost_bytes -= sum(undo.new_bytes for undo in before) + kept
                    _tear(descriptor, undos[len(before) :], kept)
                else:
                    _roll_back(descriptor, undos)
        self._files.clear()
        self._unbury()
        return Lost(lost_bytes, len(changed), torn_path)

    @property
    def tearable(self) -> bool:
        """Whether a power loss now can tear a write."""
        return self._last_tearable() > 0

    def _last_tearable(self) -> int:
        """Return the number of the newest write that can be torn, of a file that is still there."""
        orders = [0]
        for path in self._all_files():
            if path.startswith(OWN_PREFIX):
                continue  # the toolkit's own
            inode = os.stat(self._below(path)).st_ino  # noqa: PTH116  (plain strings)
            undos = self._files.get(inode, [])
            orders += [undo.order for undo in undos if self._kept_bytes(undo)]
        return max(orders)

    def _kept_bytes(self, undo: _Undo) -> int:
        """Say how much of a write is there once it is torn; 0: it cannot be torn.

        Exactly half is a whole batch where two of one size were written at once: without sectors it
        is half and a bit, where there is room for a bit.
        """
        size = undo.new_bytes
        if not self._in_order:
            bit = 13  # within the header of a batch
            return size // 2 + (bit if size > 4 * bit else 0)
        middle = undo.offset + size // 2
        kept = middle // _SECTOR_BYTES * _SECTOR_BYTES - undo.offset
        kept += _SECTOR_BYTES * (kept <= 0)
        return kept if kept < size else 0

    def forget(self) -> None:
        """Count everything as durable, as before an orderly unmount."""
        self._files.clear()
        self._folders.clear()
        self._unbury()

    # -- names -----------------------------------------------------------------------------------

    def _restore_names(self) -> set[int]:
        """Give every changed folder its durable names; returns the inodes that this concerned."""
        changed: set[int] = set()
        for folder in self._folders:  # first keep all, for a name may have moved between folders
            for name in self._names_now(folder):
                self._bury(self._below(_join(folder, name)))
        for folder, durable in self._folders.items():
            now = self._names_now(folder)
            for name, inode in now.items():
                if durable.get(name) != inode:
                    os.unlink(self._below(_join(folder, name)))  # noqa: PTH108  (plain strings)
                    changed.add(inode)
            for name, inode in durable.items():
                if now.get(name) != inode:
                    os.link(f"{self._graveyard}/{inode}", self._below(_join(folder, name)))
                    changed.add(inode)
        self._folders.clear()
        return changed

    def _names_now(self, folder: str) -> dict[str, int]:
        with os.scandir(self._below(folder)) as entries:
            return {e.name: e.inode() for e in entries if e.is_file(follow_symlinks=False)}

    def _all_files(self) -> list[str]:
        found = []
        for folder, _, names in os.walk(self._root):
            relative = os.path.relpath(folder, self._root)
            found += [_join("" if relative == "." else relative, name) for name in names]
        return sorted(found)

    def _bury(self, path: str) -> None:
        inode = os.stat(path).st_ino  # noqa: PTH116  (plain strings)
        if inode not in self._buried:
            os.link(path, f"{self._graveyard}/{inode}")
            self._buried.add(inode)

    def _unbury(self) -> None:
        """Forget removed files that no power loss brings back any more."""
        needed = {inode for names in self._folders.values() for inode in names.values()}
        for inode in sorted(self._buried - needed):
            path = f"{self._graveyard}/{inode}"
            if os.stat(path).st_nlink == 1:  # noqa: PTH116  (plain strings)
                self._files.pop(inode, None)  # its number may be used again
            os.unlink(path)  # noqa: PTH108  (plain strings)
            self._buried.remove(inode)

    def _below(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _remember(self, inode: int, undo: _Undo) -> None:
        self._order += 1
        undo.order = self._order
        self._files.setdefault(inode, []).append(undo)


def _roll_back(descriptor: int, undos: list[_Undo]) -> None:
    for undo in reversed(undos):
        os.ftruncate(descriptor, undo.size)
        _write_at(descriptor, undo.old, undo.offset)


def _tear(descriptor: int, undos: list[_Undo], kept: int) -> None:
    """Leave the first `kept` bytes of the first write, and what was there before behind them."""
    _roll_back(descriptor, undos[1:])
    new = os.pread(descriptor, kept, undos[0].offset)
    _roll_back(descriptor, undos[:1])
    _write_at(descriptor, new, undos[0].offset)


def _write_at(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


@contextlib.contextmanager
def _open_file(path: str) -> Iterator[int]:
    """Open a file to change it, whoever may write to it: Kafka's snapshots are read-only."""
    mode = stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116  (plain strings)
    os.chmod(path, mode | stat.S_IWUSR)  # noqa: PTH101
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fchmod(descriptor, mode)
        yield descriptor
    finally:
        os.close(descriptor)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
