"""Look at a faked clock, set it, and start and end the helper that moves it."""

import contextlib
import mmap
import os
import signal
import subprocess
import sys
import time

_LOOK = (
    "import time; looks = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) "
    "for _ in range(9)]; print(*min(looks, key=lambda look: look[2] - look[0]))"
)
"""On a busy machine much may pass between two readings: of several looks the narrowest counts."""

_GO = b"\xff Go buildinf:"
"""What each program has that Go's linker has made."""


def see(pid: "int | None", environment: "dict[str, str]") -> "dict[str, float | bool]":
    """Compare the clocks of a process, or of a program with `environment`, with the true ones.

    A process that has written a title over its environment is taken to have been started with this.

    {"faked": whether the process and all others of its group look at the clock by the library,
    "wall_ms", "monotonic_ms": how far ahead}.
    """
    variables = {**os.environ, **environment}
    faked = True
    if pid is not None:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [os.fsdecode(pair).partition("=") for pair in file.read().split(b"\0")]
        variables = {name: value for name, sign, value in pairs if sign} or variables
        library = "/" + os.path.basename(variables.get("LD_PRELOAD", ""))
        page = "/" + os.path.basename(variables.get("KRAFTPROBE_CLOCK_OFFSET", ""))
        faked = all(_is_faked(each, library, page) for each in _group(pid))
    looks = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(9)]
    began, true, _ = min(looks, key=lambda look: look[2] - look[0])
    shown = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LOOK], env=variables, check=True, stdout=subprocess.PIPE
    ).stdout.split()
    ended = time.monotonic_ns()
    monotonic, wall = int(shown[0]), int(shown[1])
    return {
        "faked": faked,
        "wall_ms": (wall - true - (monotonic - began)) / 1e6,
        "monotonic_ms": (max(0, monotonic - ended) + min(0, monotonic - began)) / 1e6,
    }


def _group(pid: int) -> "list[int]":
    """Return the live processes of a group: what is started by a wrapper is the node."""
    found = [pid]
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != pid:
            stat = f"/proc/{name}/stat"
            with contextlib.suppress(OSError), open(stat, errors="replace") as file:
                state, _, group = file.read().rpartition(")")[2].split()[:3]
                found += [int(name)] if int(group) == pid and state not in "ZXx" else []
    return found


def _is_faked(pid: int, library: str, page: str) -> bool:
    """Whether a process has library and file in its memory and is none of Go.

    Go's runtime asks the kernel itself, also in a program that is linked dynamically.
    """
    try:
        with (
            open(f"/proc/{pid}/exe", "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as program,
            open(f"/proc/{pid}/maps", errors="surrogateescape") as maps,
        ):
            is_go, mapped = program.find(_GO) >= 0, maps.read()
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has ended
    # Built anew, it works on in those that loaded it; a file made anew is another page.
    loaded = f"{library}\n" in mapped or f"{library} (deleted)\n" in mapped
    return loaded and f"{page}\n" in mapped and not is_go


def store(path: str, offset_ns: int) -> None:
    """Set the clock of a file, which is made where it is not there: one store of 8 bytes."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as made:
        made.truncate(8)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 8) as page:
        memoryview(page).cast("q")[0] = offset_ns


def start(command: "list[str]") -> None:
    """Start a program that outlives this one."""
    nothing = subprocess.DEVNULL
    subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)


def helpers(path: str) -> "list[int]":
    """Return the processes that move the clock of a file."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
            if words[1:4] == [b"-I", b"-S", b"-c"] and words[5:6] == [os.fsencode(path)]:
                found.append(int(name))
    return found


def end(path: str) -> None:
    """Kill what moves the clock of a file, and wait until it is gone."""
    while moving := helpers(path):
        for pid in moving:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
