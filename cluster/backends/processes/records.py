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
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from cluster.backends.agent.processes import RUN_LABEL, end_group, process_state, signal_group
from cluster.backends.base import BackendError, NodeState, ProcessIdentity
from cluster.values import valueclass

HARNESS_LABEL = "KRAFTPROBE_HARNESS"
"""Environment variable `<pid>:<start time>` of the harness that started a process."""

NAMESPACE_LABEL = "KRAFTPROBE_NAMESPACE"
"""Environment variable: the process namespace (`pid_namespace`) in which that pid means anything.

A container's processes see another one, and carry the harness's all the same."""

SUPPORT_LABEL = "KRAFTPROBE_SUPPORT"
"""Environment variable of what nodes lean on (a disk's filesystem, the keeper of namespaces).

It must outlive the nodes: what these do while it is taken from under them is no fault of theirs."""

PROCESSES_FILE = "processes.jsonl"

TRIAL = "trial-"
"""Begins the run id of a throw-away cluster, which no folder of runs knows of."""

_PROC = Path("/proc")
_MACHINE_ID = Path("/etc/machine-id")
_PAUSED_STATES = "Tt"
_DEAD_STATES = "ZXx"
_KILL_TIMEOUT_S = 2.0
_TAIL_LINES = 8
_FRAME = "\tat "
_TAIL_BYTES = 4096


def _inspect_ps(pid: int) -> tuple[str, str] | None:
    command = ["/bin/ps", "-o", "state=,lstart=", "-p", str(pid)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    state, _, started = answer.stdout.strip().partition(" ")
    return (state[0], started.strip()) if state else None


def inspect_process(pid: int) -> tuple[str, str] | None:
    """Read the kernel's state letter and start time of a process; None when there is none."""
    return process_state(pid) if sys.platform == "linux" else _inspect_ps(pid)


def identify(pid: int) -> ProcessIdentity | None:
    """Name a live process; None when it is gone or only waits to be reaped."""
    seen = inspect_process(pid)
    return None if seen is None or seen[0] in _DEAD_STATES else ProcessIdentity(pid, seen[1])


def state_of(identity: ProcessIdentity) -> NodeState:
    """Return what the kernel says of this very process."""
    seen = inspect_process(identity.pid)
    if seen is None or seen[1] != identity.started or seen[0] in _DEAD_STATES:
        return NodeState.DEAD
    return NodeState.PAUSED if seen[0] in _PAUSED_STATES else NodeState.RUNNING


def own_identity() -> ProcessIdentity:
    """Name the process that runs this code."""
    identity = identify(os.getpid())
    assert identity is not None, "a running process is alive"
    return identity


def pid_namespace() -> int:
    """Name the process namespace that this process sees; 0 where there are none."""
    try:
        return (_PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return 0


def own_place() -> str:
    """Name this machine and the process namespace that this process sees.

    By a digest: records are shared, and a machine's id is not to be (machine-id(5)).
    """
    try:
        machine = hashlib.sha256(b"kraftprobe" + _MACHINE_ID.read_bytes()).hexdigest()[:16]
    except OSError:
        machine = ""
    return f"{machine}/{pid_namespace()}"


def may_live(harness: ProcessIdentity, place: str) -> bool:
    """Whether a harness lives or cannot be seen: from elsewhere, or where users see only theirs."""
    if place != own_place() or state_of(harness) is not NodeState.DEAD:
        return True
    try:
        os.kill(harness.pid, 0)
    except PermissionError:
        return inspect_process(harness.pid) is None  # hidepid
    except OSError:
        pass
    return False


@valueclass
class RecordedProcess:
    """One line of `processes.jsonl`."""

    run_id: str
    role: str
    """"harness" or the node's name."""
    identity: ProcessIdentity
    place: str = field(default_factory=own_place)
    """Where that identity means anything."""


def labels(run_id: str, *, support: bool = False) -> dict[str, str]:
    """Environment of everything that this process starts for a run; `support`: `SUPPORT_LABEL`."""
    harness = own_identity()
    return {
        RUN_LABEL: run_id,
        HARNESS_LABEL: f"{harness.pid}:{harness.started}",
        NAMESPACE_LABEL: str(pid_namespace()),
        **({SUPPORT_LABEL: "1"} if support else {}),
    }


def record_process(run_folder: Path, process: RecordedProcess) -> None:
    """Append one line; a single write, so that a kill leaves whole lines or a torn last one."""
    line = json.dumps(
        {
            "run": process.run_id,
            "role": process.role,
            "pid": process.identity.pid,
            "started": process.identity.started,
            "place": process.place,
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
            place = str(entry.get("place", ""))
            recorded = RecordedProcess(str(entry["run"]), str(entry["role"]), identity, place)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            continue
        yield recorded


def may_name(run_folder: Path, identity: ProcessIdentity) -> bool:
    """Whether a run's record may name this process: another user's file names none of ours."""
    try:
        writer = (run_folder / PROCESSES_FILE).stat().st_uid
        return writer in (0, (_PROC / str(identity.pid)).stat().st_uid)
    except OSError:
        return sys.platform != "linux"


def is_orphaned(run_folder: Path) -> bool:
    """Whether a harness of this place made a run, and lives no more."""
    harnesses = [p for p in read_recorded(run_folder) if p.role == "harness"]
    return bool(harnesses) and not has_harness(run_folder)


def has_harness(run_folder: Path) -> bool:
    """Whether the harness that made a run still lives, or may."""
    harnesses = (p for p in read_recorded(run_folder) if p.role == "harness")
    return any(may_live(process.identity, process.place) for process in harnesses)


class ProcessHere:
    """What `cluster.backends.hosts.StartedProcess` asks of the kernel of this machine."""

    def __init__(self, identity: ProcessIdentity | None, output: Path, run_id: str) -> None:
        """`identity`: None when it was gone before it could be looked at."""
        self.identity = identity
        self._output = output
        self._run_id = run_id

    def state_now(self) -> NodeState:
        """Ask the kernel."""
        return NodeState.DEAD if self.identity is None else state_of(self.identity)

    async def state(self) -> NodeState:
        return self.state_now()

    async def output_tail(self) -> tuple[str, ...]:
        return tail_of(self._output)

    def kill_now(self) -> bool:
        """SIGKILL it with its group, and see it dead, without the event loop."""
        lived = self.state_now() is not NodeState.DEAD
        with contextlib.suppress(PermissionError):
            self._signal(signal.SIGKILL)
            deadline = time.monotonic() + _KILL_TIMEOUT_S
            while self.state_now() is not NodeState.DEAD and time.monotonic() < deadline:
                time.sleep(0.001)
        return lived

    def _signal(self, number: signal.Signals) -> None:
        raise NotImplementedError


class LocalProcess(ProcessHere):
    """A child of this process (`cluster.backends.hosts.StartedProcess`)."""

    def __init__(self, process: asyncio.subprocess.Process, output: Path, run_id: str) -> None:
        super().__init__(identify(process.pid), output, run_id)
        self._process = process

    @classmethod
    async def start(
        cls, command: Sequence[str], folder: Path, environment: Mapping[str, str], output: Path
    ) -> LocalProcess:
        """Start it in a session of its own, with its output appended there. Raises BackendError."""
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
        return cls(process, output, environment[RUN_LABEL])

    def state_now(self) -> NodeState:
        return NodeState.DEAD if self._process.returncode is not None else super().state_now()

    async def send(self, number: signal.Signals) -> None:
        """Signal it and its group, if it lives.

        Not through `Process.send_signal`: up to CPython 3.12.4 that polls first, and may so take
        the exit status away from the watcher, which then reports 255.
        """
        self._signal(number)

    async def wait(self) -> int:
        """Wait for its end, and end what it left of its group."""
        exit_code = await self._process.wait()
        end_group(self._process.pid, self._run_id)
        return exit_code

    def _signal(self, number: signal.Signals) -> None:
        # Where it is gone, which the watcher may be about to report, its number may be another's.
        there = identify(self._process.pid)
        if self._process.returncode is None and there in (None, self.identity):
            signal_group(self._process.pid, number)


def tail_of(output: Path) -> tuple[str, ...]:
    """Read the last few lines of a file; none when it cannot be read."""
    try:
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - _TAIL_BYTES))
            return last_lines(file.read())
    except OSError:
        return ()


def last_lines(data: bytes) -> tuple[str, ...]:
    """Return the last few lines of what a process wrote.

    Frames of Java's stack traces are left out: they stand below the error, and there are dozens.
    """
    lines = data[-_TAIL_BYTES:].decode(errors="replace").splitlines()
    return tuple([line for line in lines if not line.startswith(_FRAME)][-_TAIL_LINES:])
