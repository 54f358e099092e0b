"""The agent of a container, over one `docker exec` that lasts: its streams are the engine's frames.

An exec takes 50 to 100 ms, nearly all of it for making a process through four daemons; one exec a
container runs the agent, and commands then travel over its standard input and output.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import docker

from cluster.backends.agent import __name__ as agent
from cluster.backends.agent.channel import Stream
from cluster.backends.agent.frames import last_line
from cluster.backends.docker.engine import in_thread
from cluster.backends.docker.rootfs import INTERPRETER

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
