"""What an exec starts in a container: its agent, and processes that are watched from outside.

The engine runs on this machine, so a container's processes are processes here, under other
numbers: what the kernel says of one is read in /proc, its end shows on a pidfd, and the engine is
asked only for the exit code. Signals go straight to it where this user may send them (root), else
through the container.

An exec takes 50 to 100 ms, nearly all of it for making a process through four daemons; one exec a
container runs the agent, and commands then travel over its standard input and output, as the
engine's frames.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import docker

from cluster.backends.abilities import Host
from cluster.backends.agent import __name__ as agent
from cluster.backends.agent.channel import Stream
from cluster.backends.agent.frames import last_line
from cluster.backends.agent.processes import end_group, signal_members
from cluster.backends.base import BackendError, NodeState, ProcessIdentity
from cluster.backends.docker.engine import in_thread
from cluster.backends.docker.rootfs import INTERPRETER
from cluster.backends.processes.records import ProcessHere, identify

_PROC = Path("/proc")
_CODE_TIMEOUT_S = 5.0
_BUSY_TIMEOUT_S = 30.0
"""Where an engine has not even noticed the end, as on a starved machine."""
_CODE_POLL_S = 0.01
_SIGNALLED = 128
_EXECUTE_TIMEOUT_S = 10.0
_EXECUTE_POLL_S = 0.001
_LOST = -signal.SIGKILL


class ExecProcess(ProcessHere):
    """See `cluster.backends.hosts.StartedProcess`."""

    def __init__(
        self,
        client: docker.DockerClient,
        exec_id: str,
        pid: int,
        host: Host,
        output: Path,
        run_id: str,
    ) -> None:
        super().__init__(identify(pid) if pid else None, output, run_id)
        self._client = client
        self._exec_id = exec_id
        self._host = host
        self._pidfd = _handle(self.identity)
        self._exit_code: int | None = None
        self.inner_pid = None if self.identity is None else inner_pid(pid)
        """Its number inside the container."""
        self._ended = asyncio.get_running_loop().create_task(self._watch())

    async def send(self, number: signal.Signals) -> None:
        try:
            self._signal(number)
        except PermissionError:
            done = await self._host.run(("kill", f"-{int(number)}", "--", f"-{self.inner_pid}"))
            if done.exit_code != 0 and self.state_now() is not NodeState.DEAD:
                reason = done.complaint(-1)
                raise BackendError(f"{self._host.node} cannot be signalled: {reason}") from None

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def _signal(self, number: signal.Signals) -> None:
        if self._pidfd >= 0 and self._exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)
            assert self.identity is not None, "it has a handle"
            signal_members(self.identity.pid, self._run_id, number)

    async def _watch(self) -> int:
        try:
            if self._pidfd >= 0:
                await _readable(self._pidfd)
            if self.identity is not None:
                end_group(self.identity.pid, self._run_id)
            self._exit_code = await self._code()
        finally:
            if self._pidfd >= 0:
                os.close(self._pidfd)
                self._pidfd = -1
        return self._exit_code

    async def _code(self) -> int:
        """Ask the engine until it knows. Only the loss of the container itself makes it forget."""
        begun_s = time.monotonic()
        while True:
            try:
                state = await in_thread(self._inspect)
            except BackendError:
                return _LOST
            if not state["Running"] and state["ExitCode"] is not None:
                code = int(state["ExitCode"])
                return code if code <= _SIGNALLED else _SIGNALLED - code
            limit_s = _BUSY_TIMEOUT_S if state["Running"] else _CODE_TIMEOUT_S
            if time.monotonic() - begun_s > limit_s:
                return _LOST
            await asyncio.sleep(_CODE_POLL_S)

    def _inspect(self) -> dict[str, Any]:
        return dict(self._client.api.exec_inspect(self._exec_id))


def inner_pid(pid: int) -> int | None:
    """Translate a number of this machine into the one inside the container; None when gone."""
    with contextlib.suppress(OSError, StopIteration):
        lines = (_PROC / str(pid) / "status").read_text(errors="replace").splitlines()
        return int(next(line for line in lines if line.startswith("NSpid:")).split()[-1])
    return None


def wait_executed(pid: int) -> None:
    """Wait until it is the program asked for: a signal would meet runc in its place before."""
    deadline = time.monotonic() + _EXECUTE_TIMEOUT_S
    with contextlib.suppress(OSError):  # gone
        while (_PROC / str(pid) / "comm").read_bytes().startswith(b"runc:["):
            if time.monotonic() > deadline:
                return
            time.sleep(_EXECUTE_POLL_S)


def _handle(identity: ProcessIdentity | None) -> int:
    if identity is None:
        return -1
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return -1
    if identify(identity.pid) != identity:
        os.close(handle)
        return -1
    return handle


async def _readable(handle: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(handle, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(handle)


_FRAME_HEAD_BYTES = 8
_STDOUT = 1
_COMPLAINT_BYTES = 512


class AgentStream:
    """Starts a container's agent as one of its users, `<uid>:<gid>`, for a channel."""

    def __init__(
        self, client: docker.DockerClient, container_id: str, folder: str, user: str
    ) -> None:
        self._client = client
        self._container_id = container_id
        self._command = [str(INTERPRETER), "-P", "-m", agent, "stdio", folder]
        self._user = user
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> Stream:
        """Start the agent. Raises OSError, BackendError."""
        frames, writer = await asyncio.open_connection(sock=await in_thread(self._exec))
        plain = asyncio.StreamReader()
        self._reading = asyncio.get_running_loop().create_task(take_apart(frames, plain))
        return plain, writer

    def _exec(self) -> socket.socket:
        api = self._client.api
        created = api.exec_create(
            self._container_id, self._command, stdin=True, stdout=True, stderr=True, user=self._user
        )
        stream: Any = api.exec_start(created["Id"], socket=True)
        # The SDK's object closes its connection with it; the descriptor is what is wanted. What
        # has to be closed is the response that it belongs to, of which the SDK has no public name.
        connection = socket.socket(fileno=os.dup(stream.fileno()))
        stream._response.close()
        connection.setblocking(False)  # noqa: FBT003  (takes no keyword)
        return connection


async def take_apart(frames: asyncio.StreamReader, plain: asyncio.StreamReader) -> None:
    """Take the engine's frames apart: one byte of stream, three of nothing, four of length.

    Standard output goes to `plain`; what came last on the other stream is why it ends.
    """
    complaint = b""
    try:
        while True:
            head = await frames.readexactly(_FRAME_HEAD_BYTES)
            data = await frames.readexactly(int.from_bytes(head[4:], "big"))
            if head[0] == _STDOUT:
                plain.feed_data(data)
            else:
                complaint = (complaint + data)[-_COMPLAINT_BYTES:]
    except (OSError, asyncio.IncompleteReadError):
        if complaint:
            plain.set_exception(ConnectionError(last_line(complaint)))
        else:
            plain.feed_eof()
