"""A persistent channel into a container: commands without the cost of a `docker exec` each.

`docker exec` takes 50 to 100 ms, nearly all of it for making a process through four daemons. One
exec a container runs `hostagent`; commands then travel over its stdin and stdout.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import docker

from cluster.backends.abilities import Completed
from cluster.backends.base import BackendError
from cluster.backends.docker import hostagent
from cluster.backends.docker.engine import in_thread
from cluster.backends.docker.rootfs import INTERPRETER

_PROGRAM = Path(hostagent.__file__).read_text(encoding="utf-8")
_FRAME_HEAD_BYTES = 8
_STDOUT = 1
_GRACE_S = 5.0
"""How much longer than a command may take its answer is waited for."""
_LINE_MAX = 300


class _NotAnAnswerError(Exception):
    """A line came that the agent did not write."""


def _is_answer(answer: Any) -> bool:
    """Whether it is as `hostagent` writes it."""
    if not isinstance(answer, dict) or type(answer.get("id")) is not int:
        return False
    return "error" in answer or {"exit_code", "stdout", "stderr"} <= answer.keys()


def _last_line(data: bytes) -> str:
    """Its last line that says anything, cut to `_LINE_MAX` characters."""
    lines = [line.strip() for line in data.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:_LINE_MAX] if lines else ""


class Channel:
    """One container's. Opened when it is first used, and again after the container was away.

    `user`: the user of commands there, `<uid>:<gid>`.
    """

    def __init__(
        self, client: docker.DockerClient, container_id: str, name: str, user: str = "0:0"
    ) -> None:
        self._client = client
        self._container_id = container_id
        self._name = name
        self._user = user
        self._opening = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def run(self, command: Sequence[str], stdin: bytes, timeout_s: float) -> Completed:
        """Run a command in the container. Raises BackendError as `Host.run` does."""
        number = next(self._numbers)
        request = {
            "id": number,
            "command": list(command),
            "stdin": base64.b64encode(stdin).decode(),
            "timeout_s": timeout_s,
        }
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        try:
            writer = await self._open()
            self._waiting[number] = answer
            writer.write(json.dumps(request).encode() + b"\n")
            async with asyncio.timeout(timeout_s + _GRACE_S):
                await writer.drain()
                answered = await answer
        except (OSError, TimeoutError) as error:
            raise BackendError(f"{self._name}: its container does not answer: {error}") from error
        finally:
            self._waiting.pop(number, None)
        if "error" in answered:
            raise BackendError(f"{self._name}: {answered['error']}")
        stdout, stderr = base64.b64decode(answered["stdout"]), base64.b64decode(answered["stderr"])
        return Completed(int(answered["exit_code"]), stdout, stderr)

    async def close(self) -> None:
        """Hang up; the agent ends by that. Idempotent."""
        self._hang_up()
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading
            self._reading = None

    async def _open(self) -> asyncio.StreamWriter:
        async with self._opening:
            if self._writer is None:
                await self.close()
                reader, self._writer = await asyncio.open_connection(
                    sock=await in_thread(self._exec)
                )
                self._reading = asyncio.get_running_loop().create_task(self._read(reader))
            return self._writer

    def _exec(self) -> socket.socket:
        command = [str(INTERPRETER), "-I", "-S", "-c", _PROGRAM]
        api = self._client.api
        created = api.exec_create(
            self._container_id, command, stdin=True, stdout=True, stderr=True, user=self._user
        )
        stream: Any = api.exec_start(created["Id"], socket=True)
        # The SDK's object closes its connection with it; the descriptor is what is wanted. What
        # has to be closed is the response that it belongs to, of which the SDK has no public name.
        connection = socket.socket(fileno=os.dup(stream.fileno()))
        stream._response.close()
        connection.setblocking(False)  # noqa: FBT003  (takes no keyword)
        return connection

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Take the engine's frames apart: one byte of stream, three of nothing, four of length."""
        pending, complaint = b"", b""
        try:
            while True:
                head = await reader.readexactly(_FRAME_HEAD_BYTES)
                data = await reader.readexactly(int.from_bytes(head[4:], "big"))
                if head[0] != _STDOUT:
                    complaint = (complaint + data)[-_FRAME_HEAD_BYTES * 64 :]
                    continue
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self._on_answer(line)
        except _NotAnAnswerError as error:
            self._hang_up(str(error))
        except (OSError, asyncio.IncompleteReadError):
            # What the engine says when it could not run the agent need not end in a newline.
            reason = _last_line(complaint) or _last_line(pending)
            self._hang_up(reason or "the connection ended")

    def _on_answer(self, line: bytes) -> None:
        """Hand an answer to its request.

        Any other line makes the whole stream untrustworthy: the engine, too, writes here, when it
        cannot run the agent.
        """
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not _is_answer(answer):
            raise _NotAnAnswerError(f"not an answer: {_last_line(line) or 'an empty line'}")
        waiting = self._waiting.get(answer["id"])
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _hang_up(self, why: str = "the connection was closed") -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError(why))
