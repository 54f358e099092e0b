"""Where the bytes of a history come from: a plain file, gzip of one, or standard input (`-`).

All of it is bounded before it is read (`extensions.plain_files`). What is no text of a history
but something that people have beside one is refused by the name of what it is.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import sys
import zlib
from pathlib import Path
from typing import BinaryIO

from checkers.history import HistoryError
from extensions.plain_files import open_plain, read_bounded

FILE_BYTES_MAX = 1 << 33
"""Of a file that can be read in pieces."""
TEXT_BYTES_MAX = 1 << 30
"""Of what is read in one piece."""
STANDARD_INPUT = "-"
_GZIP = b"\x1f\x8b"
_OTHERS = {
    b"PK\x03\x04": "a zip archive: give a history file out of it",
    b"BZh": "compressed by bzip2: give what `bzcat` makes of it",
    b"\xfd7zXZ": "compressed by xz: give what `xzcat` makes of it",
    b"\x28\xb5\x2f\xfd": "compressed by zstd: give what `zstdcat` makes of it",
    b"PAR1": "a Parquet file: give the journal, history.jsonl",
    b"JEPSEN": "Jepsen's binary store: give the history.edn beside it",
    b"\xff\xfe": "UTF-16 text: give it as UTF-8",
    b"\xfe\xff": "UTF-16 text: give it as UTF-8",
}
_TAR_AT = 257


def open_history(path: str | Path) -> BinaryIO:
    """Open a history for reading, from its beginning, as often as is wanted.

    Raises HistoryError in one line.
    """
    try:
        file = _standard_input(path) if str(path) == STANDARD_INPUT else _plain(path)
        start = file.read(_TAR_AT + 5)
        file.seek(0)
        if start.startswith(_GZIP):
            with file, gzip.GzipFile(fileobj=file) as unpacked:
                content = io.BufferedReader(unpacked)
                file = io.BytesIO(read_bounded(content, path, bytes_max=TEXT_BYTES_MAX))
            start = file.getvalue()[: _TAR_AT + 5]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise HistoryError(f"{path}: cannot be read: not whole gzip, or cut off") from error
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror or error}") from error
    other = next((what for begin, what in _OTHERS.items() if start.startswith(begin)), None)
    if start[_TAR_AT:] == b"ustar":
        other = "a tar archive: give a history file out of it"
    if other is not None:
        file.close()
        raise HistoryError(f"{path}: no history, but {other}")
    return file


def _plain(path: str | Path) -> BinaryIO:
    try:
        return open_plain(path, bytes_max=FILE_BYTES_MAX)
    except OSError as error:
        if error.strerror == "a pipe, not a plain file":
            error.strerror += f"; give {STANDARD_INPUT} to read standard input"
        raise


def _standard_input(path: str | Path) -> BinaryIO:
    """Return what standard input holds; it can be read only once."""
    if sys.stdin is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(path))
    return io.BytesIO(read_bounded(sys.stdin.buffer, path, bytes_max=TEXT_BYTES_MAX))
