"""Commands, processes and files of a host: the agent's verbs that every fault needs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import os
import signal
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence

from cluster.backends.agent.frames import Message

RUN_LABEL = "KRAFTPROBE_RUN"
"""Environment variable that marks everything a run creates; its value is the run id."""
_READ_BYTES_MAX = 1 << 20
_KILL_S = 2.0
OF_HARNESS = ("KRAFTPROBE_HARNESS", "KRAFTPROBE_NAMESPACE")
"""Labels of who looks after a process: on its host that is the agent that started it."""


class RefusedError(Exception):
    """A request that cannot be done; one line."""


def process_state(pid: int) -> tuple[str, str] | None:
    """Read the state letter and start time of a process of Linux; None when there is none.

    Nor one that this user may look at: proc's `hidepid` shows the numbers of others' at most.
    """
    try:
        # The command name before ")" may hold anything: one of letters is cut within a letter.
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return fields[0], f"{_boot_id()}-{fields[19]}"


def signal_group(leader: int, number: int) -> None:
    """Signal a process and the others of its group: whoever of a node was started by its command.

    The leader has not been waited for, so its number is still its own.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, number)


def end_group(leader: int, run: str) -> None:
    """SIGKILL what a process that has ended left of its group: they are the node as well.

    The leader's number may be another's since it was waited for, so only a process with the run's
    label is meant, held by a handle while that is looked up, or one that shows no environment at
    all: programs such as Redis write a title over it. Linux; elsewhere nothing is done.
    """
    killed: set[int] = set()
    while members := list(_members(leader, run)):
        _signal_each(members, signal.SIGKILL)
        pids = {pid for pid, _ in members}
        if pids <= killed:  # they cannot die yet, as where a disk stalls, nor start others
            return
        killed |= pids


def signal_members(leader: int, run: str, number: int) -> None:
    """Signal all others of a process's group, as `end_group` finds them."""
    _signal_each(list(_members(leader, run)), number)


def _signal_each(members: Sequence[tuple[int, int]], number: int) -> None:
    for _, handle in members:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
        os.close(handle)


def _members(leader: int, run: str) -> Iterator[tuple[int, int]]:
    """Yield each live process of a group but its leader, and a handle that the caller closes."""
    label = f"{RUN_LABEL}={run}".encode()
    names: list[str] = []
    with contextlib.suppress(OSError):  # out of descriptors: the leader's end is known all the same
        names = os.listdir("/proc") if sys.platform == "linux" else []
    for name in names:
        if not name.isdecimal() or int(name) == leader or group_of(name) != leader:
            continue
        try:
            handle = os.pidfd_open(int(name))
        except OSError:
            continue
        shown = environment_of(name)
        if group_of(name) == leader and shown is not None and (label in shown or not shown):
            yield int(name), handle
        else:
            os.close(handle)


def group_of(pid: str) -> int | None:
    """Read the process group of a process; None when it is dead, or may not be looked at."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, _, group = file.read().rpartition(b")")[2].split()[:3]
    except OSError:
        return None
    return None if state in b"ZXx" else int(group)


def environment_of(pid: str) -> list[bytes] | None:
    """Read the variables that a process shows; None when it is gone, or another user's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return [pair for pair in file.read().split(b"\0") if b"=" in pair]
    except OSError:
        return None


@functools.cache
def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read()[:8]


async def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    stdin: bytes,
    limit_s: float,
    folder: str | None = None,
) -> tuple[int, bytes, bytes]:
    """Run a command to its end, or kill it and its children. Raises RefusedError, OSError."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(limit_s):
            stdout, stderr = await process.communicate(stdin)
    except TimeoutError:
        raise RefusedError(f"{' '.join(command)[:200]}: no end within {limit_s:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):  # it may hang in a disk that stalls
                async with asyncio.timeout(_KILL_S):
                    await process.communicate()  # to the end of its pipes, so that they are closed
    assert process.returncode is not None, "it has ended"
    return process.returncode, stdout, stderr


class Processes:
    """Runs commands and processes in a folder, and reads and writes files below it."""

    def __init__(self, folder: str, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._started: dict[int, asyncio.subprocess.Process] = {}

    async def do_ready(self, _: Message) -> Message:
        """Answer, which only an agent in its place does."""
        return Message({})

    async def do_run(self, asked: Message) -> Message:
        """Run a command to its end: {command, limit_s}, its input as payload."""
        command, limit_s = asked.fields["command"], asked.fields["limit_s"]
        try:
            code, stdout, stderr = await run(
                command, self._environment, asked.payload, limit_s, self._folder
            )
        except OSError as error:
            raise RefusedError(f"{command[0]}: {error.strerror or error}") from error
        return Message({"exit_code": code, "split": len(stdout)}, stdout + stderr)

    async def do_put(self, asked: Message) -> Message:
        """Write a file that nobody else may read: {path}, its content as payload."""
        path = self._inside(asked.fields["path"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            os.fchmod(file.fileno(), 0o600)  # of an older file, too
            file.write(asked.payload)
        return Message({})

    async def do_start(self, asked: Message) -> Message:
        """Start a process: {command, environment, folder, output}."""
        folder = self._inside(asked.fields["folder"])
        output = os.path.join(folder, asked.fields["output"])
        os.makedirs(os.path.dirname(output), exist_ok=True)
        variables = {n: v for n, v in asked.fields["environment"].items() if n not in OF_HARNESS}
        with open(output, "ab") as file:
            process = await asyncio.create_subprocess_exec(
                *asked.fields["command"],
                env={**self._environment, **variables},
                cwd=folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self._started[process.pid] = process
        seen = process_state(process.pid)
        return Message({"pid": process.pid, "started": seen[1] if seen else None})

    async def do_state(self, asked: Message) -> Message:
        """Ask the kernel about a process: {pid}."""
        process = self._started[asked.fields["pid"]]
        seen = process_state(process.pid) if process.returncode is None else None
        dead = seen is None or seen[0] in "ZXx"
        state = "dead" if dead else "paused" if seen is not None and seen[0] in "Tt" else "running"
        return Message({"state": state, "exit_code": process.returncode})

    async def do_signal(self, asked: Message) -> Message:
        """Signal a process that lives, with its group: {pid, number}."""
        process = self._started[asked.fields["pid"]]
        if process.returncode is None:  # so the number is still this child's
            signal_group(process.pid, asked.fields["number"])
        return Message({})

    async def do_wait(self, asked: Message) -> Message:
        """Wait for the end of a process, and end what it left of its group: {pid}."""
        process = self._started[asked.fields["pid"]]
        exit_code = await process.wait()
        end_group(process.pid, self._environment[RUN_LABEL])
        return Message({"exit_code": exit_code})

    async def do_read(self, asked: Message) -> Message:
        """Read of a file at most so much: {path, offset}. Below 0 an offset counts from the end."""
        offset = asked.fields["offset"]
        try:
            with open(self._inside(asked.fields["path"]), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(offset if offset >= 0 else max(0, size + offset))
                return Message({}, file.read(_READ_BYTES_MAX))
        except FileNotFoundError:
            return Message({})

    async def do_pack(self, asked: Message) -> Message:
        """Pack a folder: {path}."""
        folder = self._inside(asked.fields["path"])
        return Message({}, await asyncio.to_thread(pack, folder))

    def _inside(self, path: str) -> str:
        """Refuse paths that leave the agent's folder."""
        whole = os.path.realpath(os.path.join(self._folder, path))
        if not (whole + os.sep).startswith(os.path.realpath(self._folder) + os.sep):
            raise RefusedError(f"{path} is outside of the run's folder")
        return whole


def pack(folder: str) -> bytes:
    """Pack plain files and folders; what vanishes meanwhile and sockets are left out."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for root, _, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.join(root, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    with contextlib.suppress(FileNotFoundError):
                        archive.add(path, os.path.relpath(path, folder), recursive=False)
    return packed.getvalue()
