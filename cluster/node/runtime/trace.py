"""The node's event trace as JSON lines, one `write` each (`docs/evidence.md`).

A line is in the kernel's hands before the call returns, so a `kill -9` right after an event keeps
it. Lines of earlier incarnations stay in the file: the number of the next one is read from them.

A kill, or a disk without room, may leave a line half written. It stays as it is; the next
writer, a new incarnation with its `start` or this one with its `fatal`, ends it with a newline
first. So a torn line stands before one of these two or at the very end, and anything else that is
no line of a trace is damage (`results.store.evidence_files` reads by this rule).
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import time
import uuid
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, Final

_TAIL_BYTES: Final = 64 * 1024


def _plain(value: object) -> str:
    if isinstance(value, uuid.UUID | PurePath):
        return str(value)
    raise TypeError(f"a trace field of type {type(value).__name__}")


_encode = json.JSONEncoder(separators=(",", ":"), default=_plain, check_circular=False).encode


def encode_line(line: Mapping[str, object]) -> bytes:
    """Return one line of a trace with its newline; its last field is the CRC-32 of all before."""
    body = _encode(line)[:-1].encode("ascii")
    return b'%s,"crc":%d}\n' % (body, zlib.crc32(body))


class JsonLinesTrace:
    """A `Trace` that appends to a file.

    Opening raises OSError. `incarnation` is one above that of the last line that is there, else 0.
    """

    def __init__(self, path: Path) -> None:
        last, self._torn = _last_line(path)
        self.incarnation: int = 0 if last is None else int(last["n"]) + 1
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def __call__(self, event: str, /, **fields: object) -> None:
        """Record one event with the node's monotonic time. Raises OSError when it cannot."""
        if event == "fatal":
            lift_file_size_limit()
        data = encode_line({"t": time.monotonic_ns(), "n": self.incarnation, "e": event, **fields})
        if self._torn:
            data = b"\n" + data
        self._torn = True  # until the whole line is in the file
        written = os.write(self._fd, data)
        self._torn = written != len(data)
        if self._torn:
            raise OSError(f"trace: {written} of {len(data)} bytes written")

    def close(self) -> None:
        """Close the file; no event may follow."""
        os.close(self._fd)


def clock_name() -> str:
    """Name the monotonic clock that traces are written by: equal where times are comparable.

    One kernel since its boot, and the time namespace, if it has any. Empty where neither is known.
    """
    boot = ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/time').readlink()}"
    except FileNotFoundError:  # before Linux 5.6 a kernel has one monotonic clock
        return boot
    except OSError:
        return ""


def no_trace(event: str, /, **fields: object) -> None:
    """Record nothing: the `Trace` of a node without a trace file."""


def lift_file_size_limit() -> None:
    """Let a process that is about to end say why, though a limit on file sizes is what ends it."""
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def _last_line(path: Path) -> tuple[dict[str, Any] | None, bool]:
    """Return the last whole line, and whether something torn follows it."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            tail = file.read()
    except FileNotFoundError:
        return None, False
    torn = tail != b"" and not tail.endswith(b"\n")
    for line in reversed(tail.split(b"\n")):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("n"), int):
            return event, torn
    return None, torn
