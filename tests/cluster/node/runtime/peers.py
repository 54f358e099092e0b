"""Peers under the test's control: they send and read any bytes, or none."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager

from cluster.node.kraft.messages import DescribeQuorumRequest
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import LISTENER_APIS, ApiKey, ListenerType
from cluster.node.protocol.codec import read_request
from cluster.node.protocol.server import ListenerService

QUESTION = DescribeQuorumRequest()
"""A request that any peer of ours may be asked."""


class Peer:
    """One accepted connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def request(self):
        return read_request(await self.frame(), LISTENER_APIS[ListenerType.CONTROLLER])

    async def name_versions(self, type_: ListenerType = ListenerType.CONTROLLER) -> None:
        frame = await self.frame()
        ListenerService("X", type_, None).serve(frame, self.writer.write)


@asynccontextmanager
async def peer(behaviour: Callable[[Peer], Awaitable[None]]):
    """A listening peer; yields its endpoint and a list that grows with each connection."""
    connections: list[Peer] = []
    tasks: list[asyncio.Task] = []

    async def serve(reader, writer):
        connection = Peer(reader, writer)
        connections.append(connection)
        tasks.append(asyncio.current_task())
        try:
            await behaviour(connection)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Endpoint(1, *server.sockets[0].getsockname()), connections
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def silence(_: Peer) -> None:
    await asyncio.Event().wait()


__all__ = ["QUESTION", "ApiKey", "Peer", "peer", "silence"]
