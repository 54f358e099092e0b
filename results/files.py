"""Small files that are whole or absent: written aside, made durable, then renamed into place."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


class StoreError(ValueError):
    """A file of a run is missing, unreadable or not what it should be; one line says which."""


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path`: a reader, or a crash at any moment, sees the old file or the new one.

    Raises OSError where the folder cannot be written.
    """
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    _sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write one JSON document, atomically and the same bytes for the same value."""
    text = json.dumps(value, indent=1, sort_keys=False, allow_nan=False)
    write_atomically(path, text.encode("ascii") + b"\n")


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises StoreError when there is none or it is something else.
    """
    try:
        value = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{path}: there is no such file") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: it is no JSON document") from error
    if not isinstance(value, dict):
        raise StoreError(f"{path}: it holds no JSON object")
    return value


def sha256_of(path: Path) -> str | None:
    """Hexadecimal digest of a file, None where there is no such file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
