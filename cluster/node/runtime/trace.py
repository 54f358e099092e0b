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
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any, Final

from cluster.node.config import NodeConfig
from cluster.node.ports import Trace

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


# What a node says of itself on its standard output, a line each: for people, not for programs.
#
# It is learnt from the node's own trace, which passes through `AnnouncingTrace`. A healthy node
# says that it started, when it begins and ends to be the active controller, and when its broker is
# fenced and unfenced; no more. One that is not says which log directory went offline.


_LINES: Final = {
    "claim": "is the active controller, in epoch {epoch}",
    "renounce": "is no longer the active controller of epoch {epoch}",
    "log-directory-offline": (
        "log directory {log_dir} is offline: {reason}; restart the node once the disk is well again"
    ),
    "broker-state fenced": "the broker is registered with epoch {broker_epoch} and fenced",
    "broker-state running": "the broker is unfenced",
    "broker-state shutting-down": "the broker asks to be let go",
    "unregistered": (
        "the broker is no longer registered ({reason} for epoch {broker_epoch}); "
        "restart it to register it anew"
    ),
    "unregistered yet": "the broker is not registered yet, and tries on: {reason}",
}


class AnnouncingTrace:
    """A `Trace` that says some of what it passes on."""

    def __init__(self, trace: Trace, say: Callable[[str], None]) -> None:
        self._trace = trace
        self._say = say

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Pass an event on, then say what it means."""
        self._trace(event, **fields)
        line = _line(event, fields)
        if line is not None:
            self._say(line)


def start_line(config: NodeConfig) -> str:
    """Say what a node is and where it listens."""
    roles = " and ".join(sorted(config.process_roles, reverse=True))
    where = ", ".join(f"{e.name}://{e.host}:{e.port}" for e in config.listeners)
    line = f"{roles} of cluster {config.cluster_id} started, listening on {where}"
    if "broker" in config.process_roles and not config.kraftprobe_registration:
        line += "; the broker does not register (kraftprobe.registration=false)"
    open_to_all = [e.name for e in config.listeners if not config.security[e.name].authenticates]
    if open_to_all:
        line += f"; whoever reaches {', '.join(open_to_all)} is not authenticated"
    return line


def _line(event: str, fields: dict[str, Any]) -> str | None:
    if event == "broker-state":
        event = f"{event} {fields['state']}"
    elif event == "unregistered" and fields["broker_epoch"] < 0:
        event = "unregistered yet"
    line = _LINES.get(event)
    return None if line is None else line.format(**fields)
