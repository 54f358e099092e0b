"""An address on 127.0.0.1 for a node, by which any client library reaches it on every backend.

A library opens sockets of its own, where the harness runs; a node may be in a network namespace or
on another host, where only `ClientContext.connect` leads. So a driver opens such an address and
gives it to the library. Bytes go through as they are, an end of either side too, and a node that
refuses a connection shows as one that closes it at once.

Nothing goes through while the event loop is blocked: a library that blocks is called in a thread,
such as one of its own for each driver (`concurrent.futures.ThreadPoolExecutor`). A library must
neither try again nor go elsewhere: what it hides from its caller the history lacks.
"""

from __future__ import annotations

import asyncio
import socket

from cluster.node.ports import Endpoint
from cluster.node.runtime.network import Connect
from cluster.systems.base import Listener
from workloads.base import ClientContext

_PIECE = 1 << 16


class LocalAddress:
    """See the module; `host` and `port`, until `close`."""

    host = "127.0.0.1"

    def __init__(self, connect: Connect, endpoint: Endpoint) -> None:
        self._connect, self._endpoint = connect, endpoint
        self._listening = socket.create_server((self.host, 0))
        self._listening.settimeout(0)
        self.port: int = self._listening.getsockname()[1]
        self._carrying: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(
        cls, context: ClientContext, node: str, listener: Listener = "CLIENT"
    ) -> LocalAddress:
        """Listen for the library. Raises OSError."""
        address = cls(context.connect, context.endpoint(node, listener))
        # No server of asyncio's: one that is closed amid an accept leaves that connection open.
        asyncio.get_running_loop().add_reader(address._listening, address._accept)
        return address

    def close(self) -> None:
        """End it and every connection through it, so that a call that blocks comes back."""
        if self._listening.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
        for task in self._carrying:
            task.cancel()

    def _accept(self) -> None:
        try:
            library, _ = self._listening.accept()
        except OSError:
            return  # it has left again
        library.settimeout(0)
        task = asyncio.ensure_future(self._carry(library))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        # Not in the task, which may be cancelled before its first step.
        task.add_done_callback(lambda _: library.close())

    async def _carry(self, library: socket.socket) -> None:
        try:
            with await self._connect(self._endpoint) as node:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_pump(library, node))
                    both.create_task(_pump(node, library))
        except* OSError:
            pass  # either side is gone, and with it the other


async def _pump(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while piece := await loop.sock_recv(source, _PIECE):
        await loop.sock_sendall(target, piece)
    target.shutdown(socket.SHUT_WR)
