"""Files that nobody vouches for: plain files only, opened without waiting, read within bounds.

Opening a pipe waits for somebody who writes into it, a device has no end, and 20 GiB of holes cost
whoever made them nothing and a reader minutes. Each is refused by an OSError, whose text says what
the file is, before a byte is read.

A file is read in pieces, since Python handles a signal between two calls and not within one: a
single `read` of a large file is deaf to SIGTERM until its end. What is larger than its reader can
use, the file or a line of it, is refused too.

Here since both `checkers` and `cluster`, which know nothing of each other, read such files.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

HOLES_BYTES_MAX = 1 << 26
"""More of a file that lies nowhere on a disk is no file of a run. Brokers leave index files of
10 MiB each of which only the beginning was written; nothing else has any."""
LINE_BYTES_MAX = 1 << 24
"""Of a journal, a trace, a chain of digests: their lines are bytes and kilobytes."""
_PIECE_BYTES = 1 << 22


def open_plain(path: str | os.PathLike[str], *, follow: bool = True) -> BufferedReader:
    """Open a plain file for reading; `follow` false: a link is none.

    Raises OSError, also where it is anything else, or has holes beyond HOLES_BYTES_MAX.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        fd = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow and Path(path).is_symlink():
            raise _refusal(path, errno.EINVAL, "a link, not a plain file") from None
        if error.errno == errno.ENXIO:
            raise _refusal(path, errno.EINVAL, "a socket, not a plain file") from None
        raise
    try:
        _check(path, fd)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read_plain(path: str | os.PathLike[str], bytes_max: int, *, follow: bool = True) -> bytes:
    """Return the content of a plain file. Raises OSError, also where it is larger."""
    with open_plain(path, follow=follow) as file:
        data = bytearray()
        if os.fstat(file.fileno()).st_size <= bytes_max:
            while len(data) <= bytes_max and (piece := file.read(_PIECE_BYTES)):
                data += piece
            if len(data) <= bytes_max:
                return bytes(data)
    raise _refusal(path, errno.EFBIG, f"larger than {_size(bytes_max)}")


def lines_of(
    path: str | os.PathLike[str], *, line_bytes_max: int = LINE_BYTES_MAX
) -> Iterator[bytes]:
    """Yield the lines of a plain file, with newlines. Raises OSError, also for a longer one."""
    with open_plain(path) as file:
        while line := file.readline(line_bytes_max + 1):
            yield _bounded(path, line, line_bytes_max)


def blocks_of(
    path: str | os.PathLike[str], block_bytes: int, *, line_bytes_max: int = LINE_BYTES_MAX
) -> Iterator[bytes]:
    """Yield whole lines of a plain file, some `block_bytes` of them at a time. Raises OSError."""
    with open_plain(path) as file:
        while block := file.read(block_bytes):
            yield block + _bounded(path, file.readline(line_bytes_max + 1), line_bytes_max)


def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object of its pairs (`object_pairs_hook`). Raises ValueError for a key twice.

    Readers disagree which of both counts, so that one file could be two documents.
    """
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is repeated")
    return table


def _check(path: str | os.PathLike[str], fd: int) -> None:
    """Raise OSError unless a file is plain and lies on a disk."""
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):
        raise _refusal(path, errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        what = "a pipe" if stat.S_ISFIFO(status.st_mode) else "a device"
        raise _refusal(path, errno.EINVAL, f"{what}, not a plain file")
    if status.st_size - status.st_blocks * 512 > HOLES_BYTES_MAX:
        if _hole_bytes(fd, status.st_size) > HOLES_BYTES_MAX:
            raise _refusal(path, errno.EFBIG, f"more than {_size(HOLES_BYTES_MAX)} of it are holes")
        os.lseek(fd, 0, os.SEEK_SET)


def _bounded(path: str | os.PathLike[str], line: bytes, line_bytes_max: int) -> bytes:
    if len(line) > line_bytes_max:
        raise _refusal(path, errno.EFBIG, f"a line is longer than {_size(line_bytes_max)}")
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


def _refusal(path: str | os.PathLike[str], number: int, what: str) -> OSError:
    return OSError(number, what, str(path))


def _size(count_bytes: int) -> str:
    return f"{count_bytes:,} bytes" if count_bytes % (1 << 20) else f"{count_bytes >> 20} MiB"
