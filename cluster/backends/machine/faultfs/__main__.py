"""`python -m cluster.backends.machine.faultfs FOLDER STATE LABEL NAMES [SUFFIX...]`: mount, obey.

It mounts over FOLDER itself; its own files stay where they are below the mount: after the
unmount everything is in its place. STATE is a folder beside it, on the same device, for the control
socket, the graveyard and the log. LABEL is what the mount is called in the kernel's table. NAMES
says what a power loss takes (`cluster.systems.base.Names`). Files whose names end with a SUFFIX can
be mapped into memory.

Returns when the mount stands, leaving the server behind, with its pid on stdout. The server ends
when it is unmounted.

On the socket `STATE/control` a request is one line of JSON {"verb": ...} and so is the answer:
`set` {fault, parameters}, `clear` {fault}, `status` {torn}, `power-loss` {torn}, `end`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from cluster.backends.machine.faultfs.faults import Faults
from cluster.backends.machine.faultfs.volatile import Volatile

SUBTYPE = "kraftprobe"
_LINE_MAX = 65_536
_LOG_BYTES = 65_536


class _Control:
    """Obeys what comes over the socket."""

    def __init__(
        self, volatile: Volatile, faults: Faults, lock: threading.RLock, state: str
    ) -> None:
        self._state = state
        self._volatile = volatile
        self._faults = faults
        self._lock = lock

    def serve(self, listener: socket.socket) -> None:
        """Answer one request a connection, for ever."""
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as stream:
                try:
                    answer = self._obey(json.loads(stream.readline(_LINE_MAX)))
                except Exception as error:  # noqa: BLE001  (reported to the caller)
                    answer = {"error": f"{type(error).__name__}: {error}"}
                try:
                    stream.write(json.dumps(answer).encode() + b"\n")
                    stream.flush()
                except OSError:
                    continue

    def _obey(self, request: dict[str, Any]) -> dict[str, Any]:
        verb = request["verb"]
        if verb == "set":
            self._faults.set(request["fault"], request.get("parameters", {}))
        elif verb == "clear":
            self._faults.clear(request.get("fault"))
        elif verb == "power-loss":
            with self._lock:
                lost = self._volatile.power_loss(torn=bool(request.get("torn")))
            return {"bytes": lost.bytes, "files": lost.files, "torn": lost.torn_path}
        elif verb == "end":
            self._faults.end()
            with self._lock:
                self._volatile.forget()
            # Now: where a container still holds the mount, this process ends with it, much later.
            shutil.rmtree(self._state, ignore_errors=True)
        elif verb != "status":
            raise ValueError(f"unknown verb {verb!r}")
        with self._lock:
            return {
                "hits": self._faults.hits(),
                "dirty_bytes": self._volatile.dirty_bytes,
                "tearable": bool(request.get("torn")) and self._volatile.tearable,
            }


def _serve(
    folder: str, state: str, label: str, names: str, mapped: tuple[str, ...], ready: int
) -> None:
    """Be the server; write to `ready` once the mount stands."""
    import mfusepy  # noqa: PLC0415  (only where it serves: it loads libfuse)

    from cluster.backends.machine.faultfs.filesystem import FaultFilesystem  # noqa: PLC0415

    graveyard = f"{state}/graveyard"
    shutil.rmtree(graveyard, ignore_errors=True)
    Path(graveyard).mkdir(parents=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    root = f"/proc/self/fd/{descriptor}"  # the folder below the mount, whatever covers it
    volatile = Volatile(root, graveyard, in_order=names == "with-file")

    def tearable() -> bool:
        with filesystem.guard:
            return volatile.tearable

    faults = Faults(tearable)
    filesystem = FaultFilesystem(root, volatile, faults, mapped)
    listener = socket.socket(socket.AF_UNIX)
    os.chdir(state)  # a socket's name has at most 107 bytes
    Path("control").unlink(missing_ok=True)
    listener.bind("control")
    listener.listen(8)

    def on_mount(path: str) -> None:
        del path
        control = _Control(volatile, faults, filesystem.guard, state)
        threading.Thread(target=control.serve, args=(listener,), daemon=True).start()
        os.write(ready, b"+")
        os.close(ready)

    filesystem.init = on_mount
    try:
        mfusepy.FUSE(
            filesystem,
            folder,
            foreground=True,
            raw_fi=True,
            fsname=label,
            subtype=SUBTYPE,
            attr_timeout=0,
            entry_timeout=0,
            negative_timeout=0,
            **({"allow_other": True} if os.geteuid() == 0 else {}),
        )
    finally:
        shutil.rmtree(state, ignore_errors=True)


def main(folder: str, state: str, label: str, names: str, *mapped: str) -> int:
    """Start the server and wait until it has mounted."""
    Path(state).mkdir(parents=True, exist_ok=True)
    reader, writer = os.pipe()
    # Held open here, since the server takes its folder away when it fails.
    log = os.open(f"{state}/log", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(reader)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            _serve(folder, state, label, names, mapped, writer)
        except BaseException as error:  # noqa: BLE001  (it is the end of this process)
            os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
            os._exit(1)
        os._exit(0)
    os.close(writer)
    if os.read(reader, 1):
        print(pid, flush=True)  # noqa: T201  (this is the answer)
        return 0
    os.waitpid(pid, 0)
    lines = os.pread(log, _LOG_BYTES, 0).decode(errors="replace").splitlines()
    # The package says a number of its own where the library has said what is wrong.
    lines = [line for line in lines if not line.startswith("RuntimeError: ")] or lines
    print(" | ".join(lines[-3:]) or "the filesystem did not mount", file=sys.stderr)  # noqa: T201
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
