"""Opens files that nobody vouches for: plain ones only, and no more of them than a bound.

A path from elsewhere may be a named pipe, on which `open` waits for ever; a device, which has no
end; or a sparse file of terabytes, which takes no room on the disk it came from. So what a path
leads to is looked at before it is opened (opening some devices does something) and once more when
it is open (it may have been exchanged), the size is compared before a byte is read, and what grows
while it is read is refused at the same bound. Files are read a piece at a time: between two pieces
a signal is handled.

What is refused is an OSError like any other file that cannot be read; `strerror` says why.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

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


def open_plain(path: str | Path, *, bytes_max: int, follow: bool = True) -> BinaryIO:
    """Open a plain file of at most `bytes_max` for reading. Raises OSError.

    `follow`: the path itself may be a symbolic link.
    """
    _check(path, Path(path).stat(follow_symlinks=follow), bytes_max)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    fd = os.open(path, flags | (0 if follow else os.O_NOFOLLOW))
    try:
        _check(path, os.fstat(fd), bytes_max)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def _check(path: str | Path, found: os.stat_result, bytes_max: int) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != stat.S_IFREG:
        raise _refusal(path, f"{_KINDS.get(kind, 'something else')}, not a plain file")
    if found.st_size > bytes_max:
        raise _too_large(path, bytes_max)


def _refusal(path: str | Path, why: str) -> RefusedFileError:
    return RefusedFileError(errno.EINVAL, why, str(path))


def _too_large(path: str | Path, bytes_max: int) -> RefusedFileError:
    return _refusal(path, f"more than the {bytes_max:,} bytes that are read of such a file")


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


def read_lines(path: str | Path, *, bytes_max: int, line_bytes_max: int) -> Iterator[bytes]:
    """Yield the lines of a plain file, each with its newline. Raises OSError."""
    with open_plain(path, bytes_max=bytes_max) as file:
        left = bytes_max
        while line := file.readline(line_bytes_max + 1):
            left -= len(line)
            if len(line) > line_bytes_max:
                raise _refusal(path, f"a line of more than {line_bytes_max:,} bytes")
            if left < 0:
                raise _too_large(path, bytes_max)
            yield line
