"""Limits of a running process by prlimit(2), named as in the module resource, and its signals."""

import errno
import os
import resource
import signal
import tempfile


def set_soft(pid: int, limit: str, value: "int | None") -> "tuple[int, int, int | None]":
    """Set a soft limit, unless `value` is None: what it was, what it is, how much room is left.

    The room is counted for open files only, and only below a finite limit.
    """
    number = getattr(resource, limit)
    soft, hard = resource.prlimit(pid, number)
    if value is not None:
        wanted = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.prlimit(pid, number, (wanted, hard))
    now = resource.prlimit(pid, number)[0]
    room = None
    if limit == "RLIMIT_NOFILE" and now != resource.RLIM_INFINITY:
        used = [int(name) for name in os.listdir(f"/proc/{pid}/fd")]
        room = now - len([descriptor for descriptor in used if descriptor < now])
    return soft, now, room


def run_into(limit: str, value: int) -> str:
    """Run into a limit in this process: the name of the error that it saw, empty for none."""
    number = getattr(resource, limit)
    with tempfile.TemporaryFile() as file:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.prlimit(0, number, (value, resource.getrlimit(number)[1]))
        try:
            if limit == "RLIMIT_NOFILE":
                for _ in range(64):
                    os.open("/dev/null", os.O_RDONLY)
            else:
                os.write(file.fileno(), b"x")
        except OSError as error:
            return errno.errorcode[error.errno or 0]
    return ""


def send(pid: int, name: str) -> None:
    """Send a process the signal of this name."""
    os.kill(pid, getattr(signal, name))


def latest_snapshot(folder: str) -> str:
    """Name the newest checkpoint of a log; empty where there is none."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return max((name for name in names if name.endswith(".checkpoint")), default="")
