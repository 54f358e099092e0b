"""A client library that blocks, and opens sockets of its own, reaches a node by an address."""

import asyncio
import contextlib
import http.client
import socket
from types import SimpleNamespace

import pytest

from cluster.node.ports import Endpoint
from tests.play import play
from workloads.local_address import LocalAddress

BIG = b"x" * 1_000_000


async def answer(connection, hanging):
    """Answer one HTTP request with its own body, and close; or hang."""
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split()[0])
        body = await reader.readexactly(length)
        if head.startswith(b"HANG"):
            hanging.set()
            assert await reader.read() == b""
        else:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + body)
    except asyncio.IncompleteReadError:
        pass  # the library left before it had asked
    finally:
        writer.close()
        await writer.wait_closed()


async def place(*, refuses=False):
    """Start a node that only `connect` reaches; returns what a client is given."""
    hanging, tasks = asyncio.Event(), []

    async def connect(endpoint):
        assert endpoint == Endpoint(2, "n2", 7)
        if refuses:
            raise ConnectionRefusedError
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        tasks.append(asyncio.ensure_future(answer(theirs, hanging)))
        return ours

    def endpoint(node, listener):
        assert (node, listener) == ("n2", "CLIENT")
        return Endpoint(2, "n2", 7)

    return SimpleNamespace(connect=connect, endpoint=endpoint, hanging=hanging, tasks=tasks)


def ask(address, method="POST", body=BIG):
    connection = http.client.HTTPConnection(address.host, address.port)
    try:
        connection.request(method, "/", body)
        return connection.getresponse().read()
    finally:
        connection.close()


def test_a_library_that_blocks_gets_all_that_the_node_answers():
    async def body():
        context = await place()
        address = await LocalAddress.open(context, "n2")
        try:
            return [await asyncio.to_thread(ask, address) for _ in range(2)]
        finally:
            address.close()
            await asyncio.gather(*context.tasks)

    assert asyncio.run(body()) == [BIG, BIG]


def test_a_node_that_refuses_closes_the_connection():
    async def body():
        address = await LocalAddress.open(await place(refuses=True), "n2")
        try:
            await asyncio.to_thread(ask, address, body=b"x")
        finally:
            address.close()

    with pytest.raises((ConnectionError, http.client.BadStatusLine)):
        asyncio.run(body())


@play(asyncio.run)
async def test_closing_the_address_ends_a_call_that_blocks():
    context = await place()
    address = await LocalAddress.open(context, "n2")
    asking = asyncio.ensure_future(asyncio.to_thread(ask, address, "HANG", b"x"))
    await context.hanging.wait()
    address.close()
    with pytest.raises((ConnectionError, http.client.BadStatusLine)):
        await asking
    await asyncio.gather(*context.tasks)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.host, address.port))


@play(asyncio.run)
async def test_a_connection_that_is_being_accepted_ends_with_the_address():
    async def body(steps):
        context = await place()
        address = await LocalAddress.open(context, "n2")
        with socket.create_connection((address.host, address.port), timeout=300) as client:
            for _ in range(steps):
                await asyncio.sleep(0)
            address.close()
            client.setblocking(False)
            with contextlib.suppress(ConnectionError):
                assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
        await asyncio.gather(*context.tasks)

    for steps in range(8):
        await asyncio.wait_for(body(steps), 300)
