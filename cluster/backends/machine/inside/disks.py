"""Talk to the filesystem that fails on order, measure a disk, and keep a canary on it."""

import contextlib
import errno
import json
import os
import select
import signal
import socket
import time
from typing import Any

_CANARY = ".kraftprobe-canary"


def ask(state: str, request: "dict[str, Any]") -> Any:
    """Send one request to the filesystem of this state folder; return its answer."""
    os.chdir(state)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect("control")
        with connection.makefile("rwb") as stream:
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
            return json.loads(stream.readline())


def measure(folder: str, limit_s: float) -> "dict[str, Any]":
    """Write and fsync a file: {"write_ms", "fsync_ms", "error": its name}, None where unknown.

    A child does it and is left alone after `limit_s`: while a stalled fsync of the folder by the
    node holds the kernel's lock of it, whoever opens a file there can neither go on nor be killed.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):  # or who waits for their ends waits for the disk
            os.dup2(nothing, number)
        _write_and_fsync(os.path.join(folder, ".kraftprobe-measure"), writing)
        os._exit(0)
    os.close(writing)
    text, ends_s = b"", time.monotonic() + limit_s
    while select.select([reading], [], [], max(0.0, ends_s - time.monotonic()))[0]:
        part = os.read(reading, 4096)
        if not part:
            break
        text += part
    os.kill(child, signal.SIGKILL)
    lines = text.splitlines()
    return json.loads(lines[-1]) if lines else {"write_ms": None, "fsync_ms": None, "error": None}


def _write_and_fsync(path: str, writing: int) -> None:
    """Write to the pipe what is known, as it becomes known."""
    seen: "dict[str, float | str | None]" = {"write_ms": None, "fsync_ms": None, "error": None}
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        begun = time.monotonic()
        os.write(file, b"measure")
        seen["write_ms"] = (time.monotonic() - begun) * 1e3
        os.write(writing, json.dumps(seen).encode() + b"\n")
        begun = time.monotonic()
        os.fsync(file)
        seen["fsync_ms"] = (time.monotonic() - begun) * 1e3
        os.close(file)
    except OSError as error:
        seen["error"] = errno.errorcode.get(error.errno or 0, str(error.errno))
    os.write(writing, json.dumps(seen).encode() + b"\n")
    with contextlib.suppress(OSError):
        os.unlink(path)


def plant_canary(folder: str) -> None:
    """Make a file that a power loss must keep."""
    file = os.open(os.path.join(folder, _CANARY), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(file, b"kept")
    os.fsync(file)
    os.fsync(os.open(folder, os.O_RDONLY))


def soil_canary(folder: str) -> None:
    """Append to it what a power loss must lose.

    Without an fsync of the folder, which would keep names of the node's that may be lost.
    """
    os.write(os.open(os.path.join(folder, _CANARY), os.O_RDWR | os.O_APPEND), b"lost")


def read_canary(folder: str) -> str:
    """Return what it holds."""
    with open(os.path.join(folder, _CANARY), "rb") as file:
        return file.read().decode()
