"""A server for a test, and the context of a client that reaches nothing but it."""

import asyncio
import contextlib
import socket

from cluster.node.ports import Endpoint
from tests.client_context import client_context


@contextlib.asynccontextmanager
async def serving(answer, timeout_ms=5000):
    """Let `answer(reader, writer)` serve each connection; gives a client's context."""

    tasks = set()

    async def serve(reader, writer):
        tasks.add(asyncio.current_task())
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await answer(reader, writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def connect(endpoint):
        connection = socket.socket()
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (endpoint.host, endpoint.port))
        return connection

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield client_context(
            connect=connect,
            endpoint=lambda node, _: Endpoint(int(node[1:]), "127.0.0.1", port),
            nodes_at=lambda _: ("n1",),
            pinned_to=None,
            worker=0,
            timeout_ms=timeout_ms,
        )
    finally:
        server.close()
        await asyncio.gather(*tasks)


def outcomes(workload, answer, *ops):
    """Let one client of a workload perform operations; returns the completions."""

    async def body():
        async with serving(answer) as context:
            client = workload.client(context)
            done = [await client.invoke(op) for op in ops]
            await client.close()
            return done

    return asyncio.run(body())
