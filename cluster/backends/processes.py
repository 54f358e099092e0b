"""Processes of a run: recorded so that they are found again, named so that no other is hit.

A pid alone names nothing, since the kernel uses it again. A process is its pid together with the
kernel's start time of it. Every process that a run starts is a line in `processes.jsonl` of the
run folder, and carries two labels in its environment: the run id, and which harness started it.
The labels find what died between the start and the line; the lines serve where environments
cannot be read (macOS).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.backends.base import RUN_LABEL, BackendError, NodeState, ProcessIdentity

HARNESS_LABEL = "KRAFTPROBE_HARNESS"
"""Environment variable `<pid>:<start time>` of the harness that started a process."""

PROCESSES_FILE = "processes.jsonl"

_PROC = Path("/proc")
_PAUSED_STATES = "Tt"
_DEAD_STATES = "ZXx"
_POLL_S = 0.002
_TAIL_LINES = 8
_TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """One line of `processes.jsonl`."""

    run_id: str
    role: str
    """"harness" or the node's name."""
    identity: ProcessIdentity


@functools.cache
def _boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text()[:8]


def _inspect_proc(pid: int) -> tuple[str, str] | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the command name before may hold anything
    return fields[0], f"{_boot_id()}-{fields[19]}"


def _inspect_ps(pid: int) -> tuple[str, str] | None:
    command = ["/bin/ps", "-o", "state=,lstart=", "-p", str(pid)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    state, _, started = answer.stdout.strip().partition(" ")
    return (state[0], started.strip()) if state else None


def inspect_process(pid: int) -> tuple[str, str] | None:
    """Read the kernel's state letter and start time of a process; None when there is none."""
    return _inspect_proc(pid) if sys.platform == "linux" else _inspect_ps(pid)


def identify(pid: int) -> ProcessIdentity | None:
    """Name a live process; None when it is gone or only waits to be reaped."""
    seen = inspect_process(pid)
    return None if seen is None or seen[0] in _DEAD_STATES else ProcessIdentity(pid, seen[1])


def state_of(identity: ProcessIdentity) -> NodeState:
    """Tell what the kernel says of this very process."""
    seen = inspect_process(identity.pid)
    if seen is None or seen[1] != identity.started or seen[0] in _DEAD_STATES:
        return NodeState.DEAD
    return NodeState.PAUSED if seen[0] in _PAUSED_STATES else NodeState.RUNNING


def own_identity() -> ProcessIdentity:
    """Name the process that runs this code."""
    identity = identify(os.getpid())
    assert identity is not None, "a running process is alive"
    return identity


def labels(run_id: str) -> dict[str, str]:
    """Environment of everything that this process starts for a run."""
    harness = own_identity()
    return {RUN_LABEL: run_id, HARNESS_LABEL: f"{harness.pid}:{harness.started}"}


def record_process(run_folder: Path, process: RecordedProcess) -> None:
    """Append one line; a single write, so that a kill leaves whole lines or a torn last one."""
    line = json.dumps(
        {
            "run": process.run_id,
            "role": process.role,
            "pid": process.identity.pid,
            "started": process.identity.started,
        }
    )
    with (run_folder / PROCESSES_FILE).open("ab", buffering=0) as file:
        file.write(line.encode() + b"\n")


def read_recorded(run_folder: Path) -> Iterator[RecordedProcess]:
    """Read what a run recorded; lines that are not whole are left out."""
    try:
        lines = (run_folder / PROCESSES_FILE).read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            entry = json.loads(line)
            identity = ProcessIdentity(int(entry["pid"]), str(entry["started"]))
            yield RecordedProcess(str(entry["run"]), str(entry["role"]), identity)
        except (ValueError, TypeError, KeyError):
            continue


class NodeProcess:
    """One started node: how it is signalled, and how its end is understood."""

    def __init__(
        self, process: asyncio.subprocess.Process, identity: ProcessIdentity | None, output: Path
    ) -> None:
        self._process = process
        self._identity = identity
        self._output = output
        self._asked: set[signal.Signals] = set()
        self.last_output: tuple[str, ...] = ()
        """Once it has ended: the last lines that it wrote."""
        self.ended_s = 0.0
        """Once it has ended: when that was noticed, on the event loop's clock."""
        self.ended = asyncio.get_running_loop().create_task(self._wait())

    @classmethod
    async def start(
        cls, command: Sequence[str], folder: Path, environment: Mapping[str, str], output: Path
    ) -> NodeProcess:
        """Start it in a session of its own, where the terminal's Ctrl-C does not reach it.

        stdout and stderr are appended to `output`. Raises BackendError.
        """
        try:
            with output.open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    cwd=folder,
                    env={**os.environ, **environment},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise BackendError(f"cannot start {command[0]}: {error}") from error
        return cls(process, identify(process.pid), output)

    @property
    def identity(self) -> ProcessIdentity | None:
        """Its pid and start time; None when it was gone before it could be looked at."""
        return self._identity

    @property
    def exit_code(self) -> int | None:
        """As from `waitpid`, None while it lives."""
        return self._process.returncode

    @property
    def ended_unasked(self) -> bool:
        """Whether it is dead, and not in the way that it was asked to die.

        A node that was asked to stop and crashes while doing so counts; so does one that had
        crashed by itself before a SIGKILL could reach it.
        """
        code = self._process.returncode
        if code is None:
            return False
        killed = signal.SIGKILL in self._asked and code == -signal.SIGKILL
        stopped = signal.SIGTERM in self._asked and code in (0, -signal.SIGTERM)
        return not (killed or stopped)

    def state(self) -> NodeState:
        """Ask the kernel."""
        if self._process.returncode is not None or self._identity is None:
            return NodeState.DEAD
        return state_of(self._identity)

    def send(self, number: signal.Signals) -> None:
        """Signal it if it lives.

        Not through `Process.send_signal`: up to CPython 3.12.4 that polls first, and may so take
        the exit status away from the watcher, which then reports 255.
        """
        self._asked.add(number)
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # gone; the watcher will tell how
                os.kill(self._process.pid, number)

    async def wait_ended(self, timeout_s: float) -> bool:
        """Wait for its end; False when it still lives after that time."""
        done, _ = await asyncio.wait([self.ended], timeout=timeout_s)
        return bool(done)

    async def wait_state(self, state: NodeState, timeout_s: float) -> bool:
        """Wait until the kernel shows this state; False when it does not in that time."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while self.state() is not state:
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    async def _wait(self) -> None:
        await self._process.wait()
        self.ended_s = asyncio.get_running_loop().time()
        self.last_output = _tail(self._output)  # now, before a next incarnation appends its own


def _tail(path: Path) -> tuple[str, ...]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return tuple(file.read().decode(errors="replace").splitlines()[-_TAIL_LINES:])
    except OSError:
        return ()
