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
from asyncio import StreamReader, StreamWriter

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
        self.port: int = self._listening.getsockname()[1]
        self._server: asyncio.Server | None = None
        self._carrying: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(
        cls, context: ClientContext, node: str, listener: Listener = "CLIENT"
    ) -> LocalAddress:
        """Listen for the library. Raises OSError."""
        address = cls(context.connect, context.endpoint(node, listener))
        address._server = await asyncio.start_server(address._accept, sock=address._listening)
        return address

    def close(self) -> None:
        """End it and every connection through it, so that a call that blocks comes back."""
        if self._server is not None:
            self._server.close()
        for task in self._carrying:
            task.cancel()

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _carry(self, reader: StreamReader, writer: StreamWriter) -> None:
        ends = [writer]
        try:
            connection = await self._connect(self._endpoint)
            from_node, to_node = await asyncio.open_connection(sock=connection)
            ends.append(to_node)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, to_node))
                both.create_task(_pump(from_node, writer))
            for end in ends:
                end.close()  # what was written last is still on its way
        except* OSError:
            pass  # either side is gone, and with it the other
        finally:
            for end in ends:
                if not end.is_closing():
                    end.transport.abort()


async def _pump(reader: StreamReader, writer: StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    writer.write_eof()
