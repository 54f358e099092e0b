"""Files that nobody vouches for: plain files only, opened without waiting, read within bounds.

Opening a pipe waits for somebody who writes into it, opening some devices does something, a device
has no end, and 20 GiB of holes cost whoever made them nothing and a reader minutes. So what a path
leads to is looked at before it is opened, and once more when it is open (it may have been
exchanged); size and holes are compared before a byte is read, and what grows while it is read is
refused at the same bound.

A file is read in pieces, since Python handles a signal between two calls and not within one: a
single `read` of a large file is deaf to SIGTERM until its end.

What is refused is an OSError like any other file that cannot be read; `strerror` says why. Here
since both `checkers` and `cluster`, which know nothing of each other, read such files.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

HOLES_BYTES_MAX = 1 << 26
"""More of a file that lies nowhere on a disk is no file of a run. Brokers leave index files of
10 MiB each of which only the beginning was written; nothing else has any."""
LINE_BYTES_MAX = 1 << 24
"""Of a journal, a trace, a chain of digests: their lines are bytes and kilobytes."""
_PIECE_BYTES = 1 << 20
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
}


class RefusedFileError(OSError):
    """The path leads to no plain file, or to more than is read."""


def open_plain(
    path: str | Path, *, bytes_max: int | None = None, follow: bool = True
) -> BufferedReader:
    """Open a plain file for reading, of at most `bytes_max` if given. Raises OSError.

    `follow`: the path itself may be a symbolic link.
    """
    _check(path, Path(path).stat(follow_symlinks=follow), bytes_max)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    fd = os.open(path, flags | (0 if follow else os.O_NOFOLLOW))
    try:
        found = os.fstat(fd)
        _check(path, found, bytes_max)
        if found.st_size - found.st_blocks * 512 > HOLES_BYTES_MAX:
            if _hole_bytes(fd, found.st_size) > HOLES_BYTES_MAX:
                _refuse_holes(path)
            os.lseek(fd, 0, os.SEEK_SET)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def refuse_other_file(path: Path) -> None:
    """Raise OSError where something else than a plain file is that would be replaced by one.

    Whoever may rename can put a file in place of `/dev/null`, or of the link `/dev/stdout`.
    """
    if os.path.lexists(path):
        _check(path, path.lstat(), None)


def read_plain(path: str | Path, *, bytes_max: int, follow: bool = True) -> bytes:
    """Return the content of a plain file of at most `bytes_max`. Raises OSError."""
    with open_plain(path, bytes_max=bytes_max, follow=follow) as file:
        return read_bounded(file, path, bytes_max=bytes_max)


def read_bounded(file: BinaryIO, name: str | Path, *, bytes_max: int) -> bytes:
    """Return all that an open file holds, which may still grow. Raises OSError."""
    pieces: list[bytes] = []
    left = bytes_max
    while piece := file.read(min(_PIECE_BYTES, left + 1)):
        left -= len(piece)
        if left < 0:
            raise _too_large(name, bytes_max)
        pieces.append(piece)
    return b"".join(pieces)


def read_lines(
    path: str | Path, *, bytes_max: int | None = None, line_bytes_max: int = LINE_BYTES_MAX
) -> Iterator[bytes]:
    """Yield the lines of a plain file, each with its newline. Raises OSError."""
    with open_plain(path, bytes_max=bytes_max) as file:
        left = bytes_max
        while line := _line(file, path, line_bytes_max):
            if left is not None and bytes_max is not None:
                left -= len(line)
                if left < 0:
                    raise _too_large(path, bytes_max)
            yield line


def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object of its pairs (`object_pairs_hook`). Raises ValueError for a key twice.

    Readers disagree which of both counts, so that one file could be two documents.
    """
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"key {key!r} is repeated")
        table[key] = value
    return table


def _check(path: str | Path, found: os.stat_result, bytes_max: int | None) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != stat.S_IFREG:
        raise _refusal(path, f"{_KINDS.get(kind, 'something else')}, not a plain file")
    if bytes_max is not None and found.st_size > bytes_max:
        raise _too_large(path, bytes_max)


def _line(file: BinaryIO, path: str | Path, line_bytes_max: int) -> bytes:
    line = file.readline(line_bytes_max + 1)
    if len(line) > line_bytes_max:
        raise _refusal(path, f"a line of more than {line_bytes_max:,} bytes")
    return line


def _hole_bytes(fd: int, size_bytes: int) -> int:
    """Count the bytes in holes, until there are too many; 0 where the file system cannot say.

    Few blocks alone prove none: a file system may compress what was written.
    """
    at = holes = 0
    while at < size_bytes and holes <= HOLES_BYTES_MAX:
        try:
            data = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: a hole to the end
                return 0
            data = size_bytes
        holes += data - at
        at = os.lseek(fd, data, os.SEEK_HOLE) if data < size_bytes else size_bytes
    return holes


def _refuse_holes(path: str | Path) -> None:
    raise _refusal(path, f"more than {HOLES_BYTES_MAX:,} bytes of it are holes")


def _refusal(path: str | Path, why: str) -> RefusedFileError:
    return RefusedFileError(errno.EINVAL, why, str(path))


def _too_large(path: str | Path, bytes_max: int) -> RefusedFileError:
    return _refusal(path, f"more than the {bytes_max:,} bytes that are read of such a file")
