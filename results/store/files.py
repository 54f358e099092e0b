"""Small files that are whole or absent: written aside, made durable, then renamed into place."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from extensions.plain_files import no_repeats, read_plain, refuse_other_file

JSON_BYTES_MAX = 1 << 28
"""A larger document is none that was written here."""


class StoreError(ValueError):
    """A file of a run is missing, unreadable or not what it should be; one line says which."""


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path`: a reader, or a crash at any moment, sees the old file or the new one.

    A link is replaced, not followed. Raises OSError where the folder cannot be written, or `path`
    is a device, a pipe, a socket or a folder.
    """
    if not path.is_symlink():
        refuse_other_file(path)
    name = ""
    try:
        fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        if isinstance(error, OSError):
            error.filename = str(path)  # the system names none, or the temporary file
        raise
    _sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write one JSON document, atomically and the same bytes for the same value."""
    text = json.dumps(value, indent=1, sort_keys=False, allow_nan=False)
    write_atomically(path, text.encode("ascii") + b"\n")


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises StoreError when there is none or it is something else, has a key twice, or a number that
    is none of JSON.
    """
    return json_object(read_bounded(path, JSON_BYTES_MAX), path)


def json_object(data: bytes, path: Path) -> dict[str, Any]:
    """Return the JSON object in what was read of a file. Raises StoreError as above."""
    try:
        value = parse_json(data.decode("utf-8"))
    except RecursionError:
        raise StoreError(f"{path}: it is nested too deeply") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise StoreError(f"{path}: it is no JSON document") from error
    except ValueError as error:
        raise StoreError(f"{path}: {error!s:.100}") from error
    if not isinstance(value, dict):
        raise StoreError(f"{path}: it holds no JSON object")
    return value


def read_bounded(path: Path, bytes_max: int) -> bytes:
    """Return a plain file's content. Raises StoreError when there is none, or it is too large."""
    with reading(path):
        return read_plain(path, bytes_max=bytes_max, follow=False)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise StoreError where a file is missing or cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise StoreError(f"{path}: there is no such file") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error


def parse_json(text: str) -> Any:
    """Parse JSON of finite numbers, no key twice. Raises ValueError, RecursionError."""
    return json.loads(
        text, object_pairs_hook=no_repeats, parse_constant=_finite, parse_float=_finite
    )


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of JSON")
    return number


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
